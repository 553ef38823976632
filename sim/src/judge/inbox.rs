//! How the receiver's inbox is judged: a group of events is one transaction, and each has an answer of its own.

use ackward::port::Fault;
use ackward::storage::{AcceptError, Accepted, Answer, Arrival, EventInbox, StorageError};

use super::file::{BUSY_TIMEOUT_US, FileJudge, Model, Outcome};
use super::queue::since_start;
use super::spy::{Kept, begin, blames_itself, end_with, gave_up, hidden};
use super::{Judges, Milestone, Milestones};
use crate::computer::current;
use crate::model::{Applied, Broken, Difference, InboxModel, InboxOp, InboxResult};
use crate::sqlite_file::{Image, Schema};

/// The inbox's model with groups of events as operations. In a result `None` is an event that failed by itself,
/// taken back to its savepoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupModel(pub InboxModel);

impl GroupModel {
    /// Takes a group's events, all but those whose bit in `failing` is set.
    fn take(&self, group: &[InboxOp], failing: u32) -> (Self, Applied<Vec<Option<InboxResult>>>) {
        let mut after = self.clone();
        let mut changed = false;
        let mut take = |(at, op): (usize, &InboxOp)| {
            let is_failing = failing & (1 << at) != 0;
            (!is_failing).then(|| {
                let applied = after.0.apply(op);
                changed |= applied.changed;
                applied.result
            })
        };
        let result = group.iter().enumerate().map(&mut take).collect();
        (after, Applied { result, changed })
    }
}

impl Model for GroupModel {
    type Op = Vec<InboxOp>;
    type Result = Vec<Option<InboxResult>>;

    fn outcomes(&self, group: &Self::Op) -> Vec<(Self, Applied<Self::Result>)> {
        // An event that comes alone fails as a whole, and then nothing has changed.
        let ways = if group.len() == 1 { 1 } else { 1 << group.len().min(GROUP_MAX) };
        (0..ways).map(|failing| self.take(group, failing)).collect()
    }

    fn matches(&self, image: &Image<'_>, schema: &Schema) -> Result<(), Difference> {
        self.0.matches(image, schema)
    }

    fn check_step(&self, _before: &Self) -> Result<(), Broken> {
        Ok(())
    }

    fn asked(group: &Self::Op) -> String {
        let events = group.iter().map(|InboxOp::Receive { event, now }| {
            format!("{} (qty {}) at {}", event.id, event.qty.get(), since_start(now.get()))
        });
        format!("accept of {}", events.collect::<Vec<_>>().join("; "))
    }

    fn told(result: &Self::Result) -> String {
        let told = result.iter().map(|answer| match answer {
            Some(InboxResult::Applied) => "new, the effect took place",
            Some(InboxResult::Duplicate) => "seen before, no second effect",
            Some(InboxResult::Conflict) => "refused, the id has another quantity",
            None => "failed, and taken back",
        });
        format!("accept: {}", told.collect::<Vec<_>>().join("; "))
    }

    fn story(&self, before: &Self) -> Vec<String> {
        let effects = self.0.effects();
        let new = &effects[before.0.effects().len().min(effects.len())..];
        new.iter().map(|row| format!("effect of {} (qty {})", row.id, row.qty)).collect()
    }

    fn milestones(&self, before: &Self, _: &Self::Op, _: &Self::Result, reached: &mut Milestones) {
        if self.0.effects().len() > before.0.effects().len() + 1 {
            reached.reach(Milestone::Group);
        }
    }

    fn confirms(result: &Self::Result) -> bool {
        result.contains(&Some(InboxResult::Duplicate))
    }

    fn returned(result: &Self::Result, reached: &mut Milestones) {
        for answer in result.iter().flatten() {
            match answer {
                InboxResult::Applied => {}
                InboxResult::Duplicate => reached.reach(Milestone::Redelivery),
                InboxResult::Conflict => reached.reach(Milestone::Conflict),
            }
        }
    }
}

/// The most events of a group that can be judged: each may fail by itself.
pub const GROUP_MAX: usize = 6;

impl Kept for GroupModel {
    fn judge(judges: &mut Judges, _index: usize) -> Option<(&mut FileJudge<Self>, &mut Milestones)> {
        Some((&mut judges.inbox, &mut judges.milestones))
    }
}

