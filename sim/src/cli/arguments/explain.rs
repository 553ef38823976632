//! The arguments of `cargo sim explain`.

use std::path::PathBuf;

use clap::Args;

use super::super::{SEED_MAX, text};
use super::shared::HowArgs;

#[derive(Args)]
pub(crate) struct ExplainArgs {
    /// The scenario file.
    pub(crate) file: PathBuf,
    /// The seed that fails, 0 to 2^63-1.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = text::whole(0, SEED_MAX))]
    pub(crate) seed: u64,
    /// How often the rest of the run is drawn anew at each point, 1 to 10000.
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = text::whole(1, 10_000))]
    pub(crate) samples: u64,
    /// Print one JSON object instead.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) how: HowArgs,
}
