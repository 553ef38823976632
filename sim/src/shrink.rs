//! Makes a failing run small: fewer deviations, then fewer processes, jobs and events, then plainer values, always
//! running again and keeping the same broken property. What is left is a scenario of its own that replays by the
//! names of its points and reads as a story.
//!
//! Simulations run on this thread, one after the other; the result depends on the failure alone.

mod anew;
mod candidate;
mod deviations;
mod file;
mod freedom;
mod list;
mod needle;
mod values;

use std::rc::Rc;

use crate::choice::Deviation;
use crate::judge::RIGHT_VALUE;
use crate::scenario::{Flaw, Scenario};
use crate::scene::{Report, SceneChooser};
use crate::twin;

use candidate::{Candidate, Right};

pub use freedom::Freedom;
pub(crate) use list::minimize;

/// Runs that a shrinking takes at most where nothing else is said.
pub const RUNS_MAX: u64 = PLAIN_RUNS + needle::RUNS + needle::RUNS_AFTER + freedom::RUNS;
/// How many of them are for what needs no search by the millisecond, at least.
const PLAIN_RUNS: u64 = 3_000;
/// Seeds tried in the place of the one that failed: a file that fails with the first seed needs no other.
const SEEDS_TRIED: u64 = 4;

/// A failure made small.
#[derive(Debug, Clone)]
pub struct Shrunk {
    /// The scenario: no probabilities, only deviations.
    pub scenario: Scenario,
    /// The seed that it fails with; 1 unless only the first one does.
    pub seed: u64,
    /// The property that is broken.
    pub property: String,
    /// Where and how.
    pub detail: String,
    /// What could be anything, and what could not.
    pub freedom: Freedom,
    /// Deviations of the failing run before and after.
    pub deviations: (usize, usize),
    /// Runs that this took.
    pub runs: u64,
    /// Whether nothing smaller was found, rather than the runs being used up.
    pub is_done: bool,
}

impl Shrunk {
    /// The scenario as a file, with its story in comments. `origin` says what it was shrunk from.
    #[must_use]
    pub fn to_file(&self, origin: &str) -> String {
        file::text(self, origin)
    }
}

/// Shrinks a failing run of `scenario` in at most `runs_max` runs; `report` is that run. `None` where it broke
/// nothing, or where its deviations alone do not break the same property, or where it is the real system that does not
/// have the right value of its scenario: what is right of a smaller one, nobody has stated.
#[must_use]
pub fn shrink(scenario: &Rc<Scenario>, report: &Report, runs_max: u64) -> Option<Shrunk> {
    shrink_while(scenario, report, runs_max, &|_| true)
}

/// As [`shrink`], but `goes_on` is told how many runs there were, and says whether to go on; where not, it ends as
/// though no more runs were allowed, with the smallest run so far. One is made in any case.
#[must_use]
pub fn shrink_while(
    scenario: &Rc<Scenario>,
    report: &Report,
    runs_max: u64,
    goes_on: &dyn Fn(u64) -> bool,
) -> Option<Shrunk> {
    let property = report.violations.first()?.property;
    let right = if property == RIGHT_VALUE { Right::of(scenario) } else { Right::default() };
    let start = Candidate::new(scenario, &report.deviations, right);
    // A part is left for what could be anything, and where there is much, for the search by the millisecond.
    let shrinking_max = runs_max - freedom::RUNS.min(runs_max / 10);
    let plain_max = shrinking_max.saturating_sub(needle::RUNS + needle::RUNS_AFTER);
    let plain_max = plain_max.max(PLAIN_RUNS.min(shrinking_max));
    let best = start.clone();
    let mut hunt =
        Hunt { property, seed: report.seed, runs_max: plain_max, runs: 0, goes_on, best, detail: None };
    let fails = (1..=SEEDS_TRIED).chain([report.seed]).any(|seed| {
        hunt.seed = seed;
        hunt.accepts(start.clone())
    });
    if !fails {
        return None;
    }
    let before = report.deviations.len();
    hunt.rounds();
    if !hunt.is_spent() && needle::search(&mut hunt, shrinking_max) {
        hunt.rounds();
    }
    let is_done = !hunt.is_spent();
    let freedom = freedom::measure(&mut hunt, runs_max);
    let scenario = hunt.best.scenario()?;
    let deviations = (before, scenario.deviations.len());
    Some(Shrunk {
        scenario,
        seed: hunt.seed,
        property: property.to_owned(),
        detail: hunt.detail.take()?,
        freedom,
        deviations,
        runs: hunt.runs,
        is_done,
    })
}

/// The search for the smallest candidate that breaks the property.
struct Hunt<'a> {
    property: &'static str,
    seed: u64,
    runs_max: u64,
    runs: u64,
    goes_on: &'a dyn Fn(u64) -> bool,
    /// The smallest so far.
    best: Candidate,
    /// How it broke the property.
    detail: Option<String>,
}

impl Hunt<'_> {
    /// Tries everything again and again, until nothing becomes smaller.
    fn rounds(&mut self) {
        loop {
            while self.round() && !self.is_spent() {}
            if self.is_spent() || !anew::search(self) {
                return;
            }
        }
    }

    /// Tries everything once; returns whether anything became smaller.
    fn round(&mut self) -> bool {
        let before = self.best.clone();
        deviations::fewer(self);
        list::fewer(self);
        values::plainer(self);
        deviations::plainer(self);
        self.best != before
    }

    fn is_spent(&self) -> bool {
        self.runs >= self.runs_max || (self.runs > 0 && !(self.goes_on)(self.runs))
    }

    /// Makes a candidate the best one if it breaks the same property.
    fn accepts(&mut self, mut candidate: Candidate) -> bool {
        let Some(report) = self.run(&candidate, self.seed) else { return false };
        // Deviations that found no point are gone; an end that came sooner has cut off the rest.
        candidate.deviations = report.deviations.into_vec();
        self.detail = report.violations.into_iter().next().map(|violation| violation.detail);
        self.best = candidate;
        true
    }

    /// The run of a candidate if it breaks the same property.
    fn run(&mut self, candidate: &Candidate, seed: u64) -> Option<Report> {
        if self.is_spent() {
            return None;
        }
        let scenario = Rc::new(candidate.scenario()?);
        self.runs += 1;
        let report = replay(&scenario, &scenario.deviations, seed);
        let is_same = report.violations.first().is_some_and(|first| first.property == self.property);
        (is_same && self.is_still_right(&scenario, seed)).then_some(report)
    }

    /// A right value belongs to its story: of a smaller one it is right only where the real system still has it.
    fn is_still_right(&mut self, scenario: &Scenario, seed: u64) -> bool {
        if self.property != RIGHT_VALUE {
            return true;
        }
        if self.is_spent() {
            return false;
        }
        self.runs += 1;
        let real = Rc::new(Scenario { system: Flaw::None, ..scenario.clone() });
        scenario.system != Flaw::None && replay(&real, &real.deviations, seed).has_passed()
    }
}

fn replay(scenario: &Rc<Scenario>, deviations: &[Deviation], seed: u64) -> Report {
    twin::run_choosing(scenario, seed, false, SceneChooser::replay(scenario, deviations))
}
