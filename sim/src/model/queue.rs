//! The lease queue (contract, part Q and M10 to M12) over plain maps.

mod file;
mod op;

use std::collections::BTreeMap;

use ackward::rules::{
    Attempts, Delay, Event, INSTANT_MAX_MS, Lease, Millis, Name, Outcome, Reason, Status, Ticket, Ttl,
};
use ackward::storage::{Enqueued, Finished, Released, Renewed};

use super::{Applied, JobRow, RedriveRow};

pub use op::{QueueOp, QueueResult};

/// The two tables and their AUTOINCREMENT counters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueModel {
    /// Rows of `jobs` by seq.
    jobs: BTreeMap<i64, JobRow>,
    /// The unique ids, with their seq.
    ids: BTreeMap<Name, i64>,
    redrives: Vec<RedriveRow>,
    jobs_seq_last: i64,
    redrives_seq_last: i64,
}

impl QueueModel {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The rows of `jobs` by seq.
    #[must_use]
    pub const fn jobs(&self) -> &BTreeMap<i64, JobRow> {
        &self.jobs
    }

    /// The job of this id.
    #[must_use]
    pub fn job(&self, id: &Name) -> Option<&JobRow> {
        self.jobs.get(self.ids.get(id)?)
    }

    /// The rows of `redrives` by seq.
    #[must_use]
    pub fn redrives(&self) -> &[RedriveRow] {
        &self.redrives
    }

    /// Applies an operation as one transaction.
    pub fn apply(&mut self, op: &QueueOp) -> Applied<QueueResult> {
        match op {
            QueueOp::Enqueue { event, now, ttl, max_attempts } => {
                self.enqueue(event, *now, *ttl, *max_attempts)
            }
            QueueOp::Claim { owner, now, lease } => self.claim(owner, *now, *lease),
            QueueOp::Finish { ticket, outcome, now, delay } => self.finish(ticket, *outcome, *now, *delay),
            QueueOp::Redrive { id, now, ttl, note } => self.redrive(id, *now, *ttl, note),
            QueueOp::Renew { ticket, now, lease } => self.renew(ticket, *now, *lease),
            QueueOp::Release { ticket, now } => self.release(ticket, *now),
            QueueOp::ClaimMany { owner, now, lease, max } => self.claim_many(owner, *now, *lease, *max),
            QueueOp::Batch(ops) => {
                let applied: Vec<_> = ops.iter().map(|op| self.apply(op)).collect();
                let changed = applied.iter().any(|applied| applied.changed);
                let results = applied.into_iter().map(|applied| applied.result).collect();
                Applied { result: QueueResult::Batch(results), changed }
            }
        }
    }

    fn claim_many(&mut self, owner: &Name, now: Millis, lease: Lease, max: usize) -> Applied<QueueResult> {
        let (mut results, mut changed) = (Vec::new(), false);
        while results.len() < max {
            let applied = self.claim(owner, now, lease);
            changed |= applied.changed;
            if applied.result == QueueResult::Claimed(None) {
                break;
            }
            results.push(applied.result);
        }
        Applied { result: QueueResult::Batch(results), changed }
    }

    fn enqueue(
        &mut self,
        event: &Event,
        now: Millis,
        ttl: Ttl,
        max_attempts: Attempts,
    ) -> Applied<QueueResult> {
        let deadline = now.get() + ttl.get();
        if deadline > INSTANT_MAX_MS {
            return Applied::unchanged(QueueResult::Invalid);
        }
        if let Some(job) = self.job(&event.id) {
            let is_same = job.qty == event.qty.get();
            let duplicate = QueueResult::Enqueued(Enqueued::Duplicate);
            return Applied::unchanged(if is_same { duplicate } else { QueueResult::Conflict });
        }
        self.insert(JobRow {
            id: event.id.clone(),
            qty: event.qty.get(),
            status: Status::Pending,
            attempts: 0,
            max_attempts: max_attempts.get(),
            token: 0,
            available_at: now.get(),
            deadline,
            owner: None,
            lease_until: None,
            reason: None,
        });
        Applied::changed(QueueResult::Enqueued(Enqueued::New))
    }

    fn insert(&mut self, job: JobRow) {
        self.jobs_seq_last += 1;
        self.ids.insert(job.id.clone(), self.jobs_seq_last);
        self.jobs.insert(self.jobs_seq_last, job);
    }

