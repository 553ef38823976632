//! finish: Q35 to Q41.

use ackward::rules::{INSTANT_MAX_MS, NOW_MAX_MS, Status};

use super::*;

/// A job that `w` holds: leased at attempt 2 of 3, token 7, until 110, deadline 500.
const HELD: &str = "'a', 5, 'leased', 2, 3, 7, 3, 500, 'w', 110, NULL";

fn held() -> Ticket {
    ticket("a", 5, "w", 7, 2, 110)
}

#[test]
fn q36_any_difference_makes_a_ticket_stale() {
    let cases: &[(&str, Ticket, i64)] = &[
        ("no such job", ticket("b", 5, "w", 7, 2, 110), 100),
        ("qty", ticket("a", 6, "w", 7, 2, 110), 100),
        ("owner", ticket("a", 5, "W", 7, 2, 110), 100),
        ("token", ticket("a", 5, "w", 6, 2, 110), 100),
        ("attempt", ticket("a", 5, "w", 7, 1, 110), 100),
        ("lease_until earlier", ticket("a", 5, "w", 7, 2, 109), 100),
        ("lease_until later", ticket("a", 5, "w", 7, 2, 111), 100),
        ("expired, nobody reclaimed", held(), 110),
        ("long expired", held(), NOW_MAX_MS),
    ];
    for (what, ticket, now) in cases {
        let mut bed = Bed::with(&[HELD]);
        let before = bed.everything();
        for outcome in [Outcome::Ok, Outcome::Retry, Outcome::Permanent] {
            let mut hook = Hook::fails_at(FaultPoint::AfterCommit);
            let finished = bed.finish_with(ticket, outcome, *now, 1, &mut hook).unwrap();
            assert_eq!(finished, Finished::Stale, "{what}");
            assert_eq!(hook.called, [""; 0], "{what}");
        }
        assert_eq!(bed.everything(), before, "{what}");
    }
}

#[test]
fn q36_a_ticket_for_a_job_that_is_not_leased_is_stale() {
    for status in ["pending", "done", "dead"] {
        let mut bed = Bed::with(&[&HELD.replace("leased", status)]);
        assert_eq!(bed.finish(&held(), Outcome::Ok, 100, 0), Finished::Stale, "{status}");
    }
}

#[test]
fn q36_the_deadline_counts_even_within_a_hand_made_lease() {
    let mut bed = Bed::with(&["'a', 5, 'leased', 2, 3, 7, 3, 100, 'w', 110, NULL"]);
    assert_eq!(bed.finish(&held(), Outcome::Ok, 100, 0), Finished::Stale);
    assert_eq!(bed.finish(&held(), Outcome::Ok, 99, 0), Finished::Now(Status::Done));
}

#[test]
fn q36_the_last_ms_of_the_lease_and_a_time_before_the_claim_are_valid() {
    for now in [0, 109] {
        let mut bed = Bed::with(&[HELD]);
        assert_eq!(bed.finish(&held(), Outcome::Ok, now, 0), Finished::Now(Status::Done));
        assert_eq!(bed.finish(&held(), Outcome::Ok, now, 0), Finished::Stale, "a second finish");
    }
}

#[test]
fn q36_stale_ticket_cannot_finish_after_reclaim() {
    let mut bed = Bed::new();
    bed.enqueue("a", 1, 0, 1_000).unwrap();
    let first = bed.claim(0, 10).unwrap();
    let second = bed.claim(10, 10).unwrap();
    assert_eq!(bed.finish(&first, Outcome::Permanent, 5, 0), Finished::Stale);
    assert_eq!(bed.finish(&second, Outcome::Ok, 11, 0), Finished::Now(Status::Done));
}

#[test]
fn q37_to_q40_outcomes() {
    let cases = [
        ("3, 500", Outcome::Ok, 400, Status::Done, "done 2/3 7 105 500 - - -"),
        ("3, 500", Outcome::Permanent, 400, Status::Dead, "dead 2/3 7 105 500 - - permanent"),
        ("3, 500", Outcome::Retry, 0, Status::Pending, "pending 2/3 7 105 500 - - retry"),
        ("3, 500", Outcome::Retry, 394, Status::Pending, "pending 2/3 7 499 500 - - retry"),
        ("3, 500", Outcome::Retry, 395, Status::Dead, "dead 2/3 7 105 500 - - deadline"),
        ("2, 500", Outcome::Retry, 0, Status::Dead, "dead 2/2 7 105 500 - - exhausted"),
        ("1, 500", Outcome::Retry, 0, Status::Dead, "dead 2/1 7 105 500 - - exhausted"),
        ("2, 500", Outcome::Retry, 395, Status::Dead, "dead 2/2 7 105 500 - - exhausted"),
        ("2, 500", Outcome::Permanent, 0, Status::Dead, "dead 2/2 7 105 500 - - permanent"),
        ("2, 500", Outcome::Ok, 0, Status::Done, "done 2/2 7 105 500 - - -"),
    ];
    for (budget, outcome, delay, status, expected) in cases {
        let (max, deadline) = budget.split_once(", ").unwrap();
        let mut bed = Bed::with(&[&format!("'a', 5, 'leased', 2, {max}, 7, 3, {deadline}, 'w', 110, NULL")]);
        assert_eq!(
            bed.finish(&held(), outcome, 105, delay),
            Finished::Now(status),
            "{budget} {outcome} {delay}"
        );
        assert_eq!(bed.job("a"), expected, "{budget} {outcome} {delay}");
    }
}

#[test]
fn q39_a_delay_beyond_the_last_instant_dies_by_the_deadline() {
    let end = INSTANT_MAX_MS;
    let mut bed = Bed::with(&[&format!("'a', 5, 'leased', 2, 3, 7, 3, {end}, 'w', {end}, NULL")]);
    let delay = Limits::WIDE.delay(24 * 3_600_000).unwrap();
    let held = ticket("a", 5, "w", 7, 2, end);
    let finished = bed.queue.finish(&held, Outcome::Retry, at(NOW_MAX_MS), delay, &mut Hook::none());
    assert_eq!(finished.unwrap(), Finished::Now(Status::Dead));
    bed.assert_job("a", "dead 2/3 7 999999999940000 1000000000000000 - - deadline");
}

#[test]
fn q41_hooks_in_order_for_every_outcome() {
    for outcome in [Outcome::Ok, Outcome::Retry, Outcome::Permanent] {
        let mut bed = Bed::with(&[HELD]);
        let mut hook = Hook::none();
        bed.finish_with(&held(), outcome, 100, 0, &mut hook).unwrap();
        assert_eq!(hook.called, ["after-finish", "after-commit"], "{outcome}");
    }
}

#[test]
fn q39_a_retried_job_comes_back_at_its_time() {
    let mut bed = Bed::new();
    bed.enqueue("a", 1, 0, 1_000).unwrap();
    let claimed = bed.claim(0, 10).unwrap();
    bed.finish(&claimed, Outcome::Retry, 5, 20);
    assert_eq!(bed.claim(24, 10), None);
    assert_eq!(bed.claim(25, 10).unwrap(), ticket("a", 1, "w", 2, 2, 35));
}
