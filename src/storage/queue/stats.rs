//! Counts for people and for gauges. Only the whole count reads the table, and that in pieces: a reader holds up
//! whoever commits, so each read is short.

use std::collections::BTreeMap;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::open::{COUNT_INDEXES, INDEXES_COUNT};
use super::row::shown;
use crate::rules::{Millis, Status};
use crate::storage::StorageError;

/// Rows read in one go.
const PIECE_ROWS: i64 = 20_000;

const PIECE: &str = "SELECT status, reason, count(*), max(seq) FROM \
    (SELECT seq, status, reason FROM jobs WHERE seq > ?1 ORDER BY seq LIMIT ?2) GROUP BY status, reason";
const DEPTH: &str = "SELECT \
    (SELECT count(*) FROM jobs WHERE status = 'pending'), (SELECT count(*) FROM jobs WHERE status = 'leased')";
/// Only whole numbers are times (M12). A doomed job is ready no more, whatever its time; those are few, so they are
/// counted and taken off, where asking each ready job would cost a look at its row.
macro_rules! live {
    ($available:literal, $deadline:literal, $spent:literal) => {
        concat!(
            "WITH late AS (SELECT available_at FROM jobs ",
            $deadline,
            " WHERE status = 'pending' AND deadline <= ?1 AND typeof(deadline) = 'integer'), \
             spent AS (SELECT available_at FROM jobs ",
            $spent,
            " WHERE status = 'pending' AND attempts >= max_attempts \
              AND NOT (+deadline <= ?1 AND typeof(deadline) = 'integer')), \
             doomed AS (SELECT available_at FROM late UNION ALL SELECT available_at FROM spent) SELECT \
             (SELECT count(*) FROM jobs ",
            $available,
            " WHERE status = 'pending' AND available_at <= ?1 AND typeof(available_at) = 'integer') \
             - (SELECT count(*) FROM doomed WHERE +available_at <= ?1 AND typeof(available_at) = 'integer'), \
             (SELECT min(available_at) FROM jobs ",
            $available,
            " WHERE status = 'pending' AND available_at <= ?1 AND typeof(available_at) = 'integer' \
              AND +deadline > ?1 AND attempts < max_attempts), \
             (SELECT min(available_at) FROM jobs ",
            $available,
            " WHERE status = 'pending' AND available_at > ?1 AND typeof(available_at) = 'integer' \
              AND +deadline > ?1 AND attempts < max_attempts), \
             (SELECT min(deadline) FROM jobs ",
            $deadline,
            " WHERE status = 'pending' AND deadline > ?1 AND typeof(deadline) = 'integer'), \
             (SELECT count(*) FROM doomed), \
             (SELECT count(*) FROM jobs WHERE status = 'leased' AND lease_until <= ?1), \
             (SELECT count(*) FROM redrives)"
        )
    };
}
const LIVE: &str = live!(
    "INDEXED BY ackward_jobs_available",
    "INDEXED BY ackward_jobs_deadline",
    "INDEXED BY ackward_jobs_spent"
);
/// For a file that lacks an index, and is only looked at.
const LIVE_WITHOUT_INDEXES: &str = live!("", "", "");

/// How many jobs there are of each kind. The parts are read one after the other, so with workers at it they may
/// belong to slightly different moments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Jobs that wait.
    pub pending: i64,
    /// Jobs that are leased.
    pub leased: i64,
    /// Jobs that were delivered.
    pub done: i64,
    /// Jobs in quarantine.
    pub dead: i64,
    /// The dead ones by their reason; `-` stands for none.
    pub dead_by_reason: BTreeMap<String, i64>,
    /// Pending jobs that could be claimed now.
    pub ready: i64,
    /// Pending jobs whose deadline is over or whose attempts are used up: the next claim moves them to the dead (Q26).
    pub doomed: i64,
    /// Since when the job has been ready that has been so for longest, in ms since 1970.
    pub ready_since_ms: Option<i64>,
    /// When the next waiting job gets ready, in ms since 1970.
    pub next_ready_ms: Option<i64>,
    /// The first deadline of a pending job that is yet to come, in ms since 1970.
    pub next_deadline_ms: Option<i64>,
    /// Leases that are over: the next claims take them up again, or move them to the dead.
    pub overdue: i64,
    /// Rows of the audit table.
    pub redrives: i64,
}

/// The jobs that are not finished. Costs no more when more have finished.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Depth {
    /// Jobs that wait.
    pub pending: i64,
    /// Jobs that are leased.
    pub leased: i64,
}

pub(super) fn depth(connection: &Connection) -> Result<Depth, StorageError> {
    let read = |row: &rusqlite::Row<'_>| Ok(Depth { pending: row.get(0)?, leased: row.get(1)? });
    Ok(connection.prepare_cached(DEPTH)?.query_row([], read)?)
}

pub(super) fn stats(connection: &Connection, now: Millis) -> Result<Stats, StorageError> {
    let mut stats = Stats::default();
    live(connection, now, &mut stats)?;
    let mut after = i64::MIN;
    while let Some(last) = piece(connection, after, &mut stats)? {
        after = last;
    }
    Ok(stats)
}

fn live(connection: &Connection, now: Millis, stats: &mut Stats) -> Result<(), StorageError> {
    let indexes: i64 = connection.query_row(COUNT_INDEXES, [], |row| row.get(0))?;
    let sql = if indexes == INDEXES_COUNT { LIVE } else { LIVE_WITHOUT_INDEXES };
    connection.prepare_cached(sql)?.query_row([now.get()], |row| {
        stats.ready = row.get(0)?;
        stats.ready_since_ms = row.get(1)?;
        stats.next_ready_ms = row.get(2)?;
        stats.next_deadline_ms = row.get(3)?;
        stats.doomed = row.get(4)?;
        stats.overdue = row.get(5)?;
        stats.redrives = row.get(6)?;
        Ok(())
    })?;
    Ok(())
}

/// Counts the rows behind `after`, as far as one read goes; returns where it ended, `None` at the end.
fn piece(connection: &Connection, after: i64, stats: &mut Stats) -> Result<Option<i64>, StorageError> {
    let mut statement = connection.prepare_cached(PIECE)?;
    let mut rows = statement.query((after, PIECE_ROWS))?;
    let mut last = None;
    while let Some(row) = rows.next()? {
        // The table's CHECK lets only the four words pass, but a foreign program can switch that off; a reason can be
        // anything.
        let (status, reason) = (words(row.get_ref(0)?), words(row.get_ref(1)?));
        let count: i64 = row.get(2)?;
        last = last.max(Some(row.get(3)?));
        match Status::parse(&status) {
            Ok(Status::Pending) => stats.pending += count,
            Ok(Status::Leased) => stats.leased += count,
            Ok(Status::Done) => stats.done += count,
            Ok(Status::Dead) => {
                stats.dead += count;
                *stats.dead_by_reason.entry(reason).or_default() += count;
            }
            Err(_) => {}
        }
    }
    Ok(last)
}

/// A stored text, or what else there is.
fn words(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "-".into(),
        ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => shown(other),
    }
}
