//! The command line of `ackward`. Results go to stdout, logs to stderr.

mod consume;
mod enqueue;
mod exit;
mod fault;
mod files;
mod list;
mod logging;
mod publish;
mod receive;
mod redrive;
mod secrets;
mod signals;
mod work;

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use ackward::rules::{Jitter, Limits, Name, Ttl};
use clap::{Parser, Subcommand};

use exit::{Ended, Exit};

/// A lease queue with its HTTP worker and receiver, and a resumable TCP consumer with its publisher, on SQLite
#[derive(Debug, Parser)]
#[command(name = "ackward", version, after_help = exit::HELP)]
struct Cli {
    #[command(flatten)]
    logging: logging::Logging,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Enqueue(enqueue::Enqueue),
    Work(work::Work),
    Receive(receive::Receive),
    List(list::List),
    Redrive(redrive::Redrive),
    Consume(consume::Consume),
    Publish(publish::Publish),
}

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    cli.logging.init();
    let ended = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(async {
            match cli.command {
                Command::Enqueue(enqueue) => enqueue.run(),
                Command::Work(work) => work.run().await,
                Command::Receive(receive) => receive.run().await,
                Command::List(list) => list.run(),
                Command::Redrive(redrive) => redrive.run(),
                Command::Consume(consume) => consume.run().await,
                Command::Publish(publish) => publish.run().await,
            }
        }),
        Err(error) => Err(Ended::new(Exit::Failure, error)),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(ended) => {
            // Nobody reads an error that cannot be written.
            let _ = writeln!(io::stderr(), "ackward: {}", ended.message);
            ended.exit.into()
        }
    }
}

/// Prints a line of results. A reader that has gone is no reason to fail: what counts is in the store.
fn say(line: impl Display) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// A timeout in seconds, as clap reads it.
fn timeout(text: &str) -> Result<ackward::rules::Timeout, String> {
    let seconds = text.parse().map_err(|_| "a number of seconds, such as 10 or 0.5".to_owned())?;
    ackward::rules::Timeout::from_seconds(seconds).map_err(|error| error.to_string())
}

/// A number of seconds as whole milliseconds; the range is the caller's to check.
fn seconds_ms(text: &str) -> Result<i64, String> {
    let duration = timeout(text)?.duration();
    i64::try_from(duration.as_millis()).map_err(|_| "a number of seconds, such as 10 or 0.5".to_owned())
}

/// A job's time to live in seconds.
fn ttl(text: &str) -> Result<Ttl, String> {
    Limits::WIDE.ttl(seconds_ms(text)?).map_err(|error| error.to_string())
}

/// An identifier.
fn name(text: &str) -> Result<Name, String> {
    Name::new("name", text).map_err(|error| error.to_string())
}

/// A random part of a wait, so that many processes do not come back all at once.
fn jitter() -> Jitter {
    let random = getrandom::u32().unwrap_or(u32::MAX);
    Jitter::new(f64::from(random) / f64::from(u32::MAX)).unwrap_or(Jitter::FULL)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    /// The command line is consistent in itself.
    #[test]
    fn the_command_line_holds() {
        super::Cli::command().debug_assert();
    }
}
