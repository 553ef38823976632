//! The lease queue (contract, part Q and M10 to M12) over plain maps.

use std::collections::BTreeMap;

use ackward::rules::{
    Attempts, Delay, Event, INSTANT_MAX_MS, Lease, Millis, Name, Outcome, Reason, Status, Ticket, Ttl,
};
use ackward::storage::{Enqueued, Finished, Released, Renewed};

use crate::sqlite_file::{Image, Schema, ValueRef};

use super::compare::{Difference, Shape};
use super::row::{JOBS, REDRIVES};
use super::{Applied, JobRow, RedriveRow};

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
    /// `now + ttl` lies beyond 10^15, which only wide limits (M11) let happen.
    Invalid,
}

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

/// SQLite's AUTOINCREMENT counters.
const SEQUENCES: Shape<2> = Shape { table: "sqlite_sequence", columns: ["name", "seq"] };

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
        }
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

    /// Reads the rows of a file; absent tables are empty.
    ///
    /// # Errors
    /// [`Difference`] where the file is corrupt or a column holds no value of its kind.
    pub fn from_image(image: &Image<'_>, schema: &Schema) -> Result<Self, Difference> {
        let mut model = Self::new();
        if let Some(table) = schema.table(JOBS.table) {
            image.for_each_row(table, |seq, values| {
                let job = JobRow::from_values(seq, values)?;
                model.ids.insert(job.id.clone(), seq);
                model.jobs.insert(seq, job);
                Ok::<_, Difference>(())
            })?;
        }
        if let Some(table) = schema.table(REDRIVES.table) {
            image.for_each_row(table, |seq, values| {
                model.redrives.push(RedriveRow::from_values(seq, values)?);
                Ok::<_, Difference>(())
            })?;
        }
        if let Some(table) = schema.table(SEQUENCES.table) {
            image.for_each_row(table, |_, values| {
                match *values {
                    [ValueRef::Text("jobs"), ValueRef::Int(last)] => model.jobs_seq_last = last,
                    [ValueRef::Text("redrives"), ValueRef::Int(last)] => model.redrives_seq_last = last,
                    _ => {}
                }
                Ok::<_, Difference>(())
            })?;
        }
        Ok(model)
    }

    /// Compares with the rows of a file, AUTOINCREMENT counters included; an absent table is empty.
    ///
    /// # Errors
    /// The first [`Difference`].
    pub fn matches(&self, image: &Image<'_>, schema: &Schema) -> Result<(), Difference> {
        JOBS.compare(image, schema, self.jobs.iter().map(|(seq, job)| (*seq, job.cells(*seq))))?;
        REDRIVES.compare(image, schema, self.redrives.iter().map(|row| (row.seq, row.cells())))?;
        let counters = [(JOBS.table, self.jobs_seq_last), (REDRIVES.table, self.redrives_seq_last)];
        let counters = counters.into_iter().filter(|(_, last)| *last > 0);
        SEQUENCES.compare_by_name(
            image,
            schema,
            counters.map(|(table, last)| [ValueRef::Text(table), ValueRef::Int(last)]),
        )
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
