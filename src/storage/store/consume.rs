//! A line of the stream, applied and answered (R25, R26); and several lines in one transaction.

use rusqlite::Connection;

use super::super::StorageError;
use super::super::transaction::{Immediate, Savepoint};
use super::apply::{apply, settle};
use super::{Applied, ApplyError, Store};
use crate::port::Fault;
use crate::rules::{Invalid, Seq, ack_line, parse_line};

/// A line that is applied and committed, now or before; it can be acknowledged (R25).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Consumed {
    /// The event's number.
    pub seq: Seq,
    /// Whether it was new.
    pub applied: Applied,
}

impl Consumed {
    /// The acknowledgement: `ACK <seq>` and LF (R25).
    #[must_use]
    pub fn ack_line(self) -> String {
        ack_line(self.seq)
    }
}

/// Why a line gets no ACK (R26). Nothing of it is committed, unless the storage error says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum ConsumeError {
    /// The line is malformed (R3 to R5).
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Its event was not applied.
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

/// What became of several lines in one transaction.
#[derive(Debug)]
pub struct Batch {
    /// The lines that are committed, a prefix of what was given, in order: acknowledge these.
    pub consumed: Vec<Consumed>,
    /// Why the line after them failed, where one did; later lines were not looked at.
    pub error: Option<ConsumeError>,
}

impl Store {
    /// Reads a line and applies its event (R25). When this returns, other connections see the result.
    ///
    /// # Errors
    /// [`ConsumeError`]; then there is no ACK (R26).
    pub fn consume_line(&mut self, line: &[u8], fault: &mut dyn Fault) -> Result<Consumed, ConsumeError> {
        let event = parse_line(line)?;
        Ok(Consumed { seq: event.seq, applied: self.apply_event(event, fault)? })
    }

    /// Consumes several lines in one transaction, so that they share its syncs. A failing line is rolled back
    /// to its savepoint, and those before it are committed. Where the transaction itself fails, none is
    /// committed, or, after [`StorageError::CommitUnknown`], perhaps all.
    pub fn consume_lines<L: AsRef<[u8]>>(&mut self, lines: &[L], fault: &mut dyn Fault) -> Batch {
        if let [line] = lines {
            return Batch::of_one(self.consume_line(line.as_ref(), fault));
        }
        let transaction = match Immediate::begin(&self.connection) {
            Ok(transaction) => transaction,
            Err(error) => return Batch::failed(error),
        };
        let batch = prefix(&self.connection, lines, fault);
        if self.connection.is_autocommit() {
            // SQLite has rolled everything back by itself (disk full, I/O error).
            return Batch { consumed: Vec::new(), ..batch };
        }
        let Some(last) = batch.consumed.last() else {
            return batch;
        };
        let changed = batch.consumed.iter().any(|line| line.applied == Applied::New);
        match settle(transaction, changed, last.seq, &mut self.durable) {
            Ok(()) => batch,
            Err(error) => Batch::failed(error),
        }
    }
}

impl Batch {
    fn of_one(result: Result<Consumed, ConsumeError>) -> Self {
        match result {
            Ok(consumed) => Self { consumed: vec![consumed], error: None },
            Err(error) => Self { consumed: Vec::new(), error: Some(error) },
        }
    }

    fn failed(error: StorageError) -> Self {
        Self { consumed: Vec::new(), error: Some(ApplyError::Storage(error).into()) }
    }
}

/// Consumes lines up to the first that fails, which is taken back.
fn prefix<L: AsRef<[u8]>>(connection: &Connection, lines: &[L], fault: &mut dyn Fault) -> Batch {
    let mut consumed = Vec::with_capacity(lines.len());
    for line in lines {
        match consume(connection, line.as_ref(), fault) {
            Ok(line) => consumed.push(line),
            Err(error) => return Batch { consumed, error: Some(error) },
        }
    }
    Batch { consumed, error: None }
}

fn consume(connection: &Connection, line: &[u8], fault: &mut dyn Fault) -> Result<Consumed, ConsumeError> {
    let event = parse_line(line)?;
    let savepoint = Savepoint::begin(connection).map_err(ApplyError::from)?;
    let result = apply(connection, event, fault);
    let ended = savepoint.end(result.is_ok());
    let applied = result?;
    ended.map_err(ApplyError::from)?;
    Ok(Consumed { seq: event.seq, applied })
}
