//! `cargo sim` and `cargo sim fuzz`: many seeds of many scenarios.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use ackward_sim::campaign::Share;
use ackward_sim::scenario::Net;

use super::ci::Plan;
use super::folder::{Entry, entries};
use super::interrupt::Interrupt;
use super::journal::{Journal, Known};
use super::outcome::{Outcome, Problem};
use super::pool::{Budget, Chunk, GRACE, PATIENCE, Pool, Task};
use super::progress::Progress;
use super::shrink::automatic;
use super::table::Shown;
use super::text::count;
use super::{Exit, FuzzArgs, bundle, jobs, json, millis, panics, table, unless_closed, xray};

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

impl Finding {
    /// The verdict in one or two words.
    pub(crate) fn word(&self) -> String {
        let problem = self.problem.as_ref();
        problem.map_or_else(|| self.outcome.good_word(&self.entry), |problem| problem.word.clone())
    }

    /// Whether it is a scenario that is to fail, and has failed as it is to.
    pub(crate) fn is_caught(&self) -> bool {
        let expected = self.entry.scenario.expect.fails.as_ref();
        self.problem.is_none()
            && expected.is_some_and(|property| self.outcome.tally.broken.contains_key(property.as_str()))
    }
}

/// Runs `cargo sim fuzz`.
pub(crate) fn fuzz(folder: Option<&Path>, args: &FuzzArgs) -> anyhow::Result<Exit> {
    let began = Instant::now();
    let plan = Plan::new(args)?;
    let entries = entries(folder, &args.files)?;
    let entries: Vec<_> =
        entries.into_iter().map(|entry| entry.on(args.how.net).by(args.how.strategy)).collect();
    args.ci.prepare()?;
    let interrupt = Interrupt::listen()?;
    let grace = if args.time.is_some() { GRACE } else { PATIENCE };
    let findings = campaign(entries, args, &plan, (began, grace), &interrupt)?;
    let took = began.elapsed();
    let written = args.ci.files.write(&findings, &[plan.shard], took);
    let printed = |output: &mut io::StdoutLock<'_>| {
        if args.json {
            json::findings(output, &findings, &[plan.shard], took)
        } else {
            let about = plan.about() + interrupted(&interrupt);
            let shown = Shown { details: args.details, took, about };
            table::print(output, &findings, &[], &shown)
        }
    };
    unless_closed(print(printed))?;
    written?;
    Ok(interrupt.or(exit(&findings)))
}

/// What the summary says of it.
fn interrupted(interrupt: &Interrupt) -> &'static str {
    if interrupt.has_come() { ", interrupted" } else { "" }
}

/// Runs `cargo sim`: every scenario on its own net, and at the end every scenario on turmoil.
pub(crate) fn default_campaign(folder: Option<&Path>) -> anyhow::Result<Exit> {
    let began = Instant::now();
    let all = entries(folder, &[])?;
    let abroad = all.iter().cloned().map(|entry| entry.on(Some(Net::Turmoil)));
    let abroad: Vec<_> = abroad.filter(|entry| entry.is_abroad).collect();
    let share = |time| FuzzArgs { time: Some(time), ..FuzzArgs::default() };
    let (home_args, abroad_args) = (share(TIME - TURMOIL_TIME), share(TURMOIL_TIME));
    let plan = Plan::new(&home_args)?;
    let interrupt = Interrupt::listen()?;
    let at_home = campaign(all, &home_args, &plan, (began, PATIENCE), &interrupt)?;
    let abroad = campaign(abroad, &abroad_args, &plan, (Instant::now(), PATIENCE), &interrupt)?;
    let shown = Shown { details: false, took: began.elapsed(), about: interrupted(&interrupt).to_owned() };
    unless_closed(print(|output| table::print(output, &at_home, &abroad, &shown)))?;
    Ok(interrupt.or(exit(&at_home).max(exit(&abroad))))
}

/// The exit code of the worst.
pub(crate) fn exit(findings: &[Finding]) -> Exit {
    let problems = findings.iter().filter_map(|finding| finding.problem.as_ref());
    problems.map(|problem| problem.exit).max().unwrap_or(Exit::Held)
}

/// Prints to standard output, all of it.
pub(crate) fn print(what: impl FnOnce(&mut io::StdoutLock<'_>) -> io::Result<()>) -> anyhow::Result<()> {
    let mut output = io::stdout().lock();
    what(&mut output)?;
    Ok(output.flush()?)
}

/// What is the same for all scenarios of a campaign.
struct Campaign<'a> {
    args: &'a FuzzArgs,
    plan: &'a Plan,
    began: Instant,
    grace: Duration,
    progress: Progress,
    journal: Option<Journal>,
    interrupt: &'a Interrupt,
}

