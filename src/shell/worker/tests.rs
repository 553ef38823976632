//! The worker loop over a real queue file, in virtual time: M10, Q49 to Q54, and what it outlives.

#![expect(clippy::disallowed_methods, reason = "a test in virtual time")]

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::*;
use crate::port::{FaultPoint, Injected, Lane, NoFault};
use crate::rules::{Attempts, Event, Invalid, Millis, Qty};
use crate::shell::sender::SendError;
use crate::shell::wire::{Inline, InlineLane};
use crate::storage::{Durability, OpenOptions, Queue};

/// tokio's virtual time, with a wall clock that can jump.
#[derive(Clone)]
struct Virtual {
    started: Instant,
    jump_ms: Arc<AtomicI64>,
}

impl Virtual {
    fn new() -> Self {
        Self { started: Instant::now(), jump_ms: Arc::default() }
    }
}

impl Clock for Virtual {
    fn now(&self) -> Result<Millis, Invalid> {
        let elapsed_ms = i64::try_from(self.started.elapsed().as_millis()).unwrap();
        Millis::new(1_000 + elapsed_ms + self.jump_ms.load(Ordering::SeqCst))
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> {
        tokio::time::sleep(duration)
    }
}

/// What the next sends do, in order; later ones are acknowledged at once.
type Script = Rc<RefCell<Vec<Act>>>;

enum Act {
    /// Is acknowledged after so many ms.
    After(u64),
    Hang,
    Fail(SendError),
    /// Runs this SQL on the queue file, then goes on for so many ms.
    Meddle(&'static str, u64),
}

struct Actor {
    script: Script,
    path: PathBuf,
    log: Rc<RefCell<Vec<String>>>,
}

/// Notes where a send was dropped.
struct Dropped(Rc<RefCell<Vec<String>>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.borrow_mut().push("dropped".into());
    }
}

impl Sender for Actor {
    async fn send(&mut self, event: Event) -> Result<(), SendError> {
        self.log.borrow_mut().push(format!("send {}", event.id));
        let dropped = Dropped(Rc::clone(&self.log));
        let act =
            if self.script.borrow().is_empty() { None } else { Some(self.script.borrow_mut().remove(0)) };
        let result = match act {
            None => Ok(()),
            Some(Act::After(ms)) => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Ok(())
            }
            Some(Act::Hang) => std::future::pending().await,
            Some(Act::Fail(error)) => Err(error),
            Some(Act::Meddle(sql, ms)) => {
                Connection::open(&self.path).unwrap().execute_batch(sql).unwrap();
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Ok(())
            }
        };
        std::mem::forget(dropped);
        result
    }
}

/// A queue file with a worker on it.
struct Bench {
    dir: TempDir,
    script: Script,
    log: Rc<RefCell<Vec<String>>>,
    wake: Wake,
    stop: Rc<Notify>,
    clock: Virtual,
    slots: usize,
    batch: usize,
    /// What the observer heard.
    seen: Seen,
    options: WorkOptions,
}

/// Writes down what a worker tells.
#[derive(Default)]
struct Seen(RefCell<Vec<String>>);

impl Observer for Seen {
    fn saw(&self, happening: &Happening<'_>) {
        let id = happening.ticket().map_or("-", |ticket| ticket.id.as_str());
        self.0.borrow_mut().push(format!("{} {id}", happening.name()));
    }
}

impl Bench {
    fn new(script: Vec<Act>) -> Self {
        let seconds = |seconds| Timeout::from_seconds(seconds).unwrap();
        let options = WorkOptions {
            owner: Name::new("owner", "w").unwrap(),
            lease: Limits::CONTRACT.lease(3_000).unwrap(),
            retry: RetryPolicy::CONTRACT,
            limits: Limits::CONTRACT,
            poll_min: seconds(0.02),
            poll_max: seconds(1.0),
            grace: seconds(5.0),
        };
        let bench = Self {
            dir: tempfile::tempdir().unwrap(),
            script: Rc::new(RefCell::new(script)),
            log: Rc::default(),
            wake: Wake::default(),
            stop: Rc::default(),
            clock: Virtual::new(),
            slots: 1,
            batch: 1,
            seen: Seen::default(),
            options,
        };
        drop(bench.open());
        bench
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("queue.db")
    }

