//! `ackward completions` and `ackward man`: what the command line says about itself.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::exit::{Ended, Exit};
use super::output::note;

/// Print a shell's completions
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ackward completions bash > /usr/share/bash-completion/completions/ackward")]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Print the manual page, or write all of them
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ackward man | man -l -
  ackward man --dir /usr/share/man/man1")]
pub struct Man {
    /// Write the page of each command to this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Completions {
    pub fn run(self) {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut super::Cli::command(), "ackward", &mut text);
        note(io::stdout().write_all(&text));
    }
}

impl Man {
    pub fn run(self) -> Result<(), Ended> {
        let mut command = super::Cli::command();
        command.build();
        let failed = |error: io::Error| Ended::new(Exit::Failure, error);
        let Some(dir) = self.dir else {
            note(io::stdout().write_all(&page(command).map_err(failed)?));
            return Ok(());
        };
        let commands: Vec<_> = command.get_subcommands().cloned().collect();
        for command in std::iter::once(command).chain(commands) {
            let name = command.get_display_name().unwrap_or("ackward").replace(' ', "-");
            let path = dir.join(format!("{name}.1"));
            let page = page(command).map_err(failed)?;
            fs::write(&path, page)
                .map_err(|error| Ended::new(Exit::Storage, format_args!("{}: {error}", path.display())))?;
        }
        Ok(())
    }
}

fn page(command: clap::Command) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text)?;
    Ok(text)
}
