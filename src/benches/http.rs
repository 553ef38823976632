//! The HTTP path, in one run on one disk, each figure beside its floor of the same run:
//!
//! 1. jobs a second from pending to done with 1, 2 and 4 slots, with a sender that does nothing and against our own
//!    receiver on loopback, beside claim and finish alone;
//! 2. requests a second that the receiver commits, with and without group commit, beside the inbox alone;
//! 3. the share of the slower one of two worker processes on one file.
//!
//! `ACKWARD_BENCH_JOBS` (default 300) is the number of jobs of each figure; `TMPDIR` says which disk.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::cell::Cell;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ackward::adapter::{SystemClock, Threads, TokioNetwork};
use ackward::port::{Blocking, Clock, Lane, Listener, Network, NoFault};
use ackward::rules::{Attempts, Delay, Event, Jitter, Limits, Name, Outcome, Qty, RetryPolicy, Timeout};
use ackward::shell::{
    HttpSender, HttpSenderOptions, ReceiverOptions, SendError, Sender, Target, Wake, WorkOptions, Worker,
    receive, work,
};
use ackward::storage::{Durability, Inbox, LeaseQueue, OpenOptions, Queue};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tempfile::TempDir;
use tokio::sync::{Notify, oneshot};

fn main() {
    // `cargo test --all-targets` runs benchmarks too, without this argument.
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("measures only under cargo bench");
        return;
    }
    let jobs = std::env::var("ACKWARD_BENCH_JOBS").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
    workers(jobs);
    receivers(jobs);
    fairness(jobs);
}

/// How often each figure is taken, in turns, so that whatever else the machine does hits all of them.
const ROUNDS: usize = 5;

type Figure<'a> = (String, Box<dyn Fn(usize) -> f64 + 'a>);

/// Prints the medians of the figures beside that of the first one, their floor.
fn compare(jobs: usize, unit: &str, figures: &[Figure<'_>]) {
    let mut speeds = vec![Vec::new(); figures.len()];
    for _ in 0..ROUNDS {
        for ((_, measure), speeds) in figures.iter().zip(&mut speeds) {
            speeds.push(measure(jobs / ROUNDS));
        }
    }
    let medians: Vec<f64> = speeds.into_iter().map(median).collect();
    for ((name, _), speed) in figures.iter().zip(&medians) {
        println!("{name:<32} {speed:8.0} {unit} a second, {:.2} of the floor", speed / medians[0]);
    }
}

fn median(mut speeds: Vec<f64>) -> f64 {
    speeds.sort_by(f64::total_cmp);
    speeds[speeds.len() / 2]
}

fn workers(jobs: usize) {
    let mut figures: Vec<Figure<'_>> =
        vec![("claim and finish alone".into(), Box::new(|jobs| per_second(jobs, || claim_and_finish(jobs))))];
    for slots in [1, 2, 4] {
        figures
            .push((format!("{slots} slots, null sender"), Box::new(move |jobs| worked(jobs, slots, Null))));
    }
    for slots in [1, 2, 4] {
        let measure = move |jobs| {
            let receiver = Receiver::start(256);
            let sender = receiver.sender();
            worked(jobs, slots, |done| Counting(sender.clone(), done))
        };
        figures.push((format!("{slots} slots, our receiver"), Box::new(measure)));
    }
    compare(jobs, "jobs", &figures);
}

fn receivers(jobs: usize) {
    let mut figures: Vec<Figure<'_>> =
        vec![("inbox alone".into(), Box::new(|jobs| per_second(jobs, || accepted(jobs))))];
    for (name, group_max) in [("without", 1), ("with", 256)] {
        let measure = move |jobs| {
            let receiver = Receiver::start(group_max);
            per_second(jobs, || requests(jobs, &receiver.sender()))
        };
        figures.push((format!("receiver {name} group commit"), Box::new(measure)));
    }
    // On 32 connections at a time, so that a group can form.
    compare(4 * jobs, "events", &figures);
}

fn accepted(jobs: usize) -> Duration {
    let dir = tempfile::tempdir().unwrap();
    let mut inbox = Inbox::open(&dir.path().join("inbox.db"), &OpenOptions::new(Durability::Extra)).unwrap();
    let now = SystemClock.now().unwrap();
    let started = Instant::now();
    for nth in 0..jobs {
        inbox.accept(&event(nth), now, &mut NoFault).unwrap();
    }
    started.elapsed()
}

/// Two processes of the real binary, until all jobs are done.
fn fairness(jobs: usize) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("queue.db");
    let queue = filled(&path, 2 * jobs);
    let receiver = Receiver::start(256);
    let workers: Vec<Child> = (0..2).map(|_| worker_process(&path, &receiver.address)).collect();
    let left = "SELECT count(*) FROM jobs WHERE status != 'done'";
    while queue.connection().query_row(left, [], |row| row.get::<_, i64>(0)).unwrap() > 0 {
        thread::sleep(Duration::from_millis(20));
    }
    let done: Vec<f64> = workers.into_iter().map(stopped).collect();
    let slower = done[0].min(done[1]) / (done[0] + done[1]);
    println!("two worker processes             {done:?} jobs, the slower one {:.0} %", 100.0 * slower);
}

