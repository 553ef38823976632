//! Judges one database file against a model of what its operations do.
//!
//! A commit is judged at the moment that retires the journal, since that is when others can see it: the
//! file's rows, read from its bytes, must then be those that the committing operation makes of the rows
//! before. An operation that changes nothing is judged by the rows at the moment when it gave its write
//! lock back.

use ackward::storage::Durability;

use super::{
    BUSY_ONLY_AFTER_TIMEOUT, CLOCK_UNDER_LOCK, COMMIT_MATCHES_MODEL, DURABLE_AFTER_POWER_CUT,
    FAILURE_CHANGES_NOTHING, FILE_INTACT, Milestone, Milestones, ONE_TRANSACTION, RESULT_MATCHES_MODEL,
};
use crate::computer::{LockEvent, ProcessId, Trace};
use crate::model::{Applied, Broken, Difference};
use crate::sqlite_file::{Catalog, Image, Schema};

/// How long a lock is waited for where nothing else was agreed, in microseconds (Q6).
pub(super) const BUSY_TIMEOUT_US: i64 = 1_000_000;

/// Which file is judged.
#[derive(Debug, Clone)]
pub struct Judged {
    /// The machine's number.
    pub machine: usize,
    /// The file's name.
    pub file: String,
    /// What a power cut may take.
    pub durability: Durability,
}

/// A reference model of a file's operations.
pub trait Model: Clone + Default + PartialEq {
    /// An operation with its arguments.
    type Op: Clone + std::fmt::Debug;
    /// What it returns.
    type Result: PartialEq + std::fmt::Debug + Clone;

    /// What an operation may do, the regular outcome first: the state afterwards and what is returned. Errors
    /// that change nothing are not listed.
    fn outcomes(&self, op: &Self::Op) -> Vec<(Self, Applied<Self::Result>)>;

