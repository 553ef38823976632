//! The queue file's two tables, exactly as in the contract, and the partial indexes that keep every
//! operation's cost free of history: none of them holds a finished job.

use crate::storage::schema::Schema;

/// What a queue file consists of.
///
/// A pending job stands in three indexes: by seq (with its time, so that a walk over jobs that still wait
/// need not touch the table), by the time it becomes available, and by deadline; a fourth holds those whose
/// attempts are used up, which no operation of ours leaves pending. A leased job stands in one, which
/// covers everything that claim asks of leases.
pub(super) const SCHEMA: Schema = Schema {
    count: "SELECT count(*) FROM sqlite_schema \
        WHERE (type = 'table' AND name COLLATE NOCASE IN ('jobs', 'redrives')) \
        OR (type = 'index' AND name IN ('ackward_jobs_waiting', 'ackward_jobs_available', \
            'ackward_jobs_deadline', 'ackward_jobs_spent', 'ackward_jobs_lease'))",
    objects: 7,
    create: "\
CREATE TABLE IF NOT EXISTS jobs (seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE, qty INTEGER NOT NULL,
  status TEXT NOT NULL CHECK(status IN ('pending','leased','done','dead')),
  attempts INTEGER NOT NULL, max_attempts INTEGER NOT NULL, token INTEGER NOT NULL,
  available_at INTEGER NOT NULL, deadline INTEGER NOT NULL,
  owner TEXT, lease_until INTEGER, reason TEXT);
CREATE TABLE IF NOT EXISTS redrives (seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL, token INTEGER NOT NULL, at_ms INTEGER NOT NULL, note TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS ackward_jobs_waiting ON jobs(seq, available_at) WHERE status = 'pending';
CREATE INDEX IF NOT EXISTS ackward_jobs_available ON jobs(available_at) WHERE status = 'pending';
CREATE INDEX IF NOT EXISTS ackward_jobs_deadline ON jobs(deadline) WHERE status = 'pending';
CREATE INDEX IF NOT EXISTS ackward_jobs_spent ON jobs(seq)
  WHERE status = 'pending' AND attempts >= max_attempts;
CREATE INDEX IF NOT EXISTS ackward_jobs_lease ON jobs(lease_until, deadline, attempts, max_attempts)
  WHERE status = 'leased';
",
};
