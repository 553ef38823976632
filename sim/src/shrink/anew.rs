//! Where several deviations are left, most of them may only lead up to the last ones: without the power cuts before it
//! there is no third life of a process, and what happened in that life finds no point any more. So a few of them are
//! tried alone, wherever the run that they then make offers the same: to the same process, in the same call of the same
//! operation.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use super::Hunt;
use super::candidate::{Candidate, faults};
use crate::choice::{Deviation, Recorder};
use crate::scene::SceneChooser;
use crate::twin;

/// How many are tried together, at most.
const TOGETHER_MAX: usize = 2;
/// Runs that it takes at most to place the same ones.
const RUNS_EACH: u64 = 1_000;

/// Searches with half of the runs that are left; returns whether something smaller was found.
pub(super) fn search(hunt: &mut Hunt<'_>) -> bool {
    let all = hunt.best.deviations.clone();
    let before = hunt.runs_max;
    let most = hunt.runs + before.saturating_sub(hunt.runs) / 2;
    let nothing = hunt.best.with_deviations(Vec::new());
    let mut sizes = 1..all.len().min(TOGETHER_MAX + 1);
    let found = sizes.any(|size| {
        together(&all, size).iter().any(|few| {
            hunt.runs_max = (hunt.runs + RUNS_EACH).min(most);
            place(hunt, &nothing, few, &all)
        })
    });
    hunt.runs_max = before;
    found
}

/// All choices of so many, each in its order; those from the end first, as they are nearest to the failure. Of those
/// that are placed alike there is one.
fn together(all: &[Deviation], size: usize) -> Vec<Vec<Deviation>> {
    let choices: Vec<Vec<&Deviation>> = match size {
        1 => all.iter().rev().map(|one| vec![one]).collect(),
        _ => (1..all.len())
            .rev()
            .flat_map(|at| all[..at].iter().rev().map(move |one| vec![one, &all[at]]))
            .collect(),
    };
    let mut seen = BTreeSet::new();
    let kind = |one: &&Deviation| {
        let at = &one.at;
        format!("{} {} {:?} {:?} {}", at.process, at.operation, at.phase, at.role, one.action)
    };
    let is_new = |few: &Vec<&Deviation>| seen.insert(few.iter().map(kind).collect::<Vec<_>>());
    choices.into_iter().filter(is_new).map(|few| few.into_iter().cloned().collect()).collect()
}

/// Adds the wanted ones to those of a candidate, each wherever it can be after those before it, until that fails.
fn place(hunt: &mut Hunt<'_>, candidate: &Candidate, wanted: &[Deviation], all: &[Deviation]) -> bool {
    let Some((next, rest)) = wanted.split_first() else { return hunt.accepts(candidate.clone()) };
    places(hunt, candidate, next, all).into_iter().any(|deviation| {
        let deviations = candidate.deviations.iter().cloned().chain([deviation]).collect();
        place(hunt, &candidate.with_deviations(deviations), rest, all)
    })
}

/// A deviation at each point of a candidate's run that offers it, after the last one that the candidate has.
fn places(
    hunt: &mut Hunt<'_>,
    candidate: &Candidate,
    wanted: &Deviation,
    all: &[Deviation],
) -> Vec<Deviation> {
    let Some(mut scenario) = candidate.scenario().filter(|_| !hunt.is_spent()) else { return Vec::new() };
    // Whatever is tried, its amounts are within the spans.
    scenario.faults = faults(all);
    let names = scenario.process_names();
    let decision = wanted.action.decision(|name| names.iter().position(|known| known == name));
    let Some(decision) = decision else { return Vec::new() };
    let scenario = Rc::new(scenario);
    let chooser = SceneChooser::replay(&scenario, &candidate.deviations);
    let recorder = Rc::new(RefCell::new(Recorder::new(chooser)));
    hunt.runs += 1;
    let _ = twin::run_choosing(&scenario, hunt.seed, false, Rc::clone(&recorder));
    let recorder = recorder.borrow();
    let last = candidate.deviations.last().map(|last| last.at.key());
    let after =
        recorder.met().iter().rposition(|(point, _)| Some(point.key()) == last).map_or(0, |at| at + 1);
    let points = recorder.met()[after..].iter().filter_map(|(point, offers)| {
        let name = point.name(names.get(point.process)?);
        let is_alike = name.process == wanted.at.process
            && name.operation == wanted.at.operation
            && (name.phase, name.role) == (wanted.at.phase, wanted.at.role);
        let is_offered = offers.iter().any(|offer| offer.allows(decision));
        (is_alike && is_offered).then(|| Deviation { at: name, action: wanted.action.clone() })
    });
    points.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::{Action, Kind, PointName};

    #[test]
    fn those_from_the_end_come_first_and_those_that_are_placed_alike_once() {
        let one =
            |at: &str| Deviation { at: at.parse::<PointName>().unwrap(), action: Action::Plain(Kind::Kill) };
        let all =
            ["w/1/claim#1/commit/db.write#1", "w/2/claim#1/commit/db.write#1", "w/3/open#1/begin/db.open#1"];
        let all = all.map(one);
        let shown = |size| {
            let life = |one: &Deviation| one.at.incarnation;
            together(&all, size)
                .iter()
                .map(|few| few.iter().map(life).collect::<Vec<_>>())
                .collect::<Vec<_>>()
        };
        assert_eq!(shown(1), [[3], [2]]);
        assert_eq!(shown(2), [[2, 3], [1, 2]]);
        assert_eq!(together(&[], 1), Vec::<Vec<Deviation>>::new());
    }
}
