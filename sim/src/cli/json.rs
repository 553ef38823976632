//! Results as JSON: what depends on the seeds alone, and apart from it what took how long.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use ackward_sim::campaign::{Broken, Failure, Tally};
use ackward_sim::choice::Kind;
use ackward_sim::scene::Report;
use ackward_sim::strategy::Strategy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::folder::Entry;
use super::fuzz::Finding;
use super::outcome::{Cold, Death, Outcome, Problem};
use super::ranges::Ranges;
use super::shard::Shard;

/// What came of a campaign: `cargo sim fuzz --json`, `--report FILE`, `cargo sim merge`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Campaign<'a> {
    /// `held` or `failed`.
    verdict: &'a str,
    /// Each scenario, in the order in which they were run.
    scenarios: Vec<ScenarioJson<'a>>,
    /// The only part that differs from one time to the next.
    timings: Timings<'a>,
}

#[derive(Serialize, JsonSchema)]
struct ScenarioJson<'a> {
    /// The file's path.
    file: &'a str,
    /// What carried the connections.
    net: &'static str,
    /// The word for what came of it, such as `held`, `caught at seed 7`, `broke effect-once`, `not run`.
    verdict: String,
    /// What is wrong first, where anything is.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<ProblemJson<'a>>,
    /// How many seeds were run.
    seeds: u64,
    /// Which: ranges of first seed and count.
    ranges: &'a Ranges,
    /// A sum over all seeds with the hashes of their runs, 16 hexadecimal digits: equal where every seed gave the same
    /// run.
    runs: String,
    /// How many of the runs were distinct.
    distinct_runs: usize,
    /// Virtual time of all runs, in microseconds.
    simulated_us: u64,
    /// Faults by their kind.
    faults: BTreeMap<&'static str, Fault>,
    /// Kinds of faults that are switched on and never had an effect.
    inert: Vec<&'static str>,
    /// Milestones that were reached.
    reached: Vec<&'static str>,
    /// What is expected and was not reached although enough seeds were run.
    missing: Vec<&'a str>,
    /// What is expected and was not reached, also where too few seeds were run to judge it.
    unreached: Vec<&'a str>,
    /// How many seeds failed.
    failed: u64,
    /// Every property that was broken first in some seed.
    broken: &'a BTreeMap<String, Broken>,
    /// The first seeds that failed.
    failures: &'a [Failure],
    /// Deviations of the scenario that did not happen, and in how many seeds.
    unmet: &'a BTreeMap<String, u64>,
    /// Chunks of seeds whose process died.
    deaths: &'a [Death],
    /// Chunks that still ran when time was up and are not counted: first seed and count.
    given_up: &'a [(u64, u64)],
    /// Seeds whose second run differed from the first.
    nondeterministic: &'a [u64],
    /// A seed whose run in a fresh process differed.
    cold: Option<Cold>,
    /// What `cargo sim merge` needs beside; in files only.
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<Part>,
}

/// What `cargo sim merge` needs of a scenario to judge several campaigns as one.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Part {
    /// The scenario file's text.
    pub(crate) text: String,
    /// How seeds became answers.
    #[schemars(with = "String")]
    pub(crate) strategy: Strategy,
    /// What the seeds came to.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub(crate) tally: Tally,
}

#[derive(Serialize, JsonSchema)]
struct ProblemJson<'a> {
    /// What is wrong, on one line.
    what: &'a str,
    /// More of it.
    detail: &'a str,
    /// How often it strikes, or what differed.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
    /// What it was shrunk to, and where its bundle is.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    made: &'a [String],
    /// The command that shows it again.
    command: &'a str,
}

/// A kind of fault.
#[derive(Serialize, JsonSchema)]
struct Fault {
    /// How often it struck.
    chosen: u64,
    /// How often that had an effect.
    effective: u64,
}

#[derive(Serialize, JsonSchema)]
struct Timings<'a> {
    /// Real time of all, in seconds.
    seconds: f64,
    /// The parts of the campaign that these are, such as `2/3`.
    shards: Vec<String>,
    /// Each scenario, in the same order.
    scenarios: Vec<Timing<'a>>,
}

#[derive(Serialize, JsonSchema)]
struct Timing<'a> {
    /// The file's path.
    file: &'a str,
    /// What carried the connections.
    net: &'static str,
    /// Real time, in seconds.
    seconds: f64,
    /// Seeds run in a second of it.
    seeds_per_second: f64,
}

/// Prints a campaign.
pub(crate) fn findings(
    output: &mut impl Write,
    findings: &[Finding],
    shards: &[Shard],
    took: Duration,
) -> io::Result<()> {
    print(output, &campaign(findings, shards, took, |_| None))
}

/// Writes a campaign with what it takes to merge it.
pub(crate) fn report(
    output: &mut impl Write,
    findings: &[Finding],
    shards: &[Shard],
    took: Duration,
) -> io::Result<()> {
    let part = |finding: &Finding| {
        let Finding { entry, outcome, .. } = finding;
        Some(Part { text: entry.text.clone(), strategy: entry.strategy, tally: outcome.tally.clone() })
    };
    print(output, &campaign(findings, shards, took, part))
}

fn campaign<'a>(
    findings: &'a [Finding],
    shards: &[Shard],
    took: Duration,
    part: impl Fn(&Finding) -> Option<Part>,
) -> Campaign<'a> {
    let has_held = findings.iter().all(|finding| finding.problem.is_none());
    let scenario = |finding| ScenarioJson { part: part(finding), ..scenario(finding) };
    Campaign {
        verdict: if has_held { "held" } else { "failed" },
        scenarios: findings.iter().map(scenario).collect(),
        timings: Timings {
            seconds: took.as_secs_f64(),
            shards: shards.iter().map(ToString::to_string).collect(),
            scenarios: findings.iter().map(timing).collect(),
        },
    }
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
        verdict: finding.word(),
        problem: problem.as_ref().map(problem_json),
        seeds: tally.seeds,
        ranges: &outcome.ranges,
        runs: format!("{:016x}", tally.runs),
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
        given_up: &outcome.given_up,
        nondeterministic: &tally.nondeterministic,
        cold: outcome.cold,
        part: None,
    }
}

fn problem_json(problem: &Problem) -> ProblemJson<'_> {
    let Problem { what, detail, notes, made, command, .. } = problem;
    ProblemJson { what, detail, notes, made, command }
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
