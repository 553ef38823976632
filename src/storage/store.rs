//! The consumer's store (R7 to R19, R25, R26): a cursor, a total and the ledger of applied events, which
//! change together or not at all.

mod apply;
mod consume;
mod schema;

use std::path::Path;

use rusqlite::{Connection, OptionalExtension};

use super::{OpenOptions, StorageError};
use crate::rules::{Cursor, Invalid};

pub use apply::{Applied, ApplyError};
pub use consume::{Batch, ConsumeError, Consumed};

/// Where a store stands (R12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct State {
    /// The last event applied; -1 for none.
    pub last: Cursor,
    /// The sum of all deltas applied.
    pub total: i64,
}

/// The consumer's store: one SQLite file, one connection.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    /// Up to where this connection knows that the events are durable: it has committed that itself.
    durable: Cursor,
}

impl Store {
    /// Opens the store and adds whatever of its tables and its first row is missing (R7, R8), in one
    /// transaction. Writes nothing where all is there (R9). Use
    /// [`Durability::Extra`](super::Durability::Extra), under which a power cut takes nothing that was
    /// acknowledged (M9).
    ///
    /// # Errors
    /// [`StorageError`] where the file cannot be opened, set up, or waited for longer than 1 s; the
    /// connection is closed (R11).
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, StorageError> {
        let connection = options.open(path)?;
        schema::complete(&connection)?;
        Ok(Self { connection, durable: Cursor::START })
    }

    /// The last event and the total (R12).
    ///
    /// # Errors
    /// [`StorageError::Row`] where another program has removed the row or put a number out of range there;
    /// else what SQLite reports.
    pub fn state(&self) -> Result<State, StorageError> {
        state(&self.connection)
    }

    /// The connection, to look at rows. Leave no transaction open on it.
    #[must_use]
    pub const fn connection(&self) -> &Connection {
        &self.connection
    }
}

/// Reads the one row of the checkpoint.
const SELECT_STATE: &str = "SELECT last, total FROM checkpoint WHERE id = 1";

fn state(connection: &Connection) -> Result<State, StorageError> {
    let row = connection
        .prepare_cached(SELECT_STATE)?
        .query_row([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
        .optional()?;
    let Some((last, total)) = row else {
        return Err(StorageError::Row(Invalid::new("checkpoint", "empty", "one row with id 1")));
    };
    Ok(State { last: Cursor::new(last).map_err(StorageError::Row)?, total })
}

#[cfg(test)]
mod tests;
