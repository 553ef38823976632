//! The commands of `cargo sim`: their arguments, and how their results become exit codes.
//!
//! What a run is and what judges it belongs to the library; here is only what a person or a CI job sees.

#![expect(
    clippy::disallowed_methods,
    reason = "the command line measures real time, starts processes and looks at the environment"
)]

mod arguments;
mod bench;
mod bundle;
mod child;
mod ci;
mod cover;
mod crew;
mod explain;
mod explore;
mod folder;
mod fuzz;
mod import;
mod interrupt;
mod journal;
mod json;
mod junit;
mod merge;
mod outcome;
mod panics;
mod pool;
mod progress;
mod ranges;
mod run;
mod schema;
mod shard;
mod shrink;
mod strategies;
mod table;
mod text;
mod verify;
mod xray;
mod zoo;

use std::io::{self, IsTerminal, Write};
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ackward_sim::exec;
use clap::{CommandFactory, Parser};

use arguments::{
    Cli, Command, ExplainArgs, ExploreArgs, FuzzArgs, ImportArgs, RunArgs, ShrinkArgs, StrategiesArgs,
    VerifyArgs,
};

/// Greatest seed: a range of seeds never runs over.
const SEED_MAX: u64 = i64::MAX as u64;

/// How a command ended; the number is the process's exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// All held.
    Held = 0,
    /// A property failed, or what was expected did not happen.
    Failed = 1,
    /// The arguments or a scenario file are wrong, or the system failed.
    Usage = 2,
    /// The same seed did not give the same run.
    Nondeterministic = 3,
    /// An imported incident was not found again.
    NotFound = 4,
    /// It was interrupted by SIGINT.
    Interrupted = 130,
}

/// Runs the command line of this process.
pub(crate) fn main() -> ExitCode {
    let exit = match Cli::try_parse().map_or_else(unparsed, command) {
        Ok(exit) => exit,
        // Whoever reads the output has seen enough.
        Err(error) if is_broken_pipe(&error) => Exit::Held,
        Err(error) => {
            // Nothing is left to be done where even that cannot be written.
            let _ = writeln!(io::stderr(), "error: {error:#}");
            Exit::Usage
        }
    };
    ExitCode::from(exit as u8)
}

/// What was wrong with the arguments, or the help that was asked for.
fn unparsed(error: clap::Error) -> anyhow::Result<Exit> {
    if error.use_stderr() {
        error.exit();
    }
    error.print()?;
    io::stdout().flush()?;
    Ok(Exit::Held)
}

fn command(cli: Cli) -> anyhow::Result<Exit> {
    panics::keep_quiet();
    let folder = cli.scenarios.as_deref();
    match cli.command {
        None => fuzz::default_campaign(folder),
        Some(Command::Run(args)) => run::run(&args),
        Some(Command::Fuzz(args)) if args.cover => cover::cover(&args),
        Some(Command::Fuzz(args)) => fuzz::fuzz(folder, &args),
        Some(Command::Merge(args)) => merge::merge(&args),
        Some(Command::Schema { of }) => schema::schema(of),
        Some(Command::Explore(args)) => explore::explore(&args),
        Some(Command::Shrink(args)) => shrink::shrink(&args),
        Some(Command::Explain(args)) => explain::explain(&args),
        Some(Command::Verify(args)) => verify::verify(&args),
        Some(Command::Import(args)) => import::import(&args),
        Some(Command::Exec { dir }) => {
            let terminal = io::stderr().is_terminal();
            exec::run_explained(dir.as_deref(), io::stdin().lock(), io::stdout().lock(), |failure| {
                if terminal {
                    eprintln!("{failure}");
                }
            })?;
            Ok(Exit::Held)
        }
        Some(Command::Strategies(args)) => strategies::strategies(folder, &args),
        Some(Command::Bench { rounds }) => bench::bench(folder, rounds),
        Some(Command::Zoo(args)) => zoo::zoo(folder, &args),
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "ackward-sim", &mut script);
            io::stdout().write_all(&script)?;
            Ok(Exit::Held)
        }
        Some(Command::Child) => child::serve(),
    }
}

/// How many processes to run at a time.
fn jobs(asked: Option<u64>) -> usize {
    asked.map_or_else(
        || std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(256),
        |jobs| usize::try_from(jobs).unwrap_or(1),
    )
}

/// What a mutex holds, also where a thread has panicked with it: what it holds is whole at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A span of real time in whole milliseconds.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Whether colours may be used on standard output.
fn has_colour() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Nothing where whoever reads the output has seen enough: that does not change the verdict.
fn unless_closed(printed: anyhow::Result<()>) -> anyhow::Result<()> {
    match printed {
        Err(error) if is_broken_pipe(&error) => Ok(()),
        printed => printed,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
