//! claim: Q26 to Q34.

use std::collections::BTreeSet;
use std::thread;

use super::*;

/// One row, one claim at 100 with a lease of 10; what becomes of the row.
#[track_caller]
fn check(row: &str, expected: &str) {
    let mut bed = Bed::with(&[row]);
    bed.claim(100, 10);
    assert_eq!(bed.job("a"), expected, "{row}");
}

#[test]
fn q26_pending_rows_die_by_deadline_or_budget() {
    check("'a', 1, 'pending', 0, 3, 0, 0, 100, NULL, NULL, NULL", "dead 0/3 0 0 100 - - deadline");
    check("'a', 1, 'pending', 0, 3, 0, 0, 101, NULL, NULL, NULL", "leased 1/3 1 0 101 w 101 -");
    check("'a', 1, 'pending', 3, 3, 3, 0, 500, NULL, NULL, 'retry'", "dead 3/3 3 0 500 - - exhausted");
    check("'a', 1, 'pending', 2, 3, 2, 0, 500, NULL, NULL, 'retry'", "leased 3/3 3 0 500 w 110 -");
    // Both true: deadline (A7). Not yet available: dies all the same.
    check("'a', 1, 'pending', 3, 3, 3, 0, 100, NULL, NULL, NULL", "dead 3/3 3 0 100 - - deadline");
    check("'a', 1, 'pending', 0, 3, 0, 900, 100, NULL, NULL, NULL", "dead 0/3 0 900 100 - - deadline");
    check("'a', 1, 'pending', 3, 3, 3, 900, 999, NULL, NULL, NULL", "dead 3/3 3 900 999 - - exhausted");
}

#[test]
fn q26_leased_rows_die_only_once_their_lease_is_over() {
    check("'a', 1, 'leased', 3, 3, 3, 0, 500, 'v', 100, NULL", "dead 3/3 3 0 500 - - exhausted");
    check("'a', 1, 'leased', 3, 3, 3, 0, 500, 'v', 101, NULL", "leased 3/3 3 0 500 v 101 -");
    check("'a', 1, 'leased', 1, 3, 1, 0, 100, 'v', 100, NULL", "dead 1/3 1 0 100 - - deadline");
    check("'a', 1, 'leased', 3, 3, 1, 0, 100, 'v', 100, NULL", "dead 3/3 1 0 100 - - deadline");
    // A6: a lease beyond the deadline, which only a hand can make.
    check("'a', 1, 'leased', 1, 3, 1, 0, 50, 'v', 101, NULL", "leased 1/3 1 0 50 v 101 -");
}

#[test]
fn q26_a_lease_that_still_runs_is_not_swept_along_with_one_that_is_over() {
    let running = [
        "'a', 1, 'leased', 1, 3, 1, 0, 50, 'v', 101, NULL",
        "'b', 1, 'leased', 3, 3, 3, 0, 500, 'v', 101, NULL",
    ];
    let mut bed = Bed::with(&running);
    bed.insert("'over', 1, 'leased', 1, 3, 1, 0, 500, 'v', 100, NULL");
    assert_eq!(bed.claim(100, 10).unwrap().id.as_str(), "over");
    bed.assert_job("a", "leased 1/3 1 0 50 v 101 -");
    bed.assert_job("b", "leased 3/3 3 0 500 v 101 -");
}

#[test]
fn q26_done_and_dead_rows_are_never_touched() {
    check("'a', 1, 'done', 3, 3, 3, 0, 50, NULL, NULL, NULL", "done 3/3 3 0 50 - - -");
    check("'a', 1, 'dead', 3, 3, 3, 0, 50, NULL, NULL, 'permanent'", "dead 3/3 3 0 50 - - permanent");
}

#[test]
fn q26_all_due_rows_die_in_one_claim_not_only_those_before_the_selected_one() {
    let mut bed = Bed::with(&[
        "'a', 1, 'pending', 0, 3, 0, 0, 500, NULL, NULL, NULL",
        "'b', 1, 'pending', 0, 3, 0, 0, 90, NULL, NULL, NULL",
        "'c', 1, 'leased', 3, 3, 3, 0, 500, 'v', 99, NULL",
    ]);
    assert_eq!(bed.claim(100, 10).unwrap().id.as_str(), "a");
    bed.assert_job("b", "dead 0/3 0 0 90 - - deadline");
    bed.assert_job("c", "dead 3/3 3 0 500 - - exhausted");
}

