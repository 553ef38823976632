//! Results as JSON: what depends on the seeds alone, and apart from it what took how long.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use ackward_sim::campaign::{Broken, Failure};
use ackward_sim::choice::Kind;
use ackward_sim::scene::Report;
use serde::Serialize;

use super::folder::Entry;
use super::fuzz::Finding;
use super::outcome::{Cold, Death, Outcome, Problem};

#[derive(Serialize)]
struct Campaign<'a> {
    verdict: &'a str,
    scenarios: Vec<ScenarioJson<'a>>,
    /// The only part that differs from one time to the next.
    timings: Timings<'a>,
}

#[derive(Serialize)]
struct ScenarioJson<'a> {
    file: &'a str,
    net: &'static str,
    verdict: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<ProblemJson<'a>>,
    seeds: u64,
    distinct_runs: usize,
    simulated_us: u64,
    faults: BTreeMap<&'static str, Fault>,
    inert: Vec<&'static str>,
    reached: Vec<&'static str>,
    missing: Vec<&'a str>,
    /// What is expected and was not reached, also where too few seeds were run to judge it.
    unreached: Vec<&'a str>,
    failed: u64,
    broken: &'a BTreeMap<String, Broken>,
    failures: &'a [Failure],
    /// Deviations of the scenario that did not happen, and in how many seeds.
    unmet: &'a BTreeMap<String, u64>,
    deaths: &'a [Death],
    nondeterministic: &'a [u64],
    cold: Option<Cold>,
}

#[derive(Serialize)]
struct ProblemJson<'a> {
    what: &'a str,
    detail: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
    command: &'a str,
}

#[derive(Serialize)]
struct Fault {
    chosen: u64,
    effective: u64,
}

#[derive(Serialize)]
struct Timings<'a> {
    seconds: f64,
    scenarios: Vec<Timing<'a>>,
}

#[derive(Serialize)]
struct Timing<'a> {
    file: &'a str,
    net: &'static str,
    seconds: f64,
    seeds_per_second: f64,
}

/// Prints a campaign.
pub(crate) fn findings(output: &mut impl Write, findings: &[Finding], took: Duration) -> io::Result<()> {
    let has_held = findings.iter().all(|finding| finding.problem.is_none());
    let campaign = Campaign {
        verdict: if has_held { "held" } else { "failed" },
        scenarios: findings.iter().map(scenario).collect(),
        timings: Timings { seconds: took.as_secs_f64(), scenarios: findings.iter().map(timing).collect() },
    };
    print(output, &campaign)
}

fn scenario(finding: &Finding) -> ScenarioJson<'_> {
    let Finding { entry, outcome, problem } = finding;
    let tally = &outcome.tally;
    let counts = |kind: Kind| Fault {
        chosen: tally.chosen.get(kind as usize).copied().unwrap_or_default(),
        effective: tally.effective.get(kind as usize).copied().unwrap_or_default(),
    };
    let faults = Kind::ALL.iter().map(|kind| (kind.as_str(), counts(*kind)));
    ScenarioJson {
        file: &entry.path,
        net: entry.scenario.net.as_str(),
        verdict: problem.as_ref().map_or_else(|| outcome.good_word(entry), |problem| problem.word.clone()),
        problem: problem.as_ref().map(problem_json),
        seeds: tally.seeds,
        distinct_runs: tally.hashes.len(),
        simulated_us: tally.virtual_us,
        faults: faults.filter(|(_, fault)| fault.chosen > 0).collect(),
        inert: tally.inert(&entry.scenario),
        reached: tally.milestones().iter().map(|milestone| milestone.as_str()).collect(),
        missing: tally.missing(&entry.scenario),
        unreached: tally.unreached(&entry.scenario),
        failed: tally.failed,
        broken: &tally.broken,
        failures: &tally.failures,
        unmet: &tally.unmet,
        deaths: &outcome.deaths,
        nondeterministic: &tally.nondeterministic,
        cold: outcome.cold,
    }
}

fn problem_json(problem: &Problem) -> ProblemJson<'_> {
    let Problem { what, detail, notes, command, .. } = problem;
    ProblemJson { what, detail, notes, command }
}

fn timing(finding: &Finding) -> Timing<'_> {
    let Finding { entry, outcome: Outcome { seconds, tally, .. }, .. } = finding;
    Timing {
        file: &entry.path,
        net: entry.scenario.net.as_str(),
        seconds: *seconds,
        seeds_per_second: tally.seeds as f64 / seconds.max(1e-6),
    }
}

#[derive(Serialize)]
struct Run<'a> {
    file: &'a str,
    net: &'static str,
    seed: u64,
    hash: String,
    verdict: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<ProblemJson<'a>>,
    violations: Vec<ViolationJson<'a>>,
    reached: Vec<&'static str>,
    simulated_us: i64,
    vfs_calls: u64,
    deviations: Vec<String>,
    unmet: Vec<String>,
    final_state: Vec<&'a str>,
    events: Vec<EventJson<'a>>,
}

#[derive(Serialize)]
struct ViolationJson<'a> {
    at_us: i64,
    property: &'a str,
    detail: &'a str,
}

#[derive(Serialize)]
struct EventJson<'a> {
    at_us: i64,
    process: &'a str,
    text: &'a str,
}

/// Prints one run.
pub(crate) fn run(
    output: &mut impl Write,
    entry: &Entry,
    report: &Report,
    verdict: &str,
    problem: Option<&Problem>,
) -> io::Result<()> {
    let violations = report.violations.iter().map(|violation| ViolationJson {
        at_us: violation.at_us,
        property: violation.property,
        detail: &violation.detail,
    });
    let events = report.events.iter();
    let run = Run {
        file: &entry.path,
        net: entry.scenario.net.as_str(),
        seed: report.seed,
        hash: format!("{:016x}", report.hash),
        verdict,
        problem: problem.map(problem_json),
        violations: violations.collect(),
        reached: report.milestones.iter().map(|milestone| milestone.as_str()).collect(),
        simulated_us: report.at_us,
        vfs_calls: report.vfs_calls,
        deviations: report.deviations.iter().map(ToString::to_string).collect(),
        unmet: report.unmet.iter().map(ToString::to_string).collect(),
        final_state: report.final_state.lines().collect(),
        events: events
            .map(|event| EventJson { at_us: event.at_us, process: &event.process, text: &event.text })
            .collect(),
    };
    print(output, &run)
}

pub(crate) fn print(output: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *output, value)?;
    writeln!(output)
}
