//! The lease queue's operations (contract, part Q and M10) as a seam: [`LeaseQueue`] is what a second
//! backend, or a deliberately broken one, implements.

use crate::port::{Fault, Injected};
use crate::rules::{Attempts, Delay, Event, Invalid, Lease, Millis, Name, Outcome, Qty, Status, Ticket, Ttl};

use super::StorageError;

/// A reading of the clock, taken when the write lock is held, so that a long wait for the lock cannot make
/// a lease that has already run out.
pub type Now<'a> = &'a mut dyn FnMut() -> Result<Millis, Invalid>;

/// What enqueue found (Q21, Q22).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Enqueued {
    /// The job is new and pending.
    New,
    /// A job of this id and quantity exists; it was left as it is.
    Duplicate,
}

/// What finish did (Q36, Q41).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Finished {
    /// The job's new status: done, dead or pending.
    Now(Status),
    /// The ticket no longer holds; nothing was changed.
    Stale,
}

/// What renew did (M10).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Renewed {
    /// The new ticket; the old one is stale from now on.
    Until(Ticket),
    /// The ticket no longer holds; nothing was changed.
    Stale,
}

/// What release did (M10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Released {
    /// The job is pending again and the attempt was given back.
    Pending,
    /// The ticket no longer holds; nothing was changed.
    Stale,
}

/// The lease queue. Each operation is one immediate transaction; on any error nothing has changed unless
/// the error says otherwise, and no transaction stays open.
pub trait LeaseQueue {
    /// Adds a job, once per id (Q20 to Q24).
    ///
    /// # Errors
    /// [`EnqueueError`].
    fn enqueue(
        &mut self,
        event: &Event,
        now: Millis,
        ttl: Ttl,
        max_attempts: Attempts,
    ) -> Result<Enqueued, EnqueueError>;

    /// Quarantines what is due and claims the first eligible job (Q25 to Q34), reading the time once the
    /// write lock is held.
    ///
    /// # Errors
    /// [`ClaimError`].
    fn claim_at(
        &mut self,
        owner: &Name,
        now: Now<'_>,
        lease: Lease,
        fault: &mut dyn Fault,
    ) -> Result<Option<Ticket>, ClaimError>;

    /// [`claim_at`](Self::claim_at) with a time that is already known.
    ///
    /// # Errors
    /// [`ClaimError`].
    fn claim(
        &mut self,
        owner: &Name,
        now: Millis,
        lease: Lease,
        fault: &mut dyn Fault,
    ) -> Result<Option<Ticket>, ClaimError> {
        self.claim_at(owner, &mut || Ok(now), lease, fault)
    }

    /// Records how an attempt ended (Q35 to Q41). `delay` counts for [`Outcome::Retry`] only.
    ///
    /// # Errors
    /// [`FinishError`].
    fn finish(
        &mut self,
        ticket: &Ticket,
        outcome: Outcome,
        now: Millis,
        delay: Delay,
        fault: &mut dyn Fault,
    ) -> Result<Finished, FinishError>;

    /// Gives a dead job a new life, with an audit row (Q42 to Q46).
    ///
    /// # Errors
    /// [`RedriveError`].
    fn redrive(
        &mut self,
        id: &Name,
        now: Millis,
        ttl: Ttl,
        note: &Name,
        fault: &mut dyn Fault,
    ) -> Result<(), RedriveError>;

    /// Extends the lease of a ticket that still holds (M10); `now` is read once the write lock is held.
    ///
    /// # Errors
    /// [`ClaimError`].
    fn renew(
        &mut self,
        ticket: &Ticket,
        now: Now<'_>,
        lease: Lease,
        fault: &mut dyn Fault,
    ) -> Result<Renewed, ClaimError>;

    /// Gives back a job that was claimed but not sent (M10).
    ///
    /// # Errors
    /// [`FinishError`].
    fn release(
        &mut self,
        ticket: &Ticket,
        now: Millis,
        fault: &mut dyn Fault,
    ) -> Result<Released, FinishError>;

    /// Whether the operations on several jobs share one transaction each. Those given here do not: they make one for
    /// each job. A judge must know which it is to be.
    fn shares_transactions(&self) -> bool {
        false
    }

    /// [`enqueue`](Self::enqueue) for several events, with an answer for each, in order. An implementation may
    /// let them share a transaction; then a conflict touches no other event, and any other error is that of all.
    fn enqueue_many(
        &mut self,
        events: &[Event],
        now: Millis,
        ttl: Ttl,
        max_attempts: Attempts,
    ) -> Vec<Result<Enqueued, EnqueueError>> {
        events.iter().map(|event| self.enqueue(event, now, ttl, max_attempts)).collect()
    }

