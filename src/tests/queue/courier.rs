//! run_once and run_file on real threads: Q47 to Q57 as far as the vectors of `exec` do not hold them.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use ackward::adapter::{ThreadLane, Threads};
use ackward::port::{Blocking, Clock, Lane, NoFault};
use ackward::rules::{Invalid, Jitter, Lease, Status};
use ackward::shell::{Delivery, Orders, RunFileError, RunOnceError, SendError, Sender, run_file, run_once};

use super::*;

/// Reads one time after the other; -1 is a reading out of range.
#[derive(Clone)]
struct Readings(Rc<Cell<usize>>, &'static [i64]);

impl Readings {
    fn new(readings: &'static [i64]) -> Self {
        Self(Rc::default(), readings)
    }

    fn count(&self) -> usize {
        self.0.get()
    }
}

impl Clock for Readings {
    fn now(&self) -> Result<Millis, Invalid> {
        let reading = self.1[self.0.get()];
        self.0.set(self.0.get() + 1);
        Millis::named("clock", reading)
    }

    async fn sleep(&self, _duration: Duration) {}
}

/// Looks at the queue while it sends, then answers.
struct Answer<'a>(&'a Path, fn() -> Result<(), SendError>, Vec<Event>);

impl Sender for Answer<'_> {
    async fn send(&mut self, event: Event) -> Result<(), SendError> {
        Connection::open(self.0).unwrap().execute_batch("BEGIN EXCLUSIVE; ROLLBACK").expect("Q49: no lock");
        self.2.push(event);
        (self.1)()
    }
}

