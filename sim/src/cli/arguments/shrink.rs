//! The arguments of `cargo sim shrink`.

use std::path::PathBuf;

use clap::Args;

use super::super::{SEED_MAX, text};
use super::shared::HowArgs;

#[derive(Args)]
pub(crate) struct ShrinkArgs {
    /// The scenario file.
    pub(crate) file: PathBuf,
    /// The seed that fails, 0 to 2^63-1.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = text::whole(0, SEED_MAX))]
    pub(crate) seed: u64,
    /// The file to write (*.toml), or its folder, or - for standard output.
    #[arg(long, value_name = "PATH")]
    pub(crate) out: Option<PathBuf>,
    /// How many runs it may take at most, 1 to 1000000. Default 9400.
    #[arg(long, value_name = "N", value_parser = text::whole(1, 1_000_000))]
    pub(crate) runs: Option<u64>,
    #[command(flatten)]
    pub(crate) how: HowArgs,
}
