//! `cargo sim run`: one seed, and its story.

use std::io::{self, Write};
use std::rc::Rc;

use ackward_sim::campaign::Tally;
use ackward_sim::computer::Recording;
use ackward_sim::scene::Report;
use ackward_sim::twin;

use super::folder::Entry;
use super::outcome::{Outcome, Problem};
use super::text::span;
use super::{Exit, RunArgs, json, panics, unless_closed};

/// Runs the command.
pub(crate) fn run(args: &RunArgs) -> anyhow::Result<Exit> {
    let entry = Entry::load(&args.file)?;
    panics::keep_quiet();
    let recording = if args.trace { Recording::Calls } else { Recording::Story };
    let (report, outcome) = run_twice(&entry, args.seed, recording).map_err(anyhow::Error::msg)?;
    let problem = outcome.problem(&entry);
    for unmet in &report.unmet {
        let mut errors = io::stderr().lock();
        writeln!(errors, "warning: this deviation of {} did not happen: {unmet}", entry.path)?;
    }
    let word = problem.as_ref().map_or_else(|| outcome.good_word(&entry), |problem| problem.word.clone());
    unless_closed(print(args, &entry, &report, &word, problem.as_ref()))?;
    Ok(problem.map_or(Exit::Held, |problem| problem.exit))
}

fn print(
    args: &RunArgs,
    entry: &Entry,
    report: &Report,
    word: &str,
    problem: Option<&Problem>,
) -> anyhow::Result<()> {
    let mut output = io::BufWriter::new(io::stdout().lock());
    if args.json {
        json::run(&mut output, entry, report, word, problem)?;
    } else {
        tell(&mut output, report, word)?;
        if let Some(problem) = problem {
            writeln!(output, "\n{}", problem.in_full(entry))?;
        }
    }
    Ok(output.flush()?)
}

/// Runs the seed once for its story, and once more to see that it is the same run.
fn run_twice(entry: &Entry, seed: u64, recording: Recording) -> Result<(Report, Outcome), String> {
    panics::guarded(|| {
        let scenario = Rc::new(entry.scenario.clone());
        let report = twin::run(&scenario, seed, recording);
        let again = twin::run(&scenario, seed, Recording::Off);
        let mut tally = Tally::default();
        tally.add(&report);
        if again.hash != report.hash {
            tally.nondeterministic.push(seed);
        }
        (report, Outcome { tally, ..Outcome::default() })
    })
}

/// Tells a run.
pub(crate) fn tell(output: &mut impl Write, report: &Report, verdict: &str) -> io::Result<()> {
    let reached: Vec<_> = report.milestones.iter().map(|milestone| milestone.as_str()).collect();
    writeln!(output, "seed      {}", report.seed)?;
    writeln!(output, "hash      {:016x}", report.hash)?;
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