fn orders() -> Orders {
    Orders::new(name("w"), Lease::DEFAULT, Jitter::FULL)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// One job, enqueued at 0 for 10 s; one run.
fn run(
    orders: Orders,
    clock: &Readings,
    answer: fn() -> Result<(), SendError>,
) -> (Result<Option<Delivery>, RunOnceError>, Bed, usize) {
    let mut bed = Bed::new();
    bed.enqueue("a", 5, 0, 10_000).unwrap();
    let path = bed.path();
    let mut sender = Answer(&path, answer, Vec::new());
    let result = block_on(async {
        let opened = path.clone();
        let lane: ThreadLane<Queue> =
            Threads.open("open", move || Queue::open(&opened, &full())).await.unwrap();
        let result = run_once(&lane, orders, clock, &mut sender, NoFault).await;
        lane.close().await;
        result
    });
    let sent = sender.2.len();
    bed.assert_free();
    (result, bed, sent)
}

#[test]
fn q49_q54_an_acknowledged_job_is_done() {
    let clock = Readings::new(&[100, 100]);
    let (result, bed, sent) = run(orders(), &clock, || Ok(()));
    let delivery = result.unwrap().unwrap();
    assert_eq!(
        (delivery.id.as_str(), delivery.token.get(), delivery.finished),
        ("a", 1, Finished::Now(Status::Done))
    );
    assert_eq!((sent, clock.count()), (1, 2));
    bed.assert_job("a", "done 1/3 1 100 10000 - - -");
}

#[test]
fn q51_retryable_waits_and_permanent_dies() {
    let (result, bed, _) = run(orders(), &Readings::new(&[100, 200]), || Err(SendError::retryable("503")));
    assert_eq!(result.unwrap().unwrap().finished, Finished::Now(Status::Pending));
    bed.assert_job("a", "pending 1/3 1 300 10000 - - retry");
    let (result, bed, _) = run(orders(), &Readings::new(&[100, 200]), || Err(SendError::permanent("400")));
    assert_eq!(result.unwrap().unwrap().finished, Finished::Now(Status::Dead));
    bed.assert_job("a", "dead 1/3 1 200 10000 - - permanent");
}

#[test]
fn w2_retry_after_raises_the_delay_and_never_lowers_it() {
    fn after(ms: u64) -> Result<(), SendError> {
        Err(SendError::Retryable { cause: "503".into(), retry_after: Some(Duration::from_millis(ms)) })
    }
    let cases: [(fn() -> _, &str); 3] = [
        (|| after(99), "pending 1/3 1 300 10000 - - retry"),
        (|| after(5_000), "pending 1/3 1 5200 10000 - - retry"),
        // Capped at the delay limit of 60,000 ms, which is beyond this job's deadline.
        (|| after(u64::MAX), "dead 1/3 1 200 10000 - - deadline"),
    ];
    for (answer, expected) in cases {
        let (result, bed, _) = run(orders(), &Readings::new(&[100, 200]), answer);
        result.unwrap();
        bed.assert_job("a", expected);
    }
}

#[test]
fn q52_any_other_error_leaves_the_job_leased_and_the_clock_unread() {
    let answers: [fn() -> _; 2] =
        [|| Err(SendError::bad_ack("202")), || Err(SendError::Other("the sender fell over".into()))];
    for answer in answers {
        let clock = Readings::new(&[100]);
        let (result, bed, sent) = run(orders(), &clock, answer);
        assert!(matches!(result, Err(RunOnceError::Send(_))));
        assert_eq!((sent, clock.count()), (1, 1));
        bed.assert_job("a", "leased 1/3 1 0 10000 w 1100 -");
    }
}

#[test]
fn q53_a_clock_that_goes_backwards_or_out_of_range_leaves_the_job_leased() {
    for readings in [&[100, 99], &[100, -1]] {
        let (result, bed, sent) = run(orders(), &Readings::new(readings), || Ok(()));
        assert!(matches!(result, Err(RunOnceError::Invalid(_))));
        assert_eq!(sent, 1);
        bed.assert_job("a", "leased 1/3 1 0 10000 w 1100 -");
    }
}

#[test]
fn q54_a_finish_at_the_end_of_the_lease_is_stale() {
    let (result, bed, _) = run(orders(), &Readings::new(&[100, 1_100]), || Ok(()));
    assert_eq!(result.unwrap().unwrap().finished, Finished::Stale);
    bed.assert_job("a", "leased 1/3 1 0 10000 w 1100 -");
}

#[test]
fn q47_a_bad_jitter_is_refused_before_the_clock_and_a_bad_owner_after_it() {
    let bad = || Invalid::new("x", "y", "z");
    let cases = [
        (Orders { jitter: Err(bad()), ..orders() }, 0),
        (Orders { owner: Err(bad()), ..orders() }, 1),
        (Orders { lease: Err(bad()), ..orders() }, 1),
    ];
    for (orders, readings) in cases {
        let clock = Readings::new(&[100]);
        let (result, bed, sent) = run(orders, &clock, || Ok(()));
        assert!(matches!(result, Err(RunOnceError::Invalid(_))));
        assert_eq!((sent, clock.count()), (0, readings));
        bed.assert_job("a", "pending 0/3 0 0 10000 - - -");
    }
}

#[test]
fn q55_the_sender_may_use_the_queue_itself() {
    struct Nested<'a>(&'a ThreadLane<Queue>);
    impl Sender for Nested<'_> {
        async fn send(&mut self, _event: Event) -> Result<(), SendError> {
            let mut inner = Ack;
            let run = run_once(self.0, orders(), &Readings::new(&[100, 101]), &mut inner, NoFault).await;
            assert_eq!(run.unwrap().unwrap().id.as_str(), "b");
            Ok(())
        }
    }
    struct Ack;
    impl Sender for Ack {
        async fn send(&mut self, _event: Event) -> Result<(), SendError> {
            Ok(())
        }
    }
    let mut bed = Bed::new();
    bed.enqueue("a", 1, 0, 10_000).unwrap();
    bed.enqueue("b", 1, 0, 10_000).unwrap();
    let path = bed.path();
    block_on(async {
        let lane = Threads.open("open", move || Queue::open(&path, &full())).await.unwrap();
        let run = run_once(&lane, orders(), &Readings::new(&[100, 100]), &mut Nested(&lane), NoFault).await;
        assert_eq!(run.unwrap().unwrap().id.as_str(), "a");
    });
    assert!(bed.job("a").starts_with("done") && bed.job("b").starts_with("done"));
}

fn run_at(path: &Path, orders: Orders) -> Result<Option<Delivery>, RunFileError> {
    let mut sender = Answer(path, || Ok(()), Vec::new());
    block_on(run_file(&Threads, path, full(), orders, &Readings::new(&[100, 100]), &mut sender, NoFault))
}

#[test]
fn q57_run_file_does_what_run_once_does_and_closes_the_file() {
    let mut bed = Bed::new();
    bed.enqueue("a", 5, 0, 10_000).unwrap();
    assert_eq!(run_at(&bed.path(), orders()).unwrap().unwrap().id.as_str(), "a");
    assert!(run_at(&bed.path(), orders()).unwrap().is_none());
    let bad = Orders { jitter: Err(Invalid::new("x", "y", "z")), ..orders() };
    assert!(matches!(run_at(&bed.path(), bad), Err(RunFileError::Run(RunOnceError::Invalid(_)))));
    bed.assert_free();
}

