//! `ackward list`.

use ackward::rules::{Reason, Status};
use ackward::storage::{JobFilter, JobRow};
use clap::Args;
use rusqlite::types::Value;

use super::exit::Ended;
use super::output::{is_reader_gone, json, say, text};
use super::queue_file::QueueFile;
use super::values::{reason, status, whole};

/// Rows read at a time.
const PIECE_ROWS: usize = 1_000;

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
        let queue = self.queue.look()?;
        let (mut after, mut left) = (self.after, self.limit);
        // Printed piece by piece: neither all of a long table in memory, nor a reader that waits for its end.
        while left > 0 && !is_reader_gone() {
            let rows = queue.list(&filter, after, left.min(PIECE_ROWS));
            let rows = rows.map_err(|error| self.queue.failed(&error))?;
            let Some(last) = rows.last().and_then(seq) else { break };
            (after, left) = (last, left - rows.len());
            for row in rows {
                if self.json { say(json(row)) } else { say(text(&row)) }
            }
        }
        Ok(())
    }
}

fn seq(row: &JobRow) -> Option<i64> {
    let (_, value) = row.0.iter().find(|(name, _)| name == "seq")?;
    if let Value::Integer(seq) = value { Some(*seq) } else { None }
}
