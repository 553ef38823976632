//! Logs on stderr, for people or for machines.

#![expect(clippy::disallowed_methods, reason = "the command line reads the environment")]

use std::env;
use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use clap::{Args, ValueEnum};
use tracing::level_filters::LevelFilter;

use super::service;

/// What logging was started with.
static IN_USE: OnceLock<(Format, LevelFilter)> = OnceLock::new();

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

impl Logging {
    /// Starts logging. Colours only on a terminal, and not where `NO_COLOR` is set.
    pub fn init(&self) {
        // Called once.
        let _ = IN_USE.set((self.log_format, self.log));
        let no_color = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(self.log)
            .with_writer(io::stderr)
            // Otherwise a line that cannot be written is told by `eprintln!`, which panics where stderr is full or closed.
            .log_internal_errors(false)
            .with_ansi(io::stderr().is_terminal() && !no_color);
        match self.log_format {
            Format::Text => subscriber.init(),
            Format::Json => subscriber.json().init(),
        }
    }

    /// Settings read anew that wait for the next start: warns of those that have changed.
    pub fn warn_of_changes(&self) {
        let Some((format, level)) = IN_USE.get() else { return };
        for (has_changed, flag) in
            [(*format != self.log_format, "--log-format"), (*level != self.log, "--log")]
        {
            if has_changed {
                service::waits_for_start(flag);
            }
        }
    }
}