/// An inbox that is watched.
#[derive(Debug)]
pub struct WatchedInbox<I>(pub I);

impl<I: EventInbox> EventInbox for WatchedInbox<I> {
    fn accept_many(
        &mut self,
        arrivals: &[Arrival],
        fault: &mut dyn Fault,
    ) -> Result<Vec<Answer>, AcceptError> {
        let group = arrivals.iter().map(|Arrival { event, at }| {
            let (event, now) = (event.clone(), *at);
            InboxOp::Receive { event, now }
        });
        begin::<GroupModel>(0, Some(group.collect()));
        let answers = self.0.accept_many(arrivals, fault);
        let told = match &answers {
            Ok(answers) => all_told(answers),
            Err(error) => failed(error),
        };
        end_with::<GroupModel>(0, told);
        answers
    }
}

/// What the judge is told of a group that was answered.
fn all_told(answers: &[Answer]) -> Outcome<Vec<Option<InboxResult>>> {
    if let [Err(error)] = answers
        && !matches!(error, AcceptError::Conflict { .. })
    {
        return failed(error);
    }
    for answer in answers {
        if let Err(AcceptError::Storage(error)) = answer {
            check_cause(error);
        }
    }
    let has_failed = answers.iter().any(|answer| matches!(answer, Err(AcceptError::Storage(_))));
    if let Some(world) = current().filter(|world| has_failed && world.is_alive()) {
        world.operation_failed();
    }
    let told = answers.iter().map(|answer| match answer {
        Ok(Accepted::Applied) => Some(InboxResult::Applied),
        Ok(Accepted::Repeat) => Some(InboxResult::Duplicate),
        Err(AcceptError::Conflict { .. }) => Some(InboxResult::Conflict),
        Err(AcceptError::Hook(_) | AcceptError::Storage(_)) => None,
    });
    Outcome::Returned(told.collect())
}

/// What the judge is told of a transaction that failed.
fn failed(error: &AcceptError) -> Outcome<Vec<Option<InboxResult>>> {
    if let AcceptError::Storage(error) = error {
        check_cause(error);
    }
    match error {
        AcceptError::Hook(_) | AcceptError::Storage(StorageError::CommitUnknown(_)) => Outcome::Unknown,
        AcceptError::Storage(error) if error.is_busy() => {
            gave_up::<GroupModel>(0, BUSY_TIMEOUT_US);
            Outcome::Failed
        }
        AcceptError::Storage(_) | AcceptError::Conflict { .. } => Outcome::Failed,
    }
}

/// An error must tell what happened, not hide it.
fn check_cause(error: &StorageError) {
    if let Some(error) = blames_itself(error) {
        hidden(&error);
    }
}

#[cfg(test)]
mod tests {
    use ackward::rules::{Event, Millis, Name, Qty};

    use super::*;

    fn receive(id: &str, qty: i64) -> InboxOp {
        let event = Event { id: Name::new("id", id).unwrap(), qty: Qty::new(qty).unwrap() };
        InboxOp::Receive { event, now: Millis::new(1).unwrap() }
    }

    #[test]
    fn w3_in_a_group_each_event_may_fail_by_itself_and_the_regular_outcome_comes_first() {
        let group = vec![receive("a", 1), receive("a", 1), receive("a", 2)];
        let outcomes = GroupModel::default().outcomes(&group);
        assert_eq!(outcomes.len(), 8);
        let (applied, again, other) = (InboxResult::Applied, InboxResult::Duplicate, InboxResult::Conflict);
        assert_eq!(outcomes[0].1.result, [Some(applied), Some(again), Some(other)]);
        assert_eq!(outcomes[1].1.result, [None, Some(applied), Some(other)]);
        assert_eq!(
            outcomes[0].0, outcomes[1].0,
            "whichever of two like events took effect, the rows are the same"
        );
        assert_eq!(outcomes[7].1.result, [None, None, None]);
        assert!(!outcomes[7].1.changed);
    }

    #[test]
    fn an_event_that_comes_alone_has_one_outcome() {
        assert_eq!(GroupModel::default().outcomes(&vec![receive("a", 1)]).len(), 1);
    }
}
