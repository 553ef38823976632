//! The commands and their help; their arguments are in a file each.

mod explain;
mod explore;
mod fuzz;
mod import;
mod run;
mod shared;
mod shrink;
mod strategies;
mod verify;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use super::{merge, schema, text, zoo};

pub(super) use explain::ExplainArgs;
pub(super) use explore::ExploreArgs;
pub(super) use fuzz::FuzzArgs;
pub(super) use import::ImportArgs;
pub(super) use run::RunArgs;
pub(super) use shrink::ShrinkArgs;
pub(super) use strategies::StrategiesArgs;
pub(super) use verify::VerifyArgs;

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
  130  Ctrl-C or SIGTERM ended it; what was done by then is told and kept

Examples:
  cargo sim
  cargo sim run scenarios/storm.toml --seed 7
  cargo sim fuzz scenarios/storm.toml --time 60s")]
pub(super) struct Cli {
    /// The folder of scenario files [default: ./scenarios where it is there, else that of this workspace].
    #[arg(long, global = true, value_name = "DIR")]
    pub(super) scenarios: Option<PathBuf>,
    #[command(subcommand)]
    pub(super) command: Option<Command>,
}

#[derive(Subcommand)]
pub(super) enum Command {
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
    ///
    /// A run is pruned where another one stands for it. One that will get further deviations stands for fewer others
    /// than one that is the end of it: with --depth 2 the line of depth 1 has more runs and fewer pruned than with
    /// --depth 1.
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
    #[command(after_help = "Examples:
  cargo sim strategies --campaigns 20 --seconds
  cargo sim strategies --ways uniform,mix --strict")]
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
