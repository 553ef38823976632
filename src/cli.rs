//! The command line of `ackward`. Results go to stdout, logs to stderr.

mod consume;
mod exit;
mod fault;
mod logging;
mod publish;
mod signals;

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use exit::{Ended, Exit};

/// A resumable TCP consumer on SQLite, and its publisher
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    /// The command line is consistent in itself.
    #[test]
    fn the_command_line_holds() {
        super::Cli::command().debug_assert();
    }
}
