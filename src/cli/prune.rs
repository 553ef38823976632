//! `ackward prune`.

use std::time::{Duration, Instant};

use ackward::adapter::SystemClock;
use ackward::port::Clock;
use ackward::rules::{Millis, Timeout};
use ackward::storage::{PruneOptions, Queue};
use clap::Args;

use super::exit::Ended;
use super::output::say;
use super::queue_file::{Durable, QueueFile};
use super::values::timeout;

/// Remove jobs that finished long ago
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ackward prune --queue jobs.db --older-than 30d --dry-run
  ackward prune --queue jobs.db --older-than 30d

A pruned id is unknown to the queue: enqueued once more it is a new job with token 0, which the receiver's inbox then \
answers as a repeat, without a second effect. Prune only what nobody will enqueue again. The audit of redrives stays. \
The space is reused by new jobs; the file does not shrink.")]
pub struct Prune {
    #[command(flatten)]
    queue: QueueFile,
    /// How long ago a job must have finished, in seconds or with a unit, such as 30d
    #[arg(long, value_name = "SPAN", value_parser = timeout)]
    older_than: Timeout,
    /// Remove dead jobs as well, once they are that far past their deadline; they cannot be redriven any more
    #[arg(long)]
    dead: bool,
    /// Only count them
    #[arg(long)]
    dry_run: bool,
    /// Rows looked at in each transaction
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = super::values::whole::<u32>(1..=100_000))]
    batch: u32,
    #[command(flatten)]
    durable: Durable,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

/// The least pause between two transactions.
const PAUSE_MIN: Duration = Duration::from_millis(20);

impl Prune {
    pub fn run(self) -> Result<(), Ended> {
        let now_ms = SystemClock.now()?.get();
        let span_ms = i64::try_from(self.older_than.duration().as_millis()).unwrap_or(i64::MAX);
        let before = Millis::new(now_ms.saturating_sub(span_ms).max(0))?;
        let options = PruneOptions { before, dead: self.dead, dry_run: self.dry_run };
        let mut queue = if self.dry_run { self.queue.look()? } else { self.queue.open(self.durable)? };
        let jobs = self.pieces(&mut queue, &options)?;
        if self.json {
            say(serde_json::json!({ "pruned": jobs, "dry_run": self.dry_run, "before_ms": before.get() }));
        } else if self.dry_run {
            say(format_args!("{jobs} jobs would be removed"));
        } else {
            say(format_args!("{jobs} jobs removed"));
        }
        Ok(())
    }

    /// One short transaction after the other, and after each as long a pause: whoever waits for the lock looks for it now
    /// and then only, and would hardly ever meet the moment between two that follow at once.
    #[expect(
        clippy::disallowed_methods,
        reason = "a command that does one thing has nothing else to do meanwhile"
    )]
    fn pieces(&self, queue: &mut Queue, options: &PruneOptions) -> Result<usize, Ended> {
        let (mut jobs, mut after) = (0, i64::MIN);
        let size = usize::try_from(self.batch).unwrap_or(usize::MAX);
        loop {
            let began = Instant::now();
            let piece = super::patient(|| queue.prune(options, after, size), |error| error.is_busy());
            let Some(piece) = piece.map_err(|error| self.queue.failed(&error))? else { return Ok(jobs) };
            (jobs, after) = (jobs + piece.jobs, piece.last);
            if !self.dry_run {
                std::thread::sleep(began.elapsed().max(PAUSE_MIN));
            }
        }
    }
}
