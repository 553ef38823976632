//! Wrappers that tell the judges which operation runs on which lane, and how it ended. They change nothing:
//! whatever implements the seam behind them is what is tested.

use ackward::port::Fault;
use ackward::rules::{Attempts, Delay, Event, Lease, Millis, Name, Outcome as FinishOutcome, Ticket, Ttl};
use ackward::storage::{
    ClaimError, EnqueueError, Enqueued, FinishError, FinishOrder, Finished, LeaseQueue, Now, RedriveError,
    Released, Renewed, StorageError,
};

use rusqlite::ErrorCode;

use super::file::{BUSY_TIMEOUT_US, FileJudge, Model, Outcome};
use super::{ERROR_NAMES_ITS_CAUSE, Judges, Milestone, Milestones, NO_LOCK_LEFT, with};
use crate::computer::current;
use crate::model::{QueueModel, QueueOp, QueueResult};

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

/// What the judges are told of an error.
enum Failure {
    /// An answer that the model knows too, such as a conflict.
    Answer(QueueResult),
    Storage {
        unknown: bool,
        busy: bool,
        /// The text of an error that no file system and no lock can cause.
        blames_itself: Option<String>,
    },
    /// A hook failed, before or after the commit.
    Hook,
    /// The clock was out of range.
    Clock,
}

