//! Variants of the twins: the same mistakes in code that has changed elsewhere.

use std::marker::PhantomData;
use std::path::Path;

use ackward::port::{Fault, FaultPoint};
use ackward::rules::{Attempts, Delay, Event, Lease, Millis, Name, Outcome, Status, Ticket, Ttl};
use ackward::shell::Sender;
use ackward::storage::{
    ClaimError, EnqueueError, Enqueued, FinishError, Finished, LeaseQueue, Now, OpenOptions, RedriveError,
    Released, Renewed, StorageError,
};
use ackward_sim::computer::Context;
use ackward_sim::scene::{Stage, System};
use ackward_sim::twin::{InboxTwin, Twin, Twins};
use rusqlite::{Connection, OptionalExtension, params};

/// A change that has nothing to do with the mistake.
pub trait Varied: 'static {
    /// What is done once the file is open.
    fn opened(_connection: &Connection) -> rusqlite::Result<()> {
        Ok(())
    }

    /// What is done before a transaction.
    fn before(_connection: &Connection) -> rusqlite::Result<()> {
        Ok(())
    }

    /// Whether finish is written anew.
    const RENAMES: bool = false;
}

/// No change.
pub struct Plain;
/// An index more.
pub struct Index;
/// A statement more before each transaction.
pub struct Statement;
/// finish with a query whose columns have other names.
pub struct Renamed;

impl Varied for Plain {}

impl Varied for Index {
    fn opened(connection: &Connection) -> rusqlite::Result<()> {
        connection.execute_batch("CREATE INDEX IF NOT EXISTS jobs_by_qty ON jobs (qty, available_at)")
    }
}

impl Varied for Statement {
    fn before(connection: &Connection) -> rusqlite::Result<()> {
        let sql = "SELECT count(*) FROM jobs WHERE status = 'dead'";
        connection.prepare_cached(sql)?.query_row([], |row| row.get(0)).map(|_: i64| ())
    }
}

impl Varied for Renamed {
    const RENAMES: bool = true;
}

/// The twins with a change.
pub struct Variant<V>(PhantomData<V>);

impl<V: Varied> System for Variant<V> {
    type Queue = Changed<V>;
    type Inbox = InboxTwin;
    type Store = <Twins as System>::Store;

    fn open_queue(path: &Path, options: &OpenOptions) -> Result<Changed<V>, StorageError> {
        let twin = Twins::open_queue(path, options)?;
        V::opened(twin.connection())?;
        Ok(Changed { twin, change: PhantomData })
    }

    fn open_inbox(path: &Path, options: &OpenOptions) -> Result<InboxTwin, StorageError> {
        Twins::open_inbox(path, options)
    }

    fn open_store(path: &Path, options: &OpenOptions) -> Result<<Twins as System>::Store, StorageError> {
        Twins::open_store(path, options)
    }

    fn sender(context: &Context, stage: &Stage) -> impl Sender {
        Twins::sender(context, stage)
    }
}

/// A twin with a change.
pub struct Changed<V> {
    twin: Twin,
    change: PhantomData<V>,
}

impl<V: Varied> Changed<V> {
    fn before(&self) -> Result<(), StorageError> {
        Ok(V::before(self.twin.connection())?)
    }

    /// finish without a mistake (Q35 to Q39), in one statement less and under other names than the twin's.
    fn finish_renamed(
        &self,
        ticket: &Ticket,
        outcome: Outcome,
        now: Millis,
        delay: Delay,
        fault: &mut dyn Fault,
    ) -> Result<Finished, FinishError> {
        let connection = self.twin.connection();
        let sql = "SELECT j.seq AS number, j.attempts AS tries, j.max_attempts AS budget, j.deadline AS until \
                   FROM jobs AS j WHERE j.id = ?1 AND j.status = 'leased' AND j.owner = ?2 AND j.token = ?3 \
                   AND j.qty = ?4 AND j.attempts = ?5 AND j.lease_until = ?6 AND ?7 < j.lease_until AND ?7 < j.deadline";
        let given = params![
            ticket.id.as_str(),
            ticket.owner.as_str(),
            ticket.token.get(),
            ticket.qty.get(),
            ticket.attempt.get(),
            ticket.lease_until_ms(),
            now.get()
        ];
        let find = || -> rusqlite::Result<Option<(i64, i64, i64, i64)>> {
            let mut statement = connection.prepare_cached(sql)?;
            let row = statement.query_row(given, |row| {
                Ok((row.get("number")?, row.get("tries")?, row.get("budget")?, row.get("until")?))
            });
            row.optional()
        };
        let Some((number, tries, budget, until)) = find().map_err(StorageError::from)? else {
            return Ok(Finished::Stale);
        };
        let again = now.get() + delay.get();
        let (status, reason, available) = match outcome {
            Outcome::Ok => (Status::Done, None, now.get()),
            Outcome::Permanent => (Status::Dead, Some("permanent"), now.get()),
            Outcome::Retry if tries >= budget => (Status::Dead, Some("exhausted"), now.get()),
            Outcome::Retry if again >= until => (Status::Dead, Some("deadline"), now.get()),
            Outcome::Retry => (Status::Pending, Some("retry"), again),
        };
        let sql = "UPDATE jobs SET reason = ?3, available_at = ?4, status = ?2, lease_until = NULL, owner = NULL \
                   WHERE seq = ?1";
        let update =
            || connection.prepare_cached(sql)?.execute(params![number, status.as_str(), reason, available]);
        update().map_err(StorageError::from)?;
        fault.at(FaultPoint::AfterFinish)?;
        Ok(Finished::Now(status))
    }
}

impl<V: Varied> LeaseQueue for Changed<V> {
    fn enqueue(
        &mut self,
        event: &Event,
        now: Millis,
        ttl: Ttl,
        max_attempts: Attempts,
    ) -> Result<Enqueued, EnqueueError> {
        self.before()?;
        self.twin.enqueue(event, now, ttl, max_attempts)
    }

    fn claim_at(
        &mut self,
        owner: &Name,
        now: Now<'_>,
        lease: Lease,
        fault: &mut dyn Fault,
    ) -> Result<Option<Ticket>, ClaimError> {
        self.before()?;
        self.twin.claim_at(owner, now, lease, fault)
    }

    fn finish(
        &mut self,
        ticket: &Ticket,
        outcome: Outcome,
        now: Millis,
        delay: Delay,
        fault: &mut dyn Fault,
    ) -> Result<Finished, FinishError> {
        self.before()?;
        if !V::RENAMES {
            return self.twin.finish(ticket, outcome, now, delay, fault);
        }
        let run = |sql: &str| Ok::<_, StorageError>(self.twin.connection().execute_batch(sql)?);
        run("BEGIN IMMEDIATE")?;
        let finished = self.finish_renamed(ticket, outcome, now, delay, fault);
        if finished.is_err() && !self.twin.connection().is_autocommit() {
            run("ROLLBACK")?;
        }
        let finished = finished?;
        run("COMMIT")?;
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
        self.before()?;
        self.twin.redrive(id, now, ttl, note, fault)
    }

    fn renew(
        &mut self,
        ticket: &Ticket,
        now: Now<'_>,
        lease: Lease,
        fault: &mut dyn Fault,
    ) -> Result<Renewed, ClaimError> {
        self.before()?;
        self.twin.renew(ticket, now, lease, fault)
    }

    fn release(
        &mut self,
        ticket: &Ticket,
        now: Millis,
        fault: &mut dyn Fault,
    ) -> Result<Released, FinishError> {
        self.before()?;
        self.twin.release(ticket, now, fault)
    }
}
