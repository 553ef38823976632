//! `ackward tail`: what happens in a queue file, whoever does it. The file tells only where jobs stand, so what comes
//! and goes between two looks is told as its outcome.

mod look;

use std::time::Duration;

use ackward::adapter::SystemClock;
use ackward::port::Clock;
use ackward::rules::Timeout;
use ackward::storage::{JobRow, Queue, StorageError};
use clap::Args;
use rusqlite::types::Value;

use super::exit::{Ended, Exit};
use super::files;
use super::output::{self, plain, say};
use super::pieces::{now_ms, turn};
use super::queue_file::QueueFile;
use super::service;
use super::signals;
use super::values::{time, timeout};
use look::{Change, Known};

/// Follow what happens in a queue file
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ackward tail --queue jobs.db

It looks at the file every --poll-interval and tells what has changed, whichever program changed it: enqueued, claimed, \
renewed, retry, released, done, dead, redriven, removed. It ends when nobody reads what it prints. What happens between two looks is told as its outcome. Every \
look at a file that has changed reads the jobs that are pending or leased, in pieces between which others commit.")]
pub struct Tail {
    #[command(flatten)]
    queue: QueueFile,
    /// How often the file is looked at
    #[arg(long, env = "ACKWARD_TAIL_INTERVAL", value_name = "SPAN", default_value = "200ms", value_parser = timeout)]
    poll_interval: Timeout,
    /// End after so many changes
    #[arg(long, value_name = "N", value_parser = super::values::whole::<u64>(1..=i64::MAX))]
    count: Option<u64>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// How soon a look is tried again that met a lock, at the latest.
const LOCKED_WAIT: Duration = Duration::from_millis(10);
/// How often it is asked whether anybody still reads.
const READER_EVERY: Duration = Duration::from_millis(250);

impl Tail {
    pub async fn run(self) -> Result<(), Ended> {
        let path = self.queue.path();
        files::existing(path)?;
        let identity = files::identity(path).map_err(|error| Ended::new(Exit::Storage, error))?;
        let queue = self.queue.look()?;
        // Nobody waits for a lock here: the next look comes soon, and until then a signal is heard.
        let quick = queue.connection().busy_timeout(Duration::ZERO);
        quick.map_err(|error| self.queue.failed(&error.into()))?;
        let stop = signals::stop().map_err(|error| Ended::new(Exit::Failure, error))?;
        let replaced =
            || service::ended(service::Why::Replaced, path, "nothing more can be told of it", None);
        tokio::select! {
            biased;
            () = stop => Ok(()),
            () = reader_gone() => Ok(()),
            () = service::replaced(path, identity) => replaced(),
            ended = self.follow(&queue) => match ended {
                // SQLite may have met it first.
                Err(_) if files::identity(path).ok() != Some(identity) => replaced(),
                ended => ended,
            },
        }
    }

    async fn follow(&self, queue: &Queue) -> Result<(), Ended> {
        let mut known: Option<Known> = None;
        let (mut is_first, mut told) = (true, 0);
        loop {
            let began_ms = now_ms();
            let looked = look(&mut known, &mut is_first, queue);
            let wait = match looked {
                Err(error) if error.is_busy() => LOCKED_WAIT.min(self.poll_interval.duration()),
                Err(error) => return Err(self.queue.failed(&error)),
                Ok((changes, is_over)) => {
                    for (what, row) in changes {
                        self.tell(what, row)?;
                        told += 1;
                        if self.count.is_some_and(|count| told >= count) {
                            return Ok(());
                        }
                    }
                    if is_over { self.poll_interval.duration() } else { turn(began_ms) }
                }
            };
            if !output::all_written() {
                return Ok(());
            }
            SystemClock.sleep(wait).await;
        }
    }

    fn tell(&self, what: &str, row: JobRow) -> Result<(), Ended> {
        let now_ms = SystemClock.now()?.get();
        if self.json {
            say(serde_json::json!({ "at_ms": now_ms, "what": what, "job": output::json(row) }));
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

/// Looks at the next piece of the file: what has changed there, and whether that was the last one.
fn look(
    known: &mut Option<Known>,
    is_first: &mut bool,
    queue: &Queue,
) -> Result<(Vec<Change>, bool), StorageError> {
    let Some(known) = known else {
        *known = Some(Known::new(queue)?);
        return Ok((Vec::new(), false));
    };
    if !*is_first {
        return known.look(queue);
    }
    let is_over = known.read_first(queue)?;
    if is_over {
        *is_first = false;
        tracing::info!(jobs = known.jobs(), "following");
    }
    Ok((Vec::new(), is_over))
}

/// Completes when nobody reads stdout any more: without anything to tell, no write would show it.
async fn reader_gone() {
    while !output::is_reader_gone() {
        SystemClock.sleep(READER_EVERY).await;
    }
}