#[test]
fn q56_what_is_no_regular_file_is_not_found_and_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("empty"), "").unwrap();
    std::os::unix::fs::symlink(path("nowhere"), path("dangling")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(path("fifo")).status().unwrap().success());
    let bad = Orders { jitter: Err(Invalid::new("x", "y", "z")), ..orders() };
    for name in ["missing", "none/below", "empty", "dangling", "fifo", "."] {
        // A14: the check of the file precedes that of the jitter.
        let result = run_at(&path(name), bad.clone());
        assert!(matches!(result, Err(RunFileError::NotFound { .. })), "{name}: {result:?}");
    }
    assert!(!path("missing").exists() && !path("nowhere").exists());
    assert_eq!(fs::metadata(path("empty")).unwrap().len(), 0);
}

#[test]
fn q56_on_another_vfs_that_vfs_says_whether_the_file_exists() {
    let (there, missing) = (Path::new("/ackward-q56-there"), Path::new("/ackward-q56-missing"));
    let flags = rusqlite::OpenFlags::default();
    let keeper = Connection::open_with_flags_and_vfs(there, flags, "memdb").unwrap();
    keeper.execute_batch("CREATE TABLE other (x)").unwrap();
    let run_at = |path| {
        let mut sender = Answer(path, || Ok(()), Vec::new());
        let (options, clock) = (full().vfs("memdb"), Readings::new(&[100, 100]));
        block_on(run_file(&Threads, path, options, orders(), &clock, &mut sender, NoFault))
    };
    let found = run_at(there);
    assert!(matches!(found, Ok(None)), "{found:?}");
    let found = run_at(missing);
    assert!(matches!(found, Err(RunFileError::NotFound { .. })), "{found:?}");
}

#[test]
fn a14_a_file_that_is_no_database_is_an_error_and_one_without_tables_gets_them() {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("text");
    fs::write(&text, "no database".repeat(500)).unwrap();
    assert!(matches!(run_at(&text, orders()), Err(RunFileError::Open(_))));
    let bare = dir.path().join("bare.db");
    Connection::open(&bare).unwrap().execute_batch("CREATE TABLE other (x)").unwrap();
    assert!(run_at(&bare, orders()).unwrap().is_none());
    let tables = query(&Connection::open(&bare).unwrap(), "SELECT count(*) FROM jobs");
    assert_eq!(tables, ["0"]);
}

#[test]
fn a14_a_link_to_a_queue_is_followed() {
    let mut bed = Bed::new();
    bed.enqueue("a", 5, 0, 10_000).unwrap();
    let link = bed.dir.path().join("link.db");
    std::os::unix::fs::symlink(bed.path(), &link).unwrap();
    assert!(run_at(&link, orders()).unwrap().is_some());
}

#[test]
fn a_lane_goes_on_when_its_future_is_dropped_and_passes_panics_on() {
    let (started, on_started) = std::sync::mpsc::channel();
    block_on(async {
        let lane = Threads.open("open", || Ok::<_, ()>(0)).await.unwrap();
        {
            let mut call = std::pin::pin!(lane.call("add", move |n| {
                started.send(()).unwrap();
                std::thread::sleep(Duration::from_millis(50));
                *n += 1;
            }));
            let polled =
                std::future::poll_fn(|context| std::task::Poll::Ready(call.as_mut().poll(context))).await;
            assert!(polled.is_pending());
            on_started.recv().unwrap();
        }
        assert_eq!(lane.call("get", |n| *n).await, 1, "the dropped job ran to its end");
        let panic = std::panic::AssertUnwindSafe(lane.call("panic", |_| panic!("inside the job")));
        let panic = futures_util::FutureExt::catch_unwind(panic).await.unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"inside the job"));
        assert_eq!(lane.call("get", |n| *n).await, 1, "the lane outlives a panic");
        lane.close().await;
    });
}

#[test]
fn a_lane_whose_opening_fails_gives_the_error() {
    let opened = block_on(Threads.open("open", || Err::<(), _>("no")));
    assert_eq!(opened.err(), Some("no"));
}
