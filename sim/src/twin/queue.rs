//! A lease queue with SQL of its own, and the mistakes that can be switched on in it, one at a time. Without a
//! mistake it keeps the contract; each mistake is one short deviation.

use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use ackward::port::{Fault, FaultPoint};
use ackward::rules::{Attempts, Delay, Event, Lease, Millis, Name, Outcome, Ticket, Ttl};
use ackward::shell::Sender;
use ackward::storage::{
    ClaimError, EnqueueError, Enqueued, FinishError, Finished, Inbox, LeaseQueue, Now, OpenOptions, Queue,
    RedriveError, Released, Renewed, StorageError, Store,
};
use rusqlite::Connection;

use super::inbox::InboxTwin;
use super::sender::SenderTwin;
use crate::computer::{Context, current};
use crate::scenario::Flaw;
use crate::scene::{Stage, System, http_sender};

thread_local! {
    static FLAW: Cell<Flaw> = const { Cell::new(Flaw::None) };
}

/// The mistake that every twin opened on this thread from now on makes.
pub fn make(flaw: Flaw) {
    FLAW.set(flaw);
}

/// Opens twins.
#[derive(Debug, Clone, Copy)]
pub struct Twins;

impl System for Twins {
    type Queue = Twin;
    type Inbox = InboxTwin;
    type Store = Store;

    fn open_queue(path: &Path, options: &OpenOptions) -> Result<Twin, StorageError> {
        leak();
        Ok(Twin { real: Queue::open(path, options)?, flaw: FLAW.get() })
    }

    fn open_inbox(path: &Path, options: &OpenOptions) -> Result<InboxTwin, StorageError> {
        Ok(InboxTwin { real: Inbox::open(path, options)?, flaw: FLAW.get() })
    }

    fn sender(context: &Context, stage: &Stage) -> impl Sender {
        SenderTwin { real: http_sender(context, stage), flaw: FLAW.get() }
    }

    fn open_store(path: &Path, options: &OpenOptions) -> Result<Store, StorageError> {
        Store::open(path, options)
    }
}

/// What outlives a run, where that is the mistake.
fn leak() {
    static OPENED: AtomicU64 = AtomicU64::new(0);
    let opened = OPENED.fetch_add(1, Ordering::Relaxed);
    if let (Flaw::LeaksBetweenRuns, Some(world)) = (FLAW.get(), current()) {
        world.fold(opened);
        world.note(|| format!("opens queue {opened} of this OS process"));
    }
}

/// One open twin. The real queue lends its connection, and does what no mistake concerns.
pub struct Twin {
    real: Queue,
    pub(super) flaw: Flaw,
}

impl LeaseQueue for Twin {
    fn claim_at(
        &mut self,
        owner: &Name,
        now: Now<'_>,
        lease: Lease,
        fault: &mut dyn Fault,
    ) -> Result<Option<Ticket>, ClaimError> {
        let mut early = None;
        if self.makes(Flaw::SelectOutsideTheTransaction) {
            early = Some(self.first_eligible(now()?)?);
        }
        self.begin()?;
        let claimed = self.claim_inside(owner, now, lease, early, fault);
        let ticket = self.rolled_back_on_error(claimed)?;
        if ticket.is_none() && self.makes(Flaw::QuarantineRolledBack) {
            self.run("ROLLBACK")?;
            return Ok(None);
        }
        if ticket.is_some() && self.makes(Flaw::LockHeldWhileSending) {
            return Ok(ticket);
        }
        self.commit()?;
        if ticket.is_some() {
            fault.at(FaultPoint::AfterCommit)?;
        }
        Ok(ticket)
    }

    fn finish(
        &mut self,
        ticket: &Ticket,
        outcome: Outcome,
        now: Millis,
        delay: Delay,
        fault: &mut dyn Fault,
    ) -> Result<Finished, FinishError> {
        if !self.makes(Flaw::LockHeldWhileSending) {
            self.begin()?;
        }
        let finished = self.finish_inside(ticket, outcome, now, delay, fault);
        let finished = self.rolled_back_on_error(finished)?;
        self.commit()?;
        if finished != Finished::Stale {
            fault.at(FaultPoint::AfterCommit)?;
        }
        Ok(finished)
    }

    fn redrive(
        &mut self,
        id: &Name,
        now: Millis,
        ttl: Ttl,
        note: &Name,
        fault: &mut dyn Fault,
    ) -> Result<(), RedriveError> {
        self.begin()?;
        let redriven = self.redrive_inside(id, now, ttl, note, fault);
        self.rolled_back_on_error(redriven)?;
        self.commit()?;
        Ok(fault.at(FaultPoint::AfterCommit)?)
    }

    fn enqueue(
        &mut self,
        event: &Event,
        now: Millis,
        ttl: Ttl,
        max: Attempts,
    ) -> Result<Enqueued, EnqueueError> {
        self.real.enqueue(event, now, ttl, max)
    }

    fn renew(
        &mut self,
        ticket: &Ticket,
        now: Now<'_>,
        lease: Lease,
        fault: &mut dyn Fault,
    ) -> Result<Renewed, ClaimError> {
        match self.flaw {
            Flaw::RenewalIgnoresTheToken => {
                self.begin()?;
                let renewed = self.renew_inside(ticket, now, lease, fault);
                let renewed = self.rolled_back_on_error(renewed)?;
                self.commit()?;
                Ok(renewed)
            }
            Flaw::RenewalReadsTheClockFirst => {
                let read = now()?;
                self.real.renew(ticket, &mut || Ok(read), lease, fault)
            }
            _ => self.real.renew(ticket, now, lease, fault),
        }
    }

    fn release(
        &mut self,
        ticket: &Ticket,
        now: Millis,
        fault: &mut dyn Fault,
    ) -> Result<Released, FinishError> {
        self.real.release(ticket, now, fault)
    }
}

impl Twin {
    pub(super) fn makes(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    /// How a time is compared with now to tell that it has come.
    pub(super) fn has_come(&self, flaw: Flaw) -> &'static str {
        if self.makes(flaw) { "<" } else { "<=" }
    }

    /// The connection, for a variant of a twin that looks at its file by itself.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        self.real.connection()
    }

    pub(super) fn begin(&self) -> Result<(), StorageError> {
        self.run(if self.makes(Flaw::DeferredBegin) { "BEGIN" } else { "BEGIN IMMEDIATE" })
    }

    pub(super) fn commit(&self) -> Result<(), StorageError> {
        let Err(error) = self.run("COMMIT") else { return Ok(()) };
        if !self.connection().is_autocommit() {
            let _ = self.run("ROLLBACK");
            return Err(error);
        }
        Err(match error {
            StorageError::Sqlite(error) => StorageError::CommitUnknown(error),
            other => other,
        })
    }

    fn rolled_back_on_error<T, E>(&self, result: Result<T, E>) -> Result<T, E> {
        if result.is_err() && !self.connection().is_autocommit() {
            let _ = self.run("ROLLBACK");
        }
        result
    }

    fn run(&self, sql: &str) -> Result<(), StorageError> {
        self.execute(sql, [])
    }

    pub(super) fn execute(&self, sql: &str, params: impl rusqlite::Params) -> Result<(), StorageError> {
        self.connection().prepare_cached(sql)?.execute(params)?;
        Ok(())
    }
}
