//! Where many deviations are left, the failure hangs on exact times: most of them only shift something by a
//! millisecond. Then one job alone is tried, with at most one deviation, wherever its run offers that, and its time
//! to live is searched for the millisecond that matters.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use toml::{Table, Value};

use super::Hunt;
use super::candidate::Candidate;
use crate::choice::{Action, Deviation, Kind, Nothing, Recorder};
use crate::twin;

/// A failure with more deviations is worth the search.
const FEW: usize = 4;
/// Runs that it takes at most.
pub(super) const RUNS: u64 = 5_000;
/// Runs for what is to be done about its result, at most.
pub(super) const RUNS_AFTER: u64 = 1_000;
/// Times to live that are tried, in ms.
const TTL_MS: std::ops::RangeInclusive<i64> = 1..=128;

/// Searches, until `most` runs were made in all; returns whether something smaller was found.
pub(super) fn search(hunt: &mut Hunt<'_>, most: u64) -> bool {
    if hunt.best.deviations.len() <= FEW {
        return false;
    }
    let before = hunt.runs_max;
    hunt.runs_max = (hunt.runs + RUNS).min(most);
    let jobs = jobs(&hunt.best);
    let mut candidates = jobs.iter().flat_map(|job| around(hunt, job)).collect::<Vec<_>>();
    // None before one, and faults before what only shifts times.
    candidates.sort_by_key(|candidate| candidate.deviations.iter().map(|one| shifts(&one.action)).max());
    let found = candidates.iter().any(|candidate| {
        TTL_MS.clone().any(|ttl_ms| hunt.accepts(candidate.with(|table| live(table, ttl_ms))))
    });
    hunt.runs_max = if found { (hunt.runs + RUNS_AFTER).min(most) } else { before.max(hunt.runs) };
    found
}

/// The jobs, each of those that differ in more than their name and their times.
fn jobs(best: &Candidate) -> Vec<Table> {
    let Some(Value::Array(jobs)) = best.table.get("job") else { return Vec::new() };
    let mut seen = BTreeSet::new();
    let is_new = |job: &&Table| {
        let mut kind = Table::clone(job);
        ["id", "at_ms", "ttl_ms"].iter().for_each(|key| drop(kind.remove(*key)));
        seen.insert(kind.to_string())
    };
    jobs.iter().filter_map(Value::as_table).filter(is_new).cloned().collect()
}

/// One job alone, without and with each deviation that its run offers.
fn around(hunt: &mut Hunt<'_>, job: &Table) -> Vec<Candidate> {
    let alone = hunt.best.with(|table| {
        table.insert("job".to_owned(), Value::Array(vec![job.clone().into()]));
    });
    let alone = alone.with_deviations(Vec::new());
    let wanted = &hunt.best.deviations;
    let Some(mut scenario) = alone.scenario().filter(|_| !hunt.is_spent()) else { return Vec::new() };
    scenario.faults = super::candidate::faults(wanted);
    let recorder = Rc::new(RefCell::new(Recorder::new(Nothing)));
    hunt.runs += 1;
    let _ = twin::run_choosing(&Rc::new(scenario.clone()), hunt.seed, false, Rc::clone(&recorder));
    let names = scenario.process_names();
    let number = |name: &str| names.iter().position(|known| known == name);
    let mut seen = BTreeSet::new();
    let mut all = vec![alone.clone()];
    for (point, offers) in recorder.borrow().met() {
        for Deviation { action, .. } in wanted {
            let Some(decision) = action.decision(number) else { continue };
            let is_offered = offers.iter().any(|offer| offer.allows(decision));
            if is_offered && seen.insert((point.process, point.phase, point.role, decision)) {
                let name = names.get(point.process).map_or("", String::as_str);
                let deviation = Deviation { at: point.name(name), action: action.clone() };
                all.push(alone.with_deviations(vec![deviation]));
            }
        }
    }
    all
}

fn live(table: &mut Table, ttl_ms: i64) {
    if let Some(Value::Array(jobs)) = table.get_mut("job") {
        jobs.iter_mut().filter_map(Value::as_table_mut).for_each(|job| {
            job.insert("ttl_ms".to_owned(), ttl_ms.into());
        });
    }
}

/// Whether an action only changes when something happens.
const fn shifts(action: &Action) -> bool {
    matches!(action.kind(), Kind::Switch | Kind::Pick | Kind::Stall | Kind::Slow | Kind::ClockJump)
}
