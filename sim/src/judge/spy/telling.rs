//! What the judges are told of the operation that runs: that it begins, that it has read the clock, how it ended.

use super::super::file::{FileJudge, Model, Outcome};
use super::super::{ERROR_NAMES_ITS_CAUSE, Judges, Milestone, Milestones, NO_LOCK_LEFT, with};
use crate::computer::current;
use crate::model::{QueueModel, QueueOp};

/// A model whose judge is among [`Judges`].
pub(in crate::judge) trait Kept: Model {
    /// The judge of the file with this index among those of its kind.
    fn judge(judges: &mut Judges, index: usize) -> Option<(&mut FileJudge<Self>, &mut Milestones)>;
}

impl Kept for QueueModel {
    fn judge(judges: &mut Judges, _index: usize) -> Option<(&mut FileJudge<Self>, &mut Milestones)> {
        Some((&mut judges.queue, &mut judges.milestones))
    }
}

pub(in crate::judge) fn begin<M: Kept>(index: usize, op: Option<M::Op>) {
    with(|judges, world| {
        if let ((process, Some(lane)), Some((judge, _))) = (world.running(), M::judge(judges, index)) {
            judge.begin(process, lane, world.now_us(), op);
        }
    });
}

/// The operation has read the clock, and with that is complete.
pub(super) fn tell(op: QueueOp) {
    with(|judges, world| {
        if let (_, Some(lane)) = world.running() {
            judges.queue.set_op(lane, op, world.now_us());
        }
    });
}

/// The operation that runs gave up on a lock.
pub(in crate::judge) fn gave_up<M: Kept>(index: usize, patience_us: i64) {
    with(|judges, world| {
        if let ((_, Some(lane)), Some((judge, _))) = (world.running(), M::judge(judges, index)) {
            judge.gave_up(lane, world.now_us(), patience_us);
        }
    });
}

pub(in crate::judge) fn end_with<M: Kept>(index: usize, outcome: Outcome<M::Result>) {
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

/// The operation that runs failed with an error that hides its cause.
pub(in crate::judge) fn hidden(error: &str) {
    with(|judges, world| {
        let detail = format!("process {} fails with: {error}", world.running().0);
        judges.fail(ERROR_NAMES_ITS_CAUSE, world.now_us(), detail);
    });
}
