//! The contract as a pure-Rust reference over plain maps, written for clarity and from the contract alone: no
//! SQL, no I/O, no clock. An operation is a value; a model applies it, says what its result must be and
//! whether rows change, and compares itself with the rows of a database file.
//!
//! Its arguments are valid values; what the contract refuses before it looks at a row (Q4, R14) never gets here.

mod check;
mod compare;
mod consumer;
mod inbox;
mod queue;
mod row;

pub use check::{Broken, PROPERTIES};
pub use compare::Difference;
pub use consumer::{ConsumerModel, ConsumerOp, ConsumerResult};
pub use inbox::{EffectRow, InboxModel, InboxOp, InboxResult, InboxRow};
pub use queue::{QueueModel, QueueOp, QueueResult};
pub use row::{JobRow, RedriveRow};

/// What an operation must do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Applied<R> {
    /// What it must return.
    pub result: R,
    /// Whether rows change, so whether a commit must show. A claim that finds nothing may still have
    /// committed a quarantine (Q28).
    pub changed: bool,
}

impl<R> Applied<R> {
    const fn changed(result: R) -> Self {
        Self { result, changed: true }
    }

    const fn unchanged(result: R) -> Self {
        Self { result, changed: false }
    }
}
