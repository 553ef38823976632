//! One event, applied once (R13 to R19).

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params};

use super::super::StorageError;
use super::super::transaction::Immediate;
use super::{Store, state};
use crate::port::{Fault, FaultPoint, Injected};
use crate::rules::{Cursor, Invalid, Seq, StreamEvent};

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Applied {
    /// It was the next one and is applied now (R15).
    New,
    /// It had been applied before, with the same delta; nothing was changed (R16).
    Repeat,
}

/// Why an event was not applied. Nothing has changed and no transaction is open (R18), unless the storage
/// error says otherwise; after a hook's or a storage error the same event can be applied again.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// An event before this one is missing (R17). Ask the publisher for what follows `last`.
    #[error("event {seq} leaves a gap after {last}")]
    Gap {
        /// The refused event.
        seq: Seq,
        /// The last event applied.
        last: Cursor,
    },
    /// The event was applied with another content (R16), or its ledger row is missing (B4): publisher and
    /// store disagree about history, and a person must look.
    #[error("event {} has delta {}, the ledger {stored}", event.seq, event.delta)]
    Conflict {
        /// The refused event.
        event: StreamEvent,
        /// What the ledger holds for it, in words.
        stored: String,
    },
    /// A hook injected an error (R19).
    #[error(transparent)]
    Hook(#[from] Injected),
    /// SQLite failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl From<rusqlite::Error> for ApplyError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Storage(error.into())
    }
}

impl Store {
    /// Applies the next event, in one transaction: the ledger's row, the total, the hook
    /// [`BeforeCursor`](FaultPoint::BeforeCursor), the cursor, COMMIT (R15). A repeat changes nothing (R16).
    ///
    /// # Errors
    /// [`ApplyError`].
    pub fn apply_event(&mut self, event: StreamEvent, fault: &mut dyn Fault) -> Result<Applied, ApplyError> {
        let transaction = Immediate::begin(&self.connection)?;
        let applied = apply(&self.connection, event, fault)?;
        settle(transaction, applied == Applied::New, event.seq, &mut self.durable)?;
        Ok(applied)
    }
}

/// Ends a transaction whose events are about to be acknowledged. What was changed is committed; what was
/// only found there is committed anew, unless this connection has itself committed up to there: whoever applied
/// it may have been killed, or its COMMIT failed, after the journal was unlinked and before the directory was
/// synced, and a power cut would then take back what we acknowledge. `last` is the last event of the
/// transaction.
pub(super) fn settle(
    transaction: Immediate<'_>,
    changed: bool,
    last: Seq,
    durable: &mut Cursor,
) -> Result<(), StorageError> {
    if !changed && durable.covers(last) {
        return Ok(());
    }
    let last = if changed { last.into() } else { rewrite(transaction.connection())? };
    transaction.commit()?;
    *durable = last;
    Ok(())
}

/// Writes the checkpoint's row as it is, and returns the cursor. SQLite leaves out a write that changes
/// nothing, so there and back.
fn rewrite(connection: &Connection) -> Result<Cursor, StorageError> {
    let last = state(connection)?.last;
    let mut update = connection.prepare_cached(UPDATE_LAST)?;
    update.execute([last.get() ^ 1])?;
    update.execute([last.get()])?;
    Ok(last)
}

const UPDATE_LAST: &str = "UPDATE checkpoint SET last = ?1 WHERE id = 1";
pub(super) const SELECT_DELTA: &str = "SELECT delta FROM ledger WHERE seq = ?1";

/// Applies an event inside the transaction that is open. After an error the caller takes it back.
pub(super) fn apply(
    connection: &Connection,
    event: StreamEvent,
    fault: &mut dyn Fault,
) -> Result<Applied, ApplyError> {
    let state = state(connection)?;
    if state.last.covers(event.seq) {
        return repeat(connection, event);
    }
    if state.last.next() != Some(event.seq) {
        return Err(ApplyError::Gap { seq: event.seq, last: state.last });
    }
    let Some(total) = state.total.checked_add(event.delta.get()) else {
        let refused = Invalid::new("total", state.total, "a sum that stays within 64 bits");
        return Err(StorageError::Row(refused).into());
    };
    let (seq, delta) = (event.seq.get(), event.delta.get());
    connection.prepare_cached("INSERT INTO ledger(seq, delta) VALUES (?1, ?2)")?.execute([seq, delta])?;
    connection.prepare_cached("UPDATE checkpoint SET total = ?1 WHERE id = 1")?.execute([total])?;
    fault.at(FaultPoint::BeforeCursor)?;
    connection.prepare_cached(UPDATE_LAST)?.execute([seq])?;
    Ok(Applied::New)
}

/// Compares with the ledger (R16, B4).
fn repeat(connection: &Connection, event: StreamEvent) -> Result<Applied, ApplyError> {
    let stored: Option<Value> = connection
        .prepare_cached(SELECT_DELTA)?
        .query_row(params![event.seq.get()], |row| row.get(0))
        .optional()?;
    let stored = match stored {
        Some(Value::Integer(delta)) if delta == event.delta.get() => return Ok(Applied::Repeat),
        Some(Value::Integer(delta)) => format!("has {delta}"),
        Some(other) => format!("has a value of type {}", other.data_type()),
        None => "has no row for it".to_owned(),
    };
    Err(ApplyError::Conflict { event, stored })
}
