//! The command line of `ackward`. Results go to stdout, logs to stderr.

mod config;
mod consume;
mod doctor;
mod enqueue;
mod events;
mod exit;
mod fault;
mod files;
mod init;
mod list;
mod logging;
mod output;
mod pages;
mod pieces;
mod prune;
mod publish;
mod queue_file;
mod receive;
mod redrive;
mod secrets;
mod service;
mod show;
mod signals;
mod socket;
mod stats;
mod status;
mod tail;
mod traces;
mod values;
mod work;

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use ackward::rules::Jitter;
use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand};

use exit::{Ended, Exit};

/// A lease queue with its HTTP worker and receiver, and a resumable TCP consumer with its publisher, on SQLite
#[derive(Debug, Parser)]
#[command(name = "ackward", version, after_help = exit::HELP)]
struct Cli {
    #[command(flatten)]
    logging: logging::Logging,
    /// A TOML file with settings: `slots = 8` for every command that has the option, or below `[work]` for one. Flags
    /// and environment come before it
    #[arg(long, global = true, env = config::VARIABLE, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::Init),
    Enqueue(enqueue::Enqueue),
    Work(Box<work::Work>),
    Receive(Box<receive::Receive>),
    List(list::List),
    Show(show::Show),
    Stats(stats::Stats),
    Tail(tail::Tail),
    Redrive(redrive::Redrive),
    Prune(prune::Prune),
    Doctor(doctor::Doctor),
    Consume(consume::Consume),
    Publish(publish::Publish),
    Completions(pages::Completions),
    Man(pages::Man),
}

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(refused) => return refused.end(),
    };
    cli.logging.init();
    let ended = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(run_command(cli.command)),
        Err(error) => Err(Ended::new(Exit::Failure, error)),
    };
    let written = output::all_written();
    match ended {
        Ok(()) if written => ExitCode::SUCCESS,
        Ok(()) => {
            logging::fatal(Exit::Failure, "stdout cannot be written to");
            Exit::Failure.into()
        }
        Err(ended) => {
            logging::fatal(ended.exit, &ended.message);
            ended.exit.into()
        }
    }
}

async fn run_command(command: Command) -> Result<(), Ended> {
    signals::outlive_file_limit().map_err(|error| Ended::new(Exit::Failure, error))?;
    match command {
        Command::Init(init) => init.run(),
        Command::Enqueue(enqueue) => enqueue.run().await,
        Command::Work(work) => work.run().await,
        Command::Receive(receive) => receive.run().await,
        Command::List(list) => list.run(),
        Command::Show(show) => show.run(),
        Command::Stats(stats) => stats.run(),
        Command::Tail(tail) => tail.run().await,
        Command::Redrive(redrive) => redrive.run().await,
        Command::Prune(prune) => prune.run().await,
        Command::Doctor(doctor) => doctor.run(),
        Command::Consume(consume) => consume.run().await,
        Command::Publish(publish) => publish.run().await,
        Command::Completions(completions) => {
            completions.run();
            Ok(())
        }
        Command::Man(man) => man.run(),
    }
}

/// Why the arguments are not run: they are wrong, or help was asked for.
enum Refused {
    Clap(clap::Error),
    Config(Ended),
}

impl Refused {
    /// Says so, to machines as JSON. Help that cannot be written is a failure like any other.
    fn end(self) -> ExitCode {
        let is_json = logging::without_settings();
        match self {
            Self::Clap(error) if is_json && error.use_stderr() => {
                let text = error.to_string();
                logging::fatal(Exit::Usage, text.strip_prefix("error: ").unwrap_or(&text).trim_end());
                Exit::Usage.into()
            }
            Self::Clap(error) => {
                output::note(error.print());
                let code = u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8);
                if output::all_written() { code.into() } else { Exit::Failure.into() }
            }
            Self::Config(ended) => {
                logging::fatal(ended.exit, &ended.message);
                ended.exit.into()
            }
        }
    }

    /// The message, for a log.
    fn message(&self) -> String {
        match self {
            Self::Clap(error) => error.to_string(),
            Self::Config(ended) => ended.message.clone(),
        }
    }
}

/// Reads arguments, environment and configuration file; again after a SIGHUP.
#[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
fn parse() -> Result<Cli, Refused> {
    let arguments: Vec<OsString> = env::args_os().collect();
    let command = config::apply(command(), &arguments, env::var_os(config::VARIABLE));
    let matches = command.map_err(Refused::Config)?.try_get_matches_from(arguments).map_err(Refused::Clap)?;
    Cli::from_arg_matches(&matches).map_err(Refused::Clap)
}

/// The command line. A negative number is a value like any other, for its option to refuse with its range, rather than
/// an option that does not exist.
fn command() -> clap::Command {
    let negative = |argument: Arg| {
        let takes_value = argument.get_action().takes_values();
        if takes_value { argument.allow_negative_numbers(true) } else { argument }
    };
    Cli::command().mut_args(negative).mut_subcommands(|command| command.mut_args(negative))
}

/// Runs a transaction again while the file is locked, for about half a minute: each try waits a second by itself.
#[expect(
    clippy::disallowed_methods,
    reason = "a command that does one thing has nothing else to do meanwhile"
)]
fn patient<T, E>(
    mut transaction: impl FnMut() -> Result<T, E>,
    is_busy: impl Fn(&E) -> bool,
) -> Result<T, E> {
    const TRIES: u32 = 30;
    for _ in 1..TRIES {
        match transaction() {
            Err(error) if is_busy(&error) => std::thread::sleep(Duration::from_millis(5)),
            done => return done,
        }
    }
    transaction()
}

/// A random part of a wait, so that many processes do not come back all at once.
fn jitter() -> Jitter {
    let random = getrandom::u32().unwrap_or(u32::MAX);
    Jitter::new(f64::from(random) / f64::from(u32::MAX)).unwrap_or(Jitter::FULL)
}

#[cfg(test)]
mod tests {
    /// The command line is consistent in itself.
    #[test]
    fn the_command_line_holds() {
        super::command().debug_assert();
    }
}
