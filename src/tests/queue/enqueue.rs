//! enqueue: Q20 to Q24, M11.

use ackward::rules::{Attempts, NOW_MAX_MS};

use super::*;

#[test]
fn q21_a_new_job_is_pending_and_claimable_at_once() {
    let mut bed = Bed::new();
    assert_eq!(bed.enqueue("a", 7, 100, 50).unwrap(), Enqueued::New);
    bed.assert_job("a", "pending 0/3 0 100 150 - - -");
    assert_eq!(bed.enqueue("b", 1000, 20, 1).unwrap(), Enqueued::New);
    assert_eq!(query(&bed.peer, "SELECT seq, id, qty FROM jobs"), ["1 a 7", "2 b 1000"]);
}

#[test]
fn q3_the_last_time_with_the_longest_ttl_reaches_the_last_instant() {
    let mut bed = Bed::new();
    bed.enqueue("a", 1, NOW_MAX_MS, 60_000).unwrap();
    bed.assert_job("a", "pending 0/3 0 999999999940000 1000000000000000 - - -");
}

#[test]
fn m11_a_wide_ttl_beyond_the_last_instant_is_refused_even_on_a_locked_file() {
    let mut bed = Bed::new();
    let ttl = Limits::WIDE.ttl(60_001).unwrap();
    bed.peer.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let result = bed.queue.enqueue(&event("a", 1), at(NOW_MAX_MS), ttl, Attempts::DEFAULT);
    assert!(matches!(result, Err(EnqueueError::Invalid(_))), "{result:?}");
}

#[test]
fn q22_a_known_id_changes_nothing_whatever_its_status() {
    let rows = [
        "'a', 5, 'pending', 1, 3, 1, 3, 9, NULL, NULL, 'retry'",
        "'a', 5, 'leased', 1, 3, 1, 3, 9, 'w', 8, NULL",
        "'a', 5, 'done', 1, 3, 1, 3, 9, NULL, NULL, NULL",
        "'a', 5, 'dead', 3, 3, 3, 3, 9, NULL, NULL, 'exhausted'",
    ];
    for row in rows {
        let mut bed = Bed::with(&[row]);
        let before = bed.everything();
        assert_eq!(bed.enqueue("a", 5, 1_000, 60_000).unwrap(), Enqueued::Duplicate, "{row}");
        assert_eq!(bed.everything(), before, "{row}: no column changes and no seq is spent");
    }
}

#[test]
fn q23_a_known_id_with_another_qty_is_a_conflict() {
    let mut bed = Bed::with(&["'a', 5, 'done', 1, 3, 1, 3, 9, NULL, NULL, NULL"]);
    let before = bed.everything();
    let error = bed.enqueue("a", 6, 0, 10).unwrap_err();
    assert!(matches!(&error, EnqueueError::Conflict { stored_qty, .. } if stored_qty == "5"), "{error}");
    assert_eq!(error.to_string(), "job a exists with qty 5, not 6");
    assert_eq!(bed.everything(), before);
}

#[test]
fn q23_a_stored_qty_that_is_no_integer_is_a_conflict_too() {
    for stored in ["'x'", "5.5", "x'35'"] {
        let mut bed = Bed::with(&[&format!("'a', {stored}, 'done', 1, 3, 1, 3, 9, NULL, NULL, NULL")]);
        assert!(matches!(bed.enqueue("a", 5, 0, 10), Err(EnqueueError::Conflict { .. })), "{stored}");
    }
}

#[test]
fn q1_case_counts() {
    let mut bed = Bed::new();
    bed.enqueue("a", 1, 0, 10).unwrap();
    assert_eq!(bed.enqueue("A", 2, 0, 10).unwrap(), Enqueued::New);
}

/// M9: under EXTRA a duplicate is answered like a first acceptance, so it is committed anew; under FULL it writes
/// nothing.
#[test]
fn m9_a_duplicate_is_committed_anew_under_extra() {
    let mut bed = Bed::new();
    bed.enqueue("a", 1, 0, 10).unwrap();
    let commits =
        |bed: &Bed| u32::from_be_bytes(std::fs::read(bed.path()).unwrap()[24..28].try_into().unwrap());
    let ttl = Limits::CONTRACT.ttl(10).unwrap();
    for (durability, anew) in [(Durability::Full, 0), (Durability::Extra, 1)] {
        bed.queue = Queue::open(&bed.path(), &OpenOptions::new(durability)).unwrap();
        let before = commits(&bed);
        assert_eq!(bed.enqueue("a", 1, 0, 10).unwrap(), Enqueued::Duplicate);
        assert_eq!(commits(&bed), before + anew, "{durability:?}");
        bed.enqueue("a", 2, 0, 10).unwrap_err();
        assert_eq!(commits(&bed), before + anew, "a conflict is no promise");
        let events = [event("a", 1), event(if anew == 0 { "b" } else { "c" }, 1)];
        assert_eq!(bed.queue.enqueue_many(&events, at(0), ttl, Attempts::DEFAULT).len(), 2);
        assert_eq!(commits(&bed), before + anew + 1);
    }
}
