//! `cargo sim`.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use ackward_sim::exec;
use clap::{Parser, Subcommand};

/// Runs operations, one by one or by the million.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Reads one JSON operation a line and prints one JSON result a line, on real SQLite files.
    Exec {
        /// Keep and reuse DIR/queue.db and DIR/store.db; without it the files are temporary.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

fn main() -> anyhow::Result<()> {
    let Command::Exec { dir } = Cli::parse().command;
    let terminal = io::stderr().is_terminal();
    exec::run_explained(dir.as_deref(), io::stdin().lock(), io::stdout().lock(), |failure| {
        if terminal {
            eprintln!("{failure}");
        }
    })?;
    Ok(())
}
