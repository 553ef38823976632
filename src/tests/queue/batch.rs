//! Several jobs in one transaction: each as if it were alone (Q21 to Q23, Q30, Q36, Q43), all or none where the
//! transaction fails (Q6, Q7).

use ackward::rules::{Delay, Lease};
use ackward::storage::FinishOrder;

use super::*;

fn ttl() -> ackward::rules::Ttl {
    Limits::CONTRACT.ttl(500).unwrap()
}

fn three() -> Bed {
    let mut bed = Bed::new();
    for id in ["a", "b", "c"] {
        bed.enqueue(id, 1, 0, 500).unwrap();
    }
    bed
}

fn claim_many(bed: &mut Bed, now: i64, max: usize, fault: &mut Hook) -> Result<Vec<Ticket>, ClaimError> {
    let result = bed.queue.claim_many(&name("w"), &mut || Ok(at(now)), Lease::DEFAULT, max, fault);
    bed.assert_free();
    result
}

fn orders(tickets: &[Ticket]) -> Vec<FinishOrder> {
    let order =
        |ticket: &Ticket| FinishOrder { ticket: ticket.clone(), outcome: Outcome::Ok, delay: Delay::NONE };
    tickets.iter().map(order).collect()
}

/// Q21 to Q24: in a batch a conflict and a duplicate touch no other event, and no seq is spent on them.
#[test]
fn q23_a_conflict_in_a_batch_touches_no_other_event() {
    let mut bed = Bed::new();
    bed.enqueue("b", 2, 0, 500).unwrap();
    let events = [event("a", 1), event("b", 1), event("a", 1), event("b", 2), event("c", 1)];
    let answers = bed.queue.enqueue_many(&events, at(5), ttl(), Attempts::DEFAULT);
    bed.assert_free();
    let words: Vec<_> = answers
        .iter()
        .map(|answer| match answer {
            Ok(Enqueued::New) => "new",
            Ok(Enqueued::Duplicate) => "duplicate",
            Err(EnqueueError::Conflict { .. }) => "conflict",
            Err(_) => "error",
        })
        .collect();
    assert_eq!(words, ["new", "conflict", "duplicate", "duplicate", "new"]);
    assert_eq!(query(&bed.peer, "SELECT seq, id, qty FROM jobs ORDER BY seq"), ["1 b 2", "2 a 1", "3 c 1"]);
}

/// Q6: a file that is locked answers every event of the batch, and nothing of it stays.
#[test]
fn q6_a_locked_batch_changes_nothing_and_answers_each() {
    let mut bed = Bed::new();
    bed.peer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let answers = bed.queue.enqueue_many(&[event("a", 1), event("b", 1)], at(0), ttl(), Attempts::DEFAULT);
    bed.peer.execute_batch("ROLLBACK").unwrap();
    assert_eq!(answers.len(), 2);
    for answer in answers {
        assert!(matches!(answer, Err(EnqueueError::Storage(error)) if error.is_busy()));
    }
    assert_eq!(bed.everything(), Vec::<String>::new());
}

/// Q30, Q31: a batch takes the first eligible jobs, each with a lease and a token of its own, and ends where there
/// are no more.
#[test]
fn q30_a_batch_claims_the_first_jobs_in_order() {
    let mut bed = three();
    let mut hook = Hook::none();
    let ids = |tickets: Vec<Ticket>| tickets.iter().map(|t| t.id.to_string()).collect::<Vec<_>>();
    assert_eq!(ids(claim_many(&mut bed, 10, 2, &mut hook).unwrap()), ["a", "b"]);
    assert_eq!(hook.called, ["after-claim", "after-claim", "after-commit"]);
    assert_eq!(ids(claim_many(&mut bed, 10, 9, &mut hook).unwrap()), ["c"]);
    assert_eq!(ids(claim_many(&mut bed, 10, 9, &mut hook).unwrap()), Vec::<String>::new());
    for id in ["a", "b", "c"] {
        bed.assert_job(id, "leased 1/3 1 0 500 w 500 -");
    }
}

/// Q26, Q28: the batch quarantines before it claims, and what it leases itself is not in its own way.
#[test]
fn q26_a_batch_quarantines_once_and_reclaims_what_is_over() {
    let mut bed = Bed::with(&[
        "'late', 1, 'pending', 0, 3, 0, 0, 100, NULL, NULL, NULL",
        "'over', 1, 'leased', 1, 3, 1, 0, 500, 'v', 100, NULL",
        "'spent', 1, 'leased', 3, 3, 3, 0, 500, 'v', 100, NULL",
        "'last', 1, 'pending', 2, 3, 2, 0, 500, NULL, NULL, NULL",
    ]);
    let tickets = claim_many(&mut bed, 100, 9, &mut Hook::none()).unwrap();
    let claimed: Vec<_> = tickets.iter().map(|t| format!("{} {}", t.id, t.token.get())).collect();
    assert_eq!(claimed, ["over 2", "last 3"]);
    bed.assert_job("late", "dead 0/3 0 0 100 - - deadline");
    bed.assert_job("spent", "dead 3/3 3 0 500 - - exhausted");
}

