//! The store's tables (R7 to R9) and their creation.

use rusqlite::{Connection, ErrorCode, OptionalExtension};

use super::super::StorageError;
use super::super::transaction::Immediate;
use super::{SELECT_STATE, apply};

const CREATE: &str = "
    CREATE TABLE IF NOT EXISTS checkpoint(id INTEGER PRIMARY KEY CHECK(id=1),
      last INTEGER NOT NULL, total INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS ledger(seq INTEGER PRIMARY KEY, delta INTEGER NOT NULL);
    INSERT INTO checkpoint SELECT 1, -1, 0 WHERE NOT EXISTS (SELECT 1 FROM checkpoint WHERE id = 1);";

/// Adds what is missing; only reads where nothing is.
pub(super) fn complete(connection: &Connection) -> Result<(), StorageError> {
    if is_complete(connection)? {
        return Ok(());
    }
    let transaction = Immediate::begin(connection)?;
    connection.execute_batch(CREATE)?;
    // What is still wrong now (a table of this name with other columns) is an error.
    connection.prepare_cached(SELECT_STATE)?;
    connection.prepare_cached(apply::SELECT_DELTA)?;
    transaction.commit()
}

/// Whether both tables and the row are there. Prepares only statements that are needed later anyway: a
/// simulation opens thousands of stores a second.
fn is_complete(connection: &Connection) -> Result<bool, StorageError> {
    for sql in [apply::SELECT_DELTA, SELECT_STATE] {
        match connection.prepare_cached(sql) {
            Ok(_) => {}
            // The general SQLITE_ERROR: no such table or column.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::Unknown) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(connection.prepare_cached(SELECT_STATE)?.query_row([], |_| Ok(())).optional()?.is_some())
}
