//! The consumer's store as a seam: [`EventStore`] is what the shells drive, and what a wrapper or a deliberately
//! broken store implements.

use super::store::{Applied, ApplyError, Batch, ConsumeError, Consumed, State};
use super::{StorageError, Store};
use crate::port::Fault;
use crate::rules::{StreamEvent, parse_line};

/// A store of events: each takes effect once, in order, together with the cursor.
pub trait EventStore {
    /// The last event and the total (R12).
    ///
    /// # Errors
    /// [`StorageError`].
    fn state(&self) -> Result<State, StorageError>;

    /// Applies one event in a transaction of its own (R14 to R19).
    ///
    /// # Errors
    /// [`ApplyError`].
    fn apply_event(&mut self, event: StreamEvent, fault: &mut dyn Fault) -> Result<Applied, ApplyError>;

    /// Reads a line and applies its event (R25). When this returns, other connections see the result.
    ///
    /// # Errors
    /// [`ConsumeError`]; then there is no ACK (R26).
    fn consume_line(&mut self, line: &[u8], fault: &mut dyn Fault) -> Result<Consumed, ConsumeError> {
        let event = parse_line(line)?;
        Ok(Consumed { seq: event.seq, applied: self.apply_event(event, fault)? })
    }

    /// Consumes several lines in one transaction; see [`Store::consume_lines`].
    fn consume_lines<L: AsRef<[u8]>>(&mut self, lines: &[L], fault: &mut dyn Fault) -> Batch;
}

impl EventStore for Store {
    fn state(&self) -> Result<State, StorageError> {
        self.state()
    }

    fn apply_event(&mut self, event: StreamEvent, fault: &mut dyn Fault) -> Result<Applied, ApplyError> {
        self.apply_event(event, fault)
    }

    fn consume_line(&mut self, line: &[u8], fault: &mut dyn Fault) -> Result<Consumed, ConsumeError> {
        self.consume_line(line, fault)
    }

    fn consume_lines<L: AsRef<[u8]>>(&mut self, lines: &[L], fault: &mut dyn Fault) -> Batch {
        self.consume_lines(lines, fault)
    }
}
