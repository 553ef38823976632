//! R36 to R41, and following (W4), on scripted streams and a real store.

#![expect(clippy::disallowed_methods, reason = "a test on real threads, clocks and sockets")]

use std::cell::RefCell;
use std::future::pending;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use super::super::follow::{FollowError, FollowOptions, follow};
use super::super::session::{Commit, SessionOptions};
use super::super::wire::{FailAt, Inline, Read, Then, Wire, Wires};
use super::*;
use crate::adapter::SystemClock;
use crate::port::{FaultPoint, NoFault};
use crate::rules::{Jitter, RetryPolicy, Timeout};
use crate::storage::Store;

struct Bench {
    dir: TempDir,
    network: Wires,
    jitters: RefCell<u32>,
}

type Wanted = Result<Wire, Then>;

impl Bench {
    fn new(wires: impl IntoIterator<Item = Wanted>) -> Self {
        Self { dir: TempDir::new().unwrap(), network: Wires::new(wires), jitters: RefCell::default() }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("store.db")
    }

    fn options(&self) -> ClientOptions {
        let timeout = Timeout::from_seconds(0.05).unwrap();
        ClientOptions::new("publisher:1", self.path(), SessionOptions { timeout, commit: Commit::Group })
    }

    fn client<F>(&self, fault: F) -> Client<SystemClock, Wires, Inline, F, Store> {
        Client {
            clock: SystemClock,
            network: self.network.clone(),
            blocking: Inline,
            fault,
            open: Store::open,
        }
    }

    fn run(&self) -> String {
        let (client, options) = (self.client(NoFault), self.options());
        in_words(block_on(run_client(&client, &options, &mut |_| Ok(()))))
    }

    fn follow(&self, failures_max: Option<u32>, shutdown: impl Future<Output = ()>) -> String {
        self.follow_with(NoFault, failures_max, shutdown)
    }

    fn follow_with<F: Fault + Clone + Send + 'static>(
        &self,
        fault: F,
        failures_max: Option<u32>,
        shutdown: impl Future<Output = ()>,
    ) -> String {
        let client = self.client(fault);
        let options = FollowOptions { client: self.options(), retry: RetryPolicy::CONTRACT, failures_max };
        let mut jitter = || {
            *self.jitters.borrow_mut() += 1;
            Jitter::NONE
        };
        in_words(block_on(follow(&client, &options, &mut jitter, &mut |_| Ok(()), shutdown)))
    }
}

fn in_words(result: Result<State, impl std::fmt::Display>) -> String {
    result.map_or_else(|error| error.to_string(), |state| format!("{} {}", state.last, state.total))
}

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(20), future).await.expect("it ends") })
}

fn event(seq: i64) -> Wanted {
    Ok(Wire::text(&format!("EVENT {seq} 1\n")))
}

/// R37, R38, R39: the store's own position is what is resumed from.
#[test]
fn a_run_resumes_from_the_store() {
    let wires = [Wire::text("EVENT 0 5\n"), Wire::text("EVENT 1 6\n")];
    let bench = Bench::new(wires.clone().map(Ok));
    assert_eq!(bench.run(), "0 5");
    assert_eq!(bench.run(), "1 11");
    assert_eq!(wires[0].seen(), [r"write RESUME -1\n", "flush", r"write ACK 0\n", "flush", "close"]);
    assert_eq!(wires[1].seen(), [r"write RESUME 0\n", "flush", r"write ACK 1\n", "flush", "close"]);
}

/// R37: a store that fails means no connection.
#[test]
fn a_failing_store_means_no_connection() {
    let bench = Bench::new([event(0)]);
    std::fs::create_dir(bench.path()).unwrap();
    assert!(bench.run().contains("unable to open database file"));
    assert!(bench.network.connects.borrow().is_empty());
}

