//! The arguments of `cargo sim strategies`.

use ackward_sim::detection::Way;
use clap::Args;

use super::super::{strategies, text};

#[derive(Args)]
pub(crate) struct StrategiesArgs {
    /// How many campaigns for each mistake and strategy, each with other seeds, 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = text::whole(1, 1_000))]
    pub(crate) campaigns: u64,
    /// How many runs a campaign has at most, 1 to 1000000.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = text::whole(1, 1_000_000))]
    pub(crate) runs: u64,
    /// Only these mistakes, as a scenario's `system` names them, separated by commas.
    #[arg(long, value_name = "WORDS", value_delimiter = ',', value_parser = strategies::flaw)]
    pub(crate) only: Vec<String>,
    /// Only these ways, separated by commas: uniform, pct, swarm, mix, cover. --strict needs uniform and mix.
    #[arg(long, value_name = "WORDS", value_delimiter = ',', value_parser = Way::parse)]
    pub(crate) ways: Vec<Way>,
    /// How many processes run at a time, 1 to 256; else one a core. Results do not depend on it.
    #[arg(long, value_name = "N", value_parser = text::whole(1, 256))]
    pub(crate) jobs: Option<u64>,
    /// Print the median seconds as well: they differ from one time to the next.
    #[arg(long)]
    pub(crate) seconds: bool,
    /// Exit with 1 where the default strategy takes more runs than uniform, all mistakes together.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print one JSON object instead.
    #[arg(long)]
    pub(crate) json: bool,
}
