//! The commands of `cargo sim`: their arguments, and how their results become exit codes.
//!
//! What a run is and what judges it belongs to the library; here is only what a person or a CI job sees.

#![expect(
    clippy::disallowed_methods,
    reason = "the command line measures real time, starts processes and looks at the environment"
)]

mod bench;
mod bundle;
mod child;
mod ci;
mod cover;
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
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ackward_sim::exec;
use ackward_sim::findability::HitRate;
use ackward_sim::scenario::Net;
use ackward_sim::strategy::Strategy;
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

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

/// Replays any race, crash or lost ACK in the lease queue from a seed.
///
/// Without a command: fuzzes every scenario of the scenario folder for about 20 seconds in all, the last tenth of them
/// with turmoil as the net.
#[derive(Parser)]
#[command(name = "cargo sim", bin_name = "cargo sim", version, max_term_width = 100)]
#[command(after_help = "Exit codes:
  0  every property held
  1  a property failed, something expected was never reached, or a canary
     was not caught
  2  the arguments or a scenario file are wrong
  3  the same seed did not give the same run
  4  no seed does what the imported logs say
  130  it was interrupted by Ctrl-C; what was done by then is told and kept

Examples:
  cargo sim
  cargo sim run scenarios/storm.toml --seed 7
  cargo sim fuzz scenarios/storm.toml --time 60s")]
struct Cli {
    /// The folder of scenario files [default: ./scenarios where it is there, else that of this workspace].
    #[arg(long, global = true, value_name = "DIR")]
    scenarios: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Runs one seed of a scenario and tells its story.
    #[command(after_help = "Examples:
  cargo sim run scenarios/storm.toml --seed 7 --trace
  cargo sim run scenarios/storm.toml --seed 7 --net turmoil")]
    Run(RunArgs),
    /// Runs many seeds of one or more scenarios, on all cores.
    #[command(after_help = "Examples:
  cargo sim fuzz
  cargo sim fuzz scenarios/storm.toml --time 60s
  cargo sim fuzz scenarios/storm.toml --start 1000 --seeds 5000 --json
  cargo sim fuzz --seeds 9000 --shard 2/3 --seed-from $GIT_SHA
  cargo sim fuzz --time 1h --resume fuzz.journal --junit junit.xml
  cargo sim fuzz scenarios/storm.toml --cover --corpus corpus --plateau 2000")]
    Fuzz(Box<FuzzArgs>),
    /// Judges the reports of a campaign's shards as one campaign.
    ///
    /// Every seed counts once: overlapping reports, missing shards and different texts of a scenario are refused.
    #[command(after_help = "Example:
  cargo sim merge shard-*.json --report all.json --junit junit.xml")]
    Merge(merge::MergeArgs),
    /// Prints the JSON Schema of scenario files, or of results.
    #[command(after_help = "Example:
  cargo sim schema scenario > scenario.schema.json")]
    Schema {
        /// What the schema is of.
        #[arg(value_enum)]
        of: schema::Of,
    },
    /// Runs every run of a scenario with at most K deviations: kills, power cuts, errors, preemptions, lost messages.
    ///
    /// It ends with "complete to depth K", or with the first failure, which has the fewest deviations that one
    /// can have.
    #[command(after_help = "Examples:
  cargo sim explore scenarios/two-workers-one-job.toml --depth 1 --states
  cargo sim explore scenarios/storm.toml --depth 2 --kinds kill,power-cut")]
    Explore(ExploreArgs),
    /// Makes a failing run small and writes it as a scenario file of its own.
    ///
    /// `run` and `fuzz` do so by themselves after a failure. The file goes to regressions/ beside the scenario.
    #[command(after_help = "Example:
  cargo sim shrink scenarios/canaries/finish-ignores-expiry.toml --out -")]
    Shrink(ShrinkArgs),
    /// Shows where in a failing run its failure becomes certain, and the nearest run that passes.
    ///
    /// The run is kept up to each of its deviations and drawn anew from there on.
    #[command(after_help = "Example:
  cargo sim explain scenarios/canaries/finish-ignores-expiry.toml --seed 1")]
    Explain(ExplainArgs),
    /// Runs as many seeds as must be clean before a fix can be believed.
    #[command(after_help = "Example:
  cargo sim verify scenarios/storm.toml --was 3/1000 --confidence 99")]
    Verify(VerifyArgs),
    /// Reads the event logs of an incident, and searches for a seed that does the same.
    ///
    /// The logs of `ackward work --events FILE` are held against the contract, turned into a scenario, and replayed in
    /// simulation. Name the logs of all workers that shared the queue. Exits with 0 where a seed does the same, 1 where
    /// the logs (or the replay) break the contract, 4 where no seed does the same; the nearest run is written then.
    #[command(after_help = "Example:
  cargo sim import worker-a.jsonl worker-b.jsonl --out incident.toml")]
    Import(ImportArgs),
    /// Reads one JSON operation a line and prints one JSON result a line, on real SQLite files.
    #[command(after_help = "Operations and their arguments ([] is optional):
  enqueue id qty now_ms ttl_ms [max_attempts]
  claim owner now_ms [lease_ms]
  finish ticket outcome now_ms [delay_ms]
  redrive id now_ms ttl_ms note
  renew ticket now_ms [lease_ms]
  release ticket now_ms
  run_once owner clock send jitter [lease_ms]
  retry_delay attempt base_ms cap_ms jitter
  apply_event seq delta
  consume_line line_hex
  parse_line line_hex
  replay events last limit
  state
  dump
  reopen

A result is {\"ok\":VALUE} or {\"error\":NAME}.
On a terminal the reason of an error is told on stderr, too.

Example:
  echo '{\"op\":\"claim\",\"owner\":\"w\",\"now_ms\":0}' | cargo sim exec")]
    Exec {
        /// Keep and reuse DIR/queue.db and DIR/store.db; without it the files are temporary.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Measures how fast simulations run on one core, and where the time goes.
    ///
    /// Beside a number stands the aim that this project holds it against; missing one does not change the exit code. x
    /// is a ratio: of built-in to turmoil in seeds per second, or of simulated time to real time. Numbers of a debug
    /// build, or of a machine that is busy with something else, say little.
    #[command(after_help = "Example:
  cargo sim bench --rounds 9")]
    Bench {
        /// How often each measurement is taken; the median is printed. 1 to 1000.
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = text::whole(1, 1_000))]
        rounds: u64,
    },
    /// Plants every known mistake in the system and shows how soon each is caught.
    #[command(after_help = "Examples:
  cargo sim zoo
  cargo sim zoo --starts 5 --json
  cargo sim zoo run stale-finish")]
    Zoo(zoo::ZooArgs),
    /// Measures how many runs each strategy takes to find each planted mistake.
    ///
    /// Results depend on the arguments alone; how long it took goes to standard error, and into a table of its own with
    /// --seconds.
    #[command(after_help = "Example:
  cargo sim strategies --campaigns 20 --seconds")]
    Strategies(StrategiesArgs),
    /// Prints a completion script for a shell.
    #[command(after_help = "Example:
  source <(cargo sim completions bash)")]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Answers requests of the fuzzing process on standard input.
    #[command(hide = true)]
    Child,
}

