//! One immediate transaction that cannot be left open (Q6, Q7, M8).

use rusqlite::Connection;

use super::StorageError;

/// A `BEGIN IMMEDIATE` that is rolled back when dropped, on an error and on a panic alike.
pub(super) struct Immediate<'c> {
    connection: &'c Connection,
}

impl<'c> Immediate<'c> {
    /// Takes the write lock, waiting up to the busy timeout.
    pub(super) fn begin(connection: &'c Connection) -> Result<Self, StorageError> {
        run(connection, "BEGIN IMMEDIATE")?;
        Ok(Self { connection })
    }

    /// The connection inside the transaction.
    pub(super) fn connection(&self) -> &'c Connection {
        self.connection
    }

    /// Makes the COMMIT that follows a real one although no row has changed, so that what was committed before
    /// is durable afterwards (M9): the process that committed it may have been killed, or its COMMIT failed, after
    /// the journal was unlinked and before the directory was synced. SQLite leaves out writes of equal rows, but
    /// not that of the file's header.
    pub(super) fn touch(&self) -> Result<(), StorageError> {
        let version: i32 = self.connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        self.connection.execute_batch(&format!("PRAGMA user_version = {version}"))?;
        Ok(())
    }

    /// Commits. On failure nothing stays open; where SQLite has already left the transaction the outcome
    /// is unknown (M8).
    pub(super) fn commit(self) -> Result<(), StorageError> {
        let Err(error) = run(self.connection, "COMMIT") else {
            return Ok(());
        };
        if self.connection.is_autocommit() {
            Err(StorageError::CommitUnknown(error))
        } else {
            Err(error.into())
        }
    }
}

impl Drop for Immediate<'_> {
    fn drop(&mut self) {
        // SQLite rolls back by itself after some errors (disk full, I/O); then there is nothing left to do,
        // and a second ROLLBACK would only hide the first error. Should ROLLBACK itself fail, SQLite has
        // still left the transaction, and the journal restores the file at the next access.
        if !self.connection.is_autocommit() {
            let _ = run(self.connection, "ROLLBACK");
        }
    }
}

/// A savepoint inside a transaction, for one of several changes that stand or fall apart.
pub(super) struct Savepoint<'c> {
    connection: &'c Connection,
}

impl<'c> Savepoint<'c> {
    pub(super) fn begin(connection: &'c Connection) -> rusqlite::Result<Self> {
        run(connection, "SAVEPOINT part")?;
        Ok(Self { connection })
    }

    /// Keeps or takes back what happened since. Where that fails, the whole transaction is rolled back: leaving
    /// it tells the caller that nothing of it remains.
    pub(super) fn end(self, keep: bool) -> rusqlite::Result<()> {
        let connection = self.connection;
        if connection.is_autocommit() {
            return Ok(());
        }
        let taken_back = if keep { Ok(()) } else { run(connection, "ROLLBACK TO part") };
        let ended = taken_back.and_then(|()| run(connection, "RELEASE part"));
        if ended.is_err() && !connection.is_autocommit() {
            run(connection, "ROLLBACK")?;
        }
        ended
    }
}

/// Runs a statement without rows, prepared once per connection.
pub(super) fn run(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(connection: &Connection) -> i64 {
        connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
    }

    /// Q7: one part is taken back, the rest stays; a part that cannot be ended takes the whole transaction with it.
    #[test]
    fn q7_a_savepoint_ends_alone_or_takes_everything_with_it() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (x)").unwrap();
        for ends_well in [true, false] {
            for keep in [true, false] {
                let _transaction = Immediate::begin(&connection).unwrap();
                run(&connection, "INSERT INTO t VALUES (1)").unwrap();
                let part = Savepoint::begin(&connection).unwrap();
                run(&connection, "INSERT INTO t VALUES (2)").unwrap();
                if ends_well {
                    part.end(keep).unwrap();
                    assert_eq!(count(&connection), 1 + i64::from(keep));
                    continue;
                }
                run(&connection, "RELEASE part").unwrap();
                let error = part.end(keep).unwrap_err();
                assert!(error.to_string().contains("no such savepoint"), "{error}");
                assert!(connection.is_autocommit(), "nothing stays open");
                assert_eq!(count(&connection), 0);
            }
        }
    }
}
