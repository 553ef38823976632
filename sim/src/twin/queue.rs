//! A lease queue with SQL of its own, and the mistakes that can be switched on in it, one at a time. Without a
//! mistake it keeps the contract; each mistake is one short deviation.

mod batch;
mod claim;
mod enqueue;
mod finish;
mod redrive;
mod renew;

use std::path::Path;

use ackward::port::Fault;
use ackward::rules::{Attempts, Delay, Event, Lease, Millis, Name, Outcome, Ticket, Ttl};
use ackward::storage::{
    ClaimError, EnqueueError, Enqueued, FinishError, FinishOrder, Finished, LeaseQueue, Now, OpenOptions,
    Queue, RedriveError, Released, Renewed, StorageError,
};
use rusqlite::{Connection, ErrorCode};

use crate::scenario::Flaw;

/// How often a statement that met a lock is tried again, with the mistake of doing so.
const TRIES: usize = 3;

/// One open twin. The real queue lends its connection, and does what no mistake concerns.
pub struct Twin {
    real: Queue,
    flaw: Flaw,
    /// The numbers of the jobs that this connection has claimed.
    claimed: Vec<i64>,
    /// Whether it has looked for a job before.
    has_claimed: bool,
}

impl LeaseQueue for Twin {
    fn claim_at(
        &mut self,
        owner: &Name,
        now: Now<'_>,
        lease: Lease,
        fault: &mut dyn Fault,
    ) -> Result<Option<Ticket>, ClaimError> {
        let claimed = self.claim_somehow(owner, now, lease, fault);
        self.has_claimed = true;
        claimed
    }

    fn finish(
        &mut self,
        ticket: &Ticket,
        outcome: Outcome,
        now: Millis,
        delay: Delay,
        fault: &mut dyn Fault,
    ) -> Result<Finished, FinishError> {
        self.finish_somehow(ticket, outcome, now, delay, fault)
    }

    fn redrive(
        &mut self,
        id: &Name,
        now: Millis,
        ttl: Ttl,
        note: &Name,
        fault: &mut dyn Fault,
    ) -> Result<(), RedriveError> {
        self.redrive_somehow(id, now, ttl, note, fault)
    }

    fn enqueue(
        &mut self,
        event: &Event,
        now: Millis,
        ttl: Ttl,
        max: Attempts,
    ) -> Result<Enqueued, EnqueueError> {
        self.enqueue_somehow(event, now, ttl, max)
    }

    fn renew(
        &mut self,
        ticket: &Ticket,
        now: Now<'_>,
        lease: Lease,
        fault: &mut dyn Fault,
    ) -> Result<Renewed, ClaimError> {
        self.renew_somehow(ticket, now, lease, fault)
    }

    fn release(
        &mut self,
        ticket: &Ticket,
        now: Millis,
        fault: &mut dyn Fault,
    ) -> Result<Released, FinishError> {
        self.real.release(ticket, now, fault)
    }

    fn shares_transactions(&self) -> bool {
        self.makes(Flaw::None) || self.is_wrong_with_batches()
    }

    fn claim_many(
        &mut self,
        owner: &Name,
        now: Now<'_>,
        lease: Lease,
        max: usize,
        fault: &mut dyn Fault,
    ) -> Result<Vec<Ticket>, ClaimError> {
        self.claim_many_somehow(owner, now, lease, max, fault)
    }

    fn finish_many(
        &mut self,
        orders: &[FinishOrder],
        now: Millis,
        fault: &mut dyn Fault,
    ) -> Vec<Result<Finished, FinishError>> {
        self.finish_many_somehow(orders, now, fault)
    }

    fn release_many(
        &mut self,
        tickets: &[Ticket],
        now: Millis,
        fault: &mut dyn Fault,
    ) -> Vec<Result<Released, FinishError>> {
        self.real.release_many(tickets, now, fault)
    }
}

impl Twin {
    /// Opens the file as the real queue does, and makes one mistake from now on.
    ///
    /// # Errors
    /// As [`Queue::open`].
    pub fn open(path: &Path, options: &OpenOptions, flaw: Flaw) -> Result<Self, StorageError> {
        let twin = Self { real: Queue::open(path, options)?, flaw, claimed: Vec::new(), has_claimed: false };
        if twin.makes(Flaw::NothingIsSynced) {
            twin.connection().execute_batch("PRAGMA synchronous = OFF")?;
        }
        Ok(twin)
    }

    fn makes(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    /// How a time is compared with now to tell that it has come.
    fn has_come(&self, flaw: Flaw) -> &'static str {
        if self.makes(flaw) { "<" } else { "<=" }
    }

    /// The connection, for a variant of a twin that looks at its file by itself.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        self.real.connection()
    }

    fn begin(&self) -> Result<(), StorageError> {
        let is_deferred = matches!(self.flaw, Flaw::DeferredBegin | Flaw::StatementTriedAgain);
        self.run(if is_deferred { "BEGIN" } else { "BEGIN IMMEDIATE" })
    }

    /// Commits; on failure nothing stays open.
    fn commit(&self) -> Result<(), StorageError> {
        let Err(error) = self.run("COMMIT") else { return Ok(()) };
        if self.makes(Flaw::BusyCommitCountsAsDone) && error.is_busy() {
            return Ok(());
        }
        let is_unknown = self.connection().is_autocommit();
        self.roll_back()?;
        match error {
            _ if self.makes(Flaw::FailedCommitCountsAsDone) => Ok(()),
            StorageError::Sqlite(error) if is_unknown && !self.makes(Flaw::UnknownCommitCountsAsFailed) => {
                Err(StorageError::CommitUnknown(error))
            }
            error => Err(error),
        }
    }

    /// Runs a transaction's body: on an error nothing of it remains.
    fn inside<T, E: From<StorageError>>(&self, body: Result<T, E>) -> Result<T, E> {
        if body.is_err() {
            self.roll_back()?;
        }
        body
    }

    /// Rolls back what SQLite has not rolled back by itself.
    fn roll_back(&self) -> Result<(), StorageError> {
        if self.makes(Flaw::RollbackHidesTheError) {
            return self.run("ROLLBACK");
        }
        if !self.connection().is_autocommit() {
            let _ = self.run("ROLLBACK");
        }
        Ok(())
    }

    fn run(&self, sql: &str) -> Result<(), StorageError> {
        self.execute(sql, [])
    }

    fn execute(&self, sql: &str, params: impl rusqlite::Params + Clone) -> Result<(), StorageError> {
        let mut statement = self.connection().prepare_cached(sql)?;
        let mut executed = statement.execute(params.clone());
        for _ in 0..TRIES {
            let is_busy = executed.as_ref().err().and_then(rusqlite::Error::sqlite_error_code)
                == Some(ErrorCode::DatabaseBusy);
            if is_busy && self.makes(Flaw::StatementTriedAgain) {
                executed = statement.execute(params.clone());
            }
        }
        executed?;
        Ok(())
    }
}
