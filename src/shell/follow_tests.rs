//! What a follower gets over by itself and what ends it (W4, R18): a locked store, and the errors by their kind.

#![expect(clippy::disallowed_methods, reason = "a test on a real clock")]

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::io::ErrorKind;
use std::path::Path;

use rusqlite::ffi;

use super::super::session::{Commit, SessionOptions};
use super::super::wire::{Inline, InlineLane, Then, Wire, Wires};
use super::*;
use crate::adapter::SystemClock;
use crate::port::{Injected, NoFault};
use crate::rules::{Cursor, Invalid, Seq, StreamEvent, Timeout};
use crate::storage::{Applied, Batch, OpenOptions, Store};

fn sqlite(code: i32) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
}

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limit = std::time::Duration::from_secs(20);
    runtime.block_on(async { tokio::time::timeout(limit, future).await.expect("it ends") })
}

/// A store that fails with `code` so many times before it says where it stands.
struct Failing {
    code: i32,
    left: Cell<u32>,
    asked: Cell<u32>,
}

impl EventStore for Failing {
    fn state(&self) -> Result<State, StorageError> {
        self.asked.set(self.asked.get() + 1);
        if self.left.get() == 0 {
            return Ok(State { last: Cursor::START, total: 7 });
        }
        self.left.set(self.left.get() - 1);
        Err(sqlite(self.code).into())
    }

    fn apply_event(&mut self, _: StreamEvent, _: &mut dyn Fault) -> Result<Applied, ApplyError> {
        unreachable!("nothing is applied")
    }

    fn consume_lines<L: AsRef<[u8]>>(&mut self, _: &[L], _: &mut dyn Fault) -> Batch {
        unreachable!("nothing is consumed")
    }
}

/// How often the store was asked, and whether it answered in the end.
fn asked(code: i32, failures: u32) -> (u32, bool) {
    let store = Failing { code, left: Cell::new(failures), asked: Cell::default() };
    let lane = InlineLane(RefCell::new(store));
    let answered = block_on(read_state(&lane)).is_ok();
    let asked = lane.0.borrow().asked.get();
    (asked, answered)
}

/// W4: a locked store is asked five times; what is wrong with it otherwise is told at once.
#[test]
fn a_locked_store_is_asked_five_times_where_it_stands() {
    assert_eq!(asked(ffi::SQLITE_BUSY, 0), (1, true));
    assert_eq!(asked(ffi::SQLITE_BUSY, 4), (5, true));
    assert_eq!(asked(ffi::SQLITE_BUSY, 5), (5, false));
    assert_eq!(asked(ffi::SQLITE_CORRUPT, 1), (1, false));
}

thread_local! {
    static OPENINGS: Cell<u32> = const { Cell::new(0) };
}

/// Locked twice, then as ever.
fn open_at_third(path: &Path, options: &OpenOptions) -> Result<Store, StorageError> {
    let openings = OPENINGS.get() + 1;
    OPENINGS.set(openings);
    if openings < 3 { Err(sqlite(ffi::SQLITE_BUSY).into()) } else { Store::open(path, options) }
}

/// W4, R37: a store that is locked is waited for; one that cannot be opened ends it.
#[test]
fn a_locked_store_is_opened_patiently_and_a_broken_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let follow_with = |open, path: &Path| {
        let network = Wires::new([Ok(Wire::text("")), Err(Then::Error(ErrorKind::ConnectionRefused))]);
        let client = Client { clock: SystemClock, network, blocking: Inline, fault: NoFault, open };
        let timeout = Timeout::from_seconds(0.05).unwrap();
        let session = SessionOptions { timeout, commit: Commit::Group };
        let options = FollowOptions {
            client: ClientOptions::new("publisher:1", path, session),
            retry: crate::rules::Limits::CONTRACT.retry(1, 1).unwrap(),
            failures_max: Some(1),
        };
        let mut jitter = || Jitter::NONE;
        block_on(follow(&client, &options, &mut jitter, &mut |_| Ok(()), pending())).unwrap_err()
    };
    let error = follow_with(open_at_third, &dir.path().join("store.db"));
    assert!(matches!(error, FollowError::GivenUp { failures: 1, last: None }), "{error}");
    assert_eq!(OPENINGS.get(), 3);
    let error = follow_with(Store::open, dir.path());
    assert!(matches!(error, FollowError::Session(SessionError::Storage(_))), "{error}");
}

/// W4, M8: another connection helps against the network, a malformed line, a lock and an unknown COMMIT.
#[test]
fn only_what_another_connection_would_meet_again_is_final() {
    let storage = |error: StorageError| SessionError::Storage(error);
    let apply = |error: StorageError| SessionError::Apply(ApplyError::Storage(error));
    let unknown = |code| StorageError::CommitUnknown(sqlite(code));
    let passing = [
        SessionError::Timeout { doing: Doing::Writing },
        SessionError::Connection { doing: Doing::Reading, source: ErrorKind::ConnectionReset.into() },
        SessionError::Line(Invalid::new("line", "cut off", "whole")),
        storage(sqlite(ffi::SQLITE_BUSY).into()),
        apply(sqlite(ffi::SQLITE_BUSY).into()),
        apply(unknown(ffi::SQLITE_IOERR)),
    ];
    for error in passing {
        assert!(!is_final(&error), "{error}");
    }
    let seq = Seq::ZERO;
    let last_of_all = [
        apply(sqlite(ffi::SQLITE_FULL).into()),
        apply(unknown(ffi::SQLITE_FULL)),
        storage(sqlite(ffi::SQLITE_CORRUPT).into()),
        SessionError::Apply(ApplyError::Gap { seq, last: Cursor::START }),
        SessionError::BeforeAck { seq, source: Injected("told to fail".into()) },
    ];
    for error in last_of_all {
        assert!(is_final(&error), "{error}");
    }
}
