//! Arguments that several commands have.

use std::path::PathBuf;

use ackward_sim::scenario::Net;
use ackward_sim::strategy::Strategy;
use clap::Args;

use super::super::text;

/// How a seed is run.
#[derive(Args, Clone, Copy, Default)]
pub(crate) struct HowArgs {
    /// What carries the connections, built-in or turmoil; else what the scenario says. What a scenario expects to be
    /// reached now and then is judged on its own net only.
    #[arg(long, value_name = "NET", value_parser = text::net())]
    pub(crate) net: Option<Net>,
    /// How a seed becomes answers: uniform, pct, swarm or mix. Default mix.
    #[arg(long, value_name = "STRATEGY", value_parser = Strategy::parse)]
    pub(crate) strategy: Option<Strategy>,
}

/// What is done about a failure.
#[derive(Args, Default)]
pub(crate) struct AfterArgs {
    /// Do not shrink a failing run.
    #[arg(long)]
    pub(crate) no_shrink: bool,
    /// Where shrunk failures are written: a file (*.toml) or a folder; else regressions/ beside the scenario.
    #[arg(long, value_name = "PATH", conflicts_with = "no_shrink")]
    pub(crate) out: Option<PathBuf>,
}