fn campaign(
    entries: Vec<Entry>,
    args: &FuzzArgs,
    plan: &Plan,
    (began, grace): (Instant, Duration),
    interrupt: &Interrupt,
) -> anyhow::Result<Vec<Finding>> {
    let count = entries.len();
    let time = args.time.unwrap_or(TIME);
    let (journal, known) = match &args.ci.resume {
        Some(path) => {
            let (journal, known) = Journal::open(path, &entries, plan.arguments(args, time))?;
            (Some(journal), known)
        }
        None => (None, entries.iter().map(|_| Known::default()).collect()),
    };
    let length = plan.seeds.map_or_else(|| millis(time), |seeds| seeds.saturating_mul(count as u64));
    let progress = Progress::new(length, began, !args.json);
    let campaign = Campaign { args, plan, began, grace, progress, journal, interrupt };
    let mut pool = Pool::new(jobs(args.jobs), interrupt.clone());
    let mut findings = Vec::new();
    let mut failures_left = args.ci.max_failures.unwrap_or(u64::MAX);
    // What an earlier process has spent on the scenarios so far.
    let mut spent = Duration::ZERO;
    for (at, (entry, known)) in entries.into_iter().zip(known).enumerate() {
        if failures_left == 0 || interrupt.has_come() {
            findings.push(Finding { entry, outcome: Outcome::default(), problem: None });
            continue;
        }
        // What a scenario leaves of its share goes to those after it.
        let share =
            time.saturating_sub(began.elapsed() + spent) / u32::try_from(count - at).unwrap_or(u32::MAX);
        spent += spent_on(&known);
        let finding = campaign.scenario(&mut pool, at, entry, known, share, failures_left)?;
        let failures = finding.outcome.failures(&finding.entry);
        failures_left = failures_left.saturating_sub(failures);
        findings.push(finding);
    }
    campaign.progress.clear();
    Ok(findings)
}

impl Campaign<'_> {
    /// Runs a scenario, `at` of the campaign, for its share of the time.
    fn scenario(
        &self,
        pool: &mut Pool,
        at: usize,
        entry: Entry,
        known: Known,
        share: Duration,
        failures_max: u64,
    ) -> anyhow::Result<Finding> {
        let Self { args, plan, began, grace, progress, interrupt, .. } = self;
        let share = share.saturating_sub(spent_on(&known));
        let budget = plan.seeds.map_or_else(|| Budget::Time(share, seeds_that_matter(&entry)), Budget::Seeds);
        let budget = if known.is_finished { Budget::Seeds(0) } else { budget };
        let before = plan.seeds.unwrap_or_default().saturating_mul(at as u64);
        let on_progress = |outcome: &Outcome| {
            let position =
                plan.seeds.map_or_else(|| millis(began.elapsed()), |_| before + outcome.tally.seeds);
            progress.set(position, || message(&entry, outcome));
        };
        let keep = |chunk: &Chunk| self.journal.as_ref().map_or(Ok(()), |journal| journal.keep(at, chunk));
        let task = Task {
            entry: &entry,
            start: plan.start,
            budget,
            grace: *grace,
            xray: Share::new(args.xray.unwrap_or(XRAY)),
            failures_max,
            done: known.chunks,
            keep: &keep,
        };
        let outcome = pool.run_task(&task, &on_progress)?;
        // Who resumes shall see a death again, and what was given up shall have another try.
        let is_whole = outcome.deaths.is_empty() && outcome.given_up.is_empty() && !interrupt.has_come();
        let is_done = is_whole && !known.is_finished;
        self.journal.as_ref().filter(|_| is_done).map_or(Ok(()), |journal| journal.finish(at))?;
        let mut problem = outcome.problem(&entry).or_else(|| outcome.inert(&entry).filter(|_| args.strict));
        // Who interrupts wants it to end: what a failure shrinks to takes a while.
        let mut problem_now = problem.as_mut().filter(|_| !interrupt.has_come());
        if let Some(problem) = problem_now.as_mut().filter(|problem| problem.exit == Exit::Nondeterministic) {
            xray::explain(&entry, &outcome, problem);
        }
        if let Some(problem) = problem_now {
            follow_up(&entry, &outcome, problem, args, interrupt);
        }
        Ok(Finding { entry, outcome, problem })
    }
}

/// Makes small what was found, writes bundles, and says in the problem what came of it.
fn follow_up(
    entry: &Entry,
    outcome: &Outcome,
    problem: &mut Problem,
    args: &FuzzArgs,
    interrupt: &Interrupt,
) {
    let shrinks = !args.after.no_shrink;
    if let Some(folder) = &args.ci.bundles {
        let seeds = outcome.failing_seeds(entry).into_iter();
        problem.made.extend(seeds.flat_map(|seed| bundle::write(entry, seed, folder, shrinks, interrupt)));
        return;
    }
    let Some(seed) = problem.seed.filter(|_| shrinks) else { return };
    // A panic here has been counted as a death by whoever ran the seed.
    if let Ok(report) = panics::guarded(|| entry.strategist().run(seed, false)) {
        problem.made.extend(automatic(entry, &report, args.after.out.as_deref(), interrupt));
    }
}

fn spent_on(known: &Known) -> Duration {
    Duration::from_millis(known.chunks.iter().map(|chunk| chunk.spent_ms).max().unwrap_or(0))
}

/// Where nothing is left to chance, more seeds than the scenario asks for show nothing new.
fn seeds_that_matter(entry: &Entry) -> u64 {
    if entry.scenario.faults.is_random() { SEEDS_MAX } else { entry.scenario.expect.seeds.unsigned_abs() }
}

fn message(entry: &Entry, outcome: &Outcome) -> String {
    let failed =
        if outcome.tally.failed > 0 { format!(", {} failed", outcome.tally.failed) } else { String::new() };
    format!("{}: {}{failed}", entry.path, count(outcome.tally.seeds, "seed"))
}
