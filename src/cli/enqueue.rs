//! `ackward enqueue`.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use ackward::adapter::SystemClock;
use ackward::port::Clock;
use ackward::rules::{Attempts, Event, Name, Qty, Ttl};
use ackward::storage::{Durability, EnqueueError, Enqueued, LeaseQueue, OpenOptions, Queue};
use clap::Args;

use super::exit::{Ended, Exit};
use super::{files, name, say, ttl};

/// Add jobs to a queue, each once per id
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ackward enqueue --queue jobs.db --id cake --qty 3
  ackward enqueue --queue jobs.db --json-lines jobs.jsonl

A job whose id and quantity are in the queue already is left as it is and reported as a duplicate, so a run that
was cut short can be repeated. The first line that is refused ends the run; the lines before it stay.")]
pub struct Enqueue {
    /// The queue's SQLite file; created if it does not exist
    #[arg(long, env = "ACKWARD_QUEUE", value_name = "FILE")]
    queue: PathBuf,
    /// The job's identifier: 1 to 64 letters, digits, `_` and `-`
    #[arg(long, value_parser = name, requires = "qty", required_unless_present = "json_lines")]
    id: Option<Name>,
    /// The job's quantity, 1 to 1000
    #[arg(long, value_parser = qty, requires = "id")]
    qty: Option<Qty>,
    /// Read one `{"id":…,"qty":…}` a line from a file; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["id", "qty"])]
    json_lines: Option<PathBuf>,
    /// How long the job may take to be delivered, in seconds, up to 30 days
    #[arg(long, env = "ACKWARD_TTL", value_name = "SECONDS", default_value = "86400", value_parser = ttl)]
    ttl: Ttl,
    /// How many attempts the job has, 1 to 16
    #[arg(long, env = "ACKWARD_MAX_ATTEMPTS", value_name = "N", default_value = "10", value_parser = attempts)]
    max_attempts: Attempts,
    /// Print what was done as one JSON object a line
    #[arg(long)]
    json: bool,
}

impl Enqueue {
    pub fn run(self) -> Result<(), Ended> {
        files::prepare(&self.queue)?;
        let mut queue = Queue::open(&self.queue, &OpenOptions::new(Durability::Full))?;
        match (&self.id, self.qty, &self.json_lines) {
            (Some(id), Some(qty), _) => self.enqueue(&mut queue, &Event { id: id.clone(), qty }),
            (_, _, Some(path)) => self.lines(&mut queue, path),
            _ => Err(Ended::new(Exit::Usage, "--id with --qty, or --json-lines is needed")),
        }
    }

    fn lines(&self, queue: &mut Queue, path: &Path) -> Result<(), Ended> {
        let refuse = |line: usize, error: &dyn std::fmt::Display| {
            Ended::new(Exit::Usage, format_args!("{}, line {line}: {error}", path.display()))
        };
        let input: Box<dyn BufRead> = if path.as_os_str() == "-" {
            Box::new(io::stdin().lock())
        } else {
            Box::new(BufReader::new(File::open(path).map_err(|error| refuse(0, &error))?))
        };
        for (index, line) in input.lines().enumerate() {
            let line = line.map_err(|error| refuse(index + 1, &error))?;
            if line.trim().is_empty() {
                continue;
            }
            let event = Event::from_json(&line).map_err(|error| refuse(index + 1, &error))?;
            self.enqueue(queue, &event)?;
        }
        Ok(())
    }

    fn enqueue(&self, queue: &mut Queue, event: &Event) -> Result<(), Ended> {
        let now = SystemClock.now()?;
        let word = match queue.enqueue(event, now, self.ttl, self.max_attempts) {
            Ok(Enqueued::New) => "new",
            Ok(Enqueued::Duplicate) => "duplicate",
            Err(error) => return Err(ended(&error)),
        };
        if self.json {
            say(serde_json::json!({ "id": event.id.as_str(), "qty": event.qty.get(), "enqueued": word }));
        } else {
            say(format_args!("{}: {word}", event.id));
        }
        Ok(())
    }
}

fn ended(error: &EnqueueError) -> Ended {
    let exit = match error {
        EnqueueError::Conflict { .. } => Exit::History,
        EnqueueError::Invalid(_) => Exit::Usage,
        EnqueueError::Storage(_) => Exit::Storage,
    };
    Ended::new(exit, error)
}

fn qty(text: &str) -> Result<Qty, String> {
    let number = text.parse().map_err(|_| "a whole number from 1 to 1000")?;
    Qty::new(number).map_err(|error| error.to_string())
}

fn attempts(text: &str) -> Result<Attempts, String> {
    let number = text.parse().map_err(|_| "a whole number from 1 to 16")?;
    Attempts::new(number).map_err(|error| error.to_string())
}
