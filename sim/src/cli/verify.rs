//! `cargo sim verify`: as many clean seeds as it takes to believe a fix.

use std::io::{self, Write};
use std::time::Instant;

use super::folder::Entry;
use super::interrupt::Interrupt;
use super::outcome::{Outcome, Problem};
use super::pool::{Budget, Pool};
use super::progress::Progress;
use super::text::{count, grouped};
use super::{Exit, VerifyArgs, jobs, unless_closed};

/// Runs the command.
pub(crate) fn verify(args: &VerifyArgs) -> anyhow::Result<Exit> {
    let mut entry = Entry::load(&args.file)?.on(args.how.net).by(args.how.strategy);
    // A canary that is no longer caught is what is asked for here; and what seeds ought to reach is not.
    entry.scenario.expect = Default::default();
    let confidence = u32::try_from(args.confidence).unwrap_or(99);
    let seeds = args.was.clean_seeds(confidence);
    let progress = Progress::new(seeds, Instant::now(), true);
    let on_progress = |outcome: &Outcome| {
        progress.set(outcome.tally.seeds, || format!("{}: {} failed", entry.path, outcome.tally.failed));
    };
    let interrupt = Interrupt::listen()?;
    let mut pool = Pool::new(jobs(args.jobs), interrupt.clone());
    let outcome = pool.run(&entry, args.start, Budget::Seeds(seeds), &on_progress)?;
    progress.clear();
    let problem = outcome.problem(&entry);
    let told = match &problem {
        None if interrupt.has_come() => tell_of_interrupt(&entry, &outcome, seeds),
        problem => tell(args, &entry, &outcome, problem.as_ref()),
    };
    unless_closed(told.map_err(Into::into))?;
    Ok(interrupt.or(problem.map_or(Exit::Held, |problem| problem.exit)))
}

fn tell_of_interrupt(entry: &Entry, outcome: &Outcome, wanted: u64) -> io::Result<()> {
    let (seeds, wanted) = (grouped(outcome.tally.seeds), count(wanted, "seed"));
    writeln!(
        io::stdout(),
        "{}: interrupted, {seeds} of {wanted} were run and are clean: not enough to believe the fix",
        entry.path
    )
}

fn tell(args: &VerifyArgs, entry: &Entry, outcome: &Outcome, problem: Option<&Problem>) -> io::Result<()> {
    let mut output = io::stdout().lock();
    if let Some(problem) = problem {
        return writeln!(output, "{}", problem.in_full(entry));
    }
    let (seeds, was, confidence) = (outcome.tally.seeds, args.was, args.confidence);
    let are = if seeds == 1 { "is" } else { "are" };
    let seeds = count(seeds, "seed");
    writeln!(
        output,
        "{}: {seeds} {are} clean: a failure that struck {was} of them would have shown with a probability of \
         {confidence} %",
        entry.path
    )?;
    let distinct = outcome.tally.hashes.len() as u64;
    if distinct < outcome.tally.seeds {
        writeln!(output, "{} of these runs were distinct", grouped(distinct))?;
    }
    output.flush()
}
