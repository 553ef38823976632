//! The production binary: reads the command line, composes the real ports, and turns how a command ended
//! into an exit code.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
