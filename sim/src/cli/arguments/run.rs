//! The arguments of `cargo sim run`.

use std::path::PathBuf;

use clap::Args;

use super::super::{SEED_MAX, text};
use super::shared::{AfterArgs, HowArgs};

#[derive(Args)]
pub(crate) struct RunArgs {
    /// The scenario file.
    pub(crate) file: PathBuf,
    /// The seed, 0 to 2^63-1.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = text::whole(0, SEED_MAX))]
    pub(crate) seed: u64,
    /// Also list every call into the operating system with its point's name.
    #[arg(long)]
    pub(crate) trace: bool,
    /// Print one JSON object instead.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) after: AfterArgs,
    #[command(flatten)]
    pub(crate) how: HowArgs,
}
