//! `ackward redrive`.

use std::path::PathBuf;

use ackward::adapter::SystemClock;
use ackward::port::Clock;
use ackward::rules::{Name, Ttl};
use ackward::storage::{Durability, LeaseQueue, OpenOptions, Queue, RedriveError};
use clap::Args;

use super::exit::{Ended, Exit};
use super::fault::EnvFault;
use super::{files, name, say, ttl};

/// Give a dead job a new life, with a note in the audit table
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ackward redrive --queue jobs.db --id cake --note receiver-mended

The receiver knows the job's id for ever: where an earlier attempt arrived after all, this one has no second effect.")]
pub struct Redrive {
    /// The queue's SQLite file
    #[arg(long, env = "ACKWARD_QUEUE", value_name = "FILE")]
    queue: PathBuf,
    /// The dead job
    #[arg(long, value_parser = name)]
    id: Name,
    /// Why: 1 to 64 letters, digits, `_` and `-`
    #[arg(long, value_parser = name)]
    note: Name,
    /// How long the job may take to be delivered, in seconds, up to 30 days
    #[arg(long, env = "ACKWARD_TTL", value_name = "SECONDS", default_value = "86400", value_parser = ttl)]
    ttl: Ttl,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

impl Redrive {
    pub fn run(self) -> Result<(), Ended> {
        let mut fault = EnvFault::from_env()?;
        files::existing(&self.queue)?;
        let mut queue = Queue::open(&self.queue, &OpenOptions::new(Durability::Full).create(false))?;
        let now = SystemClock.now()?;
        queue.redrive(&self.id, now, self.ttl, &self.note, &mut fault).map_err(|error| ended(&error))?;
        if self.json {
            say(serde_json::json!({ "id": self.id.as_str(), "redriven": true }));
        } else {
            say(format_args!("{}: redriven", self.id));
        }
        Ok(())
    }
}

fn ended(error: &RedriveError) -> Ended {
    let exit = match error {
        RedriveError::NoSuchJob { .. } | RedriveError::NotDead { .. } => Exit::NotDead,
        RedriveError::Invalid(_) => Exit::Usage,
        RedriveError::Hook(_) => Exit::Failure,
        RedriveError::Storage(_) => Exit::Storage,
    };
    Ended::new(exit, error)
}
