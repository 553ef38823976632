//! How a run ended.

use super::super::trace::Event;
use super::super::world::{Ending, Struck};
use crate::choice::{Action, Decision, Deviation, Point};

/// How a run ended.
#[derive(Debug)]
pub struct End {
    /// Virtual time, in microseconds.
    pub at_us: i64,
    /// Steps of tasks and lanes.
    pub steps: u64,
    /// Calls of SQLite into the operating system.
    pub vfs_calls: u64,
    /// Whether the run was stopped by a limit of time or steps rather than by itself.
    pub hit_limit: bool,
    /// The hash of everything that happened.
    pub hash: u64,
    /// The story, where it was to be told.
    pub events: Vec<Event>,
    /// Where the run left the default.
    pub deviations: Vec<(Point, Decision)>,
    /// What struck.
    pub struck: Struck,
    /// Each process's name and how it ended; `None` where it was still running.
    pub processes: Vec<(String, Option<Ending>)>,
}

impl End {
    /// The deviations by the names of their points and processes.
    #[must_use]
    pub fn named_deviations(&self) -> Vec<Deviation> {
        named(&self.deviations, &self.processes)
    }
}

/// Deviations by the names of their points and of these processes.
pub(crate) fn named(
    deviations: &[(Point, Decision)],
    processes: &[(String, Option<Ending>)],
) -> Vec<Deviation> {
    let name = |process: usize| processes.get(process).map_or("", |(name, _)| name.as_str());
    let named = deviations.iter().map(|(point, decision)| Deviation {
        at: point.name(name(point.process)),
        action: Action::from_decision(*decision, |process| name(process).to_owned()),
    });
    named.collect()
}