    fn claim(&mut self, owner: &Name, now: Millis, lease: Lease) -> Applied<QueueResult> {
        let now_ms = now.get();
        let mut changed = false;
        for job in self.jobs.values_mut().filter(|job| job.is_in_range()) {
            changed |= quarantine(job, now_ms);
        }
        let eligible = |job: &&mut JobRow| {
            job.is_in_range()
                && match job.status {
                    Status::Pending => job.available_at <= now_ms,
                    Status::Leased => job.lease_is_over(now_ms),
                    Status::Done | Status::Dead => false,
                }
        };
        let Some(job) = self.jobs.values_mut().find(eligible) else {
            return Applied { result: QueueResult::Claimed(None), changed };
        };
        job.attempts += 1;
        job.token += 1;
        job.status = Status::Leased;
        job.owner = Some(owner.clone());
        job.lease_until = Some(job.deadline.min(now_ms + lease.get()));
        job.reason = None;
        Applied::changed(QueueResult::Claimed(job.ticket()))
    }

    fn finish(
        &mut self,
        ticket: &Ticket,
        outcome: Outcome,
        now: Millis,
        delay: Delay,
    ) -> Applied<QueueResult> {
        let now_ms = now.get();
        let Some(job) = self.held(ticket, now_ms) else {
            return Applied::unchanged(QueueResult::Finished(Finished::Stale));
        };
        let again_ms = now_ms + delay.get();
        let (status, reason) = match outcome {
            Outcome::Ok => (Status::Done, None),
            Outcome::Permanent => (Status::Dead, Some(Reason::Permanent)),
            Outcome::Retry if job.attempts >= job.max_attempts => (Status::Dead, Some(Reason::Exhausted)),
            Outcome::Retry if again_ms >= job.deadline => (Status::Dead, Some(Reason::Deadline)),
            Outcome::Retry => (Status::Pending, Some(Reason::Retry)),
        };
        job.available_at = if status == Status::Pending { again_ms } else { now_ms };
        job.leave_lease(status, reason);
        Applied::changed(QueueResult::Finished(Finished::Now(status)))
    }

    fn redrive(&mut self, id: &Name, now: Millis, ttl: Ttl, note: &Name) -> Applied<QueueResult> {
        let deadline = now.get() + ttl.get();
        if deadline > INSTANT_MAX_MS {
            return Applied::unchanged(QueueResult::Invalid);
        }
        let Some(job) = self.ids.get(id).and_then(|seq| self.jobs.get_mut(seq)) else {
            return Applied::unchanged(QueueResult::NoSuchJob);
        };
        if job.status != Status::Dead {
            return Applied::unchanged(QueueResult::NotDead(job.status));
        }
        self.redrives_seq_last += 1;
        self.redrives.push(RedriveRow {
            seq: self.redrives_seq_last,
            id: id.clone(),
            token: job.token,
            at_ms: now.get(),
            note: note.clone(),
        });
        job.attempts = 0;
        job.available_at = now.get();
        job.deadline = deadline;
        job.leave_lease(Status::Pending, None);
        Applied::changed(QueueResult::Redriven)
    }

    fn renew(&mut self, ticket: &Ticket, now: Millis, lease: Lease) -> Applied<QueueResult> {
        let stale = Applied::unchanged(QueueResult::Renewed(Renewed::Stale));
        let Some(job) = self.held(ticket, now.get()) else { return stale };
        let lease_until = Some(job.deadline.min(now.get() + lease.get()));
        let changed = job.lease_until != lease_until;
        job.lease_until = lease_until;
        let Some(ticket) = job.ticket() else { return stale };
        Applied { result: QueueResult::Renewed(Renewed::Until(ticket)), changed }
    }

    fn release(&mut self, ticket: &Ticket, now: Millis) -> Applied<QueueResult> {
        let Some(job) = self.held(ticket, now.get()) else {
            return Applied::unchanged(QueueResult::Released(Released::Stale));
        };
        job.attempts -= 1;
        job.available_at = now.get();
        job.leave_lease(Status::Pending, None);
        Applied::changed(QueueResult::Released(Released::Pending))
    }

    /// The job that `ticket` still holds (Q36).
    fn held(&mut self, ticket: &Ticket, now_ms: i64) -> Option<&mut JobRow> {
        let job = self.jobs.get_mut(self.ids.get(&ticket.id)?)?;
        job.accepts(ticket, now_ms).then_some(job)
    }
}

/// Kills a waiting job whose deadline has come or whose attempts are used up (Q26, Q27); says whether it did.
fn quarantine(job: &mut JobRow, now_ms: i64) -> bool {
    let waits = job.status == Status::Pending || (job.status == Status::Leased && job.lease_is_over(now_ms));
    let reason = if job.deadline <= now_ms {
        Reason::Deadline
    } else if job.attempts >= job.max_attempts {
        Reason::Exhausted
    } else {
        return false;
    };
    if waits {
        job.leave_lease(Status::Dead, Some(reason));
    }
    waits
}

impl JobRow {
    /// Sets the status of a job that nobody holds any more.
    fn leave_lease(&mut self, status: Status, reason: Option<Reason>) {
        self.status = status;
        self.reason = reason;
        self.owner = None;
        self.lease_until = None;
    }
}
