//! Wrappers that tell the judges which operation runs on which lane, and how it ended. They change nothing:
//! whatever implements the seam behind them is what is tested.

mod failure;
mod telling;

use ackward::port::Fault;
use ackward::rules::{Attempts, Delay, Event, Lease, Millis, Name, Outcome as FinishOutcome, Ticket, Ttl};
use ackward::storage::{
    ClaimError, EnqueueError, Enqueued, FinishError, FinishOrder, Finished, LeaseQueue, Now, OneByOne,
    RedriveError, Released, Renewed,
};

use super::file::{BUSY_TIMEOUT_US, Outcome};
use super::{Milestone, with};
use crate::model::{QueueModel, QueueOp, QueueResult};
use failure::{Failure, batch, claim_failure, enqueued, finished, redriven, released};
use telling::tell;

pub(super) use failure::blames_itself;
pub(super) use telling::{Kept, begin, end_with, gave_up, hidden};

/// A lease queue that is watched.
#[derive(Debug)]
pub struct WatchedQueue<Q> {
    inner: Q,
    /// How long it must wait for a lock before it gives up, in microseconds.
    patience_us: i64,
}

impl<Q> WatchedQueue<Q> {
    /// A queue that waits for locks as the contract says (Q6).
    pub const fn new(inner: Q) -> Self {
        Self { inner, patience_us: BUSY_TIMEOUT_US }
    }

    /// A queue that waits for locks only so long, in ms.
    pub const fn with_patience(inner: Q, patience_ms: i64) -> Self {
        Self { inner, patience_us: patience_ms * 1_000 }
    }
}

impl<Q: LeaseQueue> LeaseQueue for WatchedQueue<Q> {
    fn enqueue(
        &mut self,
        event: &Event,
        now: Millis,
        ttl: Ttl,
        max_attempts: Attempts,
    ) -> Result<Enqueued, EnqueueError> {
        begin::<QueueModel>(0, Some(QueueOp::Enqueue { event: event.clone(), now, ttl, max_attempts }));
        let result = self.inner.enqueue(event, now, ttl, max_attempts);
        self.end(enqueued(&result));
        result
    }

    fn claim_at(
        &mut self,
        owner: &Name,
        now: Now<'_>,
        lease: Lease,
        fault: &mut dyn Fault,
    ) -> Result<Option<Ticket>, ClaimError> {
        begin::<QueueModel>(0, None);
        let mut told = || {
            let now = now()?;
            tell(QueueOp::Claim { owner: owner.clone(), now, lease });
            Ok(now)
        };
        let result = self.inner.claim_at(owner, &mut told, lease, fault);
        self.end(result.as_ref().map(|ticket| QueueResult::Claimed(ticket.clone())).map_err(claim_failure));
        result
    }

    fn finish(
        &mut self,
        ticket: &Ticket,
        outcome: FinishOutcome,
        now: Millis,
        delay: Delay,
        fault: &mut dyn Fault,
    ) -> Result<Finished, FinishError> {
        begin::<QueueModel>(0, Some(QueueOp::Finish { ticket: ticket.clone(), outcome, now, delay }));
        let result = self.inner.finish(ticket, outcome, now, delay, fault);
        self.end(finished(&result));
        result
    }

    fn redrive(
        &mut self,
        id: &Name,
        now: Millis,
        ttl: Ttl,
        note: &Name,
        fault: &mut dyn Fault,
    ) -> Result<(), RedriveError> {
        begin::<QueueModel>(0, Some(QueueOp::Redrive { id: id.clone(), now, ttl, note: note.clone() }));
        let result = self.inner.redrive(id, now, ttl, note, fault);
        self.end(redriven(&result));
        result
    }

    fn renew(
        &mut self,
        ticket: &Ticket,
        now: Now<'_>,
        lease: Lease,
        fault: &mut dyn Fault,
    ) -> Result<Renewed, ClaimError> {
        begin::<QueueModel>(0, None);
        let mut told = || {
            let now = now()?;
            tell(QueueOp::Renew { ticket: ticket.clone(), now, lease });
            Ok(now)
        };
        let result = self.inner.renew(ticket, &mut told, lease, fault);
        self.end(result.as_ref().map(|renewed| QueueResult::Renewed(renewed.clone())).map_err(claim_failure));
        result
    }

    fn release(
        &mut self,
        ticket: &Ticket,
        now: Millis,
        fault: &mut dyn Fault,
    ) -> Result<Released, FinishError> {
        begin::<QueueModel>(0, Some(QueueOp::Release { ticket: ticket.clone(), now }));
        let result = self.inner.release(ticket, now, fault);
        self.end(released(&result));
        result
    }

