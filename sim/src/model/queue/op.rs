//! The queue's operations and their results, as values.

use ackward::rules::{Attempts, Delay, Event, Lease, Millis, Name, Outcome, Status, Ticket, Ttl};
use ackward::storage::{Enqueued, Finished, Released, Renewed};

/// Every operation of the queue, with its arguments. Spans are in ms, times in ms since the epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the arguments of ackward::storage::LeaseQueue")]
pub enum QueueOp {
    /// Q20 to Q24.
    Enqueue { event: Event, now: Millis, ttl: Ttl, max_attempts: Attempts },
    /// Q25 to Q34.
    Claim { owner: Name, now: Millis, lease: Lease },
    /// Q35 to Q41.
    Finish { ticket: Ticket, outcome: Outcome, now: Millis, delay: Delay },
    /// Q42 to Q46.
    Redrive { id: Name, now: Millis, ttl: Ttl, note: Name },
    /// M10.
    Renew { ticket: Ticket, now: Millis, lease: Lease },
    /// M10.
    Release { ticket: Ticket, now: Millis },
    /// Several claims in one transaction, until there is nothing more or there are `max`.
    ClaimMany { owner: Name, now: Millis, lease: Lease, max: usize },
    /// Several operations in one transaction, each for itself.
    Batch(Vec<QueueOp>),
}

/// Every result of the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueResult {
    /// Q21, Q22.
    Enqueued(Enqueued),
    /// Q23: the id exists with another quantity.
    Conflict,
    /// Q32, or none (Q28).
    Claimed(Option<Ticket>),
    /// Q36, Q41.
    Finished(Finished),
    /// Q45.
    Redriven,
    /// Q43.
    NoSuchJob,
    /// Q43, with the job's status.
    NotDead(Status),
    /// M10.
    Renewed(Renewed),
    /// M10.
    Released(Released),
    /// One for each of the operations that share a transaction, or for each ticket of several claims.
    Batch(Vec<QueueResult>),
    /// `now + ttl` lies beyond 10^15, which only wide limits (M11) let happen.
    Invalid,
}
