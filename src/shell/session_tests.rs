//! R28 to R35, clause by clause, on a scripted stream and a real store.

#![expect(clippy::disallowed_methods, reason = "a test on real threads, clocks and sockets")]

use std::cell::RefCell;
use std::io::ErrorKind;
use std::time::Duration;

use futures_util::FutureExt;
use tempfile::TempDir;

use super::super::wire::{FailAt, InlineLane, Read, Then, Wire};
use super::*;
use crate::adapter::SystemClock;
use crate::port::NoFault;
use crate::storage::Store;
use crate::storage::{Durability, OpenOptions};

struct Bench {
    _dir: TempDir,
    store: InlineLane<Store>,
    options: SessionOptions,
}

impl Bench {
    fn new(commit: Commit) -> Self {
        let dir = TempDir::new().unwrap();
        let options = OpenOptions::new(Durability::Extra);
        let store = Store::open(&dir.path().join("store.db"), &options).unwrap();
        let timeout = Timeout::from_seconds(0.05).unwrap();
        Self {
            _dir: dir,
            store: InlineLane(RefCell::new(store)),
            options: SessionOptions { timeout, commit },
        }
    }

    /// Runs a session and returns how it ended, in words.
    fn run(&self, wire: &Wire) -> String {
        self.run_with(wire, NoFault, &mut |seq| {
            wire.saw(format!("before {seq} at {}", self.state().last));
            Ok(())
        })
    }

    fn run_with(
        &self,
        wire: &Wire,
        fault: impl Fault + Clone + Send + 'static,
        hook: BeforeAck<'_>,
    ) -> String {
        let session = consume_session(wire.clone(), &self.store, &SystemClock, fault, self.options, hook);
        match block_on(session) {
            Ok(state) => format!("{} {}", state.last, state.total),
            Err(error) => error.to_string(),
        }
    }

    fn state(&self) -> State {
        self.store.0.borrow().state().unwrap()
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(20), future).await.expect("it ends") })
}

/// R29, R30: commit, hook, ACK, drain, once each and in this order, also for a repeat; the end is no error.
#[test]
fn each_line_is_committed_then_told_then_acknowledged() {
    let bench = Bench::new(Commit::PerLine);
    let wire = Wire::text("EVENT 0 5\nEVENT 1 6\nEVENT 0 5\n");
    assert_eq!(bench.run(&wire), "1 11");
    assert_eq!(
        wire.seen(),
        [
            r"before 0 at 0",
            r"write ACK 0\n",
            "flush",
            r"before 1 at 1",
            r"write ACK 1\n",
            "flush",
            r"before 0 at 1",
            r"write ACK 0\n",
            "flush",
            "close",
        ]
    );
}

/// R30: lines that came together share a commit; each has its hook and its ACK, one after the other.
#[test]
fn a_group_is_acknowledged_line_by_line_after_its_commit() {
    let bench = Bench::new(Commit::Group);
    let wire =
        Wire::new([Read::Bytes(b"EVENT 0 5\nEVENT 1 6\nEVE".to_vec()), Read::Bytes(b"NT 2 7\n".to_vec())]);
    assert_eq!(bench.run(&wire), "2 18");
    assert_eq!(
        wire.seen(),
        [
            "before 0 at 1",
            r"write ACK 0\n",
            "flush",
            "before 1 at 1",
            r"write ACK 1\n",
            "flush",
            "before 2 at 2",
            r"write ACK 2\n",
            "flush",
            "close",
        ]
    );
}

