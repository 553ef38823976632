//! The search for a seed whose run does what a log says, and its replay without the guide.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::guide::Guide;
use super::log::Log;
use super::{Draft, Likeness, Steps, diary};
use crate::choice::{Deviation, Kind, Probabilities, Random};
use crate::scenario::Scenario;
use crate::scene::Report;
use crate::shrink::minimize;
use crate::twin;

/// Most deviations of a scenario file.
const DEVIATIONS_MAX: usize = 1_000;
/// Most runs that making the deviations fewer may take.
const FEWER_RUNS_MAX: u64 = 200;
/// It ends after so many in a row that changed the story: enough for each of 32 deviations on its own.
const MISSES_MAX: u64 = 64;
/// How likely another process runs first where the log does not tell.
const PICK: f64 = 0.03;

/// How far to search.
#[derive(Debug, Clone, Copy)]
pub struct SearchOptions {
    /// The first seed.
    pub start: u64,
    /// How many seeds at most.
    pub seeds: u64,
}

/// The run that comes nearest.
#[derive(Debug, Clone)]
pub struct Found {
    /// Its seed.
    pub seed: u64,
    /// How near it comes.
    pub likeness: Likeness,
    /// The scenario with the run's deviations: it replays with the seed alone.
    pub scenario: Scenario,
    /// The properties that it breaks.
    pub broken: Vec<String>,
    /// How many seeds were run.
    pub seeds: u64,
}

/// Searches for a run that does what the log says. `goes_on` is told how many seeds were run, and says whether to go on;
/// where not, it ends as though no more seeds were allowed. `None` where no run replays, or no seed is to be run.
pub fn search(
    log: &Log,
    draft: &Draft,
    options: SearchOptions,
    goes_on: impl Fn(u64) -> bool,
) -> Option<Found> {
    let wanted = Steps::of(log.known().map(|placed| &placed.line));
    let mut best: Option<(u64, Likeness, Vec<Deviation>)> = None;
    let mut seeds = 0;
    for seed in options.start..options.start.saturating_add(options.seeds) {
        let (report, lines) = diary::keep(|| guided(draft, seed));
        let likeness = wanted.likeness(&Steps::of(lines.iter()));
        seeds += 1;
        let is_better = best.as_ref().is_none_or(|(_, best, _)| rank(&likeness) > rank(best));
        if is_better && report.deviations.len() <= DEVIATIONS_MAX {
            best = Some((seed, likeness, report.deviations.into_vec()));
        }
        let is_found = best.as_ref().is_some_and(|(_, likeness, _)| likeness.is_exact);
        if !goes_on(seeds) || is_found {
            break;
        }
    }
    let (seed, likeness, deviations) = best?;
    let scenario = Scenario { deviations, ..draft.scenario.clone() };
    let scenario =
        fewer(scenario, |candidate| goes_on(seeds) && replay(&wanted, candidate, seed).0 == likeness);
    let (likeness, report) = replay(&wanted, &scenario, seed);
    let broken =
        report.violations.iter().map(|violation| format!("{}: {}", violation.property, violation.detail));
    Some(Found { seed, likeness, scenario, broken: broken.collect(), seeds })
}

/// A run with the guide. Every fourth leaves nothing to chance but what every seed draws.
fn guided(draft: &Draft, seed: u64) -> Report {
    let chances = Probabilities::default().with(Kind::Pick, PICK);
    let rest = (seed % 4 != 1).then(|| Random::new(seed, chances));
    let scenario = Rc::new(draft.scenario.clone());
    twin::run_choosing(&scenario, seed, false, Guide::new(draft, seed.is_multiple_of(2), rest))
}

/// A run of the scenario as it stands.
fn replay(wanted: &Steps, scenario: &Scenario, seed: u64) -> (Likeness, Report) {
    let (report, lines) = diary::keep(|| twin::run(&Rc::new(scenario.clone()), seed, false));
    (wanted.likeness(&Steps::of(lines.iter())), report)
}

const fn rank(likeness: &Likeness) -> (bool, usize) {
    (likeness.is_exact, likeness.same)
}

/// Leaves out deviations for as long as the run stays as good: all of a kind first, which takes what the seed has drawn
/// beside the story, then ever smaller parts. Most of a long incident's tell who comes when, and none of those can go.
fn fewer(mut scenario: Scenario, is_as_good: impl Fn(&Scenario) -> bool) -> Scenario {
    let (mut runs, mut misses) = (0, 0);
    let mut becomes = |scenario: &mut Scenario, deviations: Vec<Deviation>| {
        if runs >= FEWER_RUNS_MAX || misses >= MISSES_MAX {
            return false;
        }
        runs += 1;
        misses += 1;
        let candidate = Scenario { deviations, ..scenario.clone() };
        let is_fewer = is_as_good(&candidate);
        if is_fewer {
            *scenario = candidate;
            misses = 0;
        }
        is_fewer
    };
    let kinds: BTreeSet<_> = scenario.deviations.iter().map(|one| one.action.kind()).collect();
    for kind in kinds {
        let rest = scenario.deviations.iter().filter(|one| one.action.kind() != kind).cloned().collect();
        becomes(&mut scenario, rest);
    }
    let all = scenario.deviations.clone();
    minimize(all.len(), |rest| becomes(&mut scenario, rest.iter().map(|at| all[*at].clone()).collect()));
    scenario
}
