//! The seam [`LeaseQueue`] as a second backend gets it: what it need not write itself makes one transaction of each
//! job, with the same answers as [`Queue`].

use ackward::rules::{Delay, Lease};
use ackward::storage::{FinishOrder, OneByOne};

use super::*;

/// Three jobs through every operation on several; the answers, in words.
fn story(queue: &mut impl LeaseQueue) -> String {
    let ttl = Limits::CONTRACT.ttl(500).unwrap();
    let none = &mut Hook::none();
    let events = [event("a", 1), event("b", 2), event("a", 1), event("a", 9), event("c", 3)];
    let mut said: Vec<String> = Vec::new();
    let enqueued = queue.enqueue_many(&events, at(0), ttl, Attempts::DEFAULT);
    said.extend(enqueued.iter().map(|answer| format!("{answer:?}")));
    let mut claim = |queue: &mut dyn LeaseQueue, max| -> Vec<Ticket> {
        queue.claim_many(&name("w"), &mut || Ok(at(1)), Lease::DEFAULT, max, none).unwrap()
    };
    assert_eq!(claim(queue, 0), []);
    let mut tickets = claim(queue, 2);
    tickets.extend(claim(queue, 9));
    assert_eq!(claim(queue, 9), []);
    said.extend(tickets.iter().map(|ticket| format!("{ticket:?}")));
    let order = |ticket: &Ticket| FinishOrder {
        ticket: ticket.clone(),
        outcome: Outcome::Permanent,
        delay: Delay::NONE,
    };
    let orders = [order(&tickets[0]), order(&tickets[0]), order(&tickets[1])];
    let none = &mut Hook::none();
    said.extend(queue.finish_many(&orders, at(2), none).iter().map(|answer| format!("{answer:?}")));
    said.extend(queue.release_many(&tickets[1..], at(2), none).iter().map(|answer| format!("{answer:?}")));
    let redriven = queue.redrive_many(&[name("a"), name("c"), name("none")], at(3), ttl, &name("n"), none);
    said.extend(redriven.iter().map(|answer| format!("{answer:?}")));
    said.join("\n")
}

/// Q21 to Q23, Q30, Q36, Q43, M10: job by job or in one transaction, the answers and what is left are the same.
#[test]
fn job_by_job_and_in_one_transaction_are_the_same() {
    let (shared, mut single) = (Bed::new(), Bed::new());
    let mut queue = Queue::open(&shared.path(), &full()).unwrap();
    let mut plain = OneByOne(&mut single.queue);
    assert!(queue.shares_transactions() && !plain.shares_transactions());
    let said = story(&mut plain);
    assert_eq!(said, story(&mut queue));
    assert_eq!(said.lines().count(), 5 + 3 + 3 + 2 + 3, "{said}");
    let rows = "SELECT * FROM jobs ORDER BY seq";
    assert_eq!(query(&single.peer, rows), query(&shared.peer, rows));
    let audit = "SELECT * FROM redrives ORDER BY seq";
    assert_eq!(query(&single.peer, audit), query(&shared.peer, audit));
}

/// Q7, Q8: an error at the first claim comes out; at a later one the tickets that are committed do.
#[test]
fn q7_a_claim_of_several_that_fails_half_way_keeps_what_it_has() {
    /// Fails at one claim, counted from 0.
    struct Nth(u32);
    impl Fault for Nth {
        fn at(&mut self, point: FaultPoint) -> Result<(), Injected> {
            let fails = point == FaultPoint::AfterClaim && self.0 == 0;
            self.0 = self.0.wrapping_sub(u32::from(point == FaultPoint::AfterClaim));
            if fails { Err(Injected("no".into())) } else { Ok(()) }
        }
    }
    for (nth, claimed) in [(0, None), (1, Some(1)), (2, Some(2))] {
        let mut bed = Bed::new();
        for id in ["a", "b", "c"] {
            bed.enqueue(id, 1, 0, 500).unwrap();
        }
        let mut plain = OneByOne(&mut bed.queue);
        let tickets = plain.claim_many(&name("w"), &mut || Ok(at(1)), Lease::DEFAULT, 3, &mut Nth(nth));
        assert_eq!(tickets.ok().map(|tickets| tickets.len()), claimed, "at {nth}");
        let leased = query(&bed.peer, "SELECT count(*) FROM jobs WHERE status = 'leased'");
        assert_eq!(leased, [claimed.unwrap_or(0).to_string()]);
    }
}
