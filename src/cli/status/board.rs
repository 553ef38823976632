//! What the status pages show: counted now and then in the file, and held here, so that a page costs the file nothing
//! however often it is asked for.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::error::Error;
use std::rc::Rc;
use std::time::Duration;

use ackward::adapter::{SystemClock, Threads};
use ackward::port::{Blocking, Clock, Lane};
use ackward::rules::{Millis, Status};
use ackward::shell::{CommitFailed, Happening, Observer, Page, Pages, Received, Trouble, TroubleLine};
use ackward::storage::{Depth, Finished, Inbox, JobFilter, JobRow, Queue, Stats, StorageError, Totals};

use super::metrics::{ReceiveMetrics, WorkMetrics};
use super::page::{SCRIPT, STYLE, html};
use crate::cli::{output, stats};

/// How often the depth is looked at, and how many looks are kept: an hour.
const EVERY: Duration = Duration::from_secs(2);
const SAMPLES_MAX: usize = 1_800;
/// The whole count takes no more than one part in so many of the time.
const COUNT_SHARE: u32 = 20;
/// The longest time between two whole counts.
const COUNT_EVERY_MAX: Duration = Duration::from_secs(60);
/// How old the last look may be before nothing counts as ready, and a failure to write for it to count, in ms.
const STALE_MS: i64 = 15_000;
/// Rows that the page lists.
const LISTED_MAX: usize = 50;

/// The jobs not finished at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    pub at_ms: i64,
    pub depth: i64,
}

/// What was counted last.
#[derive(Debug, Clone)]
pub enum Counts {
    None,
    Queue { stats: Stats, dead: Vec<JobRow>, audit: Vec<JobRow> },
    Inbox { totals: Totals, received: Received },
}

/// All that the page shows.
#[derive(Debug, Clone)]
pub struct View {
    pub title: String,
    pub at_ms: i64,
    pub trouble: Option<String>,
    pub samples: Vec<Sample>,
    pub counts: Counts,
}

/// What is counted, and by whom.
pub enum Metrics {
    Work(Rc<WorkMetrics>),
    Receive(ReceiveMetrics),
}

/// The last thing that was to be written, and could not be.
struct Failing {
    why: String,
    at_ms: i64,
}

/// The board of one process.
pub struct Board {
    title: RefCell<String>,
    metrics: Metrics,
    samples: RefCell<VecDeque<Sample>>,
    counts: RefCell<Counts>,
    trouble: RefCell<Option<String>>,
    /// How often that is logged.
    looking: Trouble,
    failing: RefCell<Option<Failing>>,
    looked_ms: Cell<i64>,
    stopping: Cell<bool>,
}

impl Board {
    pub fn new(title: String, metrics: Metrics) -> Self {
        Self {
            title: RefCell::new(title),
            metrics,
            samples: RefCell::default(),
            counts: RefCell::new(Counts::None),
            trouble: RefCell::default(),
            looking: Trouble::default(),
            failing: RefCell::default(),
            looked_ms: Cell::new(0),
            stopping: Cell::new(false),
        }
    }

    /// What it is about from now on. Nothing that was counted in another file stays.
    pub fn about(&self, title: String) {
        if *self.title.borrow() == title {
            return;
        }
        *self.title.borrow_mut() = title;
        *self.counts.borrow_mut() = Counts::None;
        self.samples.take();
        self.failing.take();
    }

    /// From now on, or no longer, nothing new is begun.
    pub fn set_stopping(&self, stopping: bool) {
        self.stopping.set(stopping);
    }

    /// Something could not be written: no reason to be ready, until something is, or nothing has failed for a while.
    /// Whoever is asked for nothing while it is not ready would never find out that it could be.
    fn write_failed(&self, what: &str, error: &dyn Error) {
        *self.failing.borrow_mut() =
            Some(Failing { why: format!("{what} failed: {error}"), at_ms: now().get() });
    }

    /// The receiver has committed, or could not.
    pub fn committed(&self, commit: Result<(), CommitFailed<'_>>) {
        match commit {
            Ok(()) => self.written(),
            Err(CommitFailed { error, is_busy: false }) => self.write_failed("accept", error),
            Err(CommitFailed { is_busy: true, .. }) => {}
        }
    }

    /// Something was written.
    fn written(&self) {
        self.failing.take();
    }

    /// Looks at a queue file for ever. It is opened anew after a failure.
    pub async fn watch_queue(
        &self,
        open: impl Fn() -> Result<Queue, StorageError> + Clone + Send + 'static,
    ) -> Infallible {
        loop {
            match Threads.open("status", open.clone()).await {
                Ok(lane) => {
                    let failed = self.look_at_queue(&lane).await;
                    self.fail(&failed);
                    lane.close().await;
                }
                Err(error) => self.fail(&error),
            }
            SystemClock.sleep(EVERY).await;
        }
    }