#[derive(Args)]
struct RunArgs {
    /// The scenario file.
    file: PathBuf,
    /// The seed, 0 to 2^63-1.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = text::whole(0, SEED_MAX))]
    seed: u64,
    /// Also list every call into the operating system with its point's name.
    #[arg(long)]
    trace: bool,
    /// Print one JSON object instead.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    after: AfterArgs,
    #[command(flatten)]
    how: HowArgs,
}

#[derive(Args)]
struct ExploreArgs {
    /// The scenario file; its probabilities do not matter.
    file: PathBuf,
    /// How many deviations a run has at most, 0 to 8.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = text::whole(0, 8))]
    depth: u64,
    /// These kinds of deviations, separated by commas, or all; else kills, power cuts, errors, preemptions, lost and
    /// late messages.
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = text::kind)]
    kinds: Vec<String>,
    /// Leave nothing out, not even what another run stands for.
    #[arg(long)]
    unpruned: bool,
    /// Also print the final states.
    #[arg(long)]
    states: bool,
    /// Seeds jitter and SQLite's own random numbers, 0 to 2^63-1.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = text::whole(0, SEED_MAX))]
    seed: u64,
    /// How many processes run at a time, 1 to 256; else one a core. Results do not depend on it.
    #[arg(long, value_name = "N", value_parser = text::whole(1, 256))]
    jobs: Option<u64>,
    /// Print one JSON object instead.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    after: AfterArgs,
}

#[derive(Args)]
struct ShrinkArgs {
    /// The scenario file.
    file: PathBuf,
    /// The seed that fails, 0 to 2^63-1.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = text::whole(0, SEED_MAX))]
    seed: u64,
    /// The file to write (*.toml), or its folder, or - for standard output.
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
    /// How many runs it may take at most, 1 to 1000000. Default 9400.
    #[arg(long, value_name = "N", value_parser = text::whole(1, 1_000_000))]
    runs: Option<u64>,
    #[command(flatten)]
    how: HowArgs,
}

#[derive(Args)]
struct ExplainArgs {
    /// The scenario file.
    file: PathBuf,
    /// The seed that fails, 0 to 2^63-1.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = text::whole(0, SEED_MAX))]
    seed: u64,
    /// How often the rest of the run is drawn anew at each point, 1 to 10000.
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = text::whole(1, 10_000))]
    samples: u64,
    /// Print one JSON object instead.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    how: HowArgs,
}

#[derive(Args)]
struct VerifyArgs {
    /// The scenario file.
    file: PathBuf,
    /// The share of seeds that failed before the fix, as the failure's report states it: 3/1000, 0.3% or 0.003.
    #[arg(long, value_name = "RATE", value_parser = HitRate::parse)]
    was: HitRate,
    /// How sure to be, in percent, 1 to 99.
    #[arg(long, value_name = "PERCENT", default_value_t = 99, value_parser = text::whole(1, 99))]
    confidence: u64,
    /// The first seed, 0 to 2^63-1.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = text::whole(0, SEED_MAX))]
    start: u64,
    /// How many processes run at a time, 1 to 256; else one a core.
    #[arg(long, value_name = "N", value_parser = text::whole(1, 256))]
    jobs: Option<u64>,
    #[command(flatten)]
    how: HowArgs,
}