    fn open(&self) -> Queue {
        Queue::open(&self.path(), &OpenOptions::new(Durability::Full)).unwrap()
    }

    fn enqueue(&self, id: &str, ttl_ms: i64) {
        let event = Event { id: Name::new("id", id).unwrap(), qty: Qty::new(1).unwrap() };
        let (now, ttl) = (self.clock.now().unwrap(), Limits::CONTRACT.ttl(ttl_ms).unwrap());
        self.open().enqueue(&event, now, ttl, Attempts::new(3).unwrap()).unwrap();
    }

    /// Works beside `story`, which ends with the shutdown.
    async fn work<F: Fault + Clone + Send + 'static>(
        &self,
        fault: F,
        story: impl Future<Output = ()>,
    ) -> Worked {
        self.work_on(Inline, fault, story).await
    }

    async fn work_on<B: Blocking, F: Fault + Clone + Send + 'static>(
        &self,
        blocking: B,
        fault: F,
        story: impl Future<Output = ()>,
    ) -> Worked {
        let path = self.path();
        let open = move || {
            let options = OpenOptions::new(Durability::Full).create(false).busy_timeout(Duration::ZERO);
            Queue::open(&path, &options)
        };
        let worker = Worker { clock: self.clock.clone(), blocking, fault, open };
        let actor =
            || Actor { script: Rc::clone(&self.script), path: self.path(), log: Rc::clone(&self.log) };
        let senders = (0..self.slots).map(|_| actor()).collect();
        let shutdown = async {
            tokio::select! {
                () = story => {}
                () = self.stop.notified() => {}
            }
        };
        let jitter = || Jitter::new(0.5).unwrap();
        let worked = Cell::default();
        let extras = Extras { batch: self.batch, observer: &self.seen, worked: &worked };
        work_observed(&worker, &self.options, senders, &jitter, &self.wake, shutdown, extras).await.unwrap();
        worked.get()
    }

    /// `status attempts token reason` of a job.
    fn job(&self, id: &str) -> String {
        let sql = "SELECT status || ' ' || attempts || ' ' || token || ' ' || coalesce(reason, '-') FROM jobs WHERE id = ?1";
        Connection::open(self.path()).unwrap().query_row(sql, [id], |row| row.get(0)).unwrap()
    }

    fn log(&self) -> Vec<String> {
        self.log.borrow().clone()
    }
}

