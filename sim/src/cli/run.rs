//! `cargo sim run`: one seed, and its story.

use std::io::{self, Write};

use ackward_sim::campaign::{self, Share, Tally};
use ackward_sim::computer::Recording;
use ackward_sim::findability::HitRate;
use ackward_sim::judge::Violation;
use ackward_sim::scene::Report;
use ackward_sim::strategy::Strategist;

use super::folder::Entry;
use super::interrupt::Interrupt;
use super::outcome::{Outcome, Problem, findability};
use super::shrink::automatic;
use super::text::span;
use super::{Exit, RunArgs, json, panics, unless_closed};

/// Seeds run to see how often a failure strikes.
const SAMPLE_SEEDS: u64 = 99;

/// Runs the command.
pub(crate) fn run(args: &RunArgs) -> anyhow::Result<Exit> {
    let entry = Entry::load(&args.file)?.on(args.how.net).by(args.how.strategy);
    let recording = if args.trace { Recording::Calls } else { Recording::Story };
    let interrupt = Interrupt::listen()?;
    let strategist = panics::guarded(|| entry.strategist()).map_err(anyhow::Error::msg)?;
    let (report, outcome) = run_twice(&strategist, args.seed, recording).map_err(anyhow::Error::msg)?;
    let mut problem = outcome.problem(&entry);
    if let Some(problem) = problem.as_mut().filter(|problem| problem.seed.is_some()) {
        problem.notes = measured(&entry, &strategist, (&report, &outcome), &interrupt).unwrap_or_default();
        if !args.after.no_shrink {
            problem.made.extend(automatic(&entry, &report, args.after.out.as_deref(), &interrupt));
        }
    }
    for unmet in &report.unmet {
        let mut errors = io::stderr().lock();
        writeln!(
            errors,
            "warning: this deviation of {} did not happen, since its point was not met or it was not on offer there (the \
             spans in [faults] hold for it, too): {unmet}",
            entry.path
        )?;
    }
    let word = problem.as_ref().map_or_else(|| outcome.good_word(&entry), |problem| problem.word.clone());
    let about = panics::guarded(|| strategist.about(report.seed)).map_err(anyhow::Error::msg)?;
    unless_closed(print(args, &entry, &report, (&word, &about), problem.as_ref()))?;
    Ok(interrupt.or(problem.map_or(Exit::Held, |problem| problem.exit)))
}

fn print(
    args: &RunArgs,
    entry: &Entry,
    report: &Report,
    (word, strategy): (&str, &str),
    problem: Option<&Problem>,
) -> anyhow::Result<()> {
    let mut output = io::BufWriter::new(io::stdout().lock());
    if args.json {
        json::run(&mut output, entry, report, word, problem)?;
    } else {
        tell(&mut output, report, word, strategy)?;
        if let Some(problem) = problem {
            writeln!(output, "\n{}", problem.in_full(entry))?;
        } else if let Some(caught) = caught(entry, report) {
            let (path, seed, property, detail) = (&entry.path, report.seed, caught.property, &caught.detail);
            writeln!(output, "\n{path}: seed {seed} breaks {property}, as it must\n  {detail}")?;
        }
    }
    Ok(output.flush()?)
}

/// What a canary is there for.
fn caught<'r>(entry: &Entry, report: &'r Report) -> Option<&'r Violation> {
    let expected = entry.scenario.expect.fails.as_deref()?;
    report.violations.iter().find(|violation| violation.property == expected)
}

/// Runs the seed once for its story, and once more to see that it is the same run.
fn run_twice(strategist: &Strategist, seed: u64, recording: Recording) -> Result<(Report, Outcome), String> {
    panics::guarded(|| {
        let report = strategist.run(seed, recording);
        let again = strategist.run(seed, Recording::Off);
        let mut tally = Tally::default();
        tally.add(&report);
        if again.hash != report.hash {
            tally.nondeterministic.push(seed);
        }
        let mut outcome = Outcome { tally, ..Outcome::default() };
        outcome.ranges.add(seed, 1);
        (report, outcome)
    })
}

/// How often the failure strikes: in the seed itself and in those after it, or in those before an interrupt.
fn measured(
    entry: &Entry,
    strategist: &Strategist,
    (report, outcome): (&Report, &Outcome),
    interrupt: &Interrupt,
) -> Option<Vec<String>> {
    let first = report.violations.first()?;
    let seeds = if entry.is_random() { SAMPLE_SEEDS } else { 0 };
    let others = panics::guarded(|| {
        let goes_on = || interrupt.goes_on();
        campaign::run_while(strategist, report.seed.saturating_add(1), seeds, Share::default(), goes_on)
    });
    let mut sample = outcome.tally.clone();
    sample.merge(others.ok()?);
    let hits = sample.broken.get(first.property)?.seeds;
    let notes = HitRate::new(hits, sample.seeds).map(|rate| findability(entry, rate));
    Some(notes.into_iter().collect())
}

/// Tells a run.
pub(crate) fn tell(
    output: &mut impl Write,
    report: &Report,
    verdict: &str,
    strategy: &str,
) -> io::Result<()> {
    let reached: Vec<_> = report.milestones.iter().map(|milestone| milestone.as_str()).collect();
    writeln!(output, "seed      {}", report.seed)?;
    writeln!(output, "hash      {:016x}", report.hash)?;
    writeln!(output, "strategy  {strategy}")?;
    writeln!(output, "verdict   {verdict}")?;
    writeln!(
        output,
        "reached   {}",
        if reached.is_empty() { "nothing".to_owned() } else { reached.join(", ") }
    )?;
    writeln!(output, "simulated {}", span(report.at_us.unsigned_abs()))?;
    writeln!(output, "\n{}", report.final_state)?;
    for event in &report.events {
        writeln!(output, "{event}")?;
    }
    Ok(())
}
