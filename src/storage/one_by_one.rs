//! Jobs one by one: a queue without operations on several jobs of its own. What [`LeaseQueue`] gives for those then
//! makes one transaction of each job.

use super::{
    ClaimError, EnqueueError, Enqueued, FinishError, Finished, LeaseQueue, Now, RedriveError, Released,
    Renewed,
};
use crate::port::Fault;
use crate::rules::{Attempts, Delay, Event, Lease, Millis, Name, Outcome, Ticket, Ttl};

/// A queue lent so that several jobs never share a transaction: for a backend that is to be held against its own shared
/// transactions, and for whoever watches every single operation. The six operations go through as they are.
///
/// ```
/// # use ackward::storage::{LeaseQueue, OneByOne};
/// fn one_by_one(queue: &mut impl LeaseQueue) {
///     assert!(!OneByOne(queue).shares_transactions());
/// }
/// ```
#[derive(Debug)]
pub struct OneByOne<'a, Q: ?Sized>(pub &'a mut Q);

impl<Q: LeaseQueue + ?Sized> LeaseQueue for OneByOne<'_, Q> {
    fn enqueue(
        &mut self,
        event: &Event,
        now: Millis,
        ttl: Ttl,
        max_attempts: Attempts,
    ) -> Result<Enqueued, EnqueueError> {
        self.0.enqueue(event, now, ttl, max_attempts)
    }

    fn claim_at(
        &mut self,
        owner: &Name,
        now: Now<'_>,
        lease: Lease,
        fault: &mut dyn Fault,
    ) -> Result<Option<Ticket>, ClaimError> {
        self.0.claim_at(owner, now, lease, fault)
    }

    fn finish(
        &mut self,
        ticket: &Ticket,
        outcome: Outcome,
        now: Millis,
        delay: Delay,
        fault: &mut dyn Fault,
    ) -> Result<Finished, FinishError> {
        self.0.finish(ticket, outcome, now, delay, fault)
    }

    fn redrive(
        &mut self,
        id: &Name,
        now: Millis,
        ttl: Ttl,
        note: &Name,
        fault: &mut dyn Fault,
    ) -> Result<(), RedriveError> {
        self.0.redrive(id, now, ttl, note, fault)
    }

    fn renew(
        &mut self,
        ticket: &Ticket,
        now: Now<'_>,
        lease: Lease,
        fault: &mut dyn Fault,
    ) -> Result<Renewed, ClaimError> {
        self.0.renew(ticket, now, lease, fault)
    }

    fn release(
        &mut self,
        ticket: &Ticket,
        now: Millis,
        fault: &mut dyn Fault,
    ) -> Result<Released, FinishError> {
        self.0.release(ticket, now, fault)
    }
}
