//! How a commit is judged by the file's rows at the moment when others can see it.

use super::super::{COMMIT_MATCHES_MODEL, DURABLE_AFTER_POWER_CUT, FILE_INTACT, Milestone, Milestones};
use super::{FileJudge, LastCommit, Model, Watching};
use crate::computer::{LockEvent, Trace};
use crate::sqlite_file::{Image, Schema};

impl<M: Model> Watching for FileJudge<M> {
    fn write_locked(&mut self, event: &LockEvent<'_>) {
        self.writer = Some(event.lane);
        if let Some(Some(running)) = self.running.get_mut(event.lane) {
            running.locked_at_us = Some(event.at_us);
        }
        self.settle(event);
    }

    fn journal_retired(&mut self, event: &LockEvent<'_>, trace: &mut Trace, reached: &mut Milestones) {
        let running = self.running.get(event.lane).and_then(Option::as_ref);
        if !self.candidates.is_empty() {
            reached.reach(Milestone::HotJournal);
            self.settle(event);
            return;
        }
        // Only recovery takes a journal away without ever having asked for the write lock.
        let was_dead = self.writer != Some(event.lane);
        let op = running.filter(|running| running.committed.is_none()).and_then(|running| running.op.clone());
        let Some(op) = op else {
            match self.compare(&self.model.clone(), event) {
                Ok(()) if was_dead => reached.reach(Milestone::HotJournal),
                Ok(()) => {}
                Err(difference) => self.unexpected(event, &difference),
            }
            return;
        };
        let mut difference = String::new();
        let outcomes = self.model.outcomes(&op);
        for (after, applied) in outcomes.iter().cloned() {
            match self.compare(&after, event) {
                Ok(()) if applied.changed => {
                    let same = outcomes.iter().filter(|(state, _)| *state == after);
                    let results = same.map(|(_, applied)| applied.result.clone()).collect();
                    if let Some(Some(running)) = self.running.get_mut(event.lane) {
                        running.committed = Some((self.commits + 1, results));
                    }
                    return self.commit(event, after, &applied.result, trace, reached);
                }
                Ok(()) => return self.unchanged(event, was_dead, reached),
                Err(found) if difference.is_empty() => difference = found,
                Err(_) => {}
            }
        }
        if self.compare(&self.model.clone(), event).is_ok() {
            return self.unchanged(event, was_dead, reached);
        }
        let detail = format!("{} by {} committed: {difference}", M::asked(&op), event.process_name);
        self.found.push((COMMIT_MATCHES_MODEL, event.at_us, detail));
    }

    fn unlocked(&mut self, event: &LockEvent<'_>) {
        let Some(Some(running)) = self.running.get_mut(event.lane) else { return };
        if running.committed.is_some() {
            return;
        }
        if let Some(op) = &running.op {
            running.expected =
                Some(self.model.outcomes(op).into_iter().map(|(_, applied)| applied).collect());
        }
    }
}

impl<M: Model> FileJudge<M> {
    pub(super) fn settle(&mut self, event: &LockEvent<'_>) {
        if self.candidates.is_empty() {
            return;
        }
        let candidates = std::mem::take(&mut self.candidates);
        let mut difference = None;
        for (age, candidate) in candidates.into_iter().enumerate() {
            match self.compare(&candidate, event) {
                Ok(()) => {
                    self.commits_lost += u32::from(age > 0);
                    self.model = candidate;
                    return;
                }
                Err(found) => difference = difference.or(Some(found)),
            }
        }
        let detail = format!("after the power cut: {}", difference.unwrap_or_default());
        self.found.push((DURABLE_AFTER_POWER_CUT, event.at_us, detail));
    }

    pub(super) fn compare(&mut self, model: &M, event: &LockEvent<'_>) -> Result<(), String> {
        if event.image.is_empty() {
            let empty = Schema::default();
            return match Image::new(event.image) {
                Ok(image) => model.matches(&image, &empty).map_err(|difference| difference.to_string()),
                Err(malformed) => Err(malformed.to_string()),
            };
        }
        let image = Image::new(event.image).map_err(|malformed| malformed.to_string())?;
        let schema = self.catalog.schema(&image).map_err(|malformed| malformed.to_string())?;
        model.matches(&image, schema).map_err(|difference| difference.to_string())
    }

    pub(super) fn commit(
        &mut self,
        event: &LockEvent<'_>,
        after: M,
        result: &M::Result,
        trace: &mut Trace,
        reached: &mut Milestones,
    ) {
        let before = std::mem::replace(&mut self.model, after);
        self.commits += 1;
        if let Err(broken) = self.model.check_step(&before) {
            self.found.push((broken.property, event.at_us, broken.detail));
        }
        if let Some(op) =
            self.running.get(event.lane).and_then(Option::as_ref).and_then(|run| run.op.as_ref())
        {
            self.model.milestones(&before, op, result, reached);
        }
        if trace.is_recording() {
            for line in self.model.story(&before) {
                trace.note(event.at_us, event.process_name, || format!("COMMIT {line}"));
            }
        }
        self.last_commit = Some(LastCommit { before, number: self.commits, acknowledged: false });
    }

    /// A journal was retired and the rows are as before: rolled back by the operation itself, or the journal
    /// of a dead one that it found, or a commit of the same rows.
    pub(super) fn unchanged(&mut self, event: &LockEvent<'_>, was_dead: bool, reached: &mut Milestones) {
        if was_dead {
            reached.reach(Milestone::HotJournal);
        } else if let Some(Some(running)) = self.running.get_mut(event.lane) {
            running.rewrote = true;
        }
    }

    pub(super) fn unexpected(&mut self, event: &LockEvent<'_>, difference: &str) {
        let property = if Image::new(event.image).is_ok() { COMMIT_MATCHES_MODEL } else { FILE_INTACT };
        let detail = format!(
            "{} by {} committed a second time or out of turn: {difference}",
            event.operation, event.process_name
        );
        self.found.push((property, event.at_us, detail));
    }
}
