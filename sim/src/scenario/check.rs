//! What no single value can tell: names that must be unique, references, sums.

use std::collections::BTreeSet;

use ackward::rules::Name;

use super::error::suggestion;
use super::vocabulary::PROCESSES;
use super::{Scenario, numbered, vary};

/// Most jobs of a scenario, and most workers.
const JOBS_MAX: i64 = 10_000;
const WORKERS_MAX: i64 = 64;
const DEVIATIONS_MAX: usize = 1000;
const CONSUMERS_MAX: usize = 16;

/// A value that does not fit the others: the key's path, and what is wrong with it.
pub(super) struct Problem {
    pub(super) path: String,
    pub(super) message: String,
}

pub(super) fn problem(path: impl Into<String>, message: impl Into<String>) -> Problem {
    Problem { path: path.into(), message: message.into() }
}

/// Checks the scenario as a whole.
pub(super) fn check(scenario: &Scenario) -> Result<(), Problem> {
    let (jobs_sum, workers_sum) = (
        count("job", scenario.jobs.iter().map(|job| job.count), JOBS_MAX)?,
        count("worker", scenario.workers.iter().map(|worker| worker.count), WORKERS_MAX)?,
    );
    let has_stream = !scenario.consumers.is_empty();
    match (jobs_sum, workers_sum) {
        (0, 0) if has_stream => {}
        (0, _) => return Err(problem("", "there is no [[job]], allowed: at least one, or a [[consumer]]")),
        (_, 0) => {
            return Err(problem("", "there is no [[worker]], allowed: at least one, or a [[consumer]]"));
        }
        _ => {}
    }
    stream(scenario)?;
    let jobs = jobs(scenario)?;
    let workers = workers(scenario)?;
    redrives(scenario, &jobs)?;
    outcomes(scenario, &jobs)?;
    deviations(scenario, &workers)?;
    vary::check(scenario)
}

fn count(key: &str, counts: impl Iterator<Item = i64>, max: i64) -> Result<i64, Problem> {
    let mut sum = 0;
    for (at, count) in counts.enumerate() {
        sum += count;
        if sum > max {
            return Err(problem(format!("{key}[{at}]"), format!("makes {sum} in all, allowed: up to {max}")));
        }
    }
    Ok(sum)
}

/// Consumers need a publisher, and a publisher consumers.
fn stream(scenario: &Scenario) -> Result<(), Problem> {
    if scenario.consumers.len() > CONSUMERS_MAX {
        let message = format!("makes more than {CONSUMERS_MAX} in all, allowed: up to {CONSUMERS_MAX}");
        return Err(problem(format!("consumer[{CONSUMERS_MAX}]"), message));
    }
    match (&scenario.publisher, scenario.consumers.is_empty()) {
        (None, false) => Err(problem("consumer[0]", "has no publisher, allowed: with a [publisher]")),
        (Some(publisher), _) if publisher.rogue && publisher.first > 0 => {
            Err(problem("publisher.first", "is above 0, allowed: 0 where the publisher is rogue"))
        }
        (Some(_), true) => {
            Err(problem("publisher", "has no consumer, allowed: with at least one [[consumer]]"))
        }
        _ => Ok(()),
    }
}

/// The ids of all jobs.
fn jobs(scenario: &Scenario) -> Result<BTreeSet<Name>, Problem> {
    let mut ids = BTreeSet::new();
    for (at, job) in scenario.jobs.iter().enumerate() {
        let last_ms = job.at_ms + (job.count - 1) * job.every_ms;
        if last_ms > scenario.duration_ms {
            let key = if job.at_ms > scenario.duration_ms { "at_ms" } else { "every_ms" };
            let message = format!("lets a job arrive at {last_ms} ms, allowed: up to {}", duration(scenario));
            return Err(problem(format!("job[{at}].{key}"), message));
        }
        ids.extend(
            all_numbered(&job.id, job.count).map_err(|message| problem(format!("job[{at}].id"), message))?,
        );
    }
    Ok(ids)
}

/// The names of all workers.
fn workers(scenario: &Scenario) -> Result<BTreeSet<Name>, Problem> {
    let mut names = BTreeSet::new();
    for (at, worker) in scenario.workers.iter().enumerate() {
        for (key, value) in [("slots", worker.slots), ("batch", worker.batch)] {
            if worker.courier && value > 1 {
                let message = format!("is {value}, allowed: 1 for a courier");
                return Err(problem(format!("worker[{at}].{key}"), message));
            }
        }
        let place = format!("worker[{at}].name");
        // With a number it would be no other name, but a story of "producer" and "producer-1" misleads, and without
        // `count` the name would no longer do.
        if PROCESSES.contains(&worker.name.as_str()) {
            return Err(problem(place, taken(&worker.name)));
        }
        for name in all_numbered(&worker.name, worker.count).map_err(|message| problem(&place, message))? {
            if PROCESSES.contains(&name.as_str()) || !names.insert(name.clone()) {
                return Err(problem(place, taken(&name)));
            }
        }
    }
    for (at, consumer) in scenario.consumers.iter().enumerate() {
        let name = &consumer.name;
        if PROCESSES.contains(&name.as_str()) || !names.insert(name.clone()) {
            return Err(problem(format!("consumer[{at}].name"), taken(name)));
        }
    }
    Ok(names)
}

