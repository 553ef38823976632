//! Logs on stderr, for people or for machines.

#![expect(clippy::disallowed_methods, reason = "the command line reads the environment")]

use std::env;
use std::io::{self, IsTerminal};

use clap::{Args, ValueEnum};
use tracing::level_filters::LevelFilter;

/// How logs are written.
#[derive(Debug, Args)]
pub struct Logging {
    /// Logs on stderr as text or as one JSON object a line
    #[arg(long, global = true, env = "ACKWARD_LOG_FORMAT", value_enum, default_value_t = Format::Text)]
    log_format: Format,
    /// The least severe level that is logged: off, error, warn, info, debug, trace
    #[arg(long, global = true, env = "ACKWARD_LOG", value_name = "LEVEL", default_value = "info")]
    log: LevelFilter,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
}

impl Logging {
    /// Starts logging. Colours only on a terminal, and not where `NO_COLOR` is set.
    pub fn init(&self) {
        let no_color = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(self.log)
            .with_writer(io::stderr)
            .with_ansi(io::stderr().is_terminal() && !no_color);
        match self.log_format {
            Format::Text => subscriber.init(),
            Format::Json => subscriber.json().init(),
        }
    }
}
