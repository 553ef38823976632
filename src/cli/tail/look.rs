//! One look at the file after the other, and what has changed between two of them. A reader holds up whoever commits, so
//! a look is made in pieces, each a range of seqs and one short read transaction. All that is known of a job belongs to
//! one moment, therefore; a job that changes behind the piece that is read is told by the next look.

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
    look: Option<Look>,
}

/// A look that is under way.
#[derive(Clone, Copy)]
struct Look {
    /// The file's version when it began.
    version: i64,
    /// The seq up to which it has come.
    after: i64,
}

/// Jobs that one piece reads, about.
const PIECE: usize = 1_000;

impl Known {
    /// Nothing yet: jobs up to now are news to nobody.
    ///
    /// # Errors
    /// SQLite's, a lock included.
    pub fn new(queue: &Queue) -> Result<Self, StorageError> {
        at_one_moment(queue, || {
            let (version, last) = (data_version(queue)?, last_seq(queue)?);
            Ok(Self { version, jobs: Jobs::new(), last, look: Some(Look { version, after: i64::MIN }) })
        })
    }

    /// Reads a piece of what was there in the beginning, and says whether that was the last one. Jobs that came since are
    /// told by the first look.
    ///
    /// # Errors
    /// SQLite's, a lock included: then the same piece is to be read again.
    pub fn read_first(&mut self, queue: &Queue) -> Result<bool, StorageError> {
        let Some(Look { version, after }) = self.look else { return Ok(true) };
        let (rows, end) = queue.live(after, PIECE)?;
        self.jobs.extend(by_seq(rows, self.last));
        self.look = (end < self.last).then_some(Look { version, after: end });
        Ok(self.look.is_none())
    }

    /// Looks at the next piece: what has changed there since the last look, and whether the look is over.
    ///
    /// # Errors
    /// SQLite's, a lock included: then the same piece is to be looked at again.
    pub fn look(&mut self, queue: &Queue) -> Result<(Vec<Change>, bool), StorageError> {
        at_one_moment(queue, || {
            let Look { version, after } = match self.look {
                Some(look) => look,
                None => Look { version: data_version(queue)?, after: i64::MIN },
            };
            if self.look.is_none() && version == self.version {
                return Ok((Vec::new(), true));
            }
            let (live, mut end) = queue.live(after, PIECE)?;
            let news_from = after.max(self.last);
            let new = if end > news_from {
                queue.list(&JobFilter::default(), news_from, PIECE)?
            } else {
                Vec::new()
            };
            if let Some(last) = new.last().and_then(seq).filter(|_| new.len() == PIECE) {
                end = end.min(last);
            }
            let live = by_seq(live, end);
            let new = by_seq(new, end);
            let before = self.jobs.range(after.saturating_add(1)..=end);
            let before: Jobs = before.map(|(seq, row)| (*seq, row.clone())).collect();
            let changes = changes(queue, &before, &live, new, self.last)?;
            Ok(self.take_in((version, end), before, live, changes))
        })
    }

