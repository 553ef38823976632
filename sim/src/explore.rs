//! All runs of a scenario with at most k deviations: the run without any, then for each point met there each other
//! answer, and so on. Nothing is drawn at random and no state is hashed: an alternative is left out only where another
//! that is tried gives the same run from there on.
//!
//! Deviations are in the order of their points, each after the one before, so that every set of them is run once. A
//! level is run before the next: the first failure has the fewest deviations that a failure can have.

mod prune;
mod walker;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::choice::Kind;
use crate::scenario::Scenario;
use crate::scene::Report;
use crate::twin;

use walker::Walker;

pub use walker::{Step, values};

/// What is tried where nothing is said: kills, power cuts, errors, preemptions, lost and late messages.
pub const KINDS: &[Kind] = &[
    Kind::Kill,
    Kind::HookKill,
    Kind::PowerCut,
    Kind::Keep,
    Kind::IoError,
    Kind::FsyncError,
    Kind::DiskFull,
    Kind::HookError,
    Kind::Switch,
    Kind::Pick,
    Kind::RequestLost,
    Kind::ReplyLost,
    Kind::Slow,
];

/// A run's deviations, in order.
pub type Path = Vec<Step>;

/// What is enumerated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Seeds jitter and SQLite's random numbers; nothing else is left to chance.
    pub seed: u64,
    /// Whether alternatives are left out that another one stands for.
    pub prunes: bool,
    /// The words of the kinds of events that are tried; those of [`KINDS`] where it is empty.
    pub kinds: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { seed: 1, prunes: true, kinds: Vec::new() }
    }
}

impl Options {
    fn tries(&self, kind: Kind) -> bool {
        if self.kinds.is_empty() {
            return KINDS.contains(&kind);
        }
        self.kinds.iter().any(|word| word == kind.as_str())
    }
}

/// A run that broke a property.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// Its deviations by position.
    pub path: Path,
    /// The property that was broken first.
    pub property: String,
    /// Where and how.
    pub detail: String,
    /// Its deviations by name: `point = action`.
    pub deviations: Vec<String>,
}

/// What came of some runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explored {
    /// How many runs.
    pub runs: u64,
    /// Alternatives left out because another stands for them.
    pub pruned: u64,
    /// The final states, and how many runs ended in each.
    pub states: BTreeMap<String, u64>,
    /// The first run that broke a property, in the order of the search.
    pub failure: Option<Failed>,
}

impl Explored {
    /// Adds the runs that come after these.
    pub fn merge(&mut self, later: Self) {
        self.runs += later.runs;
        self.pruned += later.pruned;
        for (state, runs) in later.states {
            *self.states.entry(state).or_default() += runs;
        }
        self.failure = self.failure.take().or(later.failure);
    }

    fn add(&mut self, path: &Path, report: Report) {
        self.runs += 1;
        if let (None, Some(first)) = (&self.failure, report.violations.first()) {
            self.failure = Some(Failed {
                path: path.clone(),
                property: first.property.to_owned(),
                detail: first.detail.clone(),
                deviations: report.deviations.iter().map(ToString::to_string).collect(),
            });
        }
        *self.states.entry(report.final_state).or_default() += 1;
    }
}

/// Runs each path, up to the first that fails.
#[must_use]
pub fn run_all(scenario: &Rc<Scenario>, paths: &[Path], options: &Options) -> Explored {
    let mut explored = Explored::default();
    for path in paths {
        explored.add(path, run(scenario, path, options));
        if explored.failure.is_some() {
            break;
        }
    }
    explored
}

/// Runs everything with one more deviation than `path`, and returns those paths too.
#[must_use]
pub fn expand(
    scenario: &Rc<Scenario>,
    path: &Path,
    remaining: u32,
    options: &Options,
) -> (Explored, Vec<Path>) {
    let (paths, pruned) = children(scenario, path, remaining, options);
    let mut explored = run_all(scenario, &paths, options);
    explored.pruned += pruned;
    (explored, paths)
}

/// The paths with one more deviation than `path`, and how many more another stands for; `remaining` is how many
/// deviations may follow the one that is added.
#[must_use]
pub fn children(scenario: &Rc<Scenario>, path: &Path, remaining: u32, options: &Options) -> (Vec<Path>, u64) {
    let walker = Rc::new(RefCell::new(Walker::recording(scenario, path)));
    let _ = twin::run_choosing(scenario, options.seed, false, Rc::clone(&walker));
    let walker = walker.borrow();
    let mut pruned = 0;
    let mut children = Vec::new();
    for (at, met) in walker.met.iter().enumerate() {
        for decision in met.offers.iter().filter(|offer| options.tries(offer.kind)).flat_map(values) {
            if options.prunes && prune::is_covered(&walker.met, at, decision.kind, remaining) {
                pruned += 1;
                continue;
            }
            let step = Step::new(met.position, decision);
            children.push(path.iter().copied().chain([step]).collect());
        }
    }
    (children, pruned)
}

/// The run of a path.
#[must_use]
pub fn run(scenario: &Rc<Scenario>, path: &Path, options: &Options) -> Report {
    twin::run_choosing(scenario, options.seed, false, Walker::new(scenario, path))
}

/// Explores to a depth on this thread. What is returned ends with the level of the first failure.
#[must_use]
pub fn explore(scenario: &Rc<Scenario>, depth: u32, options: &Options) -> Explored {
    let mut explored = run_all(scenario, &[Path::new()], options);
    let mut level = vec![Path::new()];
    for at in 1..=depth {
        if explored.failure.is_some() {
            break;
        }
        let mut next = Vec::new();
        for path in &level {
            let (more, paths) = expand(scenario, path, depth - at, options);
            explored.merge(more);
            if explored.failure.is_some() {
                break;
            }
            if at < depth {
                next.extend(paths);
            }
        }
        level = next;
    }
    explored
}
