//! Failures around COMMIT: Q6 to Q9, A15, M3, for every operation alike.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use ackward::port::NoFault;
use ackward::rules::{Attempts, Delay, Lease};
use ackward::storage::StorageError;

use super::*;

/// Three jobs, one for each operation to work on.
const ROWS: &[&str] = &[
    "'held', 5, 'leased', 2, 3, 7, 3, 500, 'w', 110, NULL",
    "'dead', 5, 'dead', 3, 3, 7, 90, 100, NULL, NULL, 'exhausted'",
    "'late', 5, 'pending', 0, 3, 0, 0, 100, NULL, NULL, NULL",
    "'free', 5, 'pending', 0, 3, 0, 0, 500, NULL, NULL, NULL",
];

/// Every operation with hooks: its name, its points before COMMIT, and how it ends.
type Operation = (&'static str, &'static [FaultPoint], fn(&mut Queue, &mut dyn Fault) -> Result<(), String>);

const OPERATIONS: &[Operation] = &[
    ("claim", &[FaultPoint::AfterClaim], |queue, fault| {
        storage(queue.claim(&name("v"), at(100), Lease::DEFAULT, fault).map(drop))
    }),
    ("finish", &[FaultPoint::AfterFinish], |queue, fault| {
        storage(queue.finish(&held(), Outcome::Ok, at(100), Delay::NONE, fault).map(drop))
    }),
    ("redrive", &[FaultPoint::AfterAudit, FaultPoint::AfterRedrive], |queue, fault| {
        let ttl = Limits::CONTRACT.ttl(50).unwrap();
        storage(queue.redrive(&name("dead"), at(100), ttl, &name("n"), fault))
    }),
    ("renew", &[FaultPoint::AfterRenew], |queue, fault| {
        storage(queue.renew(&held(), &mut || Ok(at(100)), Lease::DEFAULT, fault).map(drop))
    }),
    ("release", &[FaultPoint::AfterRelease], |queue, fault| {
        storage(queue.release(&held(), at(100), fault).map(drop))
    }),
];

fn held() -> Ticket {
    ticket("held", 5, "w", 7, 2, 110)
}

fn storage<E: std::fmt::Display>(result: Result<(), E>) -> Result<(), String> {
    result.map_err(|error| error.to_string())
}

#[test]
fn q7_an_error_before_commit_rolls_everything_back_and_comes_out() {
    for (operation, points, run) in OPERATIONS {
        for point in *points {
            let mut bed = Bed::with(ROWS);
            let before = bed.everything();
            let error = run(&mut bed.queue, &mut Hook::fails_at(*point)).unwrap_err();
            assert_eq!(error, "injected: injected by the test", "{operation} {point}");
            bed.assert_free();
            assert_eq!(bed.everything(), before, "{operation} {point}");
        }
    }
}

#[test]
fn q7_a_panic_before_commit_rolls_everything_back_and_goes_on() {
    for (operation, points, run) in OPERATIONS {
        for point in *points {
            let mut bed = Bed::with(ROWS);
            let before = bed.everything();
            let mut hook = Hook::panics_at(*point);
            let panic = catch_unwind(AssertUnwindSafe(|| run(&mut bed.queue, &mut hook))).unwrap_err();
            assert_eq!(panic.downcast_ref::<&str>(), Some(&"the hook panics"), "{operation} {point}");
            bed.assert_free();
            assert_eq!(bed.everything(), before, "{operation} {point}");
            run(&mut bed.queue, &mut NoFault).expect("the queue goes on working");
        }
    }
}

#[test]
fn q8_an_error_after_commit_leaves_the_change_in_place() {
    for (operation, _, run) in OPERATIONS {
        let (mut done, mut failed) = (Bed::with(ROWS), Bed::with(ROWS));
        run(&mut done.queue, &mut NoFault).unwrap();
        run(&mut failed.queue, &mut Hook::fails_at(FaultPoint::AfterCommit)).unwrap_err();
        failed.assert_free();
        assert_eq!(failed.everything(), done.everything(), "{operation}");
        assert_ne!(failed.everything(), Bed::with(ROWS).everything(), "{operation} changes something");
    }
}