    /// [`claim_at`](Self::claim_at) for up to `max` jobs, the first eligible ones in order; none is an empty list.
    /// An implementation may let them share a transaction.
    ///
    /// # Errors
    /// [`ClaimError`] where nothing was claimed.
    fn claim_many(
        &mut self,
        owner: &Name,
        now: Now<'_>,
        lease: Lease,
        max: usize,
        fault: &mut dyn Fault,
    ) -> Result<Vec<Ticket>, ClaimError> {
        let mut tickets = Vec::new();
        while tickets.len() < max {
            match self.claim_at(owner, &mut *now, lease, fault) {
                Ok(Some(ticket)) => tickets.push(ticket),
                Ok(None) => break,
                Err(error) if tickets.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(tickets)
    }

    /// [`finish`](Self::finish) for several tickets, each fenced on its own (Q36), with an answer for each, in
    /// order. An implementation may let them share a transaction; then an error is that of all.
    fn finish_many(
        &mut self,
        orders: &[FinishOrder],
        now: Millis,
        fault: &mut dyn Fault,
    ) -> Vec<Result<Finished, FinishError>> {
        let finish = |order: &FinishOrder| self.finish(&order.ticket, order.outcome, now, order.delay, fault);
        orders.iter().map(finish).collect()
    }

    /// [`release`](Self::release) for several tickets, with an answer for each, in order.
    fn release_many(
        &mut self,
        tickets: &[Ticket],
        now: Millis,
        fault: &mut dyn Fault,
    ) -> Vec<Result<Released, FinishError>> {
        tickets.iter().map(|ticket| self.release(ticket, now, fault)).collect()
    }

    /// [`redrive`](Self::redrive) for several jobs, with an answer for each, in order. An implementation may let
    /// them share a transaction; then a job that cannot be redriven touches no other one, and any other error is
    /// that of all.
    fn redrive_many(
        &mut self,
        ids: &[Name],
        now: Millis,
        ttl: Ttl,
        note: &Name,
        fault: &mut dyn Fault,
    ) -> Vec<Result<(), RedriveError>> {
        ids.iter().map(|id| self.redrive(id, now, ttl, note, fault)).collect()
    }
}

/// How an attempt ended: one of several for [`LeaseQueue::finish_many`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishOrder {
    /// The claim's ticket.
    pub ticket: Ticket,
    /// How it ended.
    pub outcome: Outcome,
    /// The wait before the next attempt; counts for [`Outcome::Retry`] only.
    pub delay: Delay,
}

/// Why enqueue failed.
#[derive(Debug, thiserror::Error)]
pub enum EnqueueError {
    /// The id exists with another quantity (Q23): this is another job, give it another id.
    #[error("job {id} exists with qty {stored_qty}, not {}", given.get())]
    Conflict {
        /// The id.
        id: Name,
        /// What is stored, as text: another program may have stored no number at all.
        stored_qty: String,
        /// What was given.
        given: Qty,
    },
    /// `now + ttl` is beyond the last instant (only under wide limits).
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// SQLite failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Why claim or renew failed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// The clock gave a time outside the contract's range.
    #[error(transparent)]
    Clock(#[from] Invalid),
    /// A hook injected an error.
    #[error(transparent)]
    Hook(#[from] Injected),
    /// SQLite failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Why finish or release failed. The ticket may still hold: try again while its lease lasts.
#[derive(Debug, thiserror::Error)]
pub enum FinishError {
    /// A hook injected an error.
    #[error(transparent)]
    Hook(#[from] Injected),
    /// SQLite failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Why redrive failed.
#[derive(Debug, thiserror::Error)]
pub enum RedriveError {
    /// There is no such job (Q43).
    #[error("there is no job {id}")]
    NoSuchJob {
        /// The id.
        id: Name,
    },
    /// The job is not dead (Q43).
    #[error("job {id} is {status}, only a dead job can be redriven")]
    NotDead {
        /// The id.
        id: Name,
        /// Where it stands.
        status: Status,
    },
    /// `now + ttl` is beyond the last instant (only under wide limits).
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A hook injected an error.
    #[error(transparent)]
    Hook(#[from] Injected),
    /// SQLite failed; or, as [`StorageError::Row`], the job's row breaks a range in a column that it would keep (M12), so that
    /// no claim would ever take it: mend the row, or leave the job dead.
    #[error(transparent)]
    Storage(#[from] StorageError),
}
