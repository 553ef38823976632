//! `ackward work`.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ackward::adapter::{SystemClock, Threads, TokioNetwork};
use ackward::port::Connect;
use ackward::rules::{Invalid, Lease, Limits, Name, Timeout};
use ackward::shell::{
    Extras, Happening, HttpSender, HttpSenderOptions, Observer, Target, Wake, WorkOptions, Worked, Worker,
    work_observed,
};
use clap::Args;

use super::events::Events;
use super::exit::{Ended, Exit};
use super::fault::EnvFault;
use super::output::say;
use super::queue_file::{Durable, QueueFile};
use super::secrets::SecretArgs;
use super::service::{self, Service, Watch, Why, until_told};
use super::signals::Signals;
use super::status::{Board, Metrics, StatusArgs, StatusPage, WorkMetrics};
use super::traces::{TraceArgs, Traces};
use super::values::{delay_ms, lease, owner, retry, timeout};
use super::{Command, files, jitter};

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
    #[arg(long, env = "ACKWARD_RETRY_BASE_MS", value_name = "MS", default_value_t = 1_000, value_parser = delay_ms)]
    retry_base_ms: i64,
    /// The longest delay, in ms
    #[arg(long, env = "ACKWARD_RETRY_CAP_MS", value_name = "MS", default_value_t = 900_000, value_parser = delay_ms)]
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
    /// Append what the worker does to this file, one JSON object a line; what could not be written, on a full disk for
    /// one, is counted in a line `lost` once there is room
    #[arg(long, env = "ACKWARD_EVENTS", value_name = "FILE")]
    events: Option<PathBuf>,
    #[command(flatten)]
    status: StatusArgs,
    #[command(flatten)]
    traces: TraceArgs,
    #[command(flatten)]
    secrets: SecretArgs,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

impl Work {
    /// Works, and goes on with the settings read anew after each SIGHUP.
    pub async fn run(self) -> Result<(), Ended> {
        let mut signals = Signals::new().map_err(|error| Ended::new(Exit::Failure, error))?;
        let Some(ready) = service::unless_stopped(&mut signals, self.prepare(None)).await? else {
            self.report(Worked::default());
            return Ok(());
        };
        service::run(Working::new(self, ready)?, signals).await
    }

    /// Everything that can fail before a job is touched.
    async fn prepare(&self, before: Option<&Ready>) -> Result<Ready, Ended> {
        let options = self.options()?;
        self.queue.check()?;
        let identity =
            files::identity(self.queue.path()).map_err(|error| Ended::new(Exit::Storage, error))?;
        self.queue.check_opens(self.durable)?;
        let sending = HttpSenderOptions {
            target: self.url.clone(),
            timeout: self.timeout,
            secrets: self.secrets.read().await?,
        };
        let network = if self.url.is_https() { Net::tls()? } else { Net::Plain };
        let fault = EnvFault::from_env()?;
        let events = self.events.as_deref().map(|path| open_events(path, identity)).transpose()?;
        let page = self.status.prepare(before.map(|ready| &ready.page)).await?;
        let traces = self.traces.prepare(before.map(|ready| &ready.traces))?;
        Ok(Ready { options, identity, sending, network, fault, events, page, traces })
    }

    /// What the status page is about.
    fn title(&self) -> String {
        format!("Queue {}", self.queue.path().display())
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
            retry: retry(self.retry_base_ms, self.retry_cap_ms)?,
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
            let cut = if cut > 0 { format!(", cut off {cut}") } else { String::new() };
            say(format_args!("stopped: done {done}, retried {retried}, dead {dead}, unknown {unknown}{cut}"));
        }
    }
}

/// What the settings come to.
struct Ready {
    options: WorkOptions,
    /// Which file the queue is.
    identity: (u64, u64),
    sending: HttpSenderOptions,
    network: Net,
    fault: EnvFault,
    events: Option<Events>,
    page: StatusPage,
    traces: Traces,
}

/// What jobs are sent over.
enum Net {
    Plain,
    #[cfg(feature = "tls")]
    Tls(ackward::adapter::TlsNetwork),
}

impl Net {
    #[cfg(feature = "tls")]
    fn tls() -> Result<Self, Ended> {
        let network = ackward::adapter::TlsNetwork::new();
        network.map(Self::Tls).map_err(|error| Ended::new(Exit::Failure, error))
    }

    #[cfg(not(feature = "tls"))]
    fn tls() -> Result<Self, Ended> {
        Err(Ended::new(Exit::Usage, "this build has no https (feature tls)"))
    }
}

/// A worker, and what outlives a reload.
struct Working {
    work: Work,
    ready: Ready,
    metrics: Rc<WorkMetrics>,
    board: Board,
    worked: Cell<Worked>,
}

