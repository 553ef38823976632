//! The arguments of `cargo sim explore`.

use std::path::PathBuf;

use clap::Args;

use super::super::{SEED_MAX, text};
use super::shared::AfterArgs;

#[derive(Args)]
pub(crate) struct ExploreArgs {
    /// The scenario file; its probabilities do not matter.
    pub(crate) file: PathBuf,
    /// How many deviations a run has at most, 0 to 8.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = text::whole(0, 8))]
    pub(crate) depth: u64,
    /// These kinds of deviations, separated by commas, or all; else kills, power cuts, errors, preemptions, lost and
    /// late messages.
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = text::kind)]
    pub(crate) kinds: Vec<String>,
    /// Leave nothing out, not even what another run stands for.
    #[arg(long)]
    pub(crate) unpruned: bool,
    /// Also print the final states.
    #[arg(long)]
    pub(crate) states: bool,
    /// Seeds jitter and SQLite's own random numbers, 0 to 2^63-1.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = text::whole(0, SEED_MAX))]
    pub(crate) seed: u64,
    /// How many processes run at a time, 1 to 256; else one a core. Results do not depend on it.
    #[arg(long, value_name = "N", value_parser = text::whole(1, 256))]
    pub(crate) jobs: Option<u64>,
    /// Print one JSON object instead.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) after: AfterArgs,
}
