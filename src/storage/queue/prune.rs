//! Removes jobs that finished long ago, a bounded piece at a time. Nothing in the contract asks for it, and it has a
//! price (part Y): a pruned id is unknown to the queue, so it can be enqueued anew and starts at token 0.

use rusqlite::Connection;

use super::row::first;
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
const DELETE: &str = concat!("DELETE", finished!());
const COUNT: &str = concat!("SELECT count(*)", finished!());

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pruned {
    /// Jobs removed, or counted.
    pub jobs: usize,
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
    let jobs = match transaction {
        None => connection.prepare_cached(COUNT)?.query_row(range, |row| row.get::<_, i64>(0))?,
        Some(transaction) => {
            let deleted = connection.prepare_cached(DELETE)?.execute(range)?;
            transaction.commit()?;
            i64::try_from(deleted).unwrap_or(i64::MAX)
        }
    };
    Ok(Some(Pruned { jobs: usize::try_from(jobs).unwrap_or(0), last }))
}
