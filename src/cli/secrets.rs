//! The secrets that sign requests, from a file or the environment: never from the command line, which everybody
//! on the machine can read.

use std::mem;
use std::path::PathBuf;

use ackward::adapter::Threads;
use ackward::port::{Blocking, Lane};
use ackward::shell::{Secret, Secrets};
use clap::Args;

use super::exit::{Ended, Exit};
use super::files;

/// Where the secrets are.
#[derive(Debug, Args)]
pub struct SecretArgs {
    /// File with the secrets of signed requests (Standard Webhooks), `whsec_…`, one a line; several while they
    /// are rotated
    #[arg(long, env = "ACKWARD_SECRET_FILE", value_name = "FILE")]
    secret_file: Option<PathBuf>,
}

impl SecretArgs {
    /// The secrets, where there are any. The file is read on another thread: it may be a pipe of somebody who takes their
    /// time, and dropping the future does not wait for them.
    pub async fn read(&self) -> Result<Option<Secrets>, Ended> {
        let Some(path) = &self.secret_file else { return Ok(None) };
        let refuse = |exit: Exit, error: &dyn std::fmt::Display| {
            Ended::new(exit, format_args!("--secret-file {}: {error}", path.display()))
        };
        let from = path.clone();
        let lane = Threads.open("secrets", move || files::text(&from)).await;
        let lane = lane.map_err(|error| refuse(files::exit_of(&error), &error))?;
        let text: String = lane.call("secrets", mem::take).await;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let secrets: Result<_, _> = lines.map(Secret::parse).collect();
        secrets.and_then(Secrets::new).map(Some).map_err(|error| refuse(Exit::Usage, &error))
    }
}
