//! `ackward enqueue`.

mod lines;

use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use ackward::adapter::SystemClock;
use ackward::port::Clock;
use ackward::rules::{Attempts, Event, Name, Qty, Ttl};
use ackward::storage::{EnqueueError, Enqueued, LeaseQueue, Queue, all_or_busy};
use clap::{ArgGroup, Args};
use indicatif::{ProgressBar, ProgressStyle};

use super::exit::{Ended, Exit};
use super::output::{counted, say};
use super::pieces::Pieces;
use super::queue_file::{Durable, QueueFile};
use super::values::{attempts, id, qty, ttl};
use super::{files, logging};
use lines::{Line, Lines};

/// Add jobs to a queue, each once per id
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").args(["id", "json_lines"]).required(true)), after_help = "\
Examples:
  ackward enqueue --queue jobs.db --id cake --qty 3
  ackward enqueue --queue jobs.db --json-lines jobs.jsonl
  produce | ackward enqueue --queue jobs.db --json-lines -

A job whose id and quantity are in the queue already is left as it is and counted as a duplicate, so a run that was cut \
short can be repeated. A line that is refused is reported with its number, and the run goes on, and ends with code 2 \
where a line is malformed, else with 4 where an id exists with another quantity. Between the transactions of a long \
input there are pauses, so that workers get their turn: few and short ones where nobody else changes the file.")]
pub struct Enqueue {
    #[command(flatten)]
    queue: QueueFile,
    /// The job's identifier: 1 to 64 letters, digits, `_` and `-`
    #[arg(long, value_parser = id, requires = "qty")]
    id: Option<Name>,
    /// The job's quantity, 1 to 1000
    #[arg(long, value_parser = qty, requires = "id")]
    qty: Option<Qty>,
    /// Read one `{"id":…,"qty":…}` a line from a file; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "qty")]
    json_lines: Option<PathBuf>,
    /// The most lines that share a transaction; those of a slow producer do not wait for more
    #[arg(
        long,
        env = "ACKWARD_ENQUEUE_BATCH",
        value_name = "N",
        default_value_t = 500,
        value_parser = super::values::whole::<u32>(1..=10_000)
    )]
    batch: u32,
    /// Also print what became of each line
    #[arg(long, requires = "json_lines")]
    each: bool,
    /// How long the job may take to be delivered, in seconds or with a unit, up to 30 days
    #[arg(long, env = "ACKWARD_TTL", value_name = "SPAN", default_value = "1d", value_parser = ttl)]
    ttl: Ttl,
    /// How many attempts the job has, 1 to 16
    #[arg(long, env = "ACKWARD_MAX_ATTEMPTS", value_name = "N", default_value = "10", value_parser = attempts)]
    max_attempts: Attempts,
    #[command(flatten)]
    durable: Durable,
    /// Print what was done as one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Where lines come from.
struct Input {
    input: Box<dyn Read>,
    /// How much there is, where it is a file.
    bytes: Option<u64>,
}

impl Input {
    fn open(path: &Path) -> io::Result<Self> {
        if path.as_os_str() == "-" {
            return Ok(Self { input: Box::new(io::stdin().lock()), bytes: None });
        }
        let file = files::open(path)?;
        let metadata = file.metadata()?;
        let bytes = metadata.is_file().then_some(metadata.len());
        Ok(Self { input: Box::new(file), bytes })
    }
}

/// What became of the lines so far.
#[derive(Debug, Default)]
struct Counts {
    new: u64,
    duplicates: u64,
    malformed: u64,
    conflicts: u64,
}

impl Enqueue {
    pub async fn run(self) -> Result<(), Ended> {
        match (&self.id, self.qty, &self.json_lines) {
            (Some(id), Some(qty), _) => self.one(&Event { id: id.clone(), qty }),
            (_, _, Some(path)) => self.lines(path, SystemClock).await,
            _ => Err(Ended::new(Exit::Usage, "--id with --qty, or --json-lines is needed")),
        }
    }