/// R37: connecting has its limit, and its errors come out.
#[test]
fn connecting_has_its_limit() {
    let bench = Bench::new([Err(Then::Stuck), Err(Then::Error(ErrorKind::ConnectionRefused))]);
    assert_eq!(bench.run(), "timeout while connecting");
    assert_eq!(bench.run(), "connecting: connection refused");
}

/// R38, R41: where `RESUME` cannot be written the socket is closed, once.
#[test]
fn a_failing_resume_closes_the_socket() {
    for (then, end) in
        [(Then::Stuck, "timeout while writing"), (Then::Error(ErrorKind::BrokenPipe), "writing: broken pipe")]
    {
        let wire = Wire::text("EVENT 0 5\n").write(then).close(Then::Error(ErrorKind::BrokenPipe));
        assert_eq!(Bench::new([Ok(wire.clone())]).run(), end);
        assert_eq!(wire.seen(), [r"write RESUME -1\n", "close", "abort"]);
    }
}

/// W4: lost connections, ends, garbage and silence are got over; each reconnect resumes.
#[test]
fn following_goes_on_over_failures() {
    let last = Wire::text("EVENT 3 1\n");
    let bench = Bench::new([
        Err(Then::Error(ErrorKind::ConnectionRefused)),
        event(0),
        Ok(Wire::new([Read::Stuck])),
        Ok(Wire::text("EVENT 1 1\nEVENT 2")),
        Ok(Wire::new([Read::Bytes(b"EVENT 2 1\n".to_vec()), Read::Error(ErrorKind::ConnectionReset)])),
        Ok(last.clone()),
        Err(Then::Stuck),
    ]);
    let told = async {
        while bench.network.connects.borrow().len() < 7 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    assert_eq!(bench.follow(None, told), "3 4");
    assert_eq!(last.seen()[0], r"write RESUME 2\n");
    assert_eq!(*bench.jitters.borrow(), 5, "a silent publisher costs no wait");
}

/// W4: it gives up after failures in a row, and an event applied between them starts the count anew.
#[test]
fn following_gives_up_after_failures_in_a_row() {
    let refused = || Err(Then::Error(ErrorKind::ConnectionRefused));
    let bench = Bench::new([refused(), refused(), event(0), refused(), refused()]);
    assert_eq!(
        bench.follow(Some(3), pending()),
        "given up after 3 failures in a row: connecting: connection refused"
    );
    assert_eq!(bench.network.connects.borrow().len(), 5);
    let bench = Bench::new([Ok(Wire::text("")), Ok(Wire::text(""))]);
    assert_eq!(
        bench.follow(Some(2), pending()),
        "given up after 2 failures in a row: the publisher ended the stream"
    );
}

/// W4, R16, R17: what another connection would only meet again ends it: never on over a gap.
#[test]
fn following_ends_where_another_connection_would_not_help() {
    for (text, end) in [
        ("EVENT 1 1\n", "event 1 leaves a gap after -1"),
        ("EVENT 0 1\nEVENT 0 2\n", "event 0 has delta 2, the ledger has 1"),
        ("RESYNC 5 9\n", "the publisher holds only events 5 to 9: a resync is needed"),
    ] {
        let bench = Bench::new([Ok(Wire::text(text)), event(0)]);
        assert_eq!(bench.follow(None, pending()), end);
        assert_eq!(bench.network.connects.borrow().len(), 1);
    }
    let bench = Bench::new([event(0)]);
    assert_eq!(
        bench.follow_with(FailAt(FaultPoint::BeforeCursor), None, pending()),
        "injected: told to fail"
    );
    let bench = Bench::new([Ok(Wire::text("RESYNC 5 9\n"))]);
    let (client, retry) = (bench.client(NoFault), RetryPolicy::CONTRACT);
    let options = FollowOptions { client: bench.options(), retry, failures_max: None };
    let mut jitter = || Jitter::NONE;
    let error = block_on(follow(&client, &options, &mut jitter, &mut |_| Ok(()), pending())).unwrap_err();
    assert!(matches!(error, FollowError::Resync(held) if held.first().get() == 5));
}
