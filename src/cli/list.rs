//! `ackward list`.

use ackward::rules::{Reason, Status};
use ackward::storage::JobFilter;
use clap::Args;

use super::exit::Ended;
use super::output::{json, say, text};
use super::queue_file::QueueFile;
use super::values::{reason, status, whole};

/// Show a queue's jobs
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ackward list --queue jobs.db --status dead --json

Times are UTC; with --json they are milliseconds since 1970. To go on after the last job shown, \
give its seq to --after.")]
pub struct List {
    #[command(flatten)]
    queue: QueueFile,
    /// Only jobs of this status: pending, leased, done, dead
    #[arg(long, value_parser = status)]
    status: Option<Status>,
    /// Only jobs with this reason: retry, deadline, exhausted, permanent
    #[arg(long, value_parser = reason)]
    reason: Option<Reason>,
    /// Only jobs whose id begins like this
    #[arg(long, value_name = "TEXT")]
    id_prefix: Option<String>,
    /// Only jobs with a greater seq
    #[arg(long, value_name = "SEQ", default_value_t = 0, value_parser = whole::<i64>(i64::MIN..=i64::MAX))]
    after: i64,
    /// The most jobs shown
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = whole::<usize>(0..=i64::MAX))]
    limit: usize,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

impl List {
    pub fn run(self) -> Result<(), Ended> {
        let filter = JobFilter { status: self.status, reason: self.reason, id_prefix: self.id_prefix };
        let rows = self.queue.look()?.list(&filter, self.after, self.limit);
        for row in rows.map_err(|error| self.queue.failed(&error))? {
            if self.json { say(json(row)) } else { say(text(&row)) }
        }
        Ok(())
    }
}
