//! The arguments of every command, and its help.

use std::path::PathBuf;
use std::time::Duration;

use ackward_sim::findability::HitRate;
use ackward_sim::scenario::Net;
use ackward_sim::strategy::Strategy;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use super::{SEED_MAX, ci, merge, schema, strategies, text, zoo};

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
pub(super) struct RunArgs {
    /// The scenario file.
    pub(super) file: PathBuf,
    /// The seed, 0 to 2^63-1.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = text::whole(0, SEED_MAX))]
    pub(super) seed: u64,
    /// Also list every call into the operating system with its point's name.
    #[arg(long)]
    pub(super) trace: bool,
    /// Print one JSON object instead.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) after: AfterArgs,
    #[command(flatten)]
    pub(super) how: HowArgs,
}

#[derive(Args)]
pub(super) struct ExploreArgs {
    /// The scenario file; its probabilities do not matter.
    pub(super) file: PathBuf,
    /// How many deviations a run has at most, 0 to 8.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = text::whole(0, 8))]
    pub(super) depth: u64,
    /// These kinds of deviations, separated by commas, or all; else kills, power cuts, errors, preemptions, lost and
    /// late messages.
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = text::kind)]
    pub(super) kinds: Vec<String>,
    /// Leave nothing out, not even what another run stands for.
    #[arg(long)]
    pub(super) unpruned: bool,
    /// Also print the final states.
    #[arg(long)]
    pub(super) states: bool,
    /// Seeds jitter and SQLite's own random numbers, 0 to 2^63-1.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = text::whole(0, SEED_MAX))]
    pub(super) seed: u64,
    /// How many processes run at a time, 1 to 256; else one a core. Results do not depend on it.
    #[arg(long, value_name = "N", value_parser = text::whole(1, 256))]
    pub(super) jobs: Option<u64>,
    /// Print one JSON object instead.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) after: AfterArgs,
}

#[derive(Args)]
pub(super) struct ShrinkArgs {
    /// The scenario file.
    pub(super) file: PathBuf,
    /// The seed that fails, 0 to 2^63-1.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = text::whole(0, SEED_MAX))]
    pub(super) seed: u64,
    /// The file to write (*.toml), or its folder, or - for standard output.
    #[arg(long, value_name = "PATH")]
    pub(super) out: Option<PathBuf>,
    /// How many runs it may take at most, 1 to 1000000. Default 9400.
    #[arg(long, value_name = "N", value_parser = text::whole(1, 1_000_000))]
    pub(super) runs: Option<u64>,
    #[command(flatten)]
    pub(super) how: HowArgs,
}

#[derive(Args)]
pub(super) struct ExplainArgs {
    /// The scenario file.
    pub(super) file: PathBuf,
    /// The seed that fails, 0 to 2^63-1.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = text::whole(0, SEED_MAX))]
    pub(super) seed: u64,
    /// How often the rest of the run is drawn anew at each point, 1 to 10000.
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = text::whole(1, 10_000))]
    pub(super) samples: u64,
    /// Print one JSON object instead.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) how: HowArgs,
}

#[derive(Args)]
pub(super) struct VerifyArgs {
    /// The scenario file.
    pub(super) file: PathBuf,
    /// The share of seeds that failed before the fix, as the failure's report states it: 3/1000, 0.3% or 0.003.
    #[arg(long, value_name = "RATE", value_parser = HitRate::parse)]
    pub(super) was: HitRate,
    /// How sure to be, in percent, 1 to 99.
    #[arg(long, value_name = "PERCENT", default_value_t = 99, value_parser = text::whole(1, 99))]
    pub(super) confidence: u64,
    /// The first seed, 0 to 2^63-1.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = text::whole(0, SEED_MAX))]
    pub(super) start: u64,
    /// How many processes run at a time, 1 to 256; else one a core.
    #[arg(long, value_name = "N", value_parser = text::whole(1, 256))]
    pub(super) jobs: Option<u64>,
    #[command(flatten)]
    pub(super) how: HowArgs,
}