async fn ms(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

/// Calls a closure at a point, the nth time it is met; its error comes out.
#[derive(Clone)]
struct At<H>(FaultPoint, Arc<AtomicI64>, H);

impl<H: Fn() -> Result<(), Injected>> Fault for At<H> {
    fn at(&mut self, point: FaultPoint) -> Result<(), Injected> {
        if point == self.0 && self.1.fetch_sub(1, Ordering::SeqCst) == 0 { (self.2)() } else { Ok(()) }
    }
}

fn at<H: Fn() -> Result<(), Injected>>(point: FaultPoint, nth: i64, hook: H) -> At<H> {
    At(point, Arc::new(AtomicI64::new(nth)), hook)
}

fn fail() -> Result<(), Injected> {
    Err(Injected("told to fail".into()))
}

#[tokio::test(start_paused = true)]
async fn jobs_are_delivered_and_recorded_by_their_outcome() {
    let retry_after = Some(Duration::from_secs(30));
    let bench = Bench::new(vec![
        Act::After(0),
        Act::Fail(SendError::permanent("no")),
        Act::Fail(SendError::Retryable { cause: "later".into(), retry_after }),
        Act::Fail(SendError::retryable("later")),
    ]);
    for id in ["a", "b", "c", "d"] {
        bench.enqueue(id, 60_000);
    }
    let worked = bench.work(NoFault, ms(2_000)).await;
    assert_eq!(worked, Worked { claimed: 5, done: 2, dead: 1, retried: 2, ..Worked::default() });
    assert_eq!(bench.job("a"), "done 1 1 -");
    assert_eq!(bench.job("b"), "dead 1 1 permanent");
    assert_eq!(bench.job("c"), "pending 1 1 retry", "W2: the receiver asked for 30 s");
    assert_eq!(bench.job("d"), "done 2 2 -", "Q51: after half of 100 ms");
}

#[tokio::test(start_paused = true)]
async fn q52_without_an_acknowledgement_the_job_comes_back_when_its_lease_ends() {
    let bench = Bench::new(vec![Act::Fail(SendError::bad_ack("what?"))]);
    bench.enqueue("a", 60_000);
    let worked = bench.work(NoFault, ms(2_900)).await;
    assert_eq!(worked, Worked { claimed: 1, unknown: 1, ..Worked::default() });
    assert_eq!(bench.job("a"), "leased 1 1 -");
    let worked = bench.work(NoFault, ms(1_200)).await;
    assert_eq!(worked.done, 1);
    assert_eq!(bench.job("a"), "done 2 2 -");
}

#[tokio::test(start_paused = true)]
async fn m10_a_send_longer_than_the_lease_keeps_it() {
    let bench = Bench::new(vec![Act::After(20_000)]);
    bench.enqueue("a", 60_000);
    let worked = bench.work(NoFault, ms(21_000)).await;
    assert_eq!(worked, Worked { claimed: 1, done: 1, ..Worked::default() });
    assert_eq!(bench.job("a"), "done 1 1 -");
}

#[tokio::test(start_paused = true)]
async fn m10_a_failed_renewal_is_tried_again_before_the_lease_ends() {
    let bench = Bench::new(vec![Act::After(5_000)]);
    bench.enqueue("a", 60_000);
    let worked = bench.work(at(FaultPoint::AfterRenew, 0, fail), ms(6_000)).await;
    assert_eq!(worked, Worked { claimed: 1, done: 1, ..Worked::default() });
}

/// Someone else has the job: the send is dropped, and nothing is recorded.
#[tokio::test(start_paused = true)]
async fn m10_a_lost_lease_cancels_the_send() {
    let bench = Bench::new(vec![Act::Meddle("UPDATE jobs SET token = token + 1, owner = 'other'", 20_000)]);
    bench.enqueue("a", 60_000);
    let story = async {
        ms(1_100).await;
        assert_eq!(bench.log(), ["send a", "dropped"], "at the first renewal, not only at the lease's end");
    };
    let worked = bench.work(NoFault, story).await;
    assert_eq!(worked, Worked { claimed: 1, stale: 1, ..Worked::default() });
    assert_eq!(bench.job("a"), "leased 1 2 -");
}

/// Q36: a ticket that no longer holds changes nothing, and the worker goes on.
#[tokio::test(start_paused = true)]
async fn a_stale_finish_is_no_reason_to_stop() {
    let bench = Bench::new(vec![Act::Meddle("UPDATE jobs SET token = 7 WHERE id = 'a'", 10)]);
    bench.enqueue("a", 60_000);
    bench.enqueue("b", 60_000);
    let worked = bench.work(NoFault, ms(500)).await;
    assert_eq!(worked, Worked { claimed: 2, stale: 1, done: 1, ..Worked::default() });
    assert_eq!(bench.job("a"), "leased 1 7 -");
}

/// A renewal extends a lease up to the job's deadline and no further.
#[tokio::test(start_paused = true)]
async fn m10_no_send_outlives_the_deadline() {
    let bench = Bench::new(vec![Act::Hang]);
    bench.enqueue("a", 5_000);
    let started = bench.clock.now().unwrap().get();
    let ended = async {
        while bench.log().last().is_none_or(|last| last != "dropped") {
            ms(10).await;
        }
        let elapsed_ms = bench.clock.now().unwrap().get() - started;
        assert!((5_000..5_050).contains(&elapsed_ms), "{elapsed_ms}");
    };
    let worked = bench.work(NoFault, ended).await;
    assert_eq!(worked.stale, 1);
}

#[tokio::test(start_paused = true)]
async fn m10_nothing_is_sent_on_a_ticket_that_has_expired() {
    let bench = Bench::new(Vec::new());
    bench.enqueue("a", 60_000);
    let jump_ms = Arc::clone(&bench.clock.jump_ms);
    let jump = move || {
        jump_ms.fetch_add(3_000, Ordering::SeqCst);
        Ok(())
    };
    let worked = bench.work(at(FaultPoint::AfterCommit, 0, jump), ms(10)).await;
    assert_eq!(worked, Worked { claimed: 2, stale: 1, done: 1, ..Worked::default() });
    assert_eq!(bench.log(), ["send a"]);
    assert_eq!(bench.job("a"), "done 2 2 -");
}

#[tokio::test(start_paused = true)]
async fn shutdown_finishes_what_is_being_sent_and_claims_no_more() {
    let bench = Bench::new(vec![Act::After(2_000)]);
    bench.enqueue("a", 60_000);
    bench.enqueue("b", 60_000);
    let worked = bench.work(NoFault, ms(1_000)).await;
    assert_eq!(worked, Worked { claimed: 1, done: 1, ..Worked::default() });
    assert_eq!((bench.job("a").as_str(), bench.job("b").as_str()), ("done 1 1 -", "pending 0 0 -"));
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_an_idle_worker_at_once() {
    let bench = Bench::new(Vec::new());
    let worked = bench.work(NoFault, ms(10_000)).await;
    assert_eq!(worked, Worked::default());
    assert_eq!(bench.clock.now().unwrap().get(), 11_000);
}

/// M10: told to stop while the claim was under way.
#[tokio::test(start_paused = true)]
async fn m10_shutdown_releases_what_was_claimed_but_not_sent() {
    let bench = Bench::new(Vec::new());
    bench.enqueue("a", 60_000);
    let stop = Arc::new(Notify::new());
    let stopping = Arc::clone(&stop);
    let hook = move || {
        stopping.notify_one();
        Ok(())
    };
    let worked = bench.work(at(FaultPoint::AfterClaim, 0, hook), async { stop.notified().await }).await;
    assert_eq!(worked, Worked { claimed: 1, released: 1, ..Worked::default() });
    assert_eq!(bench.log(), [""; 0]);
    assert_eq!(bench.job("a"), "pending 0 1 -");
}

#[tokio::test(start_paused = true)]
async fn shutdown_takes_no_longer_than_the_grace_time() {
    let bench = Bench::new(vec![Act::Hang]);
    bench.enqueue("a", 60_000);
    let worked = bench.work(NoFault, ms(1_000)).await;
    assert_eq!(worked, Worked { claimed: 1, cut: 1, ..Worked::default() });
    assert_eq!(bench.clock.now().unwrap().get(), 1_000 + 1_000 + 5_000);
    assert_eq!(bench.log(), ["send a", "dropped"]);
    assert_eq!(bench.job("a"), "leased 1 1 -");
}

#[tokio::test(start_paused = true)]
async fn an_enqueue_in_this_process_wakes_an_idle_worker() {
    let mut bench = Bench::new(Vec::new());
    bench.options.poll_min = Timeout::from_seconds(3_600.0).unwrap();
    bench.options.poll_max = bench.options.poll_min;
    bench.slots = 3;
    let story = async {
        ms(1_000).await;
        bench.enqueue("a", 60_000);
        bench.wake.wake();
        ms(10).await;
    };
    let worked = bench.work(NoFault, story).await;
    assert_eq!(worked, Worked { claimed: 1, done: 1, ..Worked::default() });
}

#[tokio::test(start_paused = true)]
async fn polling_slows_down_while_there_is_nothing_to_do() {
    let bench = Bench::new(Vec::new());
    let story = async {
        ms(10_000).await;
        bench.enqueue("a", 60_000);
        let enqueued = bench.clock.now().unwrap().get();
        while bench.log().is_empty() {
            ms(1).await;
        }
        let waited_ms = bench.clock.now().unwrap().get() - enqueued;
        assert!((100..=1_000).contains(&waited_ms), "{waited_ms}");
        bench.enqueue("b", 60_000);
        ms(30).await;
        assert_eq!(bench.log(), ["send a", "send b"], "busy again, it polls soon");
    };
    bench.work(NoFault, story).await;
}

#[tokio::test(start_paused = true)]
async fn slots_send_side_by_side() {
    let mut bench = Bench::new((0..4).map(|_| Act::After(1_000)).collect());
    bench.slots = 4;
    for id in ["a", "b", "c", "d"] {
        bench.enqueue(id, 60_000);
    }
    let worked = bench.work(NoFault, ms(1_100)).await;
    assert_eq!(worked.done, 4);
}

/// Claim, finish and renewal meet a lock that lasts longer than any patience.
#[tokio::test(start_paused = true)]
async fn a_locked_file_is_waited_for() {
    let bench = Bench::new(vec![Act::After(500)]);
    bench.enqueue("a", 60_000);
    bench.enqueue("b", 60_000);
    let story = async {
        let locker = Connection::open(bench.path()).unwrap();
        // The finish of a, which is due at 500 ms, meets it; its lease lasts up to 3 s.
        ms(100).await;
        locker.execute_batch("BEGIN IMMEDIATE").unwrap();
        ms(1_900).await;
        locker.execute_batch("COMMIT").unwrap();
        ms(2_000).await;
    };
    let worked = bench.work(NoFault, story).await;
    assert_eq!(worked, Worked { claimed: 2, done: 2, ..Worked::default() });
    assert_eq!(bench.job("a"), "done 1 1 -");
}

/// Disk full, I/O errors and the like: nothing is lost, and it goes on when they are over.
#[tokio::test(start_paused = true)]
async fn failures_of_the_queue_are_outlived() {
    for point in [FaultPoint::AfterClaim, FaultPoint::AfterFinish] {
        let bench = Bench::new(Vec::new());
        bench.enqueue("a", 60_000);
        let worked = bench.work(at(point, 0, fail), ms(1_000)).await;
        assert_eq!(worked, Worked { claimed: 1, done: 1, ..Worked::default() }, "{point}");
        assert_eq!(bench.job("a"), "done 1 1 -");
    }
}

/// Q8: the finish is in place though its result was lost; the second try finds it so.
#[tokio::test(start_paused = true)]
async fn q8_a_finish_that_was_committed_is_not_made_twice() {
    let bench = Bench::new(Vec::new());
    bench.enqueue("a", 60_000);
    // The first after-commit is the claim's.
    let worked = bench.work(at(FaultPoint::AfterCommit, 1, fail), ms(1_000)).await;
    assert_eq!(worked, Worked { claimed: 1, stale: 1, ..Worked::default() });
    assert_eq!(bench.job("a"), "done 1 1 -");
    assert_eq!(bench.log(), ["send a"]);
}

/// A batch of jobs is claimed in one transaction and finished in one, and each has the outcome that is its own.
#[tokio::test(start_paused = true)]
async fn q36_jobs_of_a_batch_are_recorded_each_by_its_own_outcome() {
    let mut bench = Bench::new(vec![
        Act::After(10),
        Act::Fail(SendError::permanent("no")),
        Act::Fail(SendError::bad_ack("what?")),
        Act::Fail(SendError::retryable("later")),
    ]);
    (bench.slots, bench.batch) = (4, 4);
    for id in ["a", "b", "c", "d"] {
        bench.enqueue(id, 60_000);
    }
    let commits = Arc::new(AtomicI64::new(0));
    let counting = {
        let commits = Arc::clone(&commits);
        move || {
            commits.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }
    };
    let worked = bench.work(Every(FaultPoint::AfterCommit, counting), ms(40)).await;
    assert_eq!(worked, Worked { claimed: 4, done: 1, dead: 1, retried: 1, unknown: 1, ..Worked::default() });
    let jobs = ["a", "b", "c", "d"].map(|id| bench.job(id));
    assert_eq!(jobs, ["done 1 1 -", "dead 1 1 permanent", "leased 1 1 -", "pending 1 1 retry"]);
    assert!(commits.load(Ordering::SeqCst) <= 3, "one claim, and what failed at once shares a finish");
}

/// More jobs than slots: those that wait are sent later, on the tickets of the one claim.
#[tokio::test(start_paused = true)]
async fn a_batch_larger_than_the_slots_is_worked_off() {
    let mut bench = Bench::new((0..6).map(|_| Act::After(100)).collect());
    (bench.slots, bench.batch) = (2, 8);
    for id in ["a", "b", "c", "d", "e", "f"] {
        bench.enqueue(id, 60_000);
    }
    let worked = bench.work(NoFault, ms(900)).await;
    assert_eq!(worked, Worked { claimed: 6, done: 6, ..Worked::default() });
    assert_eq!(bench.job("f"), "done 1 1 -");
}

/// M10: what no slot took in time is given back with its attempt, at half the lease and at the shutdown.
#[tokio::test(start_paused = true)]
async fn m10_a_batch_gives_back_what_it_cannot_send_in_time() {
    let mut bench = Bench::new(vec![Act::After(2_000), Act::After(2_000)]);
    (bench.slots, bench.batch) = (1, 3);
    for id in ["a", "b", "c"] {
        bench.enqueue(id, 60_000);
    }
    let worked = bench.work(NoFault, ms(3_000)).await;
    assert_eq!((worked.done, worked.released, worked.stale), (2, 3, 0), "b and c, then c again");
    assert_eq!(bench.job("a"), "done 1 1 -");
    assert_eq!(bench.job("b"), "done 1 2 -", "its attempt was given back, its token was not");
    assert_eq!(bench.job("c"), "pending 0 2 -");
}

/// M10: a job that waits behind a send longer than its lease is given back while it still can be, with its attempt.
#[tokio::test(start_paused = true)]
async fn m10_a_batch_gives_back_in_time_although_every_slot_is_busy_for_longer_than_the_lease() {
    let mut bench = Bench::new(vec![Act::After(4_000)]);
    (bench.slots, bench.batch) = (1, 2);
    bench.enqueue("a", 60_000);
    bench.enqueue("b", 60_000);
    let story = async {
        ms(1_600).await;
        assert_eq!(bench.job("b"), "pending 0 1 -", "given back when half of its lease was over");
        ms(3_400).await;
    };
    let worked = bench.work(NoFault, story).await;
    assert_eq!(worked, Worked { claimed: 3, done: 2, released: 1, ..Worked::default() });
    assert_eq!(bench.job("b"), "done 1 2 -");
}

/// Q31: a deadline cuts the lease, so half of the lease that was asked for is no measure of how old a ticket is.
#[tokio::test(start_paused = true)]
async fn q31_a_batch_sends_jobs_whose_deadline_is_nearer_than_half_a_lease() {
    let mut bench = Bench::new(vec![Act::After(100), Act::After(100), Act::After(100)]);
    (bench.slots, bench.batch) = (1, 3);
    for id in ["a", "b", "c"] {
        bench.enqueue(id, 1_000);
    }
    let worked = bench.work(NoFault, ms(900)).await;
    assert_eq!(
        worked,
        Worked { claimed: 3, done: 3, ..Worked::default() },
        "each on the ticket of the one claim"
    );
}

/// However many slots share a connection, it is closed before the worker says that it has stopped.
#[tokio::test(start_paused = true)]
async fn the_connections_are_closed_at_the_end() {
    for batch in [1, 4] {
        let (opened, closed) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let mut bench = Bench::new(Vec::new());
        (bench.slots, bench.batch) = (3, batch);
        bench.enqueue("a", 60_000);
        let blocking = Counting { opened: Rc::clone(&opened), closed: Rc::clone(&closed) };
        bench.work_on(blocking, NoFault, ms(100)).await;
        let lanes = if batch == 1 { 3 } else { 1 };
        assert_eq!((opened.get(), closed.get()), (lanes, lanes), "batch {batch}");
    }
}

/// Counts the lanes that are opened, and those that are closed rather than dropped.
#[derive(Clone)]
struct Counting {
    opened: Rc<Cell<u32>>,
    closed: Rc<Cell<u32>>,
}

struct CountedLane<R>(InlineLane<R>, Rc<Cell<u32>>);

impl Blocking for Counting {
    type Lane<R: 'static> = CountedLane<R>;

    async fn open<R, E, F>(&self, label: &'static str, open: F) -> Result<CountedLane<R>, E>
    where
        R: 'static,
        E: Send + 'static,
        F: FnOnce() -> Result<R, E> + Send + 'static,
    {
        self.opened.set(self.opened.get() + 1);
        Inline.open(label, open).await.map(|lane| CountedLane(lane, Rc::clone(&self.closed)))
    }
}

impl<R: 'static> Lane<R> for CountedLane<R> {
    async fn call<T, F>(&self, label: &'static str, job: F) -> T
    where
        T: Send + 'static,
        F: FnOnce(&mut R) -> T + Send + 'static,
    {
        self.0.call(label, job).await
    }

    async fn close(self) {
        self.1.set(self.1.get() + 1);
        self.0.close().await;
    }
}

/// Q7: where the finish of a batch fails, every job of it stays leased, and all are recorded at the next try.
#[tokio::test(start_paused = true)]
async fn q7_a_batch_whose_finish_fails_is_finished_at_the_next_try() {
    let mut bench = Bench::new(vec![Act::After(10), Act::After(10), Act::After(10)]);
    (bench.slots, bench.batch) = (3, 3);
    for id in ["a", "b", "c"] {
        bench.enqueue(id, 60_000);
    }
    let worked = bench.work(at(FaultPoint::AfterFinish, 1, fail), ms(900)).await;
    assert_eq!(worked, Worked { claimed: 3, done: 3, ..Worked::default() });
}

/// The observer hears of each step, in order.
#[tokio::test(start_paused = true)]
async fn the_observer_is_told_each_step() {
    for batch in [1, 2] {
        let mut bench = Bench::new(vec![Act::After(0), Act::Fail(SendError::bad_ack("what?")), Act::Hang]);
        bench.batch = batch;
        bench.enqueue("a", 60_000);
        bench.enqueue("b", 60_000);
        bench.enqueue("c", 500);
        bench.work(NoFault, ms(1_000)).await;
        let expected = [
            "claimed a",
            "answered a",
            "finished a",
            "claimed b",
            "answered b",
            "left-to-lease b",
            "claimed c",
            "lease-lost c",
        ];
        assert_eq!(*bench.seen.0.borrow(), expected, "batch {batch}");
    }
}

/// Calls a closure at every call of a point.
#[derive(Clone)]
struct Every<H>(FaultPoint, H);

impl<H: Fn() -> Result<(), Injected>> Fault for Every<H> {
    fn at(&mut self, point: FaultPoint) -> Result<(), Injected> {
        if point == self.0 { (self.1)() } else { Ok(()) }
    }
}
