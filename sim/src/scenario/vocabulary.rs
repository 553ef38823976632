//! The words that a scenario may use for what the engine knows: one word a thing.

use crate::{judge, model};

/// Processes that every scenario has; no worker may take such a name.
pub const PROCESSES: &[&str] =
    &["producer", "operator", "operator-2", "receiver", "publisher", "author", "loris"];

/// What a scenario may expect to be reached now and then.
pub const SOMETIMES: &[&str] = judge::Milestone::WORDS;

/// Properties that can fail: those of a run, and the invariants of the queue's rows.
#[must_use]
pub fn properties() -> Vec<&'static str> {
    judge::PROPERTIES.iter().chain(model::PROPERTIES).copied().collect()
}