    fn shares_transactions(&self) -> bool {
        self.inner.shares_transactions()
    }

    fn enqueue_many(
        &mut self,
        events: &[Event],
        now: Millis,
        ttl: Ttl,
        max_attempts: Attempts,
    ) -> Vec<Result<Enqueued, EnqueueError>> {
        if !self.shares_transactions() {
            return OneByOne(self).enqueue_many(events, now, ttl, max_attempts);
        }
        let op = |event: &Event| QueueOp::Enqueue { event: event.clone(), now, ttl, max_attempts };
        begin::<QueueModel>(0, Some(QueueOp::Batch(events.iter().map(op).collect())));
        let results = self.inner.enqueue_many(events, now, ttl, max_attempts);
        self.end(batch(&results, enqueued));
        results
    }

    fn claim_many(
        &mut self,
        owner: &Name,
        now: Now<'_>,
        lease: Lease,
        max: usize,
        fault: &mut dyn Fault,
    ) -> Result<Vec<Ticket>, ClaimError> {
        if !self.shares_transactions() {
            return OneByOne(self).claim_many(owner, now, lease, max, fault);
        }
        begin::<QueueModel>(0, None);
        let mut told = || {
            let now = now()?;
            tell(QueueOp::ClaimMany { owner: owner.clone(), now, lease, max });
            Ok(now)
        };
        let result = self.inner.claim_many(owner, &mut told, lease, max, fault);
        let answer = |ticket: &Ticket| QueueResult::Claimed(Some(ticket.clone()));
        let answers = |tickets: &Vec<_>| QueueResult::Batch(tickets.iter().map(answer).collect());
        self.end(result.as_ref().map(answers).map_err(claim_failure));
        result
    }

    fn finish_many(
        &mut self,
        orders: &[FinishOrder],
        now: Millis,
        fault: &mut dyn Fault,
    ) -> Vec<Result<Finished, FinishError>> {
        if !self.shares_transactions() {
            return OneByOne(self).finish_many(orders, now, fault);
        }
        let op = |FinishOrder { ticket, outcome, delay }: &FinishOrder| QueueOp::Finish {
            ticket: ticket.clone(),
            outcome: *outcome,
            now,
            delay: *delay,
        };
        begin::<QueueModel>(0, Some(QueueOp::Batch(orders.iter().map(op).collect())));
        let results = self.inner.finish_many(orders, now, fault);
        self.end(batch(&results, finished));
        results
    }

    fn release_many(
        &mut self,
        tickets: &[Ticket],
        now: Millis,
        fault: &mut dyn Fault,
    ) -> Vec<Result<Released, FinishError>> {
        if !self.shares_transactions() {
            return OneByOne(self).release_many(tickets, now, fault);
        }
        let op = |ticket: &Ticket| QueueOp::Release { ticket: ticket.clone(), now };
        begin::<QueueModel>(0, Some(QueueOp::Batch(tickets.iter().map(op).collect())));
        let results = self.inner.release_many(tickets, now, fault);
        self.end(batch(&results, released));
        results
    }

    fn redrive_many(
        &mut self,
        ids: &[Name],
        now: Millis,
        ttl: Ttl,
        note: &Name,
        fault: &mut dyn Fault,
    ) -> Vec<Result<(), RedriveError>> {
        if !self.shares_transactions() {
            return OneByOne(self).redrive_many(ids, now, ttl, note, fault);
        }
        let op = |id: &Name| QueueOp::Redrive { id: id.clone(), now, ttl, note: note.clone() };
        begin::<QueueModel>(0, Some(QueueOp::Batch(ids.iter().map(op).collect())));
        let results = self.inner.redrive_many(ids, now, ttl, note, fault);
        self.end(batch(&results, redriven));
        results
    }
}

impl<Q> WatchedQueue<Q> {
    fn end(&self, result: Result<QueueResult, Failure>) {
        if let Err(Failure::Storage { busy: true, .. }) = &result {
            gave_up::<QueueModel>(0, self.patience_us);
        }
        if let Err(Failure::Storage { unknown, busy, blames_itself }) = &result {
            with(|judges, _| judges.milestones.reach(Milestone::of_failure(*unknown, *busy)));
            if let Some(error) = blames_itself {
                hidden(error);
            }
        }
        end_with::<QueueModel>(
            0,
            match result {
                Ok(result) | Err(Failure::Answer(result)) => Outcome::Returned(result),
                Err(Failure::Storage { unknown: true, .. } | Failure::Hook) => Outcome::Unknown,
                Err(Failure::Storage { .. } | Failure::Clock) => Outcome::Failed,
            },
        );
    }
}
