//! Operations and results of the queue in words, with everything that they hold: what a violation is told with. Times
//! are counted from the beginning of the run, as in the story.

use ackward::rules::{Millis, Outcome, Ticket};
use ackward::storage::Renewed;

use super::super::file::Model;
use super::since_start;
use crate::model::{QueueModel, QueueOp, QueueResult};

/// An operation with its arguments.
pub(super) fn asked(op: &QueueOp) -> String {
    match op {
        QueueOp::Enqueue { event, now, ttl, max_attempts } => {
            let (id, qty, ttl, most) = (&event.id, event.qty.get(), ttl.get(), max_attempts.get());
            format!("enqueue of {id} (qty {qty}, ttl {ttl} ms, at most {most} attempts) at {}", at(*now))
        }
        QueueOp::Claim { owner, now, lease } => {
            format!("claim by {owner} (lease {} ms) at {}", lease.get(), at(*now))
        }
        QueueOp::ClaimMany { owner, now, lease, max } => {
            format!("claim of up to {max} jobs by {owner} (lease {} ms) at {}", lease.get(), at(*now))
        }
        QueueOp::Finish { ticket, outcome, now, delay } => {
            let again = match outcome {
                Outcome::Retry => format!(", again after {} ms", delay.get()),
                _ => String::new(),
            };
            format!("finish of {} as {outcome}{again} at {}", in_full(ticket), at(*now))
        }
        QueueOp::Redrive { id, now, ttl, note } => {
            format!("redrive of {id} (ttl {} ms, note {note}) at {}", ttl.get(), at(*now))
        }
        QueueOp::Renew { ticket, now, lease } => {
            format!("renewal of {} for {} ms at {}", in_full(ticket), lease.get(), at(*now))
        }
        QueueOp::Release { ticket, now } => format!("release of {} at {}", in_full(ticket), at(*now)),
        QueueOp::Batch(ops) => {
            let ops = ops.iter().map(asked).collect::<Vec<_>>().join("; ");
            format!("one transaction of: {ops}")
        }
    }
}

/// A result that no other one reads like: tickets are told whole.
pub(super) fn exactly(result: &QueueResult) -> String {
    match result {
        QueueResult::Claimed(Some(ticket)) => format!("claim: {}", in_full(ticket)),
        QueueResult::Renewed(Renewed::Until(ticket)) => format!("renew: {}", in_full(ticket)),
        QueueResult::Batch(results) if !results.is_empty() => {
            results.iter().map(exactly).collect::<Vec<_>>().join("; ")
        }
        result => QueueModel::told(result),
    }
}

/// Every field of a ticket fences.
fn in_full(ticket: &Ticket) -> String {
    let Ticket { id, qty, owner, token, attempt, .. } = ticket;
    let (qty, token, attempt) = (qty.get(), token.get(), attempt.get());
    let until = since_start(ticket.lease_until_ms());
    format!("{id} (qty {qty}, owner {owner}, token {token}, attempt {attempt}, leased until {until})")
}

fn at(now: Millis) -> String {
    since_start(now.get())
}

#[cfg(test)]
mod tests {
    use ackward::rules::{Attempt, Event, Limits, Name, Qty, Token};

    use super::*;
    use crate::computer::EPOCH_MS;

    fn ticket(owner: &str) -> Ticket {
        let event = Event { id: Name::new("id", "cake").unwrap(), qty: Qty::new(2).unwrap() };
        let (token, attempt) = (Token::new(7).unwrap(), Attempt::new(1).unwrap());
        Ticket::new(event, Name::new("owner", owner).unwrap(), token, attempt, EPOCH_MS + 300).unwrap()
    }

    #[test]
    fn an_operation_is_told_in_the_words_of_the_field_with_every_argument() {
        let now = Millis::new(EPOCH_MS + 321).unwrap();
        let delay = Limits::CONTRACT.delay(59).unwrap();
        let finish = |outcome| QueueOp::Finish { ticket: ticket("w"), outcome, now, delay };
        let told = "finish of cake (qty 2, owner w, token 7, attempt 1, leased until 300 ms) as ";
        assert_eq!(asked(&finish(Outcome::Ok)), format!("{told}ok at 321 ms"));
        assert_eq!(asked(&finish(Outcome::Retry)), format!("{told}retry, again after 59 ms at 321 ms"));
        let lease = Limits::CONTRACT.lease(1_000).unwrap();
        let claim = QueueOp::Claim { owner: Name::new("owner", "w").unwrap(), now, lease };
        assert_eq!(asked(&claim), "claim by w (lease 1000 ms) at 321 ms");
        assert_eq!(
            asked(&QueueOp::Batch(vec![claim.clone(), claim])),
            "one transaction of: claim by w (lease 1000 ms) at 321 ms; claim by w (lease 1000 ms) at 321 ms"
        );
    }

    /// The story leaves out whose ticket it is; where results are compared, that may be all that differs.
    #[test]
    fn results_that_differ_are_told_apart() {
        let [one, other] = ["v", "w"].map(|owner| QueueResult::Claimed(Some(ticket(owner))));
        assert_eq!(QueueModel::told(&one), QueueModel::told(&other));
        assert_ne!(exactly(&one), exactly(&other));
        assert_ne!(exactly(&QueueResult::Batch(vec![one])), exactly(&QueueResult::Batch(vec![other])));
    }
}
