//! The lease queue on SQLite: [`Queue`]. Each operation is one immediate transaction in a file of its own;
//! this file only binds them to the seam [`LeaseQueue`].
//!
//! Other programs may work on the same file by the same rules (M7), so nothing is remembered between two
//! operations but which bad rows have been logged.

mod batch;
mod claim;
mod doctor;
mod due;
mod enqueue;
mod finish;
mod list;
mod open;
mod prune;
mod redrive;
mod row;
mod stats;

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::Connection;

use crate::port::Fault;
use crate::rules::{Attempts, Delay, Event, Lease, Millis, Name, Outcome, Ticket, Ttl};

use super::{
    ClaimError, Durability, EnqueueError, Enqueued, FinishError, FinishOrder, Finished, LeaseQueue, Now,
    OpenOptions, RedriveError, Released, Renewed, StorageError,
};

pub use doctor::Finding;
pub use list::{JobFilter, JobRow};
pub use prune::{PruneOptions, Pruned};
pub use row::BadRow;
pub use stats::{Depth, Stats};

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
        if options.is_read_only() {
            open::SCHEMA.check(&connection)?;
        } else {
            open::SCHEMA.ensure(&connection)?;
            open::ask_checks(&connection, false)?;
        }
        options.settle(&connection)?;
        Ok(Self { connection, durability: options.durability(), logged: BTreeSet::new() })
    }

    /// The connection, to look at the file. Leave no transaction open on it, and change the tables through
    /// [`LeaseQueue`] only.
    #[must_use]
    pub const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Every job that breaks a range, by seq, at most `max` of them (M12). Reads the whole table, in pieces.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn bad_rows(&self, max: usize) -> Result<Vec<BadRow>, StorageError> {
        doctor::bad_rows(&self.connection, max)
    }

    /// Jobs as they are stored, by seq from after `after` on, at most `max` of them; only those that `filter`
    /// lets through. It reads in pieces, since a reader holds up whoever commits; with others at work the pieces may
    /// belong to slightly different moments.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn list(&self, filter: &JobFilter, after: i64, max: usize) -> Result<Vec<JobRow>, StorageError> {
        list::list(&self.connection, filter, after, max)
    }

    /// The last jobs that `filter` lets through, the last one first, at most `max` of them. Reads back to where it has
    /// found so many, in pieces.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn list_last(&self, filter: &JobFilter, max: usize) -> Result<Vec<JobRow>, StorageError> {
        list::list_last(&self.connection, filter, max)
    }

    /// The jobs behind `after` that are not finished, by seq, as far as one short read goes: about `max` of those that wait,
    /// and those between them that are leased. The second value tells up to which seq it went, `i64::MAX` at the end.
    /// Costs no more when more jobs have finished, in a file that has its indexes.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn live(&self, after: i64, max: usize) -> Result<(Vec<JobRow>, i64), StorageError> {
        list::live(&self.connection, after, max)
    }

    /// A job as it is stored.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn find(&self, id: &Name) -> Result<Option<JobRow>, StorageError> {
        list::by_id(&self.connection, id)
    }

    /// A job as it is stored.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn find_seq(&self, seq: i64) -> Result<Option<JobRow>, StorageError> {
        list::by_seq(&self.connection, seq)
    }

    /// The newest audit rows, of one job or of all, at most `max` of them, the newest first.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn audit(&self, id: Option<&Name>, max: usize) -> Result<Vec<JobRow>, StorageError> {
        list::audit(&self.connection, id, max)
    }

    /// Counts all jobs. Reads the whole table, in pieces.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn stats(&self, now: Millis) -> Result<Stats, StorageError> {
        stats::stats(&self.connection, now)
    }

    /// Counts the jobs that are not finished; cheap, however many have finished.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn depth(&self) -> Result<Depth, StorageError> {
        stats::depth(&self.connection)
    }

    /// Removes the old ones among the `max` jobs behind `after`, in one transaction; see [`PruneOptions`]. `None` at
    /// the end of the table. An id that is removed can be enqueued anew, starts at token 0 then, and is a repeat
    /// to every inbox that knows it (part Y).
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn prune(
        &mut self,
        options: &PruneOptions,
        after: i64,
        max: usize,
    ) -> Result<Option<Pruned>, StorageError> {
        prune::prune(&self.connection, options, after, max)
    }

    /// What a redrive of this job would answer now; nothing changes.
    ///
    /// # Errors
    /// [`RedriveError`], but for that of a hook.
    pub fn check_redrive(&self, id: &Name, now: Millis, ttl: Ttl) -> Result<(), RedriveError> {
        redrive::check(&self.connection, id, now, ttl)
    }

    /// Looks for what should not be in the file (M12). Reads all of it: row by row in short reads, between which `rest` is
    /// called, so that others can commit meanwhile; but SQLite's own check of its pages is one long read, which holds up
    /// whoever commits. `quick` leaves that out. Damaged pages are a finding, and so is each check that they end.
    ///
    /// # Errors
    /// [`StorageError`]: the file cannot be looked at for another reason.
    pub fn examine(&self, quick: bool, rest: &mut dyn FnMut()) -> Result<Vec<Finding>, StorageError> {
        doctor::examine(&self.connection, quick, rest)
    }

    /// The latest time at which a job was done, in ms since 1970. Reads the whole table, in pieces, and calls `rest` between
    /// them.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn latest_ms(&self, rest: &mut dyn FnMut()) -> Result<Option<i64>, StorageError> {
        doctor::latest_ms(&self.connection, rest)
    }

    /// Puts right what [`examine`](Self::examine) calls mendable: leases without an end are over now, left-over
    /// owners are removed, tokens are raised to what the audit has seen. Returns the number of rows changed.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn mend(&mut self, now: Millis) -> Result<usize, StorageError> {
        doctor::mend(&self.connection, now)
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

    fn shares_transactions(&self) -> bool {
        true
    }

    fn enqueue_many(
        &mut self,
        events: &[Event],
        now: Millis,
        ttl: Ttl,
        max_attempts: Attempts,
    ) -> Vec<Result<Enqueued, EnqueueError>> {
        let durability = self.durability;
        let enqueued = enqueue::enqueue_many(&self.connection, events, now, ttl, max_attempts, durability);
        batch::answers(events.len(), enqueued)
    }

    fn claim_many(
        &mut self,
        owner: &Name,
        now: Now<'_>,
        lease: Lease,
        max: usize,
        fault: &mut dyn Fault,
    ) -> Result<Vec<Ticket>, ClaimError> {
        let mut log = row::Log { logged: &mut self.logged };
        claim::claim_many(&self.connection, owner, now, lease, max, fault, &mut log)
    }

    fn finish_many(
        &mut self,
        orders: &[FinishOrder],
        now: Millis,
        fault: &mut dyn Fault,
    ) -> Vec<Result<Finished, FinishError>> {
        batch::all(orders.len(), finish::finish_many(&self.connection, orders, now, fault))
    }

    fn release_many(
        &mut self,
        tickets: &[Ticket],
        now: Millis,
        fault: &mut dyn Fault,
    ) -> Vec<Result<Released, FinishError>> {
        batch::all(tickets.len(), finish::release_many(&self.connection, tickets, now, fault))
    }

    fn redrive_many(
        &mut self,
        ids: &[Name],
        now: Millis,
        ttl: Ttl,
        note: &Name,
        fault: &mut dyn Fault,
    ) -> Vec<Result<(), RedriveError>> {
        let redriven = redrive::redrive_many(&self.connection, ids, now, ttl, note, fault);
        batch::answers(ids.len(), redriven)
    }
}