    /// Compares with a file's rows.
    ///
    /// # Errors
    /// The first difference.
    fn matches(&self, image: &Image<'_>, schema: &Schema) -> Result<(), Difference>;

    /// Invariants of the step from an earlier committed state.
    ///
    /// # Errors
    /// The first that is broken.
    fn check_step(&self, before: &Self) -> Result<(), Broken>;

    /// An operation in words, with all its arguments.
    fn asked(op: &Self::Op) -> String;

    /// A result in words, for the story.
    fn told(result: &Self::Result) -> String;

    /// A result in words that no other result has.
    fn exactly(result: &Self::Result) -> String {
        Self::told(result)
    }

    /// What a commit changed, for the story.
    fn story(&self, before: &Self) -> Vec<String>;

    /// What an operation's commit reached.
    fn milestones(&self, before: &Self, op: &Self::Op, result: &Self::Result, reached: &mut Milestones);

    /// Whether a result can be known without looking at the file, and so without its lock.
    fn needs_no_lock(_result: &Self::Result) -> bool {
        false
    }

    /// Whether a result that changes nothing promises its caller that an earlier operation's change is in
    /// place, so that it will not be asked for again: a power cut must not take that back (M9).
    fn confirms(_result: &Self::Result) -> bool {
        false
    }

    /// What a result reached that a caller was given.
    fn returned(result: &Self::Result, reached: &mut Milestones);
}

/// How an operation ended, as its caller was told.
#[derive(Debug)]
pub enum Outcome<R> {
    /// It returned this.
    Returned(R),
    /// It failed and says that nothing has changed.
    Failed,
    /// It failed and says that the change may be in place: COMMIT's outcome is unknown (M8), or a hook
    /// failed after it (Q8).
    Unknown,
}

/// The judge of one file.
#[derive(Debug)]
pub struct FileJudge<M: Model> {
    judged: Judged,
    catalog: Catalog,
    model: M,
    last_commit: Option<LastCommit<M>>,
    /// After a power cut: the states that the file may hold, until the next look settles it.
    candidates: Vec<M>,
    running: Vec<Option<Running<M>>>,
    /// The lane that holds the write lock.
    writer: Option<usize>,
    commits: u64,
    commits_lost: u32,
    /// Violations that were found: property, time, detail.
    pub(super) found: Vec<(&'static str, i64, String)>,
}

#[derive(Debug)]
struct LastCommit<M> {
    before: M,
    number: u64,
    acknowledged: bool,
}

#[derive(Debug)]
struct Running<M: Model> {
    process: ProcessId,
    begun_at_us: i64,
    op: Option<M::Op>,
    /// When it read the clock, in microseconds, unless its caller did.
    clock_read_at_us: Option<i64>,
    /// When it took the write lock, in microseconds, if it did.
    locked_at_us: Option<i64>,
    /// What it may return if it changes nothing, judged when it gave its write lock back.
    expected: Option<Vec<Applied<M::Result>>>,
    /// The commit's number, and the results that go with its state.
    committed: Option<(u64, Vec<M::Result>)>,
    /// Whether it retired a journal without changing rows.
    rewrote: bool,
}

/// The part of a judge that does not depend on its model.
pub(super) trait Watching {
    fn write_locked(&mut self, event: &LockEvent<'_>);
    fn journal_retired(&mut self, event: &LockEvent<'_>, trace: &mut Trace, reached: &mut Milestones);
    fn unlocked(&mut self, event: &LockEvent<'_>);
}

impl<M: Model> FileJudge<M> {
    pub(super) fn new(judged: Judged) -> Self {
        Self {
            judged,
            catalog: Catalog::new(),
            model: M::default(),
            last_commit: None,
            candidates: Vec::new(),
            running: Vec::new(),
            writer: None,
            commits: 0,
            commits_lost: 0,
            found: Vec::new(),
        }
    }

    /// The committed state, as the contract says it must be.
    #[must_use]
    pub const fn model(&self) -> &M {
        &self.model
    }

    /// Whether a power cut has left open what the file holds.
    #[must_use]
    pub const fn is_unsettled(&self) -> bool {
        !self.candidates.is_empty()
    }

    /// Which file this is.
    #[must_use]
    pub const fn judged(&self) -> &Judged {
        &self.judged
    }

    /// How many commits a power cut took back, where the file's durability allows it.
    #[must_use]
    pub const fn commits_lost(&self) -> u32 {
        self.commits_lost
    }

    /// How many commits were judged.
    #[must_use]
    pub const fn commits(&self) -> u64 {
        self.commits
    }

    /// An operation begins on a lane; its arguments may not be known yet.
    pub(super) fn begin(&mut self, process: ProcessId, lane: usize, begun_at_us: i64, op: Option<M::Op>) {
        if self.running.len() <= lane {
            self.running.resize_with(lane + 1, || None);
        }
        self.running[lane] = Some(Running {
            process,
            begun_at_us,
            op,
            clock_read_at_us: None,
            locked_at_us: None,
            expected: None,
            committed: None,
            rewrote: false,
        });
    }

    /// The operation on a lane gave up on a lock: it must have waited for as long as the contract says (Q6).
    pub(super) fn gave_up(&mut self, lane: usize, at_us: i64, patience_us: i64) {
        let Some(running) = self.running.get(lane).and_then(Option::as_ref) else { return };
        let waited_us = at_us - running.begun_at_us;
        if waited_us < patience_us {
            let detail = format!(
                "{} gave up on a lock after {} ms, expected at least {} ms",
                asked::<M>(running.op.as_ref()),
                waited_us / 1_000,
                patience_us / 1_000
            );
            self.found.push((BUSY_ONLY_AFTER_TIMEOUT, at_us, detail));
        }
    }

    /// The operation on a lane has read the clock; with that its arguments are known.
    pub(super) fn set_op(&mut self, lane: usize, op: M::Op, at_us: i64) {
        if let Some(Some(running)) = self.running.get_mut(lane) {
            running.op = Some(op);
            running.clock_read_at_us = Some(at_us);
        }
    }

    /// The operation on a lane ended.
    pub(super) fn end(&mut self, lane: usize, at_us: i64, outcome: Outcome<M::Result>) {
        let Some(running) = self.running.get_mut(lane).and_then(Option::take) else { return };
        let Running { op, clock_read_at_us, locked_at_us, expected, committed, rewrote, .. } = running;
        let asked = || asked::<M>(op.as_ref());
        let locked = locked_at_us.is_some();
        if let (Some(read_us), Some(locked_us)) = (clock_read_at_us, locked_at_us)
            && read_us < locked_us
        {
            let late_us = locked_us - read_us;
            let detail = format!("{} got the write lock {late_us} us after it had read the clock", asked());
            self.found.push((CLOCK_UNDER_LOCK, at_us, detail));
        }
        match (outcome, committed) {
            (Outcome::Returned(result), Some((number, wanted))) => {
                if let Some(last) = self.last_commit.as_mut().filter(|last| last.number == number) {
                    last.acknowledged = true;
                }
                if !wanted.contains(&result) {
                    let (asked, expected) = (asked(), alternatives::<M>(&wanted));
                    let result = M::exactly(&result);
                    let detail = format!("{asked} committed and returned: {result}; expected: {expected}");
                    self.found.push((RESULT_MATCHES_MODEL, at_us, detail));
                }
            }
            (Outcome::Returned(result), None) => {
                if rewrote {
                    // A commit of the same rows: whatever was committed before it is durable now.
                    self.last_commit = None;
                } else if M::confirms(&result) {
                    self.rely_on_last_commit(op.as_ref());
                }
                self.judge_unchanged(op, locked, expected, &result, at_us);
            }
            (Outcome::Failed, Some(_)) => {
                let detail = format!("{} failed, but its change is committed", asked());
                self.found.push((FAILURE_CHANGES_NOTHING, at_us, detail));
            }
            (Outcome::Failed | Outcome::Unknown, _) => {}
        }
    }

    /// A caller was told that its change is in place. If it was the last commit that had made it, somebody
    /// relies on that commit now, whatever its own caller was told.
    fn rely_on_last_commit(&mut self, op: Option<&M::Op>) {
        if let (Some(last), Some(op)) = (&mut self.last_commit, op) {
            last.acknowledged |= last.before.outcomes(op).iter().any(|(_, applied)| applied.changed);
        }
    }

    fn judge_unchanged(
        &mut self,
        op: Option<M::Op>,
        locked: bool,
        expected: Option<Vec<Applied<M::Result>>>,
        result: &M::Result,
        at_us: i64,
    ) {
        let (asked, told) = (|| asked::<M>(op.as_ref()), || M::exactly(result));
        let Some(expected) = expected else {
            if M::needs_no_lock(result) {
                return;
            }
            let how = if locked { "it still holds" } else { "it never held" };
            let detail = format!("{} returned: {}; {how} the write lock", asked(), told());
            self.found.push((ONE_TRANSACTION, at_us, detail));
            return;
        };
        match expected.iter().find(|expected| expected.result == *result) {
            Some(expected) if !expected.changed => {}
            Some(_) => {
                let detail =
                    format!("{} returned: {}; without a commit, but it must change rows", asked(), told());
                self.found.push((ONE_TRANSACTION, at_us, detail));
            }
            None => {
                let regular = expected.first().map(|expected| M::exactly(&expected.result));
                let regular = regular.unwrap_or_else(|| "nothing".to_owned());
                let detail = format!("{} returned: {}; expected: {regular}", asked(), told());
                self.found.push((RESULT_MATCHES_MODEL, at_us, detail));
            }
        }
    }

    pub(super) fn died(&mut self, process: ProcessId) {
        for running in &mut self.running {
            if running.as_ref().is_some_and(|running| running.process == process) {
                *running = None;
            }
        }
    }

    /// The file's machine lost power. Under FULL the last commit may be taken back; under EXTRA only one
    /// that nobody was told of.
    pub(super) fn power_cut(&mut self, machine: usize) {
        if machine != self.judged.machine {
            return;
        }
        if self.candidates.is_empty() {
            self.candidates.push(self.model.clone());
        }
        if let Some(last) = self.last_commit.take()
            && (self.judged.durability == Durability::Full || !last.acknowledged)
        {
            self.candidates.push(last.before);
        }
    }

    fn settle(&mut self, event: &LockEvent<'_>) {
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

    fn compare(&mut self, model: &M, event: &LockEvent<'_>) -> Result<(), String> {
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

    fn commit(
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
}

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
    /// A journal was retired and the rows are as before: rolled back by the operation itself, or the journal
    /// of a dead one that it found, or a commit of the same rows.
    fn unchanged(&mut self, event: &LockEvent<'_>, was_dead: bool, reached: &mut Milestones) {
        if was_dead {
            reached.reach(Milestone::HotJournal);
        } else if let Some(Some(running)) = self.running.get_mut(event.lane) {
            running.rewrote = true;
        }
    }

    fn unexpected(&mut self, event: &LockEvent<'_>, difference: &str) {
        let property = if Image::new(event.image).is_ok() { COMMIT_MATCHES_MODEL } else { FILE_INTACT };
        let detail = format!(
            "{} by {} committed a second time or out of turn: {difference}",
            event.operation, event.process_name
        );
        self.found.push((property, event.at_us, detail));
    }
}

/// An operation in words; one that has not got as far as to its arguments has none.
fn asked<M: Model>(op: Option<&M::Op>) -> String {
    op.map_or_else(|| "an operation".to_owned(), M::asked)
}

fn alternatives<M: Model>(results: &[M::Result]) -> String {
    results.iter().map(M::exactly).collect::<Vec<_>>().join(", or ")
}
