//! `ackward list`.

use std::path::PathBuf;

use ackward::rules::Status;
use ackward::storage::{Durability, JobFilter, JobRow, OpenOptions, Queue};
use clap::Args;
use rusqlite::types::Value;

use super::exit::Ended;
use super::{files, say};

/// Show a queue's jobs
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ackward list --queue jobs.db --status dead --json

Times are milliseconds since 1970. To go on after the last job shown, give its seq to --after.")]
pub struct List {
    /// The queue's SQLite file
    #[arg(long, env = "ACKWARD_QUEUE", value_name = "FILE")]
    queue: PathBuf,
    /// Only jobs of this status: pending, leased, done, dead
    #[arg(long, value_parser = status)]
    status: Option<Status>,
    /// Only jobs with a greater seq
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: i64,
    /// The most jobs shown
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: usize,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

impl List {
    pub fn run(self) -> Result<(), Ended> {
        files::existing(&self.queue)?;
        let queue = Queue::open(&self.queue, &OpenOptions::new(Durability::Full).create(false))?;
        for row in
            queue.list(&JobFilter { status: self.status, ..JobFilter::default() }, self.after, self.limit)?
        {
            if self.json { say(json(row)) } else { say(text(&row)) }
        }
        Ok(())
    }
}

fn json(row: JobRow) -> serde_json::Value {
    let column = |(name, value)| (name, value_json(value));
    serde_json::Value::Object(row.0.into_iter().map(column).collect())
}

fn value_json(value: Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Integer(value) => value.into(),
        Value::Real(value) => value.into(),
        Value::Text(value) => value.into(),
        Value::Blob(value) => format!("{} bytes", value.len()).into(),
    }
}

/// `seq id status` and then what else there is, named.
fn text(row: &JobRow) -> String {
    let shown = row.0.iter().filter(|(_, value)| *value != Value::Null);
    let column = |(name, value): &(String, Value)| format!("{name} {}", plain(value));
    shown.map(column).collect::<Vec<_>>().join("  ")
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Integer(value) => value.to_string(),
        Value::Real(value) => format!("{value:?}"),
        // Control characters of another program are not to reach the terminal.
        Value::Text(value) => value.escape_debug().to_string(),
        Value::Blob(value) => format!("{} bytes", value.len()),
    }
}

fn status(text: &str) -> Result<Status, String> {
    Status::parse(text).map_err(|error| error.to_string())
}
