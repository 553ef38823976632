//! The receiver's inbox (W3, part Y): an event's row, its effect and the running totals change in one
//! transaction, at most once per id.

use std::path::Path;

use rusqlite::Connection;

use crate::port::{Fault, FaultPoint, Injected};
use crate::rules::{Event, Millis, Name, Qty};

use super::schema::Schema;
use super::transaction::{Immediate, Savepoint};
use super::{OpenOptions, StorageError};

const TABLES: &str = "SELECT count(*) FROM sqlite_schema \
    WHERE type = 'table' AND name COLLATE NOCASE IN ('inbox', 'effects', 'totals')";
const SCHEMA: Schema = Schema {
    tables: "inbox, effects and totals",
    tables_count: 3,
    count_tables: TABLES,
    count: TABLES,
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

/// An event and when it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The event.
    pub event: Event,
    /// When it was received.
    pub at: Millis,
}

/// The inbox as a seam: what the receiver drives, and what a wrapper or a deliberately broken inbox implements.
pub trait EventInbox {
    /// Takes several events in one transaction, each at most once and each with an answer of its own, in order;
    /// see [`Inbox::accept_many`].
    ///
    /// # Errors
    /// [`AcceptError`] where the transaction as a whole failed: none of the events may be acknowledged.
    fn accept_many(
        &mut self,
        arrivals: &[Arrival],
        fault: &mut dyn Fault,
    ) -> Result<Vec<Answer>, AcceptError>;
}

/// What became of one event of several.
pub type Answer = Result<Accepted, AcceptError>;

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
        if options.is_read_only() {
            SCHEMA.check(&connection)?;
        } else {
            SCHEMA.ensure(&connection)?;
        }
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
        let accepted = match self.take(event, at, fault) {
            Err(error @ AcceptError::Conflict { .. }) => {
                transaction.commit()?;
                return Err(error);
            }
            taken => taken?,
        };
        commit(transaction, &[Ok(accepted)], fault)?;
        Ok(accepted)
    }

    /// Takes several events in one transaction, so that they share its syncs. An event that fails is taken
    /// back to its savepoint and answered with its error; the others are not affected. All that is not an error
    /// is committed when this returns. The hooks are as for [`accept`](Self::accept), except that
    /// [`FaultPoint::AfterCommit`] is called once, where anything was new.
    ///
    /// # Errors
    /// [`AcceptError`] where the transaction as a whole failed: nothing has changed unless it says otherwise,
    /// and no event, not even a repeat, counts as answered.
    pub fn accept_many(
        &mut self,
        arrivals: &[Arrival],
        fault: &mut dyn Fault,
    ) -> Result<Vec<Answer>, AcceptError> {
        if let [Arrival { event, at }] = arrivals {
            return Ok(vec![self.accept(event, *at, fault)]);
        }
        let transaction = Immediate::begin(&self.connection)?;
        let mut answers = Vec::with_capacity(arrivals.len());
        for arrival in arrivals {
            let answer = self.take_apart(arrival, fault);
            if self.connection.is_autocommit() {
                // SQLite has rolled everything back by itself (disk full, I/O error).
                return Err(answer.err().unwrap_or_else(|| StorageError::RolledBack.into()));
            }
            answers.push(answer);
        }
        commit(transaction, &answers, fault)?;
        Ok(answers)
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

    /// Takes an event, inside a transaction, behind a savepoint of its own.
    fn take_apart(&self, arrival: &Arrival, fault: &mut dyn Fault) -> Answer {
        let savepoint = Savepoint::begin(&self.connection).map_err(StorageError::from)?;
        let answer = self.take(&arrival.event, arrival.at, fault);
        let ended = savepoint.end(answer.is_ok());
        if answer.is_ok() {
            ended.map_err(StorageError::from)?;
        }
        answer
    }

    /// Takes an event, inside a transaction.
    fn take(&self, event: &Event, at: Millis, fault: &mut dyn Fault) -> Answer {
        match self.find(event)? {
            None => {
                self.write(event, at).map_err(StorageError::from)?;
                fault.at(FaultPoint::AfterAccept)?;
                Ok(Accepted::Applied)
            }
            Some(stored_qty) if stored_qty == event.qty.get().to_string() => Ok(Accepted::Repeat),
            Some(stored_qty) => {
                Err(AcceptError::Conflict { id: event.id.clone(), stored_qty, given: event.qty })
            }
        }
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

/// Commits what these answers tell.
fn commit(transaction: Immediate<'_>, answers: &[Answer], fault: &mut dyn Fault) -> Result<(), AcceptError> {
    let any = |what| answers.iter().any(|answer| matches!(answer, Ok(accepted) if *accepted == what));
    let applied = any(Accepted::Applied);
    if !applied && any(Accepted::Repeat) {
        // The answer is an ACK like the first one, so the row must be durable like after the first one.
        transaction.touch()?;
    }
    transaction.commit()?;
    if applied {
        fault.at(FaultPoint::AfterCommit)?;
    }
    Ok(())
}

impl EventInbox for Inbox {
    fn accept_many(
        &mut self,
        arrivals: &[Arrival],
        fault: &mut dyn Fault,
    ) -> Result<Vec<Answer>, AcceptError> {
        self.accept_many(arrivals, fault)
    }
}