    /// Remembers a piece.
    fn take_in(
        &mut self,
        (version, end): (i64, i64),
        before: Jobs,
        live: Jobs,
        (changes, last): (Vec<Change>, i64),
    ) -> (Vec<Change>, bool) {
        for seq in before.keys().filter(|seq| !live.contains_key(seq)) {
            self.jobs.remove(seq);
        }
        self.jobs.extend(live);
        self.last = self.last.max(last);
        let is_over = end == i64::MAX;
        self.look = (!is_over).then_some(Look { version, after: end });
        if is_over {
            self.version = version;
        }
        (changes, is_over)
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

/// What became of the jobs that were live, and which are new, of one piece. `last` is the greatest seq seen before; the
/// second value is that of the new ones.
fn changes(
    queue: &Queue,
    before: &Jobs,
    now: &Jobs,
    new: Jobs,
    last: i64,
) -> Result<(Vec<Change>, i64), StorageError> {
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
    let newest = new.keys().next_back().copied().unwrap_or(last);
    // New jobs that were finished before anybody looked.
    changes.extend(new.into_iter().filter(|(seq, _)| !now.contains_key(seq)).map(|(_, row)| {
        let dead = *row.get("status") == Value::Text("dead".into());
        (if dead { "dead" } else { "done" }, row)
    }));
    Ok((changes, newest))
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

/// Rows up to a seq.
fn by_seq(rows: Vec<JobRow>, end: i64) -> Jobs {
    let with_seq = |row: JobRow| Some((seq(&row)?, row));
    rows.into_iter().filter_map(with_seq).filter(|(seq, _)| *seq <= end).collect()
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
        let mut known = first(&queue);
        let seen = at_one_moment(&queue, || Ok((queue.live(0, 9)?.0.len(), enqueue(), last_seq(&queue)?)));
        assert_eq!(seen.unwrap(), (0, false, 0));
        assert!(enqueue(), "no lock is left");
        assert_eq!(told(&mut known, &queue), ["enqueued 1"]);
        assert!(told(&mut known, &queue).is_empty());
    }

    fn first(queue: &Queue) -> Known {
        let mut known = Known::new(queue).unwrap();
        while !known.read_first(queue).unwrap() {}
        known
    }

    /// A whole look.
    fn told(known: &mut Known, queue: &Queue) -> Vec<String> {
        let mut told = Vec::new();
        loop {
            let (changes, is_over) = known.look(queue).unwrap();
            told.extend(changes.iter().map(|(what, row)| format!("{what} {}", seq(row).unwrap())));
            if is_over {
                return told;
            }
        }
    }

    /// Whatever changes is told once, wherever two pieces meet, and also where the file lacks its index; what changes
    /// behind the piece that is read is told by the next look.
    #[test]
    fn a_long_file_is_looked_at_in_pieces() {
        for has_index in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("queue.db");
            let peer = Queue::open(&path, &OpenOptions::new(Durability::Full)).unwrap();
            let run = |sql: &str| peer.connection().execute_batch(sql).unwrap();
            if !has_index {
                run("DROP INDEX ackward_jobs_live");
            }
            let fill = |from: i64, to: i64, status: &str| {
                run(&format!(
                    "WITH RECURSIVE n(i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM n WHERE i < {to}) INSERT INTO jobs \
                     SELECT i, 'job-' || i, 1, '{status}', 0, 3, 0, 0, 900, NULL, NULL, NULL FROM n"
                ));
            };
            fill(1, 2_500, "pending");
            run(
                "UPDATE jobs SET status = 'leased', owner = 'w', lease_until = 5 WHERE seq IN (1, 1000, 2500)",
            );
            let queue = Queue::open(&path, &OpenOptions::new(Durability::Full).read_only()).unwrap();
            let mut known = first(&queue);
            assert_eq!(known.jobs(), 2_500, "{has_index}");
            run(
                "UPDATE jobs SET status = 'done' WHERE seq IN (1, 1000, 1001); DELETE FROM jobs WHERE seq = 2000; \
                 UPDATE jobs SET status = 'pending', reason = 'retry' WHERE seq = 2500",
            );
            fill(2_501, 4_600, "done");
            fill(4_601, 4_602, "pending");
            let (changes, is_over) = known.look(&queue).unwrap();
            assert!(!is_over);
            let behind =
                "UPDATE jobs SET status = 'leased', owner = 'w', lease_until = 5, token = 1 WHERE seq = 7";
            run(behind);
            let mut all: Vec<_> =
                changes.iter().map(|(what, row)| format!("{what} {}", seq(row).unwrap())).collect();
            all.extend(told(&mut known, &queue));
            let ends: Vec<_> = all.iter().filter(|told| told.starts_with("done")).collect();
            assert_eq!(ends.len(), 3 + 2_100, "{has_index}");
            let others: Vec<_> = all.iter().filter(|told| !told.starts_with("done")).collect();
            assert_eq!(
                others,
                ["removed 2000", "retry 2500", "enqueued 4601", "enqueued 4602"],
                "{has_index}"
            );
            assert_eq!(told(&mut known, &queue), ["claimed 7"], "{has_index}");
            assert!(told(&mut known, &queue).is_empty());
        }
    }
}
