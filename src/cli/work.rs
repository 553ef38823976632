//! `ackward work`.

use ackward::adapter::{SystemClock, Threads, TokioNetwork};
use ackward::port::Connect;
use ackward::rules::{Invalid, Lease, Limits, Name, Timeout};
use ackward::shell::{HttpSender, HttpSenderOptions, Target, Wake, WorkOptions, Worked, Worker, work};
use clap::Args;

use super::exit::{Ended, Exit};
use super::fault::EnvFault;
use super::output::say;
use super::queue_file::{Durable, QueueFile};
use super::secrets::SecretArgs;
use super::values::{lease, owner, timeout};
use super::{jitter, signals};

/// Deliver a queue's jobs over HTTP until stopped
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ackward work --queue jobs.db --url http://127.0.0.1:7410/jobs --slots 4

Each job is sent as POST {\"id\":…,\"qty\":…} with the id as Idempotency-Key. Only 200 {\"ok\":true} counts as done; \
4xx but 401, 403, 408, 409, 425 and 429 means dead; whatever leaves the outcome open is sent again when the lease \
ends, so the receiver must know repeats by their id. SIGTERM or Ctrl-C: nothing more is claimed, what is being sent \
is finished. With https:// the receiver's certificate must be trusted by the system, or stand in SSL_CERT_FILE.")]
pub struct Work {
    #[command(flatten)]
    queue: QueueFile,
    /// The receiver, http:// or https://
    #[arg(long, env = "ACKWARD_URL", value_name = "URL", value_parser = target)]
    url: Target,
    /// Jobs sent at the same time
    #[arg(
        long,
        env = "ACKWARD_SLOTS",
        value_name = "N",
        default_value_t = 4,
        value_parser = clap::value_parser!(u32).range(1..=256)
    )]
    slots: u32,
    /// The worker's name in the queue [default: worker-PID]
    #[arg(long, env = "ACKWARD_OWNER", value_name = "NAME", value_parser = owner)]
    owner: Option<Name>,
    /// How long a job is leased, in seconds, up to 12 hours; renewed while it is being sent
    #[arg(long, env = "ACKWARD_LEASE", value_name = "SECONDS", default_value = "30", value_parser = lease)]
    lease: Lease,
    /// The limit on one attempt, in seconds
    #[arg(long, env = "ACKWARD_TIMEOUT", value_name = "SECONDS", default_value = "15", value_parser = timeout)]
    timeout: Timeout,
    /// The delay after the first attempt, in ms; doubled with each further one, scaled by chance
    #[arg(long, env = "ACKWARD_RETRY_BASE_MS", value_name = "MS", default_value_t = 1_000)]
    retry_base_ms: i64,
    /// The longest delay, in ms
    #[arg(long, env = "ACKWARD_RETRY_CAP_MS", value_name = "MS", default_value_t = 900_000)]
    retry_cap_ms: i64,
    /// The first wait when there is nothing to do, in seconds; doubled up to --poll-max
    #[arg(long, env = "ACKWARD_POLL_MIN", value_name = "SECONDS", default_value = "0.02", value_parser = timeout)]
    poll_min: Timeout,
    /// The longest wait when there is nothing to do, in seconds
    #[arg(long, env = "ACKWARD_POLL_MAX", value_name = "SECONDS", default_value = "1", value_parser = timeout)]
    poll_max: Timeout,
    /// How long what is being sent may take to end after SIGTERM, in seconds
    #[arg(long, env = "ACKWARD_GRACE", value_name = "SECONDS", default_value = "20", value_parser = timeout)]
    grace: Timeout,
    #[command(flatten)]
    durable: Durable,
    #[command(flatten)]
    secrets: SecretArgs,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

impl Work {
    pub async fn run(self) -> Result<(), Ended> {
        if self.url.is_https() { self.over_tls().await } else { self.over(TokioNetwork).await }
    }

    #[cfg(feature = "tls")]
    async fn over_tls(self) -> Result<(), Ended> {
        let network = ackward::adapter::TlsNetwork::new();
        self.over(network.map_err(|error| Ended::new(Exit::Failure, error))?).await
    }

    #[cfg(not(feature = "tls"))]
    async fn over_tls(self) -> Result<(), Ended> {
        Err(Ended::new(Exit::Usage, "this build has no https (feature tls)"))
    }

    async fn over(self, network: impl Connect) -> Result<(), Ended> {
        let options = self.options()?;
        let stop = signals::stop().map_err(|error| Ended::new(Exit::Failure, error))?;
        self.queue.check()?;
        let worker = Worker {
            clock: SystemClock,
            blocking: Threads,
            fault: EnvFault::from_env()?,
            open: self.queue.open_to_work(self.durable),
        };
        let target = self.url.clone();
        let sending = HttpSenderOptions { target, timeout: self.timeout, secrets: self.secrets.read()? };
        let sender = HttpSender::new(network, SystemClock, sending);
        let senders = vec![sender; usize::try_from(self.slots).unwrap_or(1)];
        tracing::info!(url = %self.url, owner = %options.owner, slots = self.slots, "working");
        let worked = work(&worker, &options, senders, &jitter, &Wake::default(), stop).await;
        let worked = worked.map_err(|error| self.queue.failed(&error))?;
        self.report(worked);
        if worked.cut > 0 {
            return Err(Ended::new(Exit::Cut, "what was being sent was cut off: the grace time was over"));
        }
        Ok(())
    }

    fn options(&self) -> Result<WorkOptions, Invalid> {
        let owner = match &self.owner {
            Some(owner) => owner.clone(),
            None => Name::new("owner", &format!("worker-{}", std::process::id()))?,
        };
        Ok(WorkOptions {
            owner,
            lease: self.lease,
            retry: Limits::WIDE.retry(self.retry_base_ms, self.retry_cap_ms)?,
            limits: Limits::WIDE,
            poll_min: self.poll_min,
            poll_max: self.poll_max,
            grace: self.grace,
        })
    }

    fn report(&self, worked: Worked) {
        let Worked { claimed, done, retried, dead, unknown, stale, released, cut } = worked;
        if self.json {
            say(serde_json::json!({
                "end": "stopped", "claimed": claimed, "done": done, "retried": retried, "dead": dead,
                "unknown": unknown, "stale": stale, "released": released, "cut": cut
            }));
        } else {
            say(format_args!("stopped: done {done}, retried {retried}, dead {dead}, unknown {unknown}"));
        }
    }
}

fn target(text: &str) -> Result<Target, String> {
    Target::parse(text).map_err(|error| error.to_string())
}