#[test]
fn q28_quarantine_is_committed_without_a_claim_and_without_a_hook() {
    let mut bed = Bed::with(&["'a', 1, 'pending', 0, 3, 0, 0, 90, NULL, NULL, NULL"]);
    let mut hook = Hook::fails_at(FaultPoint::AfterCommit);
    assert_eq!(bed.claim_with("w", 100, 10, &mut hook).unwrap(), None);
    assert_eq!(hook.called, [""; 0]);
    bed.assert_job("a", "dead 0/3 0 0 90 - - deadline");
}

#[test]
fn q28_an_error_in_after_claim_undoes_the_quarantine_too() {
    let mut bed = Bed::with(&[
        "'a', 1, 'pending', 0, 3, 0, 0, 90, NULL, NULL, NULL",
        "'b', 1, 'pending', 0, 3, 0, 0, 500, NULL, NULL, NULL",
    ]);
    let before = bed.everything();
    bed.claim_with("w", 100, 10, &mut Hook::fails_at(FaultPoint::AfterClaim)).unwrap_err();
    assert_eq!(bed.everything(), before);
}

#[test]
fn q29_equality_is_eligible() {
    check("'a', 1, 'pending', 0, 3, 0, 100, 500, NULL, NULL, NULL", "leased 1/3 1 100 500 w 110 -");
    check("'a', 1, 'pending', 0, 3, 0, 101, 500, NULL, NULL, NULL", "pending 0/3 0 101 500 - - -");
    check("'a', 1, 'leased', 1, 3, 1, 0, 500, 'v', 100, NULL", "leased 2/3 2 0 500 w 110 -");
    check("'a', 1, 'leased', 1, 3, 1, 0, 500, 'v', 101, NULL", "leased 1/3 1 0 500 v 101 -");
    // available_at is ignored for leased rows.
    check("'a', 1, 'leased', 1, 3, 1, 900, 500, 'v', 100, NULL", "leased 2/3 2 900 500 w 110 -");
}

#[test]
fn q30_the_least_seq_of_pending_and_expired_alike() {
    const READY: &str = "1, 'pending', 0, 3, 0, 0, 500, NULL, NULL, NULL";
    const WAITS: &str = "1, 'pending', 0, 3, 0, 200, 500, NULL, NULL, NULL";
    const EXPIRED: &str = "1, 'leased', 1, 3, 1, 0, 500, 'v', 99, NULL";
    const HELD: &str = "1, 'leased', 1, 3, 1, 0, 500, 'v', 101, NULL";
    let cases: [(&[&str], Option<&str>); 9] = [
        (&[READY, READY], Some("0")),
        (&[EXPIRED, READY], Some("0")),
        (&[READY, EXPIRED], Some("0")),
        (&[WAITS, HELD, READY, EXPIRED], Some("2")),
        (&[WAITS, HELD, EXPIRED, READY], Some("2")),
        (&[WAITS, EXPIRED, WAITS, WAITS], Some("1")),
        (&[WAITS, WAITS, WAITS, READY, WAITS, READY, READY], Some("3")),
        (&[WAITS, HELD, WAITS], None),
        (&[HELD, EXPIRED, EXPIRED], Some("1")),
    ];
    for (rows, expected) in cases {
        let mut bed = Bed::new();
        for (id, row) in rows.iter().enumerate() {
            bed.insert(&format!("'{id}', {row}"));
        }
        let claimed = bed.claim(100, 10);
        assert_eq!(claimed.as_ref().map(|ticket| ticket.id.as_str()), expected, "{rows:?}");
    }
}

/// The two walks of `first_ready` against the plain definition, in both proportions.
#[test]
fn q30_a_crowd_that_waits_in_front_hides_nothing() {
    for waits in [0, 1, 50] {
        for ready in [0, 1, 3, 50] {
            let mut bed = Bed::new();
            for job in 0..waits + ready {
                // The ready ones become available in the reverse order of their seq.
                let available = if job < waits { 101 + job } else { 100 - job };
                bed.insert(&format!("'j{job}', 1, 'pending', 0, 3, 0, {available}, 500, NULL, NULL, NULL"));
            }
            let expected = (ready > 0).then(|| format!("j{waits}"));
            assert_eq!(bed.claim(100, 10).map(|ticket| ticket.id.to_string()), expected, "{waits} {ready}");
        }
    }
}

