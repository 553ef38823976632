//! Judges one database file against a model of what its operations do.
//!
//! A commit is judged at the moment that retires the journal, since that is when others can see it: the
//! file's rows, read from its bytes, must then be those that the committing operation makes of the rows
//! before. An operation that changes nothing is judged by the rows at the moment when it gave its write
//! lock back.

mod commit;
mod model;
mod operation;

use ackward::storage::Durability;

use super::Milestones;
use crate::computer::{LockEvent, ProcessId, Trace};
use crate::model::Applied;
use crate::sqlite_file::Catalog;

pub use model::{Model, Outcome};

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
}

/// An operation in words; one that has not got as far as to its arguments has none.
fn asked<M: Model>(op: Option<&M::Op>) -> String {
    op.map_or_else(|| "an operation".to_owned(), M::asked)
}