#[test]
fn q6_a_lock_that_is_not_to_be_had_within_a_second_is_busy_and_calls_no_hook() {
    for (operation, _, run) in OPERATIONS {
        let mut bed = Bed::with(ROWS);
        let before = bed.everything();
        bed.peer.execute_batch("BEGIN IMMEDIATE").unwrap();
        let started = Instant::now();
        let mut hook = Hook::none();
        let error = run(&mut bed.queue, &mut hook).unwrap_err();
        assert_eq!(error, "database is locked", "{operation}");
        assert!(started.elapsed() >= Duration::from_millis(900), "{operation} waits");
        assert_eq!(hook.called, [""; 0], "{operation}");
        bed.peer.execute_batch("ROLLBACK").unwrap();
        bed.assert_free();
        assert_eq!(bed.everything(), before, "{operation}");
    }
}

#[test]
fn q6_paths_that_change_nothing_need_the_lock_too() {
    let mut bed = Bed::with(ROWS);
    bed.peer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let ttl = Limits::CONTRACT.ttl(50).unwrap();
    let repeated = bed.queue.enqueue(&event("free", 5), at(0), ttl, Attempts::DEFAULT);
    assert!(matches!(repeated, Err(EnqueueError::Storage(error)) if error.is_busy()));
    let stale = ticket("none", 5, "w", 7, 2, 110);
    let stale = bed.queue.finish(&stale, Outcome::Ok, at(100), Delay::NONE, &mut NoFault);
    assert!(matches!(stale, Err(FinishError::Storage(error)) if error.is_busy()));
}

#[test]
fn a15_a_commit_that_a_reader_blocks_is_rolled_back() {
    for (operation, _, run) in OPERATIONS {
        let mut bed = Bed::with(ROWS);
        let before = bed.everything();
        bed.peer.execute_batch("BEGIN; SELECT count(*) FROM jobs").unwrap();
        let mut hook = Hook::none();
        let error = run(&mut bed.queue, &mut hook).unwrap_err();
        assert_eq!(error, "database is locked", "{operation}");
        assert!(!hook.called.contains(&"after-commit"), "{operation}");
        bed.peer.execute_batch("ROLLBACK").unwrap();
        bed.assert_free();
        assert_eq!(bed.everything(), before, "{operation}");
        run(&mut bed.queue, &mut NoFault).expect("the queue goes on working");
    }
}

#[test]
fn a15_a_blocked_commit_is_busy_and_not_unknown() {
    let mut bed = Bed::with(ROWS);
    bed.peer.execute_batch("BEGIN; SELECT count(*) FROM jobs").unwrap();
    let error = bed.queue.claim(&name("v"), at(100), Lease::DEFAULT, &mut NoFault).unwrap_err();
    let ClaimError::Storage(error) = error else { panic!("{error}") };
    assert!(matches!(error, StorageError::Sqlite(_)) && error.is_busy(), "{error}");
}

#[test]
fn q9_the_hooks_of_a_path_that_changed_nothing_are_not_called() {
    let mut bed = Bed::new();
    let mut hook = Hook::none();
    assert_eq!(bed.claim_with("w", 0, 10, &mut hook).unwrap(), None);
    assert_eq!(bed.finish_with(&held(), Outcome::Ok, 0, 0, &mut hook).unwrap(), Finished::Stale);
    bed.redrive_with("a", 0, 10, &mut hook).unwrap_err();
    assert_eq!(hook.called, [""; 0]);
}

#[test]
fn a_transaction_that_changes_nothing_leaves_the_file_as_it_is() {
    let mut bed = Bed::with(&["'a', 5, 'leased', 2, 3, 7, 3, 500, 'w', 110, NULL"]);
    let before = fs::read(bed.path()).unwrap();
    bed.enqueue("a", 5, 0, 10).unwrap();
    assert_eq!(bed.claim(100, 10), None);
    bed.finish(&held(), Outcome::Ok, 100, 0);
    assert_eq!(fs::read(bed.path()).unwrap(), before);
}
