//! Jobs one by one: the operations on several jobs as [`LeaseQueue`] gives them, with every single one watched.

use ackward::port::Fault;
use ackward::rules::{Attempts, Delay, Event, Lease, Millis, Name, Outcome, Ticket, Ttl};
use ackward::storage::{
    ClaimError, EnqueueError, Enqueued, FinishError, Finished, LeaseQueue, Now, RedriveError, Released,
    Renewed,
};

use super::WatchedQueue;

/// A watched queue with no operation on several jobs of its own.
pub(super) struct OneByOne<'a, Q>(pub(super) &'a mut WatchedQueue<Q>);

impl<Q: LeaseQueue> LeaseQueue for OneByOne<'_, Q> {
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
