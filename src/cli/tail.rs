//! `ackward tail`: what happens in a queue file, whoever does it. The file tells only where jobs stand, so what comes
//! and goes between two looks is told as its outcome.

use std::collections::BTreeMap;

use ackward::adapter::SystemClock;
use ackward::port::Clock;
use ackward::rules::Timeout;
use ackward::storage::{JobRow, Queue, StorageError};
use clap::Args;
use rusqlite::types::Value;

use super::exit::{Ended, Exit};
use super::output::{plain, say};
use super::queue_file::QueueFile;
use super::values::{time, timeout};
use super::{patient, signals};

/// Follow what happens in a queue file
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ackward tail --queue jobs.db

It looks at the file every --poll-interval and tells what has changed, whichever program changed it: enqueued, claimed, \
renewed, retry, released, done, dead, redriven, removed. What happens between two looks is told as its outcome. Every \
look at a file that has changed reads the jobs that are pending or leased.")]
pub struct Tail {
    #[command(flatten)]
    queue: QueueFile,
    /// How often the file is looked at
    #[arg(long, env = "ACKWARD_TAIL_INTERVAL", value_name = "SPAN", default_value = "200ms", value_parser = timeout)]
    poll_interval: Timeout,
    /// End after so many changes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Where a job stands: what a change is told by.
type Jobs = BTreeMap<i64, JobRow>;

impl Tail {
    pub async fn run(self) -> Result<(), Ended> {
        let queue = self.queue.look()?;
        let stop = signals::stop().map_err(|error| Ended::new(Exit::Failure, error))?;
        let mut stop = std::pin::pin!(stop);
        let failed = |error: StorageError| self.queue.failed(&error);
        let mut version = data_version(&queue).map_err(failed)?;
        let mut jobs = live(&queue).map_err(failed)?;
        let mut last = last_seq(&queue).map_err(failed)?;
        tracing::info!(jobs = jobs.len(), "following");
        let mut told = 0;
        loop {
            tokio::select! {
                biased;
                () = &mut stop => return Ok(()),
                () = SystemClock.sleep(self.poll_interval.duration()) => {}
            }
            let seen = data_version(&queue).map_err(failed)?;
            if seen == version {
                continue;
            }
            version = seen;
            let now = live(&queue).map_err(failed)?;
            let changes = changes(&queue, &jobs, &now, last).map_err(failed)?;
            last = last.max(last_seq(&queue).map_err(failed)?);
            jobs = now;
            for (what, row) in changes {
                self.tell(what, row)?;
                told += 1;
                if self.count.is_some_and(|count| told >= count) {
                    return Ok(());
                }
            }
            if !super::output::all_written() {
                return Ok(());
            }
        }
    }

    fn tell(&self, what: &str, row: JobRow) -> Result<(), Ended> {
        let now_ms = SystemClock.now()?.get();
        if self.json {
            say(serde_json::json!({ "at_ms": now_ms, "what": what, "job": super::output::json(row) }));
            return Ok(());
        }
        let column = |name: &str| plain(row.get(name));
        let mut line = format!(
            "{}  {what:<9} {}  token {}  attempt {}/{}",
            time(now_ms),
            column("id"),
            column("token"),
            column("attempts"),
            column("max_attempts")
        );
        for name in ["owner", "reason"] {
            if *row.get(name) != Value::Null {
                line.push_str(&format!("  {name} {}", column(name)));
            }
        }
        say(line);
        Ok(())
    }
}

/// What became of the jobs that were live, and which are new. `last` is the greatest seq seen before.
fn changes(
    queue: &Queue,
    before: &Jobs,
    now: &Jobs,
    last: i64,
) -> Result<Vec<(&'static str, JobRow)>, StorageError> {
    let mut changes = Vec::new();
    for (seq, row) in before {
        if now.contains_key(seq) {
            continue;
        }
        match find(queue, *seq)? {
            Some(row) if *row.get("status") == Value::Text("dead".into()) => changes.push(("dead", row)),
            Some(row) => changes.push(("done", row)),
            None => changes.push(("removed", row.clone())),
        }
    }
    for (seq, row) in now {
        let Some(old) = before.get(seq) else {
            changes.push((if *seq > last { "enqueued" } else { "redriven" }, row.clone()));
            continue;
        };
        if old != row {
            changes.push((step(old, row), row.clone()));
        }
    }
    changes.extend(passed_through(queue, now, last)?);
    Ok(changes)
}

/// How a live job got from one row to the other.
fn step(old: &JobRow, new: &JobRow) -> &'static str {
    let is = |row: &JobRow, column: &str, word: &str| *row.get(column) == Value::Text(word.into());
    if is(new, "status", "leased") {
        return if old.get("token") == new.get("token") { "renewed" } else { "claimed" };
    }
    if is(new, "reason", "retry") {
        return "retry";
    }
    match (old.get("attempts"), new.get("attempts")) {
        (Value::Integer(_), Value::Integer(0)) if old.get("deadline") != new.get("deadline") => "redriven",
        _ => "released",
    }
}

/// New jobs that were finished before anybody looked.
fn passed_through(queue: &Queue, now: &Jobs, last: i64) -> Result<Vec<(&'static str, JobRow)>, StorageError> {
    const PIECE: usize = 1_000;
    let mut changes = Vec::new();
    let mut after = last;
    loop {
        let list = || queue.list(&ackward::storage::JobFilter::default(), after, PIECE);
        let rows = patient(list, StorageError::is_busy)?;
        let Some(end) = rows.last().and_then(seq) else { return Ok(changes) };
        after = end;
        let gone = rows.into_iter().filter(|row| seq(row).is_some_and(|seq| !now.contains_key(&seq)));
        changes.extend(gone.map(|row| {
            let dead = *row.get("status") == Value::Text("dead".into());
            (if dead { "dead" } else { "done" }, row)
        }));
    }
}

fn live(queue: &Queue) -> Result<Jobs, StorageError> {
    let rows = patient(|| queue.live(), StorageError::is_busy)?;
    Ok(rows.into_iter().filter_map(|row| Some((seq(&row)?, row))).collect())
}

fn find(queue: &Queue, seq: i64) -> Result<Option<JobRow>, StorageError> {
    patient(|| queue.find_seq(seq), StorageError::is_busy)
}

/// Changes whenever another connection has committed.
fn data_version(queue: &Queue) -> Result<i64, StorageError> {
    number(queue, "PRAGMA data_version")
}

fn last_seq(queue: &Queue) -> Result<i64, StorageError> {
    number(queue, "SELECT coalesce(max(seq), 0) FROM jobs")
}

fn number(queue: &Queue, sql: &str) -> Result<i64, StorageError> {
    let read = || Ok(queue.connection().query_row(sql, [], |row| row.get(0))?);
    patient(read, StorageError::is_busy)
}

fn seq(row: &JobRow) -> Option<i64> {
    match row.get("seq") {
        Value::Integer(seq) => Some(*seq),
        _ => None,
    }
}
