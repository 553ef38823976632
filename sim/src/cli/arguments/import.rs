//! The arguments of `cargo sim import`.

use std::path::PathBuf;

use clap::Args;

use super::super::{SEED_MAX, text};

#[derive(Args)]
pub(crate) struct ImportArgs {
    /// The event logs, of one or several workers.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The scenario file to write (*.toml), or - for standard output; else the first log's name in this folder,
    /// where no file has it yet.
    #[arg(long, value_name = "PATH")]
    pub(crate) out: Option<PathBuf>,
    /// The first seed, 0 to 2^63-1.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = text::whole(0, SEED_MAX))]
    pub(crate) start: u64,
    /// How many seeds at most, 1 to 1000000.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = text::whole(1, 1_000_000))]
    pub(crate) seeds: u64,
    /// Print one JSON object instead.
    #[arg(long)]
    pub(crate) json: bool,
}
