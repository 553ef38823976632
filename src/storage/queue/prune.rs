//! Removes jobs that finished long ago, a bounded piece at a time. Nothing in the contract asks for it, and it has a
//! price (part Y): a pruned id is unknown to the queue, so it can be enqueued anew and starts at token 0. A row that breaks
//! a range stays as it is, and is told (M12).

use rusqlite::Connection;

use super::row::{BadRow, StoredJob, columns, first};
use crate::rules::Millis;
use crate::storage::StorageError;
use crate::storage::transaction::Immediate;

const LAST: &str = "SELECT max(seq) FROM (SELECT seq FROM jobs WHERE seq > ?1 ORDER BY seq LIMIT ?2)";
/// A job that died in quarantine keeps its `available_at` (Q27), so a dead one must be past its deadline as well.
macro_rules! finished {
    () => {
        " FROM jobs WHERE seq > ?1 AND seq <= ?2 AND typeof(available_at) = 'integer' AND available_at < ?3 \
         AND (status = 'done' OR (?4 AND status = 'dead' AND typeof(deadline) = 'integer' AND deadline < ?3))"
    };
}
const FIND: &str = concat!("SELECT ", columns!(), finished!(), " ORDER BY seq");
const DELETE: &str = concat!("DELETE", finished!());
const DELETE_ONE: &str = "DELETE FROM jobs WHERE seq = ?1";

/// Which finished jobs are old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PruneOptions {
    /// Jobs done before this time; dead ones where both the last time they became available and their deadline lie
    /// before it.
    pub before: Millis,
    /// Whether dead jobs go as well. They can no longer be redriven then.
    pub dead: bool,
    /// Whether they are only counted.
    pub dry_run: bool,
}

/// What became of a piece of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pruned {
    /// Jobs removed, or counted.
    pub jobs: usize,
    /// Jobs that are old and break a range, by seq: they stay as they are (M12).
    pub bad: Vec<BadRow>,
    /// The last seq looked at: where to go on.
    pub last: i64,
}

/// Looks at the `max` jobs behind `after`, in one transaction. `None` at the end of the table.
pub(super) fn prune(
    connection: &Connection,
    options: &PruneOptions,
    after: i64,
    max: usize,
) -> Result<Option<Pruned>, StorageError> {
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    let transaction = if options.dry_run { None } else { Some(Immediate::begin(connection)?) };
    let last =
        first(&mut *connection.prepare_cached(LAST)?, (after, max), |row| row.get::<_, Option<i64>>(0))?;
    let Some(last) = last.flatten() else { return Ok(None) };
    let range = (after, last, options.before.get(), options.dead);
    let (sound, bad) = find(connection, range)?;
    if let Some(transaction) = transaction {
        remove(connection, range, &sound, bad.is_empty())?;
        transaction.commit()?;
    }
    Ok(Some(Pruned { jobs: sound.len(), bad, last }))
}

/// Behind which seq, up to which one, before when, and whether dead ones count.
type Range = (i64, i64, i64, bool);

/// The old ones of a piece: the seq of those that keep all ranges, and the others.
fn find(connection: &Connection, range: Range) -> Result<(Vec<i64>, Vec<BadRow>), StorageError> {
    let mut statement = connection.prepare_cached(FIND)?;
    let mut rows = statement.query(range)?;
    let (mut sound, mut bad) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next()? {
        match StoredJob::read(row)? {
            Ok(job) => sound.push(job.seq),
            Err(row) => bad.push(row),
        }
    }
    Ok((sound, bad))
}

/// Removes the sound ones: in one go where there are no others.
fn remove(connection: &Connection, range: Range, sound: &[i64], all: bool) -> Result<(), StorageError> {
    if all {
        connection.prepare_cached(DELETE)?.execute(range)?;
        return Ok(());
    }
    let mut statement = connection.prepare_cached(DELETE_ONE)?;
    for seq in sound {
        statement.execute([seq])?;
    }
    Ok(())
}
