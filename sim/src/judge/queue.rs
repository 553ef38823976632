//! How the queue's and the inbox's models judge their files.

use ackward::rules::{Reason, Status};
use ackward::storage::{Enqueued, Finished, Released, Renewed};

use super::file::Model;
use super::{Milestone, Milestones};
use crate::model::{
    Applied, Broken, Difference, InboxModel, InboxOp, InboxResult, JobRow, QueueModel, QueueOp, QueueResult,
};
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
        if *result == QueueResult::Claimed(None) {
            reached.reach(Milestone::QuarantineOnly);
        }
        for (seq, job) in self.jobs() {
            let Some(old) = before.jobs().get(seq).filter(|old| *old != job) else { continue };
            match (job.status, job.reason) {
                (Status::Leased, _)
                    if old.status == Status::Leased && matches!(op, QueueOp::Claim { .. }) =>
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
        *result == QueueResult::Enqueued(Enqueued::Duplicate)
    }

    fn returned(result: &QueueResult, reached: &mut Milestones) {
        let milestone = match result {
            QueueResult::Enqueued(Enqueued::Duplicate) => Milestone::Duplicate,
            QueueResult::Conflict => Milestone::Conflict,
            QueueResult::Claimed(None) => Milestone::Idle,
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

impl Model for InboxModel {
    type Op = InboxOp;
    type Result = InboxResult;

    fn outcomes(&self, op: &InboxOp) -> Vec<(Self, Applied<InboxResult>)> {
        let mut after = self.clone();
        let applied = after.apply(op);
        vec![(after, applied)]
    }

    fn matches(&self, image: &Image<'_>, schema: &Schema) -> Result<(), Difference> {
        self.matches(image, schema)
    }

    fn check_step(&self, _before: &Self) -> Result<(), Broken> {
        Ok(())
    }

    fn story(&self, before: &Self) -> Vec<String> {
        let new = &self.effects()[before.effects().len().min(self.effects().len())..];
        new.iter().map(|row| format!("effect of {} (qty {})", row.id, row.qty)).collect()
    }

    fn milestones(&self, _before: &Self, _op: &InboxOp, _result: &InboxResult, _reached: &mut Milestones) {}

    fn confirms(result: &InboxResult) -> bool {
        *result == InboxResult::Duplicate
    }

    fn returned(result: &InboxResult, reached: &mut Milestones) {
        match result {
            InboxResult::Applied => {}
            InboxResult::Duplicate => reached.reach(Milestone::Redelivery),
            InboxResult::Conflict => reached.reach(Milestone::Conflict),
        }
    }
}

/// One job's change in words.
fn change(before: Option<&JobRow>, after: &JobRow) -> String {
    let from = before.map_or("new", |job| job.status.as_str());
    let reason = after.reason.map(|reason| format!(", {reason}")).unwrap_or_default();
    let owner = after.owner.as_ref().map(|owner| format!(", owner {owner}")).unwrap_or_default();
    let lease = after.lease_until.map(|until| format!(", lease until {until}")).unwrap_or_default();
    let JobRow { id, status, attempts, max_attempts, token, .. } = after;
    format!(
        "{id}: {from} -> {status} (attempt {attempts}/{max_attempts}, token {token}{owner}{lease}{reason})"
    )
}