    async fn look_at_queue(&self, lane: &impl Lane<Queue>) -> StorageError {
        let mut until_count = Duration::ZERO;
        loop {
            let now = now();
            if until_count.is_zero() {
                let counted = lane.call("stats", move |queue: &mut Queue| count(queue, now)).await;
                let (stats, dead, audit) = match counted {
                    Ok(counted) => counted,
                    Err(error) if error.is_busy() => {
                        SystemClock.sleep(EVERY).await;
                        continue;
                    }
                    Err(error) => return error,
                };
                let took_ms = u64::try_from(self::now().get() - now.get()).unwrap_or(0);
                until_count = (Duration::from_millis(took_ms) * COUNT_SHARE).min(COUNT_EVERY_MAX);
                if let Metrics::Work(metrics) = &self.metrics {
                    metrics.set(&stats, now.get());
                }
                // What was counted is as fresh as its end: a long count is no reason not to be ready.
                self.sample(self::now(), stats.pending + stats.leased);
                *self.counts.borrow_mut() = Counts::Queue { stats, dead, audit };
            } else {
                match lane.call("depth", |queue: &mut Queue| queue.depth()).await {
                    Ok(depth) => self.take_in_depth(self::now(), depth),
                    Err(error) if error.is_busy() => {}
                    Err(error) => return error,
                }
            }
            SystemClock.sleep(EVERY).await;
            until_count = until_count.saturating_sub(EVERY);
        }
    }

    /// Looks at an inbox file for ever, and at what the receiver has done.
    pub async fn watch_inbox(
        &self,
        open: impl Fn() -> Result<Inbox, StorageError> + Clone + Send + 'static,
        received: &Cell<Received>,
    ) -> Infallible {
        loop {
            match Threads.open("status", open.clone()).await {
                Ok(lane) => {
                    loop {
                        let totals = lane.call("totals", |inbox: &mut Inbox| inbox.totals()).await;
                        match totals {
                            Ok(totals) => self.take_in(totals, received.get()),
                            Err(error) if error.is_busy() => {}
                            Err(error) => {
                                self.fail(&error);
                                break;
                            }
                        }
                        SystemClock.sleep(EVERY).await;
                    }
                    lane.close().await;
                }
                Err(error) => self.fail(&error),
            }
            SystemClock.sleep(EVERY).await;
        }
    }

    fn take_in(&self, totals: Totals, received: Received) {
        if let Metrics::Receive(metrics) = &self.metrics {
            metrics.set(totals, received);
        }
        self.looked(now());
        *self.counts.borrow_mut() = Counts::Inbox { totals, received };
    }

    /// Between two whole counts the jobs not finished are still up to date.
    fn take_in_depth(&self, at: Millis, depth: Depth) {
        if let Counts::Queue { stats, .. } = &mut *self.counts.borrow_mut() {
            (stats.pending, stats.leased) = (depth.pending, depth.leased);
            if let Metrics::Work(metrics) = &self.metrics {
                metrics.set_depth(depth);
            }
        }
        self.sample(at, depth.pending + depth.leased);
    }

    fn sample(&self, at: Millis, depth: i64) {
        let mut samples = self.samples.borrow_mut();
        if samples.len() == SAMPLES_MAX {
            samples.pop_front();
        }
        samples.push_back(Sample { at_ms: at.get(), depth });
        self.looked(at);
    }

    fn looked(&self, at: Millis) {
        self.looked_ms.set(at.get());
        *self.trouble.borrow_mut() = None;
        if let Some(failures) = self.looking.worked() {
            tracing::info!(failures, "the status page can look at the file again");
        }
    }

    fn fail(&self, error: &StorageError) {
        if let Some(TroubleLine { left_out }) = self.looking.failed(now().get()) {
            tracing::warn!(%error, left_out, "the status page cannot look at the file");
        }
        *self.trouble.borrow_mut() = Some(error.to_string());
    }

    fn view(&self) -> View {
        View {
            title: self.title.borrow().clone(),
            at_ms: self.looked_ms.get(),
            trouble: self.trouble(),
            samples: self.samples.borrow().iter().copied().collect(),
            counts: self.counts.borrow().clone(),
        }
    }

    /// What looking at the file or writing to it fails of.
    fn trouble(&self) -> Option<String> {
        let failing = self.failing.borrow();
        let is_fresh = |failing: &&Failing| (0..=STALE_MS).contains(&(now().get() - failing.at_ms));
        let failing = || failing.as_ref().filter(is_fresh).map(|failing| failing.why.clone());
        self.trouble.borrow().clone().or_else(failing)
    }

    /// Why nothing should be sent here, if so.
    fn unready(&self) -> Option<String> {
        if self.stopping.get() {
            return Some("stopping".into());
        }
        if let Some(trouble) = self.trouble() {
            return Some(trouble);
        }
        let is_old = now().get() - self.looked_ms.get() > STALE_MS;
        is_old.then(|| "the file has not been looked at lately".into())
    }