fn redrives(scenario: &Scenario, jobs: &BTreeSet<Name>) -> Result<(), Problem> {
    for (at, redrive) in scenario.redrives.iter().enumerate() {
        if !jobs.contains(&redrive.job) {
            let known: Vec<_> = jobs.iter().map(Name::as_str).collect();
            let message = unknown(redrive.job.as_str(), "the id of a [[job]]", &known);
            return Err(problem(format!("redrive[{at}].job"), message));
        }
        if redrive.at_ms > scenario.duration_ms {
            let message = format!("is {}, allowed: up to {}", redrive.at_ms, duration(scenario));
            return Err(problem(format!("redrive[{at}].at_ms"), message));
        }
    }
    Ok(())
}

fn outcomes(scenario: &Scenario, jobs: &BTreeSet<Name>) -> Result<(), Problem> {
    for (at, outcome) in scenario.expect.jobs.iter().enumerate() {
        if scenario.jobs_named(&outcome.id).is_empty() {
            let known: Vec<_> = jobs.iter().map(Name::as_str).collect();
            let message = unknown(outcome.id.as_str(), "the id of a [[job]]", &known);
            return Err(problem(format!("expect.job[{at}].id"), message));
        }
    }
    let consumers: Vec<_> = scenario.consumers.iter().map(|consumer| consumer.name.as_str()).collect();
    for (at, outcome) in scenario.expect.consumers.iter().enumerate() {
        if !consumers.contains(&outcome.name.as_str()) {
            let message = unknown(outcome.name.as_str(), "the name of a [[consumer]]", &consumers);
            return Err(problem(format!("expect.consumer[{at}].name"), message));
        }
    }
    Ok(())
}

fn deviations(scenario: &Scenario, workers: &BTreeSet<Name>) -> Result<(), Problem> {
    if scenario.deviations.len() > DEVIATIONS_MAX {
        let message = format!("makes more than {DEVIATIONS_MAX} in all, allowed: up to {DEVIATIONS_MAX}");
        return Err(problem(format!("deviation[{DEVIATIONS_MAX}]"), message));
    }
    let known: Vec<_> = workers.iter().map(Name::as_str).chain(PROCESSES.iter().copied()).collect();
    let mut points = BTreeSet::new();
    for (at, deviation) in scenario.deviations.iter().enumerate() {
        let place = format!("deviation[{at}].at");
        if !known.contains(&deviation.at.process.as_str()) {
            return Err(problem(place, no_process(scenario, &deviation.at.process)));
        }
        if let crate::choice::Action::Process(_, other) = &deviation.action
            && !known.contains(&other.as_str())
        {
            return Err(problem(format!("deviation[{at}].do"), no_process(scenario, other)));
        }
        if !points.insert(&deviation.at) {
            return Err(problem(
                place,
                "names a point that has an answer already, allowed: one answer a point",
            ));
        }
    }
    Ok(())
}

fn taken(name: &Name) -> String {
    let (name, others) = (name.as_str(), PROCESSES.join(", "));
    format!("gives a second process the name {name:?}, allowed: a name of its own, not one of {others}")
}

/// The names of `count` like this one, or what is wrong with them.
fn all_numbered(name: &Name, count: i64) -> Result<Vec<Name>, String> {
    let all = (0..count).map(|at| numbered(name, at, count)).collect::<Option<_>>();
    let longest = format!("{name}-{count}");
    all.ok_or_else(|| format!("makes the name {longest:?}, allowed: up to {} characters", Name::LEN_MAX))
}

/// Says which processes a scenario starts, those that it names itself first. One that it could start is no error: what is
/// shrunk loses parts, but not at once what was to happen to them.
fn no_process(scenario: &Scenario, name: &str) -> String {
    let (built_in, named): (Vec<_>, Vec<_>) =
        scenario.process_names().into_iter().partition(|name| PROCESSES.contains(&name.as_str()));
    let all: Vec<_> = named.iter().chain(&built_in).map(String::as_str).collect();
    unknown(name, "a process of this scenario", &all)
}

/// Names shown in an error.
const SHOWN_MAX: usize = 10;

pub(super) fn unknown(name: &str, kind: &str, known: &[&str]) -> String {
    let more = if known.len() > SHOWN_MAX { ", …" } else { "" };
    let shown = known[..known.len().min(SHOWN_MAX)].join(", ");
    format!("names {name:?}, allowed: {kind}: {shown}{more}{}", suggestion(name, known))
}

fn duration(scenario: &Scenario) -> String {
    format!("duration_ms, {}", scenario.duration_ms)
}
