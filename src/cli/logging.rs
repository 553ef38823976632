//! Logs on stderr, for people or for machines.

#![expect(clippy::disallowed_methods, reason = "the command line reads the environment")]

use std::env;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use ackward::adapter::SystemClock;
use ackward::port::Clock;
use clap::{Args, ValueEnum};
use serde_json::json;
use tracing::level_filters::LevelFilter;

use super::exit::Exit;
use super::{config, service, values};

/// What logging was started with.
static IN_USE: OnceLock<(Format, LevelFilter)> = OnceLock::new();

/// The environment variable for the format.
const VARIABLE: &str = "ACKWARD_LOG_FORMAT";

/// How logs are written.
#[derive(Debug, Args)]
pub struct Logging {
    /// Logs on stderr as text or as one JSON object a line, the one that says why a command failed included
    #[arg(long, global = true, env = VARIABLE, value_enum, default_value_t = Format::Text)]
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

/// Takes the format from arguments or environment where they are refused as a whole, or the settings file is: the line
/// that says so is to be read by whoever reads the others. Returns whether it is JSON.
pub fn without_settings() -> bool {
    let arguments: Vec<_> = env::args_os().collect();
    let format = config::given(&arguments, "--log-format").or_else(|| env::var_os(VARIABLE));
    let format = format.and_then(|format| Format::from_str(format.to_str()?, false).ok());
    // Called once, and not where logging was started.
    let _ = IN_USE.set((format.unwrap_or(Format::Text), LevelFilter::OFF));
    format == Some(Format::Json)
}

/// Says why the command ends, whatever the level: the last line on stderr.
pub fn fatal(exit: Exit, message: &str) {
    let line = || json!({ "message": message, "exit": exit.word(), "exit_code": exit as u8 });
    write(format_args!("ackward: {message}"), "ERROR", line);
}

/// Says something to whoever has given the command, whatever the level.
pub fn complain(line: impl Display) {
    write(&line, "WARN", || json!({ "message": line.to_string().trim_start_matches("ackward: ") }));
}

/// Writes a line on stderr, among JSON lines as one of them; nobody reads one that cannot be written.
fn write(text: impl Display, level: &str, fields: impl FnOnce() -> serde_json::Value) {
    let is_json = IN_USE.get().is_some_and(|(format, _)| *format == Format::Json);
    let _ = if is_json {
        let at = SystemClock.now().map_or_else(|_| String::new(), |now| values::time(now.get()));
        let line = json!({ "timestamp": at, "level": level, "fields": fields(), "target": "ackward" });
        writeln!(io::stderr(), "{line}")
    } else {
        writeln!(io::stderr(), "{text}")
    };
}