    fn one(&self, event: &Event) -> Result<(), Ended> {
        let mut queue = self.open()?;
        let now = SystemClock.now()?;
        let enqueued = queue.enqueue(event, now, self.ttl, self.max_attempts);
        let word = word(enqueued.map_err(|error| self.ended(&error))?);
        if self.json {
            say(serde_json::json!({ "id": event.id.as_str(), "qty": event.qty.get(), "enqueued": word }));
        } else {
            say(format_args!("{}: {word}", event.id));
        }
        Ok(())
    }

    /// Opens the queue. A new one is fine, and may be a typing error.
    fn open(&self) -> Result<Queue, Ended> {
        let (queue, is_new) = self.queue.create(self.durable)?;
        if is_new {
            logging::complain(format_args!("ackward: made a new queue {}", self.queue.path().display()));
        }
        Ok(queue)
    }

    async fn lines(&self, path: &Path, clock: impl Clock) -> Result<(), Ended> {
        let Input { input, bytes } = Input::open(path)
            .map_err(|error| Ended::new(Exit::Storage, format_args!("{}: {error}", path.display())))?;
        let mut queue = self.open()?;
        let progress = progress(bytes);
        let mut lines = Lines::new(input);
        let mut counts = Counts::default();
        let max = usize::try_from(self.batch).unwrap_or(usize::MAX);
        let mut pieces = Pieces::new(clock);
        loop {
            // A file never waits for a producer, so that its batches can be full ones.
            let batch = lines.batch(max, bytes.is_none()).map_err(|error| {
                let why = format_args!(
                    "{}: {error} (behind line {}; the lines up to there are in the queue, and repeating the run adds \
                     none twice)",
                    path.display(),
                    lines.number()
                );
                Ended::new(Exit::Storage, why)
            })?;
            if batch.is_empty() {
                break;
            }
            pieces.next(&mut queue, |queue| self.batch(queue, path, batch, &mut counts)).await?;
            progress.set_position(lines.bytes());
        }
        progress.finish_and_clear();
        self.summary(path, &counts)
    }

    /// Enqueues the sound lines of a batch in one transaction.
    fn batch(
        &self,
        queue: &mut Queue,
        path: &Path,
        batch: Vec<Line>,
        counts: &mut Counts,
    ) -> Result<(), Ended> {
        let mut events = Vec::with_capacity(batch.len());
        let mut numbers = Vec::with_capacity(batch.len());
        for Line { number, event } in batch {
            match event {
                Ok(event) => {
                    events.push(event);
                    numbers.push(number);
                }
                Err(error) => {
                    counts.malformed += 1;
                    self.refused(path, number, &error);
                }
            }
        }
        let answers = self.add(queue, &events)?;
        for ((event, number), answer) in events.iter().zip(numbers).zip(answers) {
            match answer {
                Ok(enqueued) => {
                    match enqueued {
                        Enqueued::New => counts.new += 1,
                        Enqueued::Duplicate => counts.duplicates += 1,
                    }
                    self.each(event, number, word(enqueued));
                }
                Err(error @ EnqueueError::Conflict { .. }) => {
                    counts.conflicts += 1;
                    self.refused(path, number, &error.to_string());
                }
                Err(error) => {
                    let Ended { exit, message } = self.ended(&error);
                    let why = format_args!(
                        "{message} (at line {number} of {}; the lines before that batch are in the queue, and \
                         repeating the run adds none twice)",
                        path.display()
                    );
                    return Err(Ended::new(exit, why));
                }
            }
        }
        Ok(())
    }

    /// One transaction, again where the file is locked.
    fn add(&self, queue: &mut Queue, events: &[Event]) -> Result<Vec<Result<Enqueued, EnqueueError>>, Ended> {
        let now = SystemClock.now()?;
        let add = || all_or_busy(queue.enqueue_many(events, now, self.ttl, self.max_attempts));
        Ok(super::patient(add, |_| true).unwrap_or_else(|busy| busy))
    }

