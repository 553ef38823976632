//! `ackward redrive`.

use ackward::adapter::SystemClock;
use ackward::port::Clock;
use ackward::rules::{Name, Reason, Status, Ttl};
use ackward::storage::{JobFilter, JobRow, LeaseQueue, Queue, RedriveError, StorageError, all_or_busy};
use clap::{ArgGroup, Args};
use rusqlite::types::Value;

use super::exit::{Ended, Exit};
use super::fault::EnvFault;
use super::logging;
use super::output::{counted, say};
use super::pieces::Pieces;
use super::queue_file::{Durable, QueueFile};
use super::values::{id, note, reason, ttl};

/// Give dead jobs a new life, with a note in the audit table
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("which").args(["id", "all_dead"]).required(true)), after_help = "\
Examples:
  ackward redrive --queue jobs.db --id cake --note receiver-mended
  ackward redrive --queue jobs.db --all-dead --reason exhausted --dry-run

The receiver knows the job's id for ever: where an earlier attempt arrived after all, this one has no second effect.")]
pub struct Redrive {
    #[command(flatten)]
    queue: QueueFile,
    /// The dead job
    #[arg(long, value_parser = id)]
    id: Option<Name>,
    /// All dead jobs, or those that the filters let through
    #[arg(long)]
    all_dead: bool,
    /// Only those that died of this: deadline, exhausted, permanent
    #[arg(long, value_parser = reason, requires = "all_dead")]
    reason: Option<Reason>,
    /// Only those whose id begins like this
    #[arg(long, value_name = "TEXT", requires = "all_dead")]
    id_prefix: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", requires = "all_dead", value_parser = super::values::whole::<u64>(1..=i64::MAX))]
    limit: Option<u64>,
    /// Only tell which
    #[arg(long)]
    dry_run: bool,
    /// Why: 1 to 64 letters, digits, `_` and `-`
    #[arg(long, value_parser = note, required_unless_present = "dry_run")]
    note: Option<Name>,
    /// How long a job may take to be delivered, in seconds or with a unit, up to 30 days
    #[arg(long, env = "ACKWARD_TTL", value_name = "SPAN", default_value = "1d", value_parser = ttl)]
    ttl: Ttl,
    #[command(flatten)]
    durable: Durable,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

/// Jobs that share a transaction.
const BATCH: usize = 200;

impl Redrive {
    pub async fn run(self) -> Result<(), Ended> {
        let mut fault = EnvFault::from_env()?;
        let mut queue = if self.dry_run { self.queue.look()? } else { self.queue.open(self.durable)? };
        // A dry run needs no note, and has no use for one that is given.
        let note = self.note.as_ref().filter(|_| !self.dry_run);
        match (&self.id, note) {
            (Some(id), None) => self.would(&queue, id),
            (Some(id), Some(note)) => {
                let now = SystemClock.now()?;
                let redriven = queue.redrive(id, now, self.ttl, note, &mut fault);
                redriven.map_err(|error| self.ended(&error))?;
                self.say_one(id);
                Ok(())
            }
            (None, note) => self.all(&mut queue, note, &mut fault, SystemClock).await,
        }
    }

    /// What a redrive of one job would do.
    fn would(&self, queue: &Queue, id: &Name) -> Result<(), Ended> {
        queue.check_redrive(id, SystemClock.now()?, self.ttl).map_err(|error| self.ended(&error))?;
        self.say_one(id);
        Ok(())
    }