/// A pending job with the owner and the end of an old lease, which only a hand can make, is pending all
/// the same.
#[test]
fn q26_q29_leftovers_of_a_lease_do_not_hide_a_pending_job() {
    check("'a', 1, 'pending', 1, 3, 1, 0, 500, 'v', 999, NULL", "leased 2/3 2 0 500 w 110 -");
    check("'a', 1, 'pending', 1, 3, 1, 101, 500, 'v', 50, NULL", "pending 1/3 1 101 500 v 50 -");
    check("'a', 1, 'pending', 1, 3, 1, 0, 100, 'v', 999, NULL", "dead 1/3 1 0 100 - - deadline");
    check("'a', 1, 'pending', 3, 3, 1, 0, 500, 'v', 999, NULL", "dead 3/3 1 0 500 - - exhausted");
    let mut bed = Bed::with(&[
        "'a', 1, 'pending', 0, 3, 0, 0, 500, NULL, NULL, NULL",
        "'b', 1, 'pending', 0, 3, 0, 0, 500, 'v', 999, NULL",
        "'c', 1, 'pending', 0, 3, 0, 0, 500, NULL, NULL, NULL",
    ]);
    let claimed: Vec<_> =
        (0..4).map_while(|_| bed.claim(100, 10)).map(|ticket| ticket.id.to_string()).collect();
    assert_eq!(claimed, ["a", "b", "c"]);
}

#[test]
fn q31_the_lease_ends_at_the_deadline_at_the_latest() {
    let mut bed = Bed::with(&["'a', 5, 'pending', 0, 3, 4, 7, 105, NULL, NULL, 'retry'"]);
    let claimed = bed.claim(100, 10).unwrap();
    assert_eq!(claimed, ticket("a", 5, "w", 5, 1, 105));
    bed.assert_job("a", "leased 1/3 5 7 105 w 105 -");
}

#[test]
fn q31_the_same_owner_reclaims_its_expired_lease_with_a_new_token() {
    let mut bed = Bed::new();
    bed.enqueue("a", 1, 0, 1_000).unwrap();
    assert_eq!(bed.claim(0, 10).unwrap(), ticket("a", 1, "w", 1, 1, 10));
    assert_eq!(bed.claim(9, 10), None);
    assert_eq!(bed.claim(10, 10).unwrap(), ticket("a", 1, "w", 2, 2, 20));
}

#[test]
fn q33_hooks_in_order_once_each() {
    let mut bed = Bed::new();
    bed.enqueue("a", 1, 0, 1_000).unwrap();
    let mut hook = Hook::none();
    bed.claim_with("w", 0, 10, &mut hook).unwrap();
    assert_eq!(hook.called, ["after-claim", "after-commit"]);
}

#[test]
fn q11_a_rolled_back_claim_spends_no_token() {
    let mut bed = Bed::new();
    bed.enqueue("a", 1, 0, 1_000).unwrap();
    bed.claim_with("w", 0, 10, &mut Hook::fails_at(FaultPoint::AfterClaim)).unwrap_err();
    assert_eq!(bed.claim(0, 10).unwrap().token.get(), 1);
}

#[test]
fn q32_the_time_is_read_under_the_write_lock_and_a_bad_one_changes_nothing() {
    let mut bed = Bed::new();
    bed.enqueue("a", 1, 0, 1_000).unwrap();
    let before = bed.everything();
    let (path, lease) = (bed.path(), Limits::CONTRACT.lease(10).unwrap());
    let mut locked = false;
    let mut now = || {
        let peer = Connection::open(&path).unwrap();
        peer.busy_timeout(std::time::Duration::ZERO).unwrap();
        locked = peer.execute_batch("BEGIN IMMEDIATE").is_err();
        Millis::named("clock", -1)
    };
    let result = bed.queue.claim_at(&name("w"), &mut now, lease, &mut Hook::none());
    assert!(matches!(result, Err(ClaimError::Clock(_))), "{result:?}");
    assert!(locked);
    bed.assert_free();
    assert_eq!(bed.everything(), before);
}

#[test]
fn q34_no_ticket_is_handed_out_twice() {
    let bed = Bed::new();
    let jobs = 30;
    for job in 0..jobs {
        bed.insert(&format!("'j{job}', 1, 'pending', 0, 3, 0, 0, 500, NULL, NULL, NULL"));
    }
    let path = bed.path();
    let claims = |owner: String| {
        let mut queue = Queue::open(&path, &full()).unwrap();
        let lease = Limits::CONTRACT.lease(100).unwrap();
        let mut claimed = Vec::new();
        loop {
            match queue.claim(&name(&owner), at(1), lease, &mut Hook::none()) {
                Ok(Some(ticket)) => claimed.push((ticket.id.to_string(), ticket.token.get())),
                Ok(None) => return claimed,
                Err(ClaimError::Storage(error)) if error.is_busy() => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    let all: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..3).map(|n| scope.spawn(move || claims(format!("w{n}")))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert_eq!(all.len(), jobs);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), jobs);
}