impl Working {
    fn new(work: Work, ready: Ready) -> Result<Self, Ended> {
        let metrics = WorkMetrics::new().map(Rc::new).map_err(|error| Ended::new(Exit::Failure, error))?;
        let board = Board::new(work.title(), Metrics::Work(Rc::clone(&metrics)));
        Ok(Self { work, ready, metrics, board, worked: Cell::default() })
    }

    async fn over(&self, network: impl Connect, signals: &mut Signals) -> Result<Why, Ended> {
        let Self { work, ready, board, .. } = self;
        let Ready { options, identity, sending, fault, events, page, traces, .. } = ready;
        let worker = Worker {
            clock: SystemClock,
            blocking: Threads,
            fault: fault.clone(),
            open: work.queue.open_to_work(work.durable),
        };
        let sender = HttpSender::new(network, SystemClock, sending.clone()).traced(traces.header());
        let senders = vec![sender; work.slots()];
        let metrics = page.is_served().then_some(&*self.metrics);
        let observer = Observers { metrics, board, events: events.as_ref(), traces: traces.worker() };
        let batch = usize::try_from(work.batch).unwrap_or(usize::MAX);
        let extras = Extras { batch, observer: &observer, worked: &self.worked };
        tracing::info!(
            url = %work.url, owner = %options.owner, slots = senders.len(), batch,
            durability = work.durable.word(), "working"
        );
        let watch = Watch {
            path: work.queue.path(),
            identity: *identity,
            board,
            jump: "leases may end early or late",
        };
        let wake = Wake::default();
        let working = until_told(&watch, signals, async |told| {
            work_observed(&worker, options, senders, &jitter, &wake, traces.noting(told), extras).await
        });
        let fill = board.watch_queue(work.queue.open_to_look());
        let (worked, why) = page.beside(board, fill, working).await?;
        worked.map_err(|error| work.queue.failed(&error))?;
        Ok(why)
    }
}

impl Service for Working {
    async fn take(&mut self, command: Command) -> Result<(), Ended> {
        let Command::Work(work) = command else { return Ok(()) };
        self.ready = work.prepare(Some(&self.ready)).await?;
        self.board.about(work.title());
        self.work = *work;
        Ok(())
    }

    async fn once(&self, signals: &mut Signals) -> Result<Why, Ended> {
        match &self.ready.network {
            Net::Plain => self.over(TokioNetwork, signals).await,
            #[cfg(feature = "tls")]
            Net::Tls(network) => self.over(network.clone(), signals).await,
        }
    }

    async fn end(self, why: Why) -> Result<(), Ended> {
        let worked = self.worked.get();
        self.work.report(worked);
        self.ready.traces.flush(self.work.grace).await;
        let replaced = "nothing more is claimed; jobs of the old file that were being sent may be sent again";
        let cut = (worked.cut > 0).then_some("what was being sent was");
        service::ended(why, self.work.queue.path(), replaced, cut)
    }
}

/// Slots where nothing is said.
const SLOTS: u32 = 4;

/// Board, and metrics, event log and traces where anybody reads them.
struct Observers<'a> {
    metrics: Option<&'a WorkMetrics>,
    board: &'a Board,
    events: Option<&'a Events>,
    traces: Option<&'a dyn Observer>,
}

impl Observer for Observers<'_> {
    fn saw(&self, happening: &Happening<'_>) {
        if let Some(metrics) = self.metrics {
            metrics.saw(happening);
        }
        self.board.saw(happening);
        if let Some(events) = self.events {
            events.saw(happening);
        }
        if let Some(traces) = self.traces {
            traces.saw(happening);
        }
    }
}

fn open_events(path: &Path, queue: (u64, u64)) -> Result<Events, Ended> {
    // Not even opened: closing it again would drop the locks that this process holds on it.
    if files::identity(path).is_ok_and(|identity| identity == queue) {
        let why = "it is the queue, allowed: an event log, or a new path";
        return Err(Ended::new(Exit::Storage, format_args!("--events {}: {why}", path.display())));
    }
    let name = path.as_os_str().to_string_lossy();
    if ["-journal", "-wal", "-shm"].iter().any(|end| name.ends_with(end)) {
        let why = "SQLite removes files of such a name beside a database, allowed: another name";
        return Err(Ended::new(Exit::Storage, format_args!("--events {}: {why}", path.display())));
    }
    let failed = |error| Ended::new(Exit::Storage, format_args!("--events {}: {error}", path.display()));
    Events::open(path).map_err(failed)
}

fn target(text: &str) -> Result<Target, String> {
    Target::parse(text).map_err(|error| error.to_string())
}
