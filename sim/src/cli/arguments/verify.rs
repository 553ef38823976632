//! The arguments of `cargo sim verify`.

use std::path::PathBuf;

use ackward_sim::findability::HitRate;
use clap::Args;

use super::super::{SEED_MAX, text};
use super::shared::HowArgs;

#[derive(Args)]
pub(crate) struct VerifyArgs {
    /// The scenario file.
    pub(crate) file: PathBuf,
    /// The share of seeds that failed before the fix, as the failure's report states it: 3/1000, 0.3% or 0.003.
    #[arg(long, value_name = "RATE", value_parser = HitRate::parse)]
    pub(crate) was: HitRate,
    /// How sure to be, in percent, 1 to 99.
    #[arg(long, value_name = "PERCENT", default_value_t = 99, value_parser = text::whole(1, 99))]
    pub(crate) confidence: u64,
    /// The first seed, 0 to 2^63-1.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = text::whole(0, SEED_MAX))]
    pub(crate) start: u64,
    /// How many processes run at a time, 1 to 256; else one a core.
    #[arg(long, value_name = "N", value_parser = text::whole(1, 256))]
    pub(crate) jobs: Option<u64>,
    #[command(flatten)]
    pub(crate) how: HowArgs,
}
