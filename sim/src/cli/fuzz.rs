//! `cargo sim` and `cargo sim fuzz`: many seeds of many scenarios.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use ackward_sim::campaign::Share;
use ackward_sim::scenario::Net;

use super::folder::{Entry, entries};
use super::outcome::{Outcome, Problem};
use super::pool::{Budget, Pool};
use super::progress::Progress;
use super::shrink::automatic;
use super::{Exit, FuzzArgs, jobs, json, panics, table, unless_closed, xray};

/// How long all scenarios take where nothing is said.
const TIME: Duration = Duration::from_secs(20);
/// How much of it is turmoil's.
const TURMOIL_TIME: Duration = Duration::from_secs(2);
/// The share of seeds that is run again where nothing is said.
const XRAY: f64 = 0.01;
/// Seeds beyond this are not run, however long the time.
const SEEDS_MAX: u64 = 1_000_000_000;

/// A scenario, what came of it, and what is wrong with that.
pub(crate) struct Finding {
    pub(crate) entry: Entry,
    pub(crate) outcome: Outcome,
    pub(crate) problem: Option<Problem>,
}

/// Runs `cargo sim fuzz`.
pub(crate) fn fuzz(folder: Option<&Path>, args: &FuzzArgs) -> anyhow::Result<Exit> {
    panics::keep_quiet();
    let began = Instant::now();
    let entries = entries(folder, &args.files)?;
    let entries = entries.into_iter().map(|entry| entry.on(args.how.net).by(args.how.strategy)).collect();
    let findings = campaign(entries, args, began)?;
    let printed = |output: &mut io::StdoutLock<'_>| {
        if args.json {
            json::findings(output, &findings, began.elapsed())
        } else {
            table::print(output, &findings, &[])
        }
    };
    unless_closed(print(printed))?;
    Ok(exit(&findings))
}

/// Runs `cargo sim`: every scenario on its own net, and at the end every scenario on turmoil.
pub(crate) fn default_campaign(folder: Option<&Path>) -> anyhow::Result<Exit> {
    let all = entries(folder, &[])?;
    let abroad = all.iter().cloned().map(|entry| entry.on(Some(Net::Turmoil)));
    let abroad: Vec<_> = abroad.filter(|entry| entry.is_abroad).collect();
    let share = |time| FuzzArgs { time: Some(time), ..FuzzArgs::default() };
    let at_home = campaign(all, &share(TIME - TURMOIL_TIME), Instant::now())?;
    let abroad = campaign(abroad, &share(TURMOIL_TIME), Instant::now())?;
    unless_closed(print(|output| table::print(output, &at_home, &abroad)))?;
    Ok(exit(&at_home).max(exit(&abroad)))
}

fn exit(findings: &[Finding]) -> Exit {
    let problems = findings.iter().filter_map(|finding| finding.problem.as_ref());
    problems.map(|problem| problem.exit).max().unwrap_or(Exit::Held)
}

fn print(what: impl FnOnce(&mut io::StdoutLock<'_>) -> io::Result<()>) -> anyhow::Result<()> {
    let mut output = io::stdout().lock();
    what(&mut output)?;
    Ok(output.flush()?)
}

fn campaign(entries: Vec<Entry>, args: &FuzzArgs, began: Instant) -> anyhow::Result<Vec<Finding>> {
    let count = entries.len();
    let mut pool = Pool::new(jobs(args.jobs));
    let deadline = began + args.time.unwrap_or(TIME);
    let length = args
        .seeds
        .map_or_else(|| millis(args.time.unwrap_or(TIME)), |seeds| seeds.saturating_mul(count as u64));
    let progress = Progress::new(length, began, !args.json);
    let mut findings = Vec::new();
    for (at, entry) in entries.into_iter().enumerate() {
        // What a scenario leaves of its share goes to those after it.
        let share = deadline.saturating_duration_since(Instant::now())
            / u32::try_from(count - at).unwrap_or(u32::MAX);
        let budget = args.seeds.map_or_else(|| Budget::Time(share, seeds_that_matter(&entry)), Budget::Seeds);
        let before = args.seeds.unwrap_or_default().saturating_mul(at as u64);
        let on_progress = |outcome: &Outcome| {
            let position =
                args.seeds.map_or_else(|| millis(began.elapsed()), |_| before + outcome.tally.seeds);
            progress.set(position, || message(&entry, outcome));
        };
        let xray = Share::new(args.xray.unwrap_or(XRAY));
        let outcome = pool.run_with_xray(&entry, args.start.unwrap_or(1), budget, xray, &on_progress)?;
        let mut problem = outcome.problem(&entry).or_else(|| outcome.inert(&entry).filter(|_| args.strict));
        if let Some(problem) = problem.as_mut().filter(|problem| problem.exit == Exit::Nondeterministic) {
            xray::explain(&entry, &outcome, problem);
        }
        if let Some(problem) = problem.as_mut().filter(|_| !args.after.no_shrink) {
            shrink(&entry, problem, args);
        }
        findings.push(Finding { entry, outcome, problem });
    }
    progress.clear();
    Ok(findings)
}

/// Makes the failure small that was found, and says in the problem's notes what came of it.
fn shrink(entry: &Entry, problem: &mut Problem, args: &FuzzArgs) {
    let Some(seed) = problem.seed else { return };
    // A panic here has been counted as a death by whoever ran the seed.
    if let Ok(report) = panics::guarded(|| entry.strategist().run(seed, false)) {
        problem.notes.extend(automatic(entry, &report, args.after.out.as_deref()));
    }
}

/// Where nothing is left to chance, more seeds than the scenario asks for show nothing new.
fn seeds_that_matter(entry: &Entry) -> u64 {
    if entry.scenario.faults.is_random() { SEEDS_MAX } else { entry.scenario.expect.seeds.unsigned_abs() }
}

fn message(entry: &Entry, outcome: &Outcome) -> String {
    let failed =
        if outcome.tally.failed > 0 { format!(", {} failed", outcome.tally.failed) } else { String::new() };
    format!("{}: {} seeds{failed}", entry.path, outcome.tally.seeds)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