    fn each(&self, event: &Event, number: u64, word: &str) {
        match (self.each, self.json) {
            (false, _) => {}
            (true, false) => say(format_args!("{}: {word}", event.id)),
            (true, true) => say(serde_json::json!({
                "line": number, "id": event.id.as_str(), "qty": event.qty.get(), "enqueued": word
            })),
        }
    }

    fn refused(&self, path: &Path, number: u64, error: &str) {
        if self.json {
            say(serde_json::json!({ "line": number, "refused": error }));
        } else {
            logging::complain(format_args!("{}, line {number}: {error}", path.display()));
        }
    }

    fn summary(&self, path: &Path, counts: &Counts) -> Result<(), Ended> {
        let Counts { new, duplicates, malformed, conflicts } = counts;
        let refused = malformed + conflicts;
        if self.json {
            say(serde_json::json!({
                "end": "done", "new": new, "duplicates": duplicates, "refused": refused, "conflicts": conflicts
            }));
        } else {
            say(format_args!("{new} new, {}, {refused} refused", counted(*duplicates, "duplicate")));
        }
        let exit = if *malformed > 0 { Exit::Usage } else { Exit::History };
        match refused {
            0 => Ok(()),
            _ => {
                let (lines, were) = (counted(refused, "line"), if refused == 1 { "was" } else { "were" });
                Err(Ended::new(exit, format_args!("{}: {lines} {were} refused", path.display())))
            }
        }
    }

    fn ended(&self, error: &EnqueueError) -> Ended {
        let exit = match error {
            EnqueueError::Conflict { .. } => Exit::History,
            EnqueueError::Invalid(_) => Exit::Usage,
            EnqueueError::Storage(error) => return self.queue.failed(error),
        };
        Ended::new(exit, error)
    }
}

const fn word(enqueued: Enqueued) -> &'static str {
    match enqueued {
        Enqueued::New => "new",
        Enqueued::Duplicate => "duplicate",
    }
}

/// A bar on stderr, where that is a terminal and the length is known.
fn progress(bytes: Option<u64>) -> ProgressBar {
    let Some(bytes) = bytes.filter(|_| io::stderr().is_terminal()) else { return ProgressBar::hidden() };
    let bar = ProgressBar::new(bytes);
    match ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes} {eta}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use clap::{Command, FromArgMatches};

    use super::*;
    use crate::cli::pieces::tests::{Fake, run};

    /// A worker that is there gets its turn after each transaction but the first, whose pause nobody was seen to need.
    #[test]
    fn a_worker_that_is_there_gets_its_turn_between_two_transactions() {
        let mut input = tempfile::NamedTempFile::new().unwrap();
        for nth in 0..10 {
            writeln!(input, "{{\"id\":\"job-{nth}\",\"qty\":1}}").unwrap();
        }
        let dir = tempfile::tempdir().unwrap();
        let queue = dir.path().join("queue.db");
        let words = ["enqueue", "--queue", queue.to_str().unwrap(), "--batch", "4", "--json-lines"];
        let words = words.iter().copied().chain(input.path().to_str());
        let matches = Enqueue::augment_args(Command::new("enqueue")).get_matches_from(words);
        let enqueue = Enqueue::from_arg_matches(&matches).unwrap();
        let enqueued = |clock: Fake| {
            assert!(run(enqueue.lines(input.path(), clock.clone())).is_ok());
            clock.waits()
        };
        assert_eq!(enqueued(Fake::default()), []);
        let peer = enqueue.open().unwrap();
        let commits = move || peer.connection().execute_batch("PRAGMA user_version = 1").unwrap();
        assert_eq!(enqueued(Fake::looked_at(commits)), [20]);
    }
}