#[derive(Args)]
struct StrategiesArgs {
    /// How many campaigns for each mistake and strategy, each with other seeds, 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = text::whole(1, 1_000))]
    campaigns: u64,
    /// How many runs a campaign has at most, 1 to 1000000.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = text::whole(1, 1_000_000))]
    runs: u64,
    /// Only these mistakes, as a scenario's `system` names them, separated by commas.
    #[arg(long, value_name = "WORDS", value_delimiter = ',', value_parser = strategies::flaw)]
    only: Vec<String>,
    /// Print the median seconds as well: they differ from one time to the next.
    #[arg(long)]
    seconds: bool,
    /// Print one JSON object instead.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct ImportArgs {
    /// The event logs, of one or several workers.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The scenario file to write (*.toml), or - for standard output; else the first log's name in this folder,
    /// where no file has it yet.
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
    /// The first seed, 0 to 2^63-1.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = text::whole(0, SEED_MAX))]
    start: u64,
    /// How many seeds at most, 1 to 1000000.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = text::whole(1, 1_000_000))]
    seeds: u64,
    /// Print one JSON object instead.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Default)]
struct FuzzArgs {
    /// The scenario files; without any, all of the scenario folder.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How many seeds of each scenario, 1 to 1000000000.
    #[arg(long, value_name = "N", conflicts_with = "time", value_parser = text::whole(1, 1_000_000_000))]
    seeds: Option<u64>,
    /// How long in all, such as 500ms, 60s or 5m; split evenly over the scenarios. Default 20s.
    #[arg(long, value_name = "TIME", value_parser = text::parse_duration)]
    time: Option<Duration>,
    /// The first seed, 0 to 2^63-1. Default 1.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = text::whole(0, SEED_MAX))]
    start: Option<u64>,
    /// How many processes run at a time, 1 to 256; else one a core. Results do not depend on it.
    #[arg(long, value_name = "N", value_parser = text::whole(1, 256))]
    jobs: Option<u64>,
    /// Print one JSON object instead; timings are apart, under `timings`.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    after: AfterArgs,
    #[command(flatten)]
    how: HowArgs,
    /// The share of seeds, 0 to 1, that is run again in the same process and in a fresh one. Default 0.01.
    #[arg(long, value_name = "SHARE", value_parser = text::share)]
    xray: Option<f64>,
    /// Fail where a kind of fault that is switched on never had an effect.
    #[arg(long)]
    strict: bool,
    /// Print all columns of the table: distinct runs, simulated time, faults, what was reached.
    #[arg(long, conflicts_with = "json")]
    details: bool,
    #[command(flatten)]
    ci: ci::CiArgs,
    /// Keep the deviation lists that reach new behaviour and change those: one scenario, one process. --seeds counts
    /// runs; it ends at the first failure. Numbers that the scenario lets vary are changed as well; without --cover
    /// they are as the file has them.
    #[arg(long, conflicts_with_all = ["jobs", "xray", "strict", "details", "shard", "seed_from", "max_failures",
        "resume", "bundles", "report", "junit"])]
    cover: bool,
    /// The corpus of --cover: a folder with one file per list. Of several all are read and the first is written to.
    #[arg(long, value_name = "DIR", requires = "cover")]
    corpus: Vec<PathBuf>,
    /// With --cover: stop when N runs in a row reached nothing new, 1 to 1000000000.
    #[arg(long, value_name = "N", requires = "cover", value_parser = text::whole(1, 1_000_000_000))]
    plateau: Option<u64>,
    /// With --cover: do not fuzz, keep a smallest set of the corpus with the same coverage, in the first folder.
    #[arg(long, requires = "corpus", conflicts_with_all = ["time", "seeds", "plateau"])]
    minimise: bool,
}

/// How a seed is run.
#[derive(Args, Clone, Copy, Default)]
struct HowArgs {
    /// What carries the connections, built-in or turmoil; else what the scenario says. What a scenario expects to be
    /// reached now and then is judged on its own net only.
    #[arg(long, value_name = "NET", value_parser = text::net())]
    net: Option<Net>,
    /// How a seed becomes answers: uniform, pct, swarm or mix. Default mix.
    #[arg(long, value_name = "STRATEGY", value_parser = Strategy::parse)]
    strategy: Option<Strategy>,
}

/// What is done about a failure.
#[derive(Args, Default)]
struct AfterArgs {
    /// Do not shrink a failing run.
    #[arg(long)]
    no_shrink: bool,
    /// Where shrunk failures are written: a file (*.toml) or a folder; else regressions/ beside the scenario.
    #[arg(long, value_name = "PATH", conflicts_with = "no_shrink")]
    out: Option<PathBuf>,
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
