//! A consumer's store that keeps the contract by the real one's code, except where a mistake is switched on.

use std::path::Path;

use ackward::port::{Fault, FaultPoint};
use ackward::rules::StreamEvent;
use ackward::storage::{Applied, ApplyError, Batch, EventStore, OpenOptions, State, StorageError, Store};

use crate::scenario::Flaw;
use crate::twin::makes;

const LEDGER: &str = "INSERT INTO ledger(seq, delta) VALUES (?1, ?2)";
const TOTAL: &str = "UPDATE checkpoint SET total = total + ?1 WHERE id = 1";
const CURSOR: &str = "UPDATE checkpoint SET last = ?1 WHERE id = 1";

/// An open twin of [`Store`].
pub struct StoreTwin(Store);

impl StoreTwin {
    /// Opens the file as the real store does.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, StorageError> {
        Store::open(path, options).map(Self)
    }

    /// Two transactions where one is due.
    fn apply_in_two(&self, event: StreamEvent, fault: &mut dyn Fault) -> Result<Applied, ApplyError> {
        let (seq, delta) = (event.seq.get(), event.delta.get());
        self.commit(|| self.run(CURSOR, [seq]))?;
        fault.at(FaultPoint::BeforeCursor)?;
        self.commit(|| {
            self.run(LEDGER, [seq, delta])?;
            self.run(TOTAL, [delta])
        })?;
        Ok(Applied::New)
    }

    /// As an async function that is dropped while it waits for its BEGIN: nothing after that is done, no ROLLBACK either.
    fn apply_unless_given_up(
        &self,
        event: StreamEvent,
        fault: &mut dyn Fault,
    ) -> Result<Applied, ApplyError> {
        let (seq, delta) = (event.seq.get(), event.delta.get());
        self.run("BEGIN IMMEDIATE", [])?;
        fault.at(FaultPoint::BeforeCursor)?;
        self.end(|| {
            self.run(LEDGER, [seq, delta])?;
            self.run(TOTAL, [delta])?;
            self.run(CURSOR, [seq])
        })?;
        Ok(Applied::New)
    }

    /// As if there were no gap.
    fn apply_beyond(&self, event: StreamEvent) -> Result<Applied, ApplyError> {
        let (seq, delta) = (event.seq.get(), event.delta.get());
        self.commit(|| {
            self.run(LEDGER, [seq, delta])?;
            self.run(TOTAL, [delta])?;
            self.run(CURSOR, [seq])
        })?;
        Ok(Applied::New)
    }

    /// Compares with the ledger, and writes nothing.
    fn has_applied(&self, event: StreamEvent) -> Result<bool, StorageError> {
        let mut count = 0_i64;
        self.commit(|| {
            let same = "SELECT count(*) FROM ledger WHERE seq = ?1 AND delta = ?2";
            let mut statement = self.0.connection().prepare_cached(same)?;
            count = statement.query_row([event.seq.get(), event.delta.get()], |row| row.get(0))?;
            Ok(())
        })?;
        Ok(count > 0)
    }

    fn commit(&self, body: impl FnOnce() -> Result<(), StorageError>) -> Result<(), StorageError> {
        self.run("BEGIN IMMEDIATE", [])?;
        self.end(body)
    }

    /// A transaction from after its BEGIN on.
    fn end(&self, body: impl FnOnce() -> Result<(), StorageError>) -> Result<(), StorageError> {
        let done = body().and_then(|()| self.run("COMMIT", []));
        if done.is_err() && !self.0.connection().is_autocommit() {
            let _ = self.run("ROLLBACK", []);
        }
        done
    }

    fn run(&self, sql: &str, params: impl rusqlite::Params) -> Result<(), StorageError> {
        self.0.connection().prepare_cached(sql)?.execute(params)?;
        Ok(())
    }
}

impl EventStore for StoreTwin {
    fn state(&self) -> Result<State, StorageError> {
        self.0.state()
    }

    fn apply_event(&mut self, event: StreamEvent, fault: &mut dyn Fault) -> Result<Applied, ApplyError> {
        if makes(Flaw::CursorBeforeTheLedger) && self.0.state()?.last.next() == Some(event.seq) {
            return self.apply_in_two(event, fault);
        }
        if makes(Flaw::CancelledBeginStaysOpen) && self.0.state()?.last.next() == Some(event.seq) {
            return self.apply_unless_given_up(event, fault);
        }
        if makes(Flaw::RepeatUnsynced) && self.has_applied(event)? {
            return Ok(Applied::Repeat);
        }
        match self.0.apply_event(event, fault) {
            Err(ApplyError::Gap { .. }) if makes(Flaw::GapSkipped) || makes(Flaw::AckPastWork) => {
                self.apply_beyond(event)
            }
            Err(ApplyError::Gap { .. }) if makes(Flaw::CursorPassesOverAGap) => {
                self.commit(|| self.run(CURSOR, [event.seq.get()]))?;
                Ok(Applied::New)
            }
            Err(ApplyError::Conflict { .. }) if makes(Flaw::RepeatUnchecked) => Ok(Applied::Repeat),
            result => result,
        }
    }

    /// The twins' consumer has one line at a time.
    fn consume_lines<L: AsRef<[u8]>>(&mut self, lines: &[L], fault: &mut dyn Fault) -> Batch {
        let [line] = lines else { return self.0.consume_lines(lines, fault) };
        match self.consume_line(line.as_ref(), fault) {
            Ok(consumed) => Batch { consumed: vec![consumed], error: None },
            Err(error) => Batch { consumed: Vec::new(), error: Some(error) },
        }
    }
}
