//! What a judge of a file must know of its operations: a reference model of them.

use super::super::Milestones;
use crate::model::{Applied, Broken, Difference};
use crate::sqlite_file::{Image, Schema};

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
