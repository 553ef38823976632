//! The lease queue on SQLite: [`Queue`]. Each operation is one immediate transaction in a file of its own;
//! this file only binds them to the seam [`LeaseQueue`].
//!
//! Other programs may work on the same file by the same rules (M7), so nothing is remembered between two
//! operations but which bad rows have been logged.

mod claim;
mod due;
mod enqueue;
mod finish;
mod list;
mod open;
mod redrive;
mod row;

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::Connection;

use crate::port::Fault;
use crate::rules::{Attempts, Delay, Event, Lease, Millis, Name, Outcome, Status, Ticket, Ttl};

use super::{
    ClaimError, Durability, EnqueueError, Enqueued, FinishError, Finished, LeaseQueue, Now, OpenOptions,
    RedriveError, Released, Renewed, StorageError,
};

pub use list::JobRow;
pub use row::BadRow;

/// A queue file that is open.
#[derive(Debug)]
pub struct Queue {
    connection: Connection,
    durability: Durability,
    /// The rows, by seq, that were already logged as bad (M12): once each, not at every claim.
    logged: BTreeSet<i64>,
}

impl Queue {
    /// Opens the queue file at `path` and adds what it lacks of the two tables and their indexes; whatever
    /// rows exist stay (Q16 to Q19). A file to which nothing needs to be added is not written to.
    ///
    /// # Errors
    /// [`StorageError`]: no such directory, not a database, locked for over a second, a name clash, a path
    /// that is no file. The connection is closed.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, StorageError> {
        let connection = options.open(path)?;
        open::SCHEMA.ensure(&connection)?;
        options.settle(&connection)?;
        Ok(Self { connection, durability: options.durability(), logged: BTreeSet::new() })
    }

    /// The connection, to look at the file. Leave no transaction open on it, and change the tables through
    /// [`LeaseQueue`] only.
    #[must_use]
    pub const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Every job that breaks a range, by seq, at most `max` of them (M12). Reads the whole table.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn bad_rows(&self, max: usize) -> Result<Vec<BadRow>, StorageError> {
        row::find_bad(&self.connection, max)
    }

    /// Jobs as they are stored, by seq from after `after` on, at most `max` of them; where `status` is given,
    /// those only. It reads in one go, since a reader holds up whoever commits.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn list(&self, status: Option<Status>, after: i64, max: usize) -> Result<Vec<JobRow>, StorageError> {
        list::list(&self.connection, status, after, max)
    }
}

impl LeaseQueue for Queue {
    fn enqueue(
        &mut self,
        event: &Event,
        now: Millis,
        ttl: Ttl,
        max_attempts: Attempts,
    ) -> Result<Enqueued, EnqueueError> {
        enqueue::enqueue(&self.connection, event, now, ttl, max_attempts, self.durability)
    }

    fn claim_at(
        &mut self,
        owner: &Name,
        now: Now<'_>,
        lease: Lease,
        fault: &mut dyn Fault,
    ) -> Result<Option<Ticket>, ClaimError> {
        let mut log = row::Log { logged: &mut self.logged };
        claim::claim(&self.connection, owner, now, lease, fault, &mut log)
    }

    fn finish(
        &mut self,
        ticket: &Ticket,
        outcome: Outcome,
        now: Millis,
        delay: Delay,
        fault: &mut dyn Fault,
    ) -> Result<Finished, FinishError> {
        finish::finish(&self.connection, ticket, outcome, now, delay, fault)
    }

    fn redrive(
        &mut self,
        id: &Name,
        now: Millis,
        ttl: Ttl,
        note: &Name,
        fault: &mut dyn Fault,
    ) -> Result<(), RedriveError> {
        redrive::redrive(&self.connection, id, now, ttl, note, fault)
    }

    fn renew(
        &mut self,
        ticket: &Ticket,
        now: Now<'_>,
        lease: Lease,
        fault: &mut dyn Fault,
    ) -> Result<Renewed, ClaimError> {
        finish::renew(&self.connection, ticket, now, lease, fault)
    }

    fn release(
        &mut self,
        ticket: &Ticket,
        now: Millis,
        fault: &mut dyn Fault,
    ) -> Result<Released, FinishError> {
        finish::release(&self.connection, ticket, now, fault)
    }
}
