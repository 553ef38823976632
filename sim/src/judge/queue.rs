//! How the queue's model judges its file.

mod words;

use ackward::rules::{Reason, Status, Ticket};
use ackward::storage::{Enqueued, Finished, Released, Renewed};

use super::file::Model;
use super::{Milestone, Milestones};
use crate::computer::EPOCH_MS;
use crate::model::{Applied, Broken, Difference, JobRow, QueueModel, QueueOp, QueueResult};
use crate::sqlite_file::{Image, Schema};

impl Model for QueueModel {
    type Op = QueueOp;
    type Result = QueueResult;

    fn outcomes(&self, op: &QueueOp) -> Vec<(Self, Applied<QueueResult>)> {
        let mut after = self.clone();
        let applied = after.apply(op);
        vec![(after, applied)]
    }

    fn matches(&self, image: &Image<'_>, schema: &Schema) -> Result<(), Difference> {
        self.matches(image, schema)
    }

    fn check_step(&self, before: &Self) -> Result<(), Broken> {
        self.check_step(before)
    }

    fn asked(op: &QueueOp) -> String {
        words::asked(op)
    }

    fn exactly(result: &QueueResult) -> String {
        words::exactly(result)
    }

    fn told(result: &QueueResult) -> String {
        match result {
            QueueResult::Enqueued(Enqueued::New) => "enqueue: accepted".to_owned(),
            QueueResult::Enqueued(Enqueued::Duplicate) => "enqueue: a duplicate, left as it is".to_owned(),
            QueueResult::Conflict => "enqueue: refused, the id has another quantity".to_owned(),
            QueueResult::Claimed(None) => "claim: nothing to do".to_owned(),
            QueueResult::Claimed(Some(ticket)) => format!("claim: {}", ticket_text(ticket)),
            QueueResult::Finished(Finished::Now(status)) => format!("finish: {status}"),
            QueueResult::Finished(Finished::Stale) => "finish: stale, nothing changed".to_owned(),
            QueueResult::Redriven => "redrive: pending again".to_owned(),
            QueueResult::NoSuchJob => "redrive: refused, there is no such job".to_owned(),
            QueueResult::NotDead(status) => format!("redrive: refused, the job is {status}"),
            QueueResult::Renewed(Renewed::Until(ticket)) => format!("renew: {}", ticket_text(ticket)),
            QueueResult::Renewed(Renewed::Stale) => "renew: stale, nothing changed".to_owned(),
            QueueResult::Released(Released::Pending) => "release: pending again".to_owned(),
            QueueResult::Released(Released::Stale) => "release: stale, nothing changed".to_owned(),
            QueueResult::Invalid => "refused: the deadline is beyond all time".to_owned(),
            QueueResult::Batch(results) if results.is_empty() => "claim: nothing to do".to_owned(),
            QueueResult::Batch(results) => results.iter().map(Self::told).collect::<Vec<_>>().join("; "),
        }
    }

    fn story(&self, before: &Self) -> Vec<String> {
        let changed = self.jobs().iter().filter(|(seq, job)| before.jobs().get(seq) != Some(job));
        let mut story: Vec<_> = changed.map(|(seq, job)| change(before.jobs().get(seq), job)).collect();
        let redrives = &self.redrives()[before.redrives().len().min(self.redrives().len())..];
        story.extend(
            redrives
                .iter()
                .map(|row| format!("audit: {} redriven at token {} ({})", row.id, row.token, row.note)),
        );
        story
    }

    fn milestones(&self, before: &Self, op: &QueueOp, result: &QueueResult, reached: &mut Milestones) {
        if has_claimed_nothing(result) {
            reached.reach(Milestone::QuarantineOnly);
        }
        for (seq, job) in self.jobs() {
            let Some(old) = before.jobs().get(seq).filter(|old| *old != job) else { continue };
            match (job.status, job.reason) {
                (Status::Leased, _)
                    if old.status == Status::Leased
                        && matches!(op, QueueOp::Claim { .. } | QueueOp::ClaimMany { .. }) =>
                {
                    reached.reach(Milestone::Reclaim);
                }
                (Status::Dead, Some(Reason::Deadline)) => reached.reach(Milestone::DeadDeadline),
                (Status::Dead, Some(Reason::Exhausted)) => reached.reach(Milestone::DeadExhausted),
                (Status::Dead, Some(Reason::Permanent)) => reached.reach(Milestone::DeadPermanent),
                _ => {}
            }
        }
    }

    fn confirms(result: &QueueResult) -> bool {
        match result {
            QueueResult::Batch(results) => results.iter().any(Self::confirms),
            result => *result == QueueResult::Enqueued(Enqueued::Duplicate),
        }
    }

    fn returned(result: &QueueResult, reached: &mut Milestones) {
        let milestone = match result {
            QueueResult::Enqueued(Enqueued::Duplicate) => Milestone::Duplicate,
            QueueResult::Conflict => Milestone::Conflict,
            QueueResult::Batch(results) if !results.is_empty() => {
                return results.iter().for_each(|result| Self::returned(result, reached));
            }
            result if has_claimed_nothing(result) => Milestone::Idle,
            QueueResult::Finished(Finished::Stale) => Milestone::StaleFinish,
            QueueResult::Finished(Finished::Now(Status::Done)) => Milestone::Done,
            QueueResult::Finished(Finished::Now(Status::Pending)) => Milestone::Retry,
            QueueResult::Redriven => Milestone::Redriven,
            QueueResult::NoSuchJob | QueueResult::NotDead(_) => Milestone::RedriveRefused,
            QueueResult::Renewed(Renewed::Until(_)) => Milestone::Renewed,
            QueueResult::Renewed(Renewed::Stale) => Milestone::LeaseLost,
            QueueResult::Released(Released::Pending) => Milestone::Released,
            _ => return,
        };
        reached.reach(milestone);
    }
}

/// Of several operations none has an empty answer: only claims do, where they find nothing.
fn has_claimed_nothing(result: &QueueResult) -> bool {
    match result {
        QueueResult::Batch(results) => results.is_empty(),
        result => *result == QueueResult::Claimed(None),
    }
}

fn ticket_text(ticket: &Ticket) -> String {
    let Ticket { id, token, attempt, .. } = ticket;
    let until = since_start(ticket.lease_until_ms());
    format!("{id}, token {}, attempt {}, leased until {until}", token.get(), attempt.get())
}

/// A time of the database as the story counts it, from the beginning of the run.
pub(super) fn since_start(at_ms: i64) -> String {
    format!("{} ms", at_ms - EPOCH_MS)
}

/// One job's change in words.
fn change(before: Option<&JobRow>, after: &JobRow) -> String {
    let from = before.map_or("new", |job| job.status.as_str());
    let reason = after.reason.map(|reason| format!(", {reason}")).unwrap_or_default();
    let owner = after.owner.as_ref().map(|owner| format!(", owner {owner}")).unwrap_or_default();
    let lease =
        after.lease_until.map(|until| format!(", leased until {}", since_start(until))).unwrap_or_default();
    let JobRow { id, status, attempts, max_attempts, token, .. } = after;
    format!(
        "{id}: {from} -> {status} (attempt {attempts}/{max_attempts}, token {token}{owner}{lease}{reason})"
    )
}
