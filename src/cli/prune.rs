//! `ackward prune`.

use ackward::adapter::SystemClock;
use ackward::port::Clock;
use ackward::rules::{Millis, Timeout};
use ackward::storage::{PruneOptions, Queue};
use clap::Args;

use super::exit::Ended;
use super::logging;
use super::output::{counted, say};
use super::pieces::Pieces;
use super::queue_file::{Durable, QueueFile};
use super::values::timeout;

/// Remove jobs that finished long ago
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ackward prune --queue jobs.db --older-than 30d --dry-run
  ackward prune --queue jobs.db --older-than 30d

A pruned id is unknown to the queue: enqueued once more it is a new job with token 0, which the receiver's inbox then \
answers as a repeat, without a second effect. Prune only what nobody will enqueue again. The audit of redrives stays, \
and so does a row that another program wrote out of range, which is told and counted. \
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

/// Rows passed over that are told one by one.
const TOLD_MAX: usize = 20;

impl Prune {
    pub async fn run(self) -> Result<(), Ended> {
        let now_ms = SystemClock.now()?.get();
        let span_ms = i64::try_from(self.older_than.duration().as_millis()).unwrap_or(i64::MAX);
        let before = Millis::new(now_ms.saturating_sub(span_ms).max(0))?;
        let options = PruneOptions { before, dead: self.dead, dry_run: self.dry_run };
        let mut queue = if self.dry_run { self.queue.look()? } else { self.queue.open(self.durable)? };
        let (jobs, bad) = self.pieces(&mut queue, &options, SystemClock).await?;
        if self.json {
            say(serde_json::json!({
                "pruned": jobs, "passed_over": bad, "dry_run": self.dry_run, "before_ms": before.get()
            }));
        } else {
            let would_be = if self.dry_run { "would be " } else { "" };
            let passed_over = if bad > 0 { format!(", {bad} passed over") } else { String::new() };
            say(format_args!("{} {would_be}removed{passed_over}", counted(jobs, "job")));
        }
        Ok(())
    }

    /// How many jobs were removed, or would be, and how many are passed over since they break a range. One short
    /// transaction after the other. Who only looks holds nobody up, and makes no pauses.
    async fn pieces(
        &self,
        queue: &mut Queue,
        options: &PruneOptions,
        clock: impl Clock,
    ) -> Result<(usize, usize), Ended> {
        let (mut jobs, mut bad, mut after) = (0, 0, i64::MIN);
        let size = usize::try_from(self.batch).unwrap_or(usize::MAX);
        let mut pieces = Pieces::new(clock);
        loop {
            let piece = |queue: &mut Queue| {
                super::patient(|| queue.prune(options, after, size), |error| error.is_busy())
            };
            let piece = if self.dry_run { piece(queue) } else { pieces.next(queue, piece).await };
            let Some(piece) = piece.map_err(|error| self.queue.failed(&error))? else {
                return Ok((jobs, bad));
            };
            for row in piece.bad.iter().take(TOLD_MAX.saturating_sub(bad)) {
                logging::complain(format_args!(
                    "ackward: seq {} is passed over, another program wrote it: {}",
                    row.seq, row.invalid
                ));
            }
            (jobs, bad, after) = (jobs + piece.jobs, bad + piece.bad.len(), piece.last);
        }
    }
}

#[cfg(test)]
mod tests {
    use ackward::storage::{Durability, OpenOptions};
    use clap::{Command, FromArgMatches};

    use super::*;
    use crate::cli::pieces::tests::{Fake, run};

    /// A worker that is there gets its turn between the transactions; a dry run takes no lock, and makes no pause.
    #[test]
    fn a_worker_that_is_there_gets_its_turn_between_two_transactions() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("queue.db");
        let mut queue = Queue::open(&path, &OpenOptions::new(Durability::Full)).unwrap();
        let jobs = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10) \
            INSERT INTO jobs SELECT i, 'job-' || i, 1, 'done', 1, 3, 1, 0, 500, NULL, NULL, NULL FROM n";
        queue.connection().execute(jobs, []).unwrap();
        let mut prune = |more: &[&str]| {
            let words = ["prune", "--queue", path.to_str().unwrap(), "--older-than", "1d", "--batch", "4"];
            let matches =
                Prune::augment_args(Command::new("prune")).get_matches_from(words.iter().chain(more));
            let prune = Prune::from_arg_matches(&matches).unwrap();
            let before = Millis::new(1_000).unwrap();
            let options = PruneOptions { before, dead: false, dry_run: prune.dry_run };
            let peer = Queue::open(&path, &OpenOptions::new(Durability::Full)).unwrap();
            let commits = move || peer.connection().execute_batch("PRAGMA user_version = 1").unwrap();
            let clock = Fake::looked_at(commits);
            let jobs = run(prune.pieces(&mut queue, &options, clock.clone())).map_err(|ended| ended.message);
            (jobs, clock.waits())
        };
        assert_eq!(prune(&["--dry-run"]), (Ok((10, 0)), vec![]));
        // Three of jobs, and the one that finds no more; at the first one nobody was seen yet.
        assert_eq!(prune(&[]), (Ok((10, 0)), vec![20, 20]));
    }
}
