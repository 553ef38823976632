//! One look at the file after the other, and what has changed between two of them. Each look is one read transaction,
//! so that its parts belong to one moment: a job that is enqueued while the file is read is told by the next look.

use std::collections::BTreeMap;

use ackward::storage::{JobFilter, JobRow, Queue, StorageError};
use rusqlite::types::Value;

/// What has happened, and to which job.
pub type Change = (&'static str, JobRow);

/// The jobs that are not finished, by seq.
type Jobs = BTreeMap<i64, JobRow>;

/// What the last look has seen.
pub struct Known {
    version: i64,
    jobs: Jobs,
    /// The greatest seq of any job so far.
    last: i64,
}

impl Known {
    /// The first look.
    ///
    /// # Errors
    /// SQLite's, a lock included.
    pub fn first(queue: &Queue) -> Result<Self, StorageError> {
        at_one_moment(queue, || {
            Ok(Self { version: data_version(queue)?, jobs: live(queue)?, last: last_seq(queue)? })
        })
    }

    /// What has changed since the last look.
    ///
    /// # Errors
    /// SQLite's, a lock included: then the next look tells everything that this one would have told.
    pub fn look(&mut self, queue: &Queue) -> Result<Vec<Change>, StorageError> {
        at_one_moment(queue, || {
            let version = data_version(queue)?;
            if version == self.version {
                return Ok(Vec::new());
            }
            let jobs = live(queue)?;
            let changes = changes(queue, &self.jobs, &jobs, self.last)?;
            let last = self.last.max(last_seq(queue)?);
            *self = Self { version, jobs, last };
            Ok(changes)
        })
    }

    /// How many jobs are not finished.
    pub fn jobs(&self) -> usize {
        self.jobs.len()
    }
}

/// Runs several reads in one transaction, which ends with them.
fn at_one_moment<T>(
    queue: &Queue,
    read: impl FnOnce() -> Result<T, StorageError>,
) -> Result<T, StorageError> {
    // Deferred: it takes no more than the lock that any read takes. Dropped, it is rolled back.
    let transaction = queue.connection().unchecked_transaction()?;
    let seen = read()?;
    transaction.finish()?;
    Ok(seen)
}

/// What became of the jobs that were live, and which are new. `last` is the greatest seq seen before.
fn changes(queue: &Queue, before: &Jobs, now: &Jobs, last: i64) -> Result<Vec<Change>, StorageError> {
    let mut changes = Vec::new();
    for (seq, row) in before {
        if now.contains_key(seq) {
            continue;
        }
        match queue.find_seq(*seq)? {
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
fn passed_through(queue: &Queue, now: &Jobs, last: i64) -> Result<Vec<Change>, StorageError> {
    const PIECE: usize = 1_000;
    let mut changes = Vec::new();
    let mut after = last;
    loop {
        let rows = queue.list(&JobFilter::default(), after, PIECE)?;
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
    Ok(queue.live()?.into_iter().filter_map(|row| Some((seq(&row)?, row))).collect())
}

/// Changes whenever another connection has committed.
fn data_version(queue: &Queue) -> Result<i64, StorageError> {
    number(queue, "PRAGMA data_version")
}

fn last_seq(queue: &Queue) -> Result<i64, StorageError> {
    number(queue, "SELECT coalesce(max(seq), 0) FROM jobs")
}

fn number(queue: &Queue, sql: &str) -> Result<i64, StorageError> {
    Ok(queue.connection().query_row(sql, [], |row| row.get(0))?)
}

fn seq(row: &JobRow) -> Option<i64> {
    match row.get("seq") {
        Value::Integer(seq) => Some(*seq),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use ackward::storage::{Durability, OpenOptions};

    /// What one read has seen still holds at the next one, and only then does anybody commit.
    #[test]
    fn nobody_commits_between_two_reads_of_one_look() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("queue.db");
        let queue = Queue::open(&path, &OpenOptions::new(Durability::Full)).unwrap();
        let peer = Queue::open(&path, &OpenOptions::new(Durability::Full)).unwrap();
        peer.connection().busy_timeout(Duration::ZERO).unwrap();
        let enqueue = || {
            let sql = "INSERT INTO jobs VALUES (1, 'cake', 1, 'pending', 0, 3, 0, 0, 9, NULL, NULL, NULL)";
            peer.connection().execute(sql, []).is_ok()
        };
        let mut known = Known::first(&queue).unwrap();
        let seen = at_one_moment(&queue, || Ok((live(&queue)?.len(), enqueue(), last_seq(&queue)?)));
        assert_eq!(seen.unwrap(), (0, false, 0));
        assert!(enqueue(), "no lock is left");
        let told: Vec<_> = known.look(&queue).unwrap().into_iter().map(|(what, _)| what).collect();
        assert_eq!(told, ["enqueued"]);
        assert!(known.look(&queue).unwrap().is_empty());
    }
}