#[derive(Args)]
pub(super) struct StrategiesArgs {
    /// How many campaigns for each mistake and strategy, each with other seeds, 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = text::whole(1, 1_000))]
    pub(super) campaigns: u64,
    /// How many runs a campaign has at most, 1 to 1000000.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = text::whole(1, 1_000_000))]
    pub(super) runs: u64,
    /// Only these mistakes, as a scenario's `system` names them, separated by commas.
    #[arg(long, value_name = "WORDS", value_delimiter = ',', value_parser = strategies::flaw)]
    pub(super) only: Vec<String>,
    /// Print the median seconds as well: they differ from one time to the next.
    #[arg(long)]
    pub(super) seconds: bool,
    /// Exit with 1 where the default strategy takes more runs than uniform, all mistakes together.
    #[arg(long)]
    pub(super) strict: bool,
    /// Print one JSON object instead.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
pub(super) struct ImportArgs {
    /// The event logs, of one or several workers.
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// The scenario file to write (*.toml), or - for standard output; else the first log's name in this folder,
    /// where no file has it yet.
    #[arg(long, value_name = "PATH")]
    pub(super) out: Option<PathBuf>,
    /// The first seed, 0 to 2^63-1.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = text::whole(0, SEED_MAX))]
    pub(super) start: u64,
    /// How many seeds at most, 1 to 1000000.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = text::whole(1, 1_000_000))]
    pub(super) seeds: u64,
    /// Print one JSON object instead.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args, Default)]
pub(super) struct FuzzArgs {
    /// The scenario files; without any, all of the scenario folder.
    #[arg(value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// How many seeds of each scenario, 1 to 1000000000.
    #[arg(long, value_name = "N", conflicts_with = "time", value_parser = text::whole(1, 1_000_000_000))]
    pub(super) seeds: Option<u64>,
    /// How long in all, such as 500ms, 60s or 5m; split evenly over the scenarios. Default 20s.
    #[arg(long, value_name = "TIME", value_parser = text::parse_duration)]
    pub(super) time: Option<Duration>,
    /// The first seed, 0 to 2^63-1. Default 1.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = text::whole(0, SEED_MAX))]
    pub(super) start: Option<u64>,
    /// How many processes run at a time, 1 to 256; else one a core. Results do not depend on it.
    #[arg(long, value_name = "N", value_parser = text::whole(1, 256))]
    pub(super) jobs: Option<u64>,
    /// Print one JSON object instead; timings are apart, under `timings`.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) after: AfterArgs,
    #[command(flatten)]
    pub(super) how: HowArgs,
    /// The share of seeds, 0 to 1, that is run again in the same process and in a fresh one. Default 0.01.
    #[arg(long, value_name = "SHARE", value_parser = text::share)]
    pub(super) xray: Option<f64>,
    /// Fail where a kind of fault that is switched on never had an effect.
    #[arg(long)]
    pub(super) strict: bool,
    /// Print all columns of the table: distinct runs, simulated time, faults, what was reached.
    #[arg(long, conflicts_with = "json")]
    pub(super) details: bool,
    #[command(flatten)]
    pub(super) ci: ci::CiArgs,
    /// Keep the deviation lists that reach new behaviour and change those: one scenario, one process. --seeds counts
    /// runs; it ends at the first failure. Numbers that the scenario lets vary are changed as well; without --cover
    /// they are as the file has them.
    #[arg(long, conflicts_with_all = ["jobs", "xray", "strict", "details", "shard", "seed_from", "max_failures",
        "resume", "bundles", "report", "junit"])]
    pub(super) cover: bool,
    /// The corpus of --cover: a folder with one file per list. Of several all are read and the first is written to.
    #[arg(long, value_name = "DIR", requires = "cover")]
    pub(super) corpus: Vec<PathBuf>,
    /// With --cover: stop when N runs in a row reached nothing new, 1 to 1000000000.
    #[arg(long, value_name = "N", requires = "cover", value_parser = text::whole(1, 1_000_000_000))]
    pub(super) plateau: Option<u64>,
    /// With --cover and --corpus: do not fuzz, keep a smallest set of the corpus with the same coverage, in the first
    /// folder. It stands alone, without --time, --seeds and --plateau: each list is run once.
    #[arg(long, requires = "cover")]
    pub(super) minimise: bool,
}

/// How a seed is run.
#[derive(Args, Clone, Copy, Default)]
pub(super) struct HowArgs {
    /// What carries the connections, built-in or turmoil; else what the scenario says. What a scenario expects to be
    /// reached now and then is judged on its own net only.
    #[arg(long, value_name = "NET", value_parser = text::net())]
    pub(super) net: Option<Net>,
    /// How a seed becomes answers: uniform, pct, swarm or mix. Default mix.
    #[arg(long, value_name = "STRATEGY", value_parser = Strategy::parse)]
    pub(super) strategy: Option<Strategy>,
}

/// What is done about a failure.
#[derive(Args, Default)]
pub(super) struct AfterArgs {
    /// Do not shrink a failing run.
    #[arg(long)]
    pub(super) no_shrink: bool,
    /// Where shrunk failures are written: a file (*.toml) or a folder; else regressions/ beside the scenario.
    #[arg(long, value_name = "PATH", conflicts_with = "no_shrink")]
    pub(super) out: Option<PathBuf>,
}