fn worker_process(path: &Path, address: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ackward"));
    command.args(["work", "--json", "--slots", "1", "--queue"]).arg(path);
    command.args(["--url", &format!("http://{address}/jobs")]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("working"), "{line}");
    child
}

/// Ends a worker; returns how many jobs it did.
fn stopped(mut child: Child) -> f64 {
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    let mut out = String::new();
    child.stdout.as_mut().unwrap().read_to_string(&mut out).unwrap();
    child.wait().unwrap();
    serde_json::from_str::<serde_json::Value>(&out).unwrap()["done"].as_f64().unwrap()
}

fn claim_and_finish(jobs: usize) -> Duration {
    let dir = tempfile::tempdir().unwrap();
    let mut queue = filled(&dir.path().join("queue.db"), jobs);
    let (owner, lease) = (name("w"), Limits::WIDE.lease(30_000).unwrap());
    let started = Instant::now();
    for _ in 0..jobs {
        let mut now = || SystemClock.now();
        let ticket = queue.claim_at(&owner, &mut now, lease, &mut NoFault).unwrap().unwrap();
        let now = SystemClock.now().unwrap();
        queue.finish(&ticket, Outcome::Ok, now, Delay::NONE, &mut NoFault).unwrap();
    }
    started.elapsed()
}

/// Jobs a second that a worker does, its start and end included.
fn worked<S: Sender>(jobs: usize, slots: usize, sender: impl Fn(Done) -> S) -> f64 {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("queue.db");
    drop(filled(&path, jobs));
    let open = move || {
        Queue::open(&path, &OpenOptions::new(Durability::Full).create(false).busy_timeout(Duration::ZERO))
    };
    let worker = Worker { clock: SystemClock, blocking: Threads, fault: NoFault, open };
    let done = Done { left: Rc::new(Cell::new(jobs)), none_left: Rc::default() };
    let senders = (0..slots).map(|_| sender(done.clone())).collect();
    per_second(jobs, || {
        let started = Instant::now();
        let none_left = done.none_left.notified();
        let (options, wake) = (work_options(), Wake::default());
        let working = work(&worker, &options, senders, &|| Jitter::FULL, &wake, none_left);
        assert_eq!(runtime().block_on(working).unwrap().done, jobs as u64);
        started.elapsed()
    })
}

fn work_options() -> WorkOptions {
    WorkOptions {
        owner: name("w"),
        lease: Limits::WIDE.lease(30_000).unwrap(),
        retry: RetryPolicy::CONTRACT,
        limits: Limits::WIDE,
        poll_min: seconds(0.02),
        poll_max: seconds(1.0),
        grace: seconds(30.0),
    }
}

/// Counts down, and ends the worker at nothing.
#[derive(Clone)]
struct Done {
    left: Rc<Cell<usize>>,
    none_left: Rc<Notify>,
}

