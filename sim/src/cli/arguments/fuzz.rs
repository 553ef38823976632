//! The arguments of `cargo sim fuzz`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::super::{SEED_MAX, ci, text};
use super::shared::{AfterArgs, HowArgs};

#[derive(Args, Default)]
pub(crate) struct FuzzArgs {
    /// The scenario files; without any, all of the scenario folder.
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// How many seeds of each scenario, 1 to 1000000000.
    #[arg(long, value_name = "N", conflicts_with = "time", value_parser = text::whole(1, 1_000_000_000))]
    pub(crate) seeds: Option<u64>,
    /// How long in all, such as 500ms, 60s or 5m; split evenly over the scenarios. Default 20s.
    #[arg(long, value_name = "TIME", value_parser = text::parse_duration)]
    pub(crate) time: Option<Duration>,
    /// The first seed, 0 to 2^63-1. Default 1.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = text::whole(0, SEED_MAX))]
    pub(crate) start: Option<u64>,
    /// How many processes run at a time, 1 to 256; else one a core. Results do not depend on it.
    #[arg(long, value_name = "N", value_parser = text::whole(1, 256))]
    pub(crate) jobs: Option<u64>,
    /// Print one JSON object instead; timings are apart, under `timings`.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) after: AfterArgs,
    #[command(flatten)]
    pub(crate) how: HowArgs,
    /// The share of seeds, 0 to 1, that is run again in the same process and in a fresh one. Default 0.01.
    #[arg(long, value_name = "SHARE", value_parser = text::share)]
    pub(crate) xray: Option<f64>,
    /// Fail where a kind of fault that is switched on never had an effect.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print all columns of the table: distinct runs, simulated time, faults, what was reached.
    #[arg(long, conflicts_with = "json")]
    pub(crate) details: bool,
    #[command(flatten)]
    pub(crate) ci: ci::CiArgs,
    /// Keep the deviation lists that reach new behaviour and change those: one scenario, one process. --seeds counts
    /// runs; it ends at the first failure. Numbers that the scenario lets vary are changed as well; without --cover
    /// they are as the file has them.
    #[arg(long, conflicts_with_all = ["jobs", "xray", "strict", "details", "shard", "seed_from", "max_failures",
        "resume", "bundles", "report", "junit"])]
    pub(crate) cover: bool,
    /// The corpus of --cover: a folder with one file per list. Of several all are read and the first is written to.
    #[arg(long, value_name = "DIR", requires = "cover")]
    pub(crate) corpus: Vec<PathBuf>,
    /// With --cover: stop when N runs in a row reached nothing new, 1 to 1000000000.
    #[arg(long, value_name = "N", requires = "cover", value_parser = text::whole(1, 1_000_000_000))]
    pub(crate) plateau: Option<u64>,
    /// With --cover and --corpus: do not fuzz, keep a smallest set of the corpus with the same coverage, in the first
    /// folder. It stands alone, without --time, --seeds and --plateau: each list is run once.
    #[arg(long, requires = "cover")]
    pub(crate) minimise: bool,
}
