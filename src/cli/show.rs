//! `ackward show`.

use ackward::rules::Name;
use ackward::storage::JobRow;
use clap::Args;
use rusqlite::types::Value;

use super::exit::{Ended, Exit};
use super::output::{json, say, spelt};
use super::queue_file::QueueFile;
use super::values::id;

/// Show one job and its redrives
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ackward show --queue jobs.db --id cake")]
pub struct Show {
    #[command(flatten)]
    queue: QueueFile,
    /// The job
    #[arg(long, value_parser = id)]
    id: Name,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The most redrives shown, the newest ones.
const REDRIVES_MAX: usize = 100;

impl Show {
    pub fn run(self) -> Result<(), Ended> {
        let queue = self.queue.look()?;
        let found =
            queue.find(&self.id).and_then(|job| Ok((job, queue.audit(Some(&self.id), REDRIVES_MAX)?)));
        let (job, audit) = found.map_err(|error| self.queue.failed(&error))?;
        let Some(job) = job else {
            let known = if audit.is_empty() { "" } else { "; it was redriven once, and pruned since" };
            return Err(Ended::new(Exit::NotDead, format_args!("there is no job {}{known}", self.id)));
        };
        if self.json {
            let redrives: Vec<_> = audit.into_iter().map(json).collect();
            say(serde_json::json!({ "job": json(job), "redrives": redrives }));
            return Ok(());
        }
        for (name, value) in job.0.iter().filter(|(_, value)| *value != Value::Null) {
            say(format_args!("{name:<13} {}", spelt(name, value)));
        }
        for row in &audit {
            say(format_args!("{:<13} {}", "redriven", redrive(row)));
        }
        Ok(())
    }
}

/// An audit row on one line.
pub fn redrive(row: &JobRow) -> String {
    let column = |name: &str| spelt(name, row.get(name));
    format!("{}, token {}, note {}", column("at_ms"), column("token"), column("note"))
}