    /// Every dead job that the filters let through, piece by piece.
    async fn all(
        &self,
        queue: &mut Queue,
        note: Option<&Name>,
        fault: &mut EnvFault,
        clock: impl Clock,
    ) -> Result<(), Ended> {
        let mut pieces = Pieces::new(clock);
        let filter =
            JobFilter { status: Some(Status::Dead), reason: self.reason, id_prefix: self.id_prefix.clone() };
        let mut left = usize::try_from(self.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        let (mut after, mut redriven, mut skipped) = (i64::MIN, 0, 0);
        while left > 0 {
            let rows = queue.list(&filter, after, BATCH.min(left));
            let rows = rows.map_err(|error| self.queue.failed(&error))?;
            let Some(Value::Integer(last)) = rows.last().map(|row| row.get("seq")) else { break };
            (after, left) = (*last, left - rows.len());
            // An id out of range is no job's that could be claimed (M12).
            let ids: Vec<_> = rows.iter().filter_map(name).collect();
            skipped += rows.len() - ids.len();
            let done = match note {
                None => self.would_all(queue, &ids)?,
                Some(note) => pieces.next(queue, |queue| self.piece(queue, &ids, note, fault)).await?,
            };
            (redriven, skipped) = (redriven + done, skipped + ids.len() - done);
        }
        if self.json {
            say(serde_json::json!({ (self.key()): redriven, "skipped": skipped, "dry_run": self.dry_run }));
        } else if self.dry_run {
            say(format_args!("{} would be redriven, {skipped} passed over", counted(redriven, "job")));
        } else {
            say(format_args!("{} redriven, {skipped} passed over", counted(redriven, "job")));
        }
        Ok(())
    }

    /// One transaction; how many it redrove. A job that is no longer dead was redriven by somebody else. For machines each
    /// job is told once that is committed; for people their number, at the end.
    fn piece(
        &self,
        queue: &mut Queue,
        ids: &[Name],
        note: &Name,
        fault: &mut EnvFault,
    ) -> Result<usize, Ended> {
        let now = SystemClock.now()?;
        let mut redriven = 0;
        let piece = || all_or_busy(queue.redrive_many(ids, now, self.ttl, note, fault));
        let answers = super::patient(piece, |_| true);
        for (id, answer) in ids.iter().zip(answers.unwrap_or_else(|busy| busy)) {
            if self.is_redriven(id, answer)? {
                redriven += 1;
                if self.json {
                    self.say_one(id);
                }
            }
        }
        Ok(redriven)
    }

    /// How many a transaction would redrive.
    fn would_all(&self, queue: &Queue, ids: &[Name]) -> Result<usize, Ended> {
        let now = SystemClock.now()?;
        let mut redriven = 0;
        for id in ids {
            if self.is_redriven(id, queue.check_redrive(id, now, self.ttl))? {
                self.say_one(id);
                redriven += 1;
            }
        }
        Ok(redriven)
    }

    /// Whether one of several jobs was redriven, or would be; says why it is passed over where another program wrote it.
    fn is_redriven(&self, id: &Name, answer: Result<(), RedriveError>) -> Result<bool, Ended> {
        match answer {
            Ok(()) => Ok(true),
            Err(RedriveError::NotDead { .. } | RedriveError::NoSuchJob { .. }) => Ok(false),
            Err(RedriveError::Storage(StorageError::Row(invalid))) => {
                logging::complain(format_args!(
                    "ackward: job {id} is passed over, no claim would take it: {invalid}"
                ));
                Ok(false)
            }
            Err(error) => Err(self.ended(&error)),
        }
    }

    /// Tells a job that was redriven, or would be.
    fn say_one(&self, id: &Name) {
        if self.json {
            say(serde_json::json!({ "id": id.as_str(), (self.key()): true }));
        } else {
            say(format_args!("{id}: {}", if self.dry_run { "would be redriven" } else { "redriven" }));
        }
    }

    /// What JSON calls it.
    const fn key(&self) -> &'static str {
        if self.dry_run { "would_redrive" } else { "redriven" }
    }

    fn ended(&self, error: &RedriveError) -> Ended {
        let exit = match error {
            RedriveError::NoSuchJob { .. } | RedriveError::NotDead { .. } => Exit::NotDead,
            RedriveError::Invalid(_) => Exit::Usage,
            RedriveError::Hook(_) => Exit::Failure,
            RedriveError::Storage(error) => return self.queue.failed(error),
        };
        Ended::new(exit, error)
    }
}

fn name(row: &JobRow) -> Option<Name> {
    match row.get("id") {
        Value::Text(id) => Name::new("id", id).ok(),
        _ => None,
    }
}