/// R26, R30, R32: a bad line is neither told nor acknowledged; those before it are, in either mode.
#[test]
fn a_bad_line_ends_the_session_after_the_lines_before_it() {
    for commit in [Commit::PerLine, Commit::Group] {
        for (bad, error) in [
            ("EVENT 01 1\n", r#"line is "EVENT 01 1\n", allowed: EVENT <seq> <delta> and LF"#),
            ("EVENT 2 1\n", "event 2 leaves a gap after 0"),
            ("EVENT 0 6\n", "event 0 has delta 6, the ledger has 5"),
            ("EVENT 1 1", "before the stream ends"),
            (&"x".repeat(70), "at most 64 bytes"),
        ] {
            let bench = Bench::new(commit);
            let wire = Wire::text(&format!("EVENT 0 5\n{bad}"));
            let end = bench.run(&wire);
            assert!(end.contains(error), "{end}");
            assert_eq!(wire.seen(), ["before 0 at 0", r"write ACK 0\n", "flush", "close"], "{bad}");
            assert_eq!(bench.state().total, 5);
        }
    }
}

/// W4: `RESYNC` is an end of its own; what came before it is applied.
#[test]
fn a_resync_line_is_its_own_end() {
    for commit in [Commit::PerLine, Commit::Group] {
        let bench = Bench::new(commit);
        let wire = Wire::text("EVENT 0 5\nRESYNC 7 9\nEVENT 1 1\n");
        assert_eq!(bench.run(&wire), "the publisher holds only events 7 to 9: a resync is needed");
        assert_eq!(bench.state().total, 5);
        let end = bench.run(&Wire::text("RESYNC 9 7\n"));
        assert!(end.starts_with("last is 7") || end.starts_with("line is"), "{end}");
    }
}

/// R30: where the hook fails there is no ACK, and the commit stays; the ACKs before it are out.
#[test]
fn a_failing_hook_before_the_ack_leaves_the_commit() {
    let bench = Bench::new(Commit::Group);
    let wire = Wire::text("EVENT 0 5\nEVENT 1 6\n");
    let end = bench.run_with(&wire, NoFault, &mut |seq| {
        if seq.get() == 1 { Err(Injected("told to fail".into())) } else { Ok(()) }
    });
    assert_eq!(end, "before the ACK of event 1: injected: told to fail");
    assert_eq!(wire.seen(), [r"write ACK 0\n", "flush", "close"]);
    assert_eq!(bench.state().total, 11);
}

/// R19, R30, M3: both points of the fault port.
#[test]
fn the_fault_points_of_a_session() {
    let bench = Bench::new(Commit::PerLine);
    let wire = Wire::text("EVENT 0 5\n");
    let end = bench.run_with(&wire, FailAt(FaultPoint::BeforeCursor), &mut |_| unreachable!());
    assert_eq!((end.as_str(), bench.state().total), ("injected: told to fail", 0));
    let wire = Wire::text("EVENT 0 5\n");
    let end = bench.run_with(&wire, FailAt(FaultPoint::BeforeAck), &mut |_| unreachable!());
    assert_eq!(end, "before the ACK of event 0: injected: told to fail");
    assert_eq!((wire.seen(), bench.state().total), (vec!["close".to_owned()], 5));
}

/// R28, R31: a read that hangs and a write that hangs each time out, and the stream is closed.
#[test]
fn waits_have_their_limits() {
    let bench = Bench::new(Commit::Group);
    let wire = Wire::new([Read::Stuck]);
    assert_eq!(bench.run(&wire), "timeout while reading");
    assert_eq!(wire.seen(), ["close"]);
    let wire = Wire::text("EVENT 0 5\n").write(Then::Stuck);
    assert_eq!(bench.run(&wire), "timeout while writing");
    assert_eq!(wire.seen().last().unwrap(), "close");
    assert_eq!(bench.state().total, 5);
}

/// R32: errors of the stream come out as they are.
#[test]
fn errors_of_the_stream_come_out() {
    let bench = Bench::new(Commit::Group);
    let wire = Wire::new([Read::Error(ErrorKind::ConnectionReset)]);
    assert_eq!(bench.run(&wire), "reading: connection reset");
    let wire = Wire::text("EVENT 0 5\n").write(Then::Error(ErrorKind::BrokenPipe));
    assert_eq!(bench.run(&wire), "writing: broken pipe");
    assert_eq!(bench.state().total, 5);
}

/// R33, R34, B9: a close that hangs or meets a lost peer cuts the stream off and hides nothing; another
/// failure of closing comes out only where nothing failed before.
#[test]
fn closing_hides_no_result() {
    for (close, end, after_error) in [
        (Then::Well, "0 5", vec!["close"]),
        (Then::Stuck, "0 5", vec!["close", "abort"]),
        (Then::Error(ErrorKind::ConnectionReset), "0 5", vec!["close", "abort"]),
        (Then::Error(ErrorKind::PermissionDenied), "closing: permission denied", vec!["close", "abort"]),
    ] {
        let bench = Bench::new(Commit::PerLine);
        assert_eq!(bench.run(&Wire::text("EVENT 0 5\n").close(close)), end);
        let wire = Wire::text("EVENT 9 9\n").close(close);
        assert_eq!(bench.run(&wire), "event 9 leaves a gap after 0");
        assert_eq!(wire.seen(), after_error);
    }
}

/// R32, B8: one line a turn, although the peer's data never lets a wait suspend: a cancelled session ends
/// between two lines. M5: what was committed stays.
#[test]
fn a_session_yields_once_per_line() {
    let bench = Bench::new(Commit::PerLine);
    let wire = Wire::new([Read::Eager(0)]);
    let mut told = |_| Ok(());
    let options = bench.options;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _entered = runtime.enter();
    let session = consume_session(wire.clone(), &bench.store, &SystemClock, NoFault, options, &mut told);
    let mut session = Box::pin(session);
    for turn in 0..5 {
        assert!(session.as_mut().now_or_never().is_none());
        assert_eq!(bench.state().last.get(), turn - 1, "one line a turn");
    }
    drop(session);
    assert_eq!(bench.state().last.get(), 3);
    assert!(!wire.seen().contains(&"close".to_owned()), "a cancelled session waits for nothing");
}
