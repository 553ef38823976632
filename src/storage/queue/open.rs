//! The queue file's two tables, exactly as in the contract, and the partial indexes that keep every
//! operation's cost free of history: none of them holds a finished job.

use rusqlite::Connection;

use crate::storage::schema::Schema;

/// Whether SQLite asks `CHECK(status IN (…))` at each write. It does so by building a temporary tree of the four words,
/// in every statement anew, which is two fifths of the instructions of a claim or a finish. The queue's own statements
/// write no other words, so it does without; whoever looks for what others have written asks again.
pub(super) fn ask_checks(connection: &Connection, ask: bool) -> rusqlite::Result<()> {
    connection.pragma_update(None, "ignore_check_constraints", !ask)
}

/// The condition of `sqlite_schema`'s rows that are our indexes.
macro_rules! is_index {
    () => {
        "(type = 'index' AND name IN ('ackward_jobs_live', 'ackward_jobs_deadline', 'ackward_jobs_available', \
         'ackward_jobs_spent'))"
    };
}

/// How many indexes there should be.
pub(super) const INDEXES_COUNT: i64 = 4;
/// Counts those that are there.
pub(super) const COUNT_INDEXES: &str = concat!("SELECT count(*) FROM sqlite_schema WHERE ", is_index!());
const TABLES_COUNT: i64 = 2;

/// What a queue file consists of.
///
/// Each index that an operation changes is one page more to journal, to write and to sync, so there are few,
/// laid out for few changes rather than for simple questions:
///
/// - `live` holds the leases by their end and, right beside them, the pending jobs by seq (their
///   `lease_until` is NULL), so that a claim, which takes from the front of the one and adds to the other,
///   mostly stays on one page; with the deadline it answers all that claim asks of leases;
/// - `deadline` holds pending jobs only: SQLite rewrites an entry whenever a column of the index's WHERE is
///   set, so leaving leased jobs in it would cost finish a page and save claim none;
/// - `available` is what finds the few jobs that are ready behind a crowd that waits;
/// - `spent` holds the jobs whose attempts are used up: mostly none but those on their last attempt.
pub(super) const SCHEMA: Schema = Schema {
    tables: "jobs and redrives",
    tables_count: TABLES_COUNT,
    count_tables: "SELECT count(*) FROM sqlite_schema \
        WHERE type = 'table' AND name COLLATE NOCASE IN ('jobs', 'redrives')",
    count: concat!(
        "SELECT count(*) FROM sqlite_schema \
         WHERE (type = 'table' AND name COLLATE NOCASE IN ('jobs', 'redrives')) OR ",
        is_index!()
    ),
    objects: TABLES_COUNT + INDEXES_COUNT,
    create: "\
CREATE TABLE IF NOT EXISTS jobs (seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE, qty INTEGER NOT NULL,
  status TEXT NOT NULL CHECK(status IN ('pending','leased','done','dead')),
  attempts INTEGER NOT NULL, max_attempts INTEGER NOT NULL, token INTEGER NOT NULL,
  available_at INTEGER NOT NULL, deadline INTEGER NOT NULL,
  owner TEXT, lease_until INTEGER, reason TEXT);
CREATE TABLE IF NOT EXISTS redrives (seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL, token INTEGER NOT NULL, at_ms INTEGER NOT NULL, note TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS ackward_jobs_live ON jobs(status, lease_until, seq, deadline)
  WHERE status = 'pending' OR status = 'leased';
CREATE INDEX IF NOT EXISTS ackward_jobs_deadline ON jobs(deadline) WHERE status = 'pending';
CREATE INDEX IF NOT EXISTS ackward_jobs_available ON jobs(available_at) WHERE status = 'pending';
CREATE INDEX IF NOT EXISTS ackward_jobs_spent ON jobs(status, lease_until)
  WHERE attempts >= max_attempts AND (status = 'pending' OR status = 'leased');
",
};