impl Done {
    fn one(&self) {
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0 {
            self.none_left.notify_one();
        }
    }
}

struct Null(Done);

impl Sender for Null {
    async fn send(&mut self, _event: Event) -> Result<(), SendError> {
        self.0.one();
        Ok(())
    }
}

struct Counting<S>(S, Done);

impl<S: Sender> Sender for Counting<S> {
    async fn send(&mut self, event: Event) -> Result<(), SendError> {
        self.0.send(event).await.map(|()| self.1.one())
    }
}

/// Sends jobs on 32 connections at a time.
fn requests<S: Sender + Clone>(jobs: usize, sender: &S) -> Duration {
    let next = Cell::new(0);
    let connection = async || {
        let mut sender = sender.clone();
        while next.get() < jobs {
            let nth = next.replace(next.get() + 1);
            sender.send(event(nth)).await.unwrap();
        }
    };
    let started = Instant::now();
    let mut connections: FuturesUnordered<_> = (0..32).map(|_| connection()).collect();
    runtime().block_on(async { while connections.next().await.is_some() {} });
    started.elapsed()
}

/// A receiver on a thread of its own.
struct Receiver {
    address: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Receiver {
    fn start(group_max: usize) -> Self {
        let (listening, address) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            let dir: TempDir = tempfile::tempdir().unwrap();
            runtime().block_on(async {
                let path: PathBuf = dir.path().join("inbox.db");
                let open = move || Inbox::open(&path, &OpenOptions::new(Durability::Extra));
                let inbox = Threads.open("inbox", open).await.unwrap();
                let listener = TokioNetwork.listen("127.0.0.1:0").await.unwrap();
                listening.send(Listener::local_address(&listener)).unwrap();
                let options = receiver_options(group_max);
                let stopped = async { stopped.await.unwrap_or_default() };
                receive(listener, &inbox, &SystemClock, &options, NoFault, stopped).await;
                inbox.close().await;
            });
        });
        Self { address: address.recv().unwrap(), stop: Some(stop), thread: Some(thread) }
    }

    fn sender(&self) -> HttpSender<TokioNetwork, SystemClock> {
        let target = Target::parse(&format!("http://{}/jobs", self.address)).unwrap();
        HttpSender::new(
            TokioNetwork,
            SystemClock,
            HttpSenderOptions { target, timeout: seconds(15.0), secrets: None },
        )
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.stop.take().map(|stop| stop.send(()));
        self.thread.take().map(JoinHandle::join);
    }
}

fn receiver_options(group_max: usize) -> ReceiverOptions {
    ReceiverOptions {
        head_timeout: seconds(30.0),
        body_timeout: seconds(10.0),
        grace: seconds(10.0),
        connections_max: 256,
        group_max,
        secrets: None,
        tolerance: Duration::from_secs(300),
    }
}

/// A queue with this many jobs, enqueued without syncs.
fn filled(path: &Path, jobs: usize) -> Queue {
    let mut queue = Queue::open(path, &OpenOptions::new(Durability::Full)).unwrap();
    queue.connection().execute_batch("PRAGMA synchronous = OFF").unwrap();
    let (now, ttl) = (SystemClock.now().unwrap(), Limits::WIDE.ttl(86_400_000).unwrap());
    for nth in 0..jobs {
        queue.enqueue(&event(nth), now, ttl, Attempts::new(10).unwrap()).unwrap();
    }
    queue.connection().execute_batch("PRAGMA synchronous = FULL").unwrap();
    queue
}

fn event(nth: usize) -> Event {
    Event { id: name(&format!("job-{nth}")), qty: Qty::new(1).unwrap() }
}

fn name(text: &str) -> Name {
    Name::new("name", text).unwrap()
}

fn seconds(seconds: f64) -> Timeout {
    Timeout::from_seconds(seconds).unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn per_second(count: usize, measure: impl FnOnce() -> Duration) -> f64 {
    count as f64 / measure().as_secs_f64()
}