/// Q29, Q30, M12: a job that waits, or is bad, stands between those that a batch takes.
#[test]
fn q29_a_batch_passes_over_what_waits_or_is_bad() {
    let between = [
        ("waits", "'x', 1, 'pending', 0, 3, 0, 101, 500, NULL, NULL, NULL", "pending 0/3 0 101 500 - - -"),
        ("is bad", "'x', 0, 'pending', 0, 3, 0, 0, 500, NULL, NULL, NULL", "pending 0/3 0 0 500 - - -"),
        (
            "has no token left",
            "'x', 1, 'pending', 0, 3, 1000000000000000, 0, 500, NULL, NULL, NULL",
            "pending 0/3 1000000000000000 0 500 - - -",
        ),
    ];
    for (what, row, left) in between {
        let mut bed = Bed::with(&[
            "'a', 1, 'pending', 0, 3, 0, 0, 500, NULL, NULL, NULL",
            row,
            "'b', 1, 'pending', 0, 3, 0, 100, 500, NULL, NULL, NULL",
            "'c', 1, 'pending', 0, 3, 0, 0, 500, NULL, NULL, NULL",
        ]);
        let tickets = claim_many(&mut bed, 100, 2, &mut Hook::none()).unwrap();
        assert_eq!(tickets.iter().map(|t| t.id.as_str()).collect::<Vec<_>>(), ["a", "b"], "{what}");
        bed.assert_job("x", left);
    }
}

/// Q7: an error at the second job of a claim takes the first one back.
#[test]
fn q7_a_batch_is_claimed_as_a_whole_or_not_at_all() {
    let mut bed = three();
    let before = bed.everything();
    struct Second(u32);
    impl Fault for Second {
        fn at(&mut self, _: FaultPoint) -> Result<(), Injected> {
            self.0 += 1;
            if self.0 == 2 { Err(Injected("second".into())) } else { Ok(()) }
        }
    }
    let result = bed.queue.claim_many(&name("w"), &mut || Ok(at(10)), Lease::DEFAULT, 3, &mut Second(0));
    assert!(matches!(result, Err(ClaimError::Hook(_))));
    bed.assert_free();
    assert_eq!(bed.everything(), before);
}

/// Q36, Q41: each ticket is fenced on its own: a stale one changes nothing and holds up no other.
#[test]
fn q36_a_stale_ticket_in_a_batch_touches_no_other() {
    let mut bed = three();
    let tickets = claim_many(&mut bed, 10, 3, &mut Hook::none()).unwrap();
    bed.peer.execute("UPDATE jobs SET token = 2, owner = 'v' WHERE id = 'b'", []).unwrap();
    let mut orders = orders(&tickets);
    orders[2].outcome = Outcome::Retry;
    orders[2].delay = Limits::CONTRACT.delay(50).unwrap();
    let mut hook = Hook::none();
    let finished: Vec<_> =
        bed.queue.finish_many(&orders, at(20), &mut hook).into_iter().map(Result::unwrap).collect();
    bed.assert_free();
    use ackward::rules::Status::{Done, Pending};
    assert_eq!(finished, [Finished::Now(Done), Finished::Stale, Finished::Now(Pending)]);
    assert_eq!(hook.called, ["after-finish", "after-finish", "after-commit"]);
    bed.assert_job("a", "done 1/3 1 20 500 - - -");
    bed.assert_job("b", "leased 1/3 2 0 500 v 500 -");
    bed.assert_job("c", "pending 1/3 1 70 500 - - retry");
    let stale: Vec<_> = bed.queue.finish_many(&orders, at(21), &mut Hook::none());
    assert!(stale.into_iter().all(|one| one.unwrap() == Finished::Stale));
}

/// Q7: an error before the commit of a batch of outcomes leaves all of them open, and says so to each.
#[test]
fn q7_a_batch_is_finished_as_a_whole_or_not_at_all() {
    let mut bed = three();
    let tickets = claim_many(&mut bed, 10, 3, &mut Hook::none()).unwrap();
    let before = bed.everything();
    let answers =
        bed.queue.finish_many(&orders(&tickets), at(20), &mut Hook::fails_at(FaultPoint::AfterFinish));
    bed.assert_free();
    assert_eq!(answers.len(), 3);
    assert!(answers.iter().all(|answer| matches!(answer, Err(FinishError::Hook(_)))));
    assert_eq!(bed.everything(), before);
}

/// M10: several tickets are given back, each on its own.
#[test]
fn m10_a_batch_is_released_ticket_by_ticket() {
    let mut bed = three();
    let tickets = claim_many(&mut bed, 10, 3, &mut Hook::none()).unwrap();
    bed.finish(&tickets[1], Outcome::Ok, 15, 0);
    let released = bed.queue.release_many(&tickets, at(20), &mut Hook::none());
    let released: Vec<_> = released.into_iter().map(Result::unwrap).collect();
    assert_eq!(released, [Released::Pending, Released::Stale, Released::Pending]);
    bed.assert_job("a", "pending 0/3 1 20 500 - - -");
}

/// Q43, Q44: a batch of redrives passes over what is not dead, and leaves an audit row for each that was.
#[test]
fn q43_a_batch_redrives_the_dead_ones_only() {
    let mut bed = three();
    bed.peer
        .execute("UPDATE jobs SET status = 'dead', reason = 'permanent', token = seq WHERE id <> 'b'", [])
        .unwrap();
    let ids = ["a", "b", "c", "none"].map(name);
    let answers = bed.queue.redrive_many(&ids, at(600), ttl(), &name("mended"), &mut Hook::none());
    bed.assert_free();
    let words: Vec<_> = answers
        .iter()
        .map(|answer| match answer {
            Ok(()) => "redriven",
            Err(RedriveError::NotDead { .. }) => "not dead",
            Err(RedriveError::NoSuchJob { .. }) => "no such job",
            Err(_) => "error",
        })
        .collect();
    assert_eq!(words, ["redriven", "not dead", "redriven", "no such job"]);
    assert_eq!(
        query(&bed.peer, "SELECT id, token, at_ms, note FROM redrives"),
        ["a 1 600 mended", "c 3 600 mended"]
    );
    bed.assert_job("c", "pending 0/3 3 600 1100 - - -");
}