    fn metrics_text(&self) -> String {
        match &self.metrics {
            Metrics::Work(metrics) => metrics.text(),
            Metrics::Receive(metrics) => metrics.text(),
        }
    }

    fn json(&self) -> String {
        let view = self.view();
        let counts = match &view.counts {
            Counts::None => serde_json::Value::Null,
            Counts::Queue { stats, dead, audit } => {
                let rows = |rows: &[JobRow]| rows.iter().cloned().map(output::json).collect::<Vec<_>>();
                serde_json::json!({ "jobs": stats::json(stats), "dead": rows(dead), "redrives": rows(audit) })
            }
            Counts::Inbox { totals, received } => serde_json::json!({
                "events": totals.count, "qty": totals.qty, "applied": received.applied,
                "repeats": received.repeats, "refused": received.refused, "connections": received.connections
            }),
        };
        let samples: Vec<_> = view.samples.iter().map(|sample| (sample.at_ms, sample.depth)).collect();
        serde_json::json!({
            "at_ms": view.at_ms, "trouble": view.trouble, "counts": counts, "depth": samples
        })
        .to_string()
    }
}

impl Observer for Board {
    fn saw(&self, happening: &Happening<'_>) {
        match happening {
            Happening::QueueFailed { operation, error, is_busy: false } => {
                self.write_failed(operation, error)
            }
            Happening::Claimed { .. } | Happening::Finished { finished: Finished::Now(_), .. } => {
                self.written()
            }
            _ => {}
        }
    }
}

impl Pages for Board {
    async fn page(&self, path: &str) -> Option<Page> {
        const TEXT: &str = "text/plain; charset=utf-8";
        let well = |content_type, body| Some(Page { is_well: true, content_type, body });
        match path {
            "/" => well("text/html; charset=utf-8", html(&self.view())),
            "/style.css" => well("text/css; charset=utf-8", STYLE.to_owned()),
            "/script.js" => well("text/javascript; charset=utf-8", SCRIPT.to_owned()),
            "/status.json" => well("application/json", self.json()),
            "/metrics" => well("text/plain; version=0.0.4; charset=utf-8", self.metrics_text()),
            "/healthz" => well(TEXT, "ok\n".to_owned()),
            "/readyz" => Some(match self.unready() {
                None => Page { is_well: true, content_type: TEXT, body: "ready\n".to_owned() },
                Some(why) => Page { is_well: false, content_type: TEXT, body: format!("not ready: {why}\n") },
            }),
            _ => None,
        }
    }
}

type Counted = (Stats, Vec<JobRow>, Vec<JobRow>);

fn count(queue: &Queue, now: Millis) -> Result<Counted, StorageError> {
    let filter = JobFilter { status: Some(Status::Dead), ..JobFilter::default() };
    let stats = queue.stats(now)?;
    let dead = if stats.dead == 0 { Vec::new() } else { queue.list_last(&filter, LISTED_MAX)? };
    Ok((stats, dead, queue.audit(None, LISTED_MAX)?))
}

/// The time; 0 where the clock fails, which nothing but the page's own times depends on.
fn now() -> Millis {
    SystemClock.now().unwrap_or_else(|_| Millis::new(0).expect("0 is a time"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ackward::storage::{Durability, OpenOptions};

    /// A file in which each question takes its time.
    struct Slow(RefCell<Queue>);

    const TAKES: Duration = Duration::from_millis(200);

    impl Lane<Queue> for Slow {
        async fn call<T, F>(&self, _label: &'static str, job: F) -> T
        where
            T: Send + 'static,
            F: FnOnce(&mut Queue) -> T + Send + 'static,
        {
            let answer = job(&mut self.0.borrow_mut());
            SystemClock.sleep(TAKES).await;
            answer
        }

        async fn close(self) {}
    }

    /// A count of a long file may take longer than an old look is trusted.
    #[tokio::test]
    async fn the_last_look_is_as_old_as_the_end_of_the_count() {
        let dir = tempfile::tempdir().unwrap();
        let queue = Queue::open(&dir.path().join("queue.db"), &OpenOptions::new(Durability::Full)).unwrap();
        let board = Board::new(String::new(), Metrics::Work(Rc::new(WorkMetrics::new().unwrap())));
        let begun_ms = now().get();
        let slow = Slow(RefCell::new(queue));
        tokio::select! {
            _ = board.look_at_queue(&slow) => panic!("it looks for ever"),
            () = SystemClock.sleep(2 * TAKES) => {}
        }
        let looked_ms = board.looked_ms.get() - begun_ms;
        assert!(looked_ms >= i64::try_from(TAKES.as_millis()).unwrap(), "after {looked_ms} ms");
        assert_eq!(board.unready(), None);
    }
}
