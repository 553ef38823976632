//! `ackward work`.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use ackward::adapter::{SystemClock, Threads, TokioNetwork};
use ackward::port::{Clock, Connect};
use ackward::rules::{Invalid, Lease, Limits, Name, Timeout};
use ackward::shell::{
    Extras, Happening, HttpSender, HttpSenderOptions, Jump, Observer, Target, Wake, WorkOptions, Worked,
    Worker, watch_clock, work_observed,
};
use clap::Args;
use futures_util::FutureExt;

use super::events::Events;
use super::exit::{Ended, Exit};
use super::fault::EnvFault;
use super::output::say;
use super::queue_file::{Durable, QueueFile};
use super::secrets::SecretArgs;
use super::signals::{Signals, Wish};
use super::status::{Board, Metrics, StatusArgs, WorkMetrics};
use super::values::{lease, owner, timeout};
use super::{Cli, Command, files, jitter};

/// Deliver a queue's jobs over HTTP until stopped
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ackward work --queue jobs.db --url http://127.0.0.1:7410/jobs --slots 4

Each job is sent as POST {\"id\":…,\"qty\":…} with the id as Idempotency-Key. Only 200 {\"ok\":true} counts as done; \
4xx but 401, 403, 408, 409, 425 and 429 means dead; whatever leaves the outcome open is sent again when the lease \
ends, so the receiver must know repeats by their id. SIGTERM or Ctrl-C: nothing more is claimed, what is being sent \
is finished. SIGHUP: the same, and then it goes on with configuration file and secrets read anew. With https:// the receiver's certificate must be trusted by the system, or stand in SSL_CERT_FILE.")]
pub struct Work {
    #[command(flatten)]
    queue: QueueFile,
    /// The receiver, http:// or https://
    #[arg(long, env = "ACKWARD_URL", value_name = "URL", value_parser = target)]
    url: Target,
    /// Jobs sent at the same time [default: 4, or as many as a batch has, if those are more]
    #[arg(long, env = "ACKWARD_SLOTS", value_name = "N", value_parser = super::values::whole::<u32>(1..=256))]
    slots: Option<u32>,
    /// The most jobs that are claimed, or finished, in one transaction. Each keeps a lease and a token of its own
    #[arg(
        long,
        env = "ACKWARD_BATCH",
        value_name = "N",
        default_value_t = 1,
        value_parser = super::values::whole::<u32>(1..=256)
    )]
    batch: u32,
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
    /// Append what the worker does to this file, one JSON object a line
    #[arg(long, env = "ACKWARD_EVENTS", value_name = "FILE")]
    events: Option<PathBuf>,
    #[command(flatten)]
    status: StatusArgs,
    #[command(flatten)]
    secrets: SecretArgs,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

impl Work {
    /// Works, and goes on with the settings read anew after each SIGHUP.
    pub async fn run(self) -> Result<(), Ended> {
        let signals = Signals::new().map_err(|error| Ended::new(Exit::Failure, error))?;
        let metrics = WorkMetrics::new().map(Rc::new).map_err(|error| Ended::new(Exit::Failure, error))?;
        let title = format!("Queue {}", self.queue.path().display());
        let board = Board::new(title, Metrics::Work(Rc::clone(&metrics)));
        let mut post = Post { signals, metrics, board, worked: Worked::default() };
        let mut work = self;
        while work.once(&mut post).await? == Wish::Reload {
            match super::parse() {
                Ok(Cli { command: Command::Work(anew), .. }) => work = *anew,
                Ok(_) => {}
                Err(refused) => {
                    tracing::error!(error = refused.message(), "the settings are refused, the old ones stay");
                }
            }
        }
        Ok(())
    }

    async fn once(&self, post: &mut Post) -> Result<Wish, Ended> {
        if self.url.is_https() { self.over_tls(post).await } else { self.over(TokioNetwork, post).await }
    }

    #[cfg(feature = "tls")]
    async fn over_tls(&self, post: &mut Post) -> Result<Wish, Ended> {
        let network = ackward::adapter::TlsNetwork::new();
        self.over(network.map_err(|error| Ended::new(Exit::Failure, error))?, post).await
    }

    #[cfg(not(feature = "tls"))]
    async fn over_tls(&self, _post: &mut Post) -> Result<Wish, Ended> {
        Err(Ended::new(Exit::Usage, "this build has no https (feature tls)"))
    }