impl From<&StorageError> for Failure {
    fn from(error: &StorageError) -> Self {
        let unknown = matches!(error, StorageError::CommitUnknown(_));
        Self::Storage { unknown, busy: error.is_busy(), blames_itself: blames_itself(error) }
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
        if let Ok(ticket) = &result {
            claimed(ticket.as_slice());
        }
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
            return events.iter().map(|event| self.enqueue(event, now, ttl, max_attempts)).collect();
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
            let mut tickets = Vec::new();
            while tickets.len() < max {
                match self.claim_at(owner, &mut *now, lease, fault) {
                    Ok(Some(ticket)) => tickets.push(ticket),
                    Err(error) if tickets.is_empty() => return Err(error),
                    Ok(None) | Err(_) => break,
                }
            }
            return Ok(tickets);
        }
        begin::<QueueModel>(0, None);
        let mut told = || {
            let now = now()?;
            tell(QueueOp::ClaimMany { owner: owner.clone(), now, lease, max });
            Ok(now)
        };
        let result = self.inner.claim_many(owner, &mut told, lease, max, fault);
        if let Ok(tickets) = &result {
            claimed(tickets);
        }
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
            let finish =
                |order: &FinishOrder| self.finish(&order.ticket, order.outcome, now, order.delay, fault);
            return orders.iter().map(finish).collect();
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
            return tickets.iter().map(|ticket| self.release(ticket, now, fault)).collect();
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
            return ids.iter().map(|id| self.redrive(id, now, ttl, note, fault)).collect();
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

/// The text of an error of SQLite's that no file system and no lock can cause: what the statements themselves did
/// wrong, such as a ROLLBACK where no transaction is open, or a row that breaks a constraint.
pub(super) fn blames_itself(error: &StorageError) -> Option<String> {
    let is_own = matches!(
        error.code()?,
        ErrorCode::Unknown
            | ErrorCode::ApiMisuse
            | ErrorCode::ConstraintViolation
            | ErrorCode::InternalMalfunction
            | ErrorCode::ParameterOutOfRange
            | ErrorCode::TypeMismatch
    );
    is_own.then(|| error.to_string())
}

/// The operation that runs failed with an error that hides its cause.
pub(super) fn hidden(error: &str) {
    with(|judges, world| {
        let detail = format!("process {} fails with: {error}", world.running().0);
        judges.fail(ERROR_NAMES_ITS_CAUSE, world.now_us(), detail);
    });
}

/// The jobs of these tickets were claimed on the lane that runs.
fn claimed(tickets: &[Ticket]) {
    with(|judges, world| {
        if let (process, Some(lane)) = world.running() {
            tickets.iter().for_each(|ticket| judges.claimed(process, lane, &ticket.id));
        }
    });
}

/// The answers of operations that share a transaction, or why it failed for all of them.
fn batch<T>(
    results: &[T],
    judged: impl Fn(&T) -> Result<QueueResult, Failure>,
) -> Result<QueueResult, Failure> {
    let answer = |result| match judged(result) {
        Err(Failure::Answer(answer)) => Ok(answer),
        judged => judged,
    };
    results.iter().map(answer).collect::<Result<_, _>>().map(QueueResult::Batch)
}

fn enqueued(result: &Result<Enqueued, EnqueueError>) -> Result<QueueResult, Failure> {
    result.as_ref().map(|enqueued| QueueResult::Enqueued(*enqueued)).map_err(|error| match error {
        EnqueueError::Conflict { .. } => Failure::Answer(QueueResult::Conflict),
        EnqueueError::Invalid(_) => Failure::Clock,
        EnqueueError::Storage(error) => error.into(),
    })
}

fn redriven(result: &Result<(), RedriveError>) -> Result<QueueResult, Failure> {
    result.as_ref().map(|()| QueueResult::Redriven).map_err(|error| match error {
        RedriveError::NoSuchJob { .. } => Failure::Answer(QueueResult::NoSuchJob),
        RedriveError::NotDead { status, .. } => Failure::Answer(QueueResult::NotDead(*status)),
        RedriveError::Invalid(_) => Failure::Clock,
        RedriveError::Hook(_) => Failure::Hook,
        RedriveError::Storage(error) => error.into(),
    })
}

fn finished(result: &Result<Finished, FinishError>) -> Result<QueueResult, Failure> {
    result.as_ref().map(|finished| QueueResult::Finished(*finished)).map_err(finish_failure)
}

fn released(result: &Result<Released, FinishError>) -> Result<QueueResult, Failure> {
    result.as_ref().map(|released| QueueResult::Released(*released)).map_err(finish_failure)
}

fn claim_failure(error: &ClaimError) -> Failure {
    match error {
        ClaimError::Clock(_) => Failure::Clock,
        ClaimError::Hook(_) => Failure::Hook,
        ClaimError::Storage(error) => error.into(),
    }
}

fn finish_failure(error: &FinishError) -> Failure {
    match error {
        FinishError::Hook(_) => Failure::Hook,
        FinishError::Storage(error) => error.into(),
    }
}

/// A model whose judge is among [`Judges`].
pub(super) trait Kept: Model {
    /// The judge of the file with this index among those of its kind.
    fn judge(judges: &mut Judges, index: usize) -> Option<(&mut FileJudge<Self>, &mut Milestones)>;
}

impl Kept for QueueModel {
    fn judge(judges: &mut Judges, _index: usize) -> Option<(&mut FileJudge<Self>, &mut Milestones)> {
        Some((&mut judges.queue, &mut judges.milestones))
    }
}

pub(super) fn begin<M: Kept>(index: usize, op: Option<M::Op>) {
    with(|judges, world| {
        if let ((process, Some(lane)), Some((judge, _))) = (world.running(), M::judge(judges, index)) {
            judge.begin(process, lane, world.now_us(), op);
        }
    });
}

/// The operation has read the clock, and with that is complete.
fn tell(op: QueueOp) {
    with(|judges, world| {
        if let (_, Some(lane)) = world.running() {
            judges.queue.set_op(lane, op, world.now_us());
        }
    });
}

/// The operation that runs gave up on a lock.
pub(super) fn gave_up<M: Kept>(index: usize, patience_us: i64) {
    with(|judges, world| {
        if let ((_, Some(lane)), Some((judge, _))) = (world.running(), M::judge(judges, index)) {
            judge.gave_up(lane, world.now_us(), patience_us);
        }
    });
}

pub(super) fn end_with<M: Kept>(index: usize, outcome: Outcome<M::Result>) {
    let has_failed = matches!(outcome, Outcome::Failed | Outcome::Unknown);
    with(|judges, world| {
        let (process, Some(lane)) = world.running() else { return };
        world.note(|| match &outcome {
            Outcome::Returned(result) => M::told(result),
            Outcome::Failed => "fails, and nothing has changed".to_owned(),
            Outcome::Unknown => "fails, and whether it committed is unknown".to_owned(),
        });
        // First, since all else that is wrong may follow from it.
        if world.lane_holds_lock(lane) {
            let detail = format!("process {process} keeps a lock after an operation has ended");
            judges.fail(NO_LOCK_LEFT, world.now_us(), detail);
        }
        let Some((judge, milestones)) = M::judge(judges, index) else { return };
        if let Outcome::Returned(result) = &outcome {
            M::returned(result, milestones);
        }
        judge.end(lane, world.now_us(), outcome);
        if judge.commits_lost() > 0 {
            milestones.reach(Milestone::CommitLost);
        }
        judges.take_from_files();
    });
    if has_failed && let Some(world) = current().filter(|world| world.is_alive()) {
        world.operation_failed();
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn q7_an_error_that_no_disk_and_no_lock_can_cause_hides_what_happened() {
        let is_own = |code| {
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            blames_itself(&StorageError::Sqlite(error)).is_some()
        };
        for code in [ffi::SQLITE_ERROR, ffi::SQLITE_MISUSE, ffi::SQLITE_CONSTRAINT, ffi::SQLITE_MISMATCH] {
            assert!(is_own(code), "{code}");
        }
        for code in [ffi::SQLITE_BUSY, ffi::SQLITE_FULL, ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_CANTOPEN] {
            assert!(!is_own(code), "{code}");
        }
        assert!(blames_itself(&StorageError::RolledBack).is_none());
    }
}
