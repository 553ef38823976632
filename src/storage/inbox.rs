//! The receiver's inbox (W3, part Y): an event's row, its effect and the running totals change in one
//! transaction, at most once per id.

use std::path::Path;

use rusqlite::Connection;

use crate::port::{Fault, FaultPoint, Injected};
use crate::rules::{Event, Millis, Name, Qty};

use super::schema::Schema;
use super::transaction::Immediate;
use super::{OpenOptions, StorageError};

const SCHEMA: Schema = Schema {
    count: "SELECT count(*) FROM sqlite_schema \
        WHERE type = 'table' AND name COLLATE NOCASE IN ('inbox', 'effects', 'totals')",
    objects: 3,
    create: "\
CREATE TABLE IF NOT EXISTS inbox(id TEXT PRIMARY KEY, qty INTEGER NOT NULL, at_ms INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS effects(seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
  qty INTEGER NOT NULL, at_ms INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS totals(id INTEGER PRIMARY KEY CHECK(id=1), count INTEGER NOT NULL,
  qty INTEGER NOT NULL);
",
};

const FIND: &str = "SELECT CAST(qty AS TEXT) FROM inbox WHERE id = ?1";
const INSERT: &str = "INSERT INTO inbox (id, qty, at_ms) VALUES (?1, ?2, ?3)";
const EFFECT: &str = "INSERT INTO effects (id, qty, at_ms) VALUES (?1, ?2, ?3)";
const COUNT: &str = "INSERT INTO totals (id, count, qty) VALUES (1, 1, ?1) \
    ON CONFLICT (id) DO UPDATE SET count = count + 1, qty = qty + excluded.qty";
const TOTALS: &str = "SELECT coalesce(sum(count), 0), coalesce(sum(qty), 0) FROM totals";

/// An inbox file that is open. Open it with [`Durability::Extra`](super::Durability::Extra): an ACK must
/// not outlive its row in a power cut (M9).
#[derive(Debug)]
pub struct Inbox {
    connection: Connection,
}

/// What accept did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Accepted {
    /// The event is new; its effect is in place.
    Applied,
    /// The event was here before; there is no second effect.
    Repeat,
}

/// The running totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Events that took effect.
    pub count: i64,
    /// The sum of their quantities.
    pub qty: i64,
}

/// Why accept failed.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// The id is here with another quantity; nothing was changed, and sending it again will not help.
    #[error("event {id} was accepted with qty {stored_qty}, not {}", given.get())]
    Conflict {
        /// The id.
        id: Name,
        /// What is stored, as text.
        stored_qty: String,
        /// What was given.
        given: Qty,
    },
    /// A hook injected an error.
    #[error(transparent)]
    Hook(#[from] Injected),
    /// SQLite failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl Inbox {
    /// Opens the inbox file at `path` and adds what it lacks of the three tables; existing rows stay.
    ///
    /// # Errors
    /// [`StorageError`], as for [`Queue::open`](super::Queue::open).
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, StorageError> {
        let connection = options.open(path)?;
        SCHEMA.ensure(&connection)?;
        Ok(Self { connection })
    }

    /// Takes an event once: inbox row, effect and totals in one transaction, committed when this returns.
    /// The hooks are [`FaultPoint::AfterAccept`] inside and [`FaultPoint::AfterCommit`] outside of it, for a
    /// new event only.
    ///
    /// # Errors
    /// [`AcceptError`]; nothing has changed unless it says otherwise.
    pub fn accept(
        &mut self,
        event: &Event,
        at: Millis,
        fault: &mut dyn Fault,
    ) -> Result<Accepted, AcceptError> {
        let transaction = Immediate::begin(&self.connection)?;
        if let Some(stored_qty) = self.find(event)? {
            if stored_qty == event.qty.get().to_string() {
                // The answer is an ACK like the first one, so the row must be durable like after the first one.
                transaction.touch()?;
                transaction.commit()?;
                return Ok(Accepted::Repeat);
            }
            transaction.commit()?;
            return Err(AcceptError::Conflict { id: event.id.clone(), stored_qty, given: event.qty });
        }
        self.write(event, at).map_err(StorageError::from)?;
        fault.at(FaultPoint::AfterAccept)?;
        transaction.commit()?;
        fault.at(FaultPoint::AfterCommit)?;
        Ok(Accepted::Applied)
    }

    /// The running totals; zeros where nothing was accepted yet.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn totals(&self) -> Result<Totals, StorageError> {
        let mut statement = self.connection.prepare_cached(TOTALS)?;
        Ok(statement.query_row([], |row| Ok(Totals { count: row.get(0)?, qty: row.get(1)? }))?)
    }

    /// The connection, to look at the file. Leave no transaction open on it.
    #[must_use]
    pub const fn connection(&self) -> &Connection {
        &self.connection
    }

    fn find(&self, event: &Event) -> Result<Option<String>, StorageError> {
        let mut statement = self.connection.prepare_cached(FIND)?;
        let mut rows = statement.query([event.id.as_str()])?;
        Ok(rows.next()?.map(|row| row.get(0)).transpose()?)
    }

    fn write(&self, event: &Event, at: Millis) -> rusqlite::Result<()> {
        let row = (event.id.as_str(), event.qty.get(), at.get());
        self.connection.prepare_cached(INSERT)?.execute(row)?;
        self.connection.prepare_cached(EFFECT)?.execute(row)?;
        self.connection.prepare_cached(COUNT)?.execute([event.qty.get()])?;
        Ok(())
    }
}