    async fn over(&self, network: impl Connect, post: &mut Post) -> Result<Wish, Ended> {
        let options = self.options()?;
        self.queue.check()?;
        let identity =
            files::identity(self.queue.path()).map_err(|error| Ended::new(Exit::Storage, error))?;
        let events = self.events.as_deref().map(Events::open).transpose().map_err(|error| {
            let path = self.events.as_deref().unwrap_or(Path::new("-")).display();
            Ended::new(Exit::Failure, format_args!("--events {path}: {error}"))
        })?;
        let worker = Worker {
            clock: SystemClock,
            blocking: Threads,
            fault: EnvFault::from_env()?,
            open: self.queue.open_to_work(self.durable),
        };
        let target = self.url.clone();
        let sending = HttpSenderOptions { target, timeout: self.timeout, secrets: self.secrets.read()? };
        let senders = vec![HttpSender::new(network, SystemClock, sending); self.slots()];
        let observer = Observers { metrics: Rc::clone(&post.metrics), events };
        let batch = usize::try_from(self.batch).unwrap_or(usize::MAX);
        let extras = Extras { batch, observer: &observer };
        tracing::info!(
            url = %self.url, owner = %options.owner, slots = senders.len(), batch,
            durability = self.durable.word(), "working"
        );
        let Post { signals, board, worked: before, .. } = post;
        board.set_stopping(false);
        let why = Cell::new(Why::Wish(Wish::Stop));
        let shutdown = async {
            why.set(tokio::select! {
                biased;
                wish = signals.next() => Why::Wish(wish),
                () = replaced(self.queue.path(), identity) => Why::Replaced,
            });
            board.set_stopping(true);
        };
        let wake = Wake::default();
        let working = async {
            let work = work_observed(&worker, &options, senders, &jitter, &wake, shutdown, extras);
            tokio::select! {
                biased;
                worked = work => worked,
                never = watch_clock(&SystemClock, CLOCK_EVERY, CLOCK_JUMP, tell_jump) => match never {},
            }
        };
        let worked = self.status.beside(board, board.watch_queue(self.queue.open_to_look()), working).await?;
        let worked = worked.map_err(|error| self.queue.failed(&error))?;
        *before = sum(*before, worked);
        self.ended(*before, why.get(), signals)
    }

    /// What a run came to: an error, or whether to go on.
    fn ended(&self, worked: Worked, why: Why, signals: &mut Signals) -> Result<Wish, Ended> {
        let wish = match why {
            // A signal to end that came while the last jobs were being sent counts.
            Why::Wish(Wish::Reload) => signals.next().now_or_never().unwrap_or(Wish::Reload),
            Why::Wish(Wish::Stop) | Why::Replaced => Wish::Stop,
        };
        if wish == Wish::Stop {
            self.report(worked);
        }
        if worked.cut > 0 && wish == Wish::Stop {
            return Err(Ended::new(Exit::Cut, "what was being sent was cut off: the grace time was over"));
        }
        if matches!(why, Why::Replaced) {
            let why = format_args!(
                "{}: was moved, removed or replaced while it was open: nothing more is claimed; jobs of the old file \
                 that were being sent may be sent again",
                self.queue.path().display()
            );
            return Err(Ended::new(Exit::Storage, why));
        }
        Ok(wish)
    }

    fn slots(&self) -> usize {
        usize::try_from(self.slots.unwrap_or(self.batch.max(SLOTS))).unwrap_or(1)
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

/// What outlives a reload.
struct Post {
    signals: Signals,
    metrics: Rc<WorkMetrics>,
    board: Board,
    /// What was done before the last reload.
    worked: Worked,
}

/// Why a run ends.
#[derive(Debug, Clone, Copy)]
enum Why {
    Wish(Wish),
    Replaced,
}

/// Slots where nothing is said.
const SLOTS: u32 = 4;
/// How often the clock is looked at, and from which step on it has jumped.
const CLOCK_EVERY: Duration = Duration::from_secs(1);
const CLOCK_JUMP: Duration = Duration::from_secs(2);
/// How often it is looked whether the file is still the one that was opened.
const FILE_EVERY: Duration = Duration::from_secs(1);

/// Completes when another file, or none, is at the path. SQLite itself refuses to write to a file that has moved.
async fn replaced(path: &Path, identity: (u64, u64)) {
    while files::identity(path).is_ok_and(|now| now == identity) {
        SystemClock.sleep(FILE_EVERY).await;
    }
}

fn tell_jump(jump: Jump) {
    let by_ms = jump.by_ms;
    tracing::warn!(by_ms, "the clock jumped, or the process stood still: leases may end early or late");
}

/// Metrics and event log.
struct Observers {
    metrics: Rc<WorkMetrics>,
    events: Option<Events>,
}

impl Observer for Observers {
    fn saw(&self, happening: &Happening<'_>) {
        self.metrics.saw(happening);
        if let Some(events) = &self.events {
            events.saw(happening);
        }
    }
}

fn sum(a: Worked, b: Worked) -> Worked {
    Worked {
        claimed: a.claimed + b.claimed,
        done: a.done + b.done,
        retried: a.retried + b.retried,
        dead: a.dead + b.dead,
        unknown: a.unknown + b.unknown,
        stale: a.stale + b.stale,
        released: a.released + b.released,
        cut: a.cut + b.cut,
    }
}

fn target(text: &str) -> Result<Target, String> {
    Target::parse(text).map_err(|error| error.to_string())
}
