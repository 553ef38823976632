//! A lease queue with SQL of its own, and the mistakes that can be switched on in it, one at a time. Without a
//! mistake it keeps the contract; each mistake is one short deviation.

use std::cell::Cell;
use std::path::Path;

use ackward::port::{Fault, FaultPoint};
use ackward::rules::{
    Attempt, Attempts, Delay, Event, Lease, Millis, Name, Outcome, Qty, Status, Ticket, Token, Ttl,
};
use ackward::storage::{
    ClaimError, EnqueueError, Enqueued, FinishError, Finished, LeaseQueue, Now, OpenOptions, Queue,
    RedriveError, Released, Renewed, StorageError, Store,
};
use ackward_sim::scene::System;
use rusqlite::{Connection, OptionalExtension, params};

use super::flaw::Flaw;

thread_local! {
    static FLAW: Cell<Flaw> = const { Cell::new(Flaw::None) };
}

/// The mistake that every twin opened on this thread from now on makes.
pub fn make(flaw: Flaw) {
    FLAW.set(flaw);
}

/// Opens twins.
pub struct Twins;

impl System for Twins {
    type Queue = Twin;
    type Store = Store;

    fn open_queue(path: &Path, options: &OpenOptions) -> Result<Twin, StorageError> {
        Ok(Twin { real: Queue::open(path, options)?, flaw: FLAW.get() })
    }

    fn open_store(path: &Path, options: &OpenOptions) -> Result<Store, StorageError> {
        Store::open(path, options)
    }
}

/// One open twin. The real queue lends its connection, and does what no mistake concerns.
pub struct Twin {
    real: Queue,
    flaw: Flaw,
}

/// The columns of a job that claim needs.
struct Job {
    seq: i64,
    event: Event,
    attempts: i64,
    token: i64,
    deadline_ms: i64,
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
        self.real.renew(ticket, now, lease, fault)
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
    fn claim_inside(
        &self,
        owner: &Name,
        now: Now<'_>,
        lease: Lease,
        early: Option<Option<Job>>,
        fault: &mut dyn Fault,
    ) -> Result<Option<Ticket>, ClaimError> {
        let now = now()?;
        self.quarantine(now)?;
        let job = match early {
            Some(job) => job,
            None => self.first_eligible(now)?,
        };
        let Some(job) = job else { return Ok(None) };
        let lease_until_ms = (now.get() + lease.get()).min(job.deadline_ms);
        let (token, attempt) = (Token::new(job.token + 1)?, Attempt::new(job.attempts + 1)?);
        let ticket = Ticket::new(job.event, owner.clone(), token, attempt, lease_until_ms)?;
        let sql = "UPDATE jobs SET status = 'leased', attempts = ?2, token = ?3, owner = ?4, lease_until = ?5, \
                   reason = NULL WHERE seq = ?1";
        self.execute(sql, params![job.seq, attempt.get(), token.get(), owner.as_str(), lease_until_ms])?;
        fault.at(FaultPoint::AfterClaim)?;
        Ok(Some(ticket))
    }

    fn quarantine(&self, now: Millis) -> Result<(), StorageError> {
        let (dead, over) = (self.has_come(Flaw::LateDeadline), self.has_come(Flaw::LateExpiry));
        let sql = format!(
            "UPDATE jobs SET status = 'dead', reason = iif(deadline {dead} ?1, 'deadline', 'exhausted'), \
             owner = NULL, lease_until = NULL \
             WHERE (status = 'pending' OR (status = 'leased' AND lease_until {over} ?1)) \
             AND (deadline {dead} ?1 OR attempts >= max_attempts)"
        );
        self.execute(&sql, [now.get()])
    }

    fn first_eligible(&self, now: Millis) -> Result<Option<Job>, ClaimError> {
        let (ready, over) = (self.has_come(Flaw::LateAvailability), self.has_come(Flaw::LateExpiry));
        let sql = format!(
            "SELECT seq, id, qty, attempts, token, deadline FROM jobs \
             WHERE (status = 'pending' AND available_at {ready} ?1) OR (status = 'leased' AND lease_until {over} ?1) \
             ORDER BY seq LIMIT 1"
        );
        let mut statement = self.connection().prepare_cached(&sql).map_err(StorageError::from)?;
        let row = statement.query_row([now.get()], |row| {
            let id: String = row.get(1)?;
            Ok((row.get(0)?, id, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
        });
        let Some((seq, id, qty, attempts, token, deadline_ms)) =
            row.optional().map_err(StorageError::from)?
        else {
            return Ok(None);
        };
        let event = Event { id: Name::new("id", &id)?, qty: Qty::new(qty)? };
        Ok(Some(Job { seq, event, attempts, token, deadline_ms }))
    }

    fn finish_inside(
        &self,
        ticket: &Ticket,
        outcome: Outcome,
        now: Millis,
        delay: Delay,
        fault: &mut dyn Fault,
    ) -> Result<Finished, FinishError> {
        let Some((seq, attempts, max_attempts, deadline_ms)) = self.find_leased(ticket, now)? else {
            return Ok(Finished::Stale);
        };
        let again_ms = now.get() + delay.get();
        let is_too_late = if self.makes(Flaw::RetryAtTheDeadline) {
            again_ms > deadline_ms
        } else {
            again_ms >= deadline_ms
        };
        let (status, reason, available_ms) = match outcome {
            Outcome::Ok => (Status::Done, None, now.get()),
            Outcome::Permanent => (Status::Dead, Some("permanent"), now.get()),
            Outcome::Retry if attempts >= max_attempts => (Status::Dead, Some("exhausted"), now.get()),
            Outcome::Retry if is_too_late => (Status::Dead, Some("deadline"), now.get()),
            Outcome::Retry => (Status::Pending, Some("retry"), again_ms),
        };
        let sql = "UPDATE jobs SET status = ?2, reason = ?3, available_at = ?4, owner = NULL, lease_until = NULL \
                   WHERE seq = ?1";
        self.execute(sql, params![seq, status.as_str(), reason, available_ms])?;
        fault.at(FaultPoint::AfterFinish)?;
        Ok(Finished::Now(status))
    }

    /// The row that the ticket holds: seq, attempts, max_attempts, deadline.
    fn find_leased(
        &self,
        ticket: &Ticket,
        now: Millis,
    ) -> Result<Option<(i64, i64, i64, i64)>, StorageError> {
        let fields = match self.flaw {
            Flaw::FinishChecksTheOwnerOnly => "",
            _ => "AND qty = ?3 AND token = ?4 AND attempts = ?5 AND lease_until = ?6",
        };
        let time = match self.flaw {
            Flaw::FinishChecksTheOwnerOnly | Flaw::FinishIgnoresExpiry => "",
            Flaw::FinishAtTheLeasesEnd => "AND ?7 <= lease_until AND ?7 < deadline",
            _ => "AND ?7 < lease_until AND ?7 < deadline",
        };
        let sql = format!(
            "SELECT seq, attempts, max_attempts, deadline FROM jobs \
             WHERE id = ?1 AND status = 'leased' AND owner = ?2 {fields} {time} \
             AND coalesce(?3, ?4, ?5, ?6, ?7) IS NOT NULL"
        );
        let mut statement = self.connection().prepare_cached(&sql)?;
        let (qty, token, attempt) = (ticket.qty.get(), ticket.token.get(), ticket.attempt.get());
        let (id, owner) = (ticket.id.as_str(), ticket.owner.as_str());
        let given = params![id, owner, qty, token, attempt, ticket.lease_until_ms(), now.get()];
        let row = statement.query_row(given, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)));
        Ok(row.optional()?)
    }

    fn redrive_inside(
        &self,
        id: &Name,
        now: Millis,
        ttl: Ttl,
        note: &Name,
        fault: &mut dyn Fault,
    ) -> Result<(), RedriveError> {
        let (seq, token) = self.find_dead(id)?;
        let audit = "INSERT INTO redrives (id, token, at_ms, note) VALUES (?1, ?2, ?3, ?4)";
        self.execute(audit, params![id.as_str(), token, now.get(), note.as_str()])?;
        if self.makes(Flaw::AuditApart) {
            self.commit()?;
            self.begin()?;
        }
        fault.at(FaultPoint::AfterAudit)?;
        let token = if self.makes(Flaw::RedriveResetsTheToken) { 0 } else { token };
        let revive = "UPDATE jobs SET status = 'pending', attempts = 0, token = ?2, available_at = ?3, \
                      deadline = ?4, owner = NULL, lease_until = NULL, reason = NULL WHERE seq = ?1";
        self.execute(revive, params![seq, token, now.get(), now.get() + ttl.get()])?;
        Ok(fault.at(FaultPoint::AfterRedrive)?)
    }

    /// A dead job's seq and token.
    fn find_dead(&self, id: &Name) -> Result<(i64, i64), RedriveError> {
        let find = || -> rusqlite::Result<Option<(i64, String, i64)>> {
            let mut statement =
                self.connection().prepare_cached("SELECT seq, status, token FROM jobs WHERE id = ?1")?;
            statement.query_row([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()
        };
        let found = find().map_err(StorageError::from)?;
        let (seq, status, token) = found.ok_or_else(|| RedriveError::NoSuchJob { id: id.clone() })?;
        match Status::parse(&status)? {
            Status::Dead => Ok((seq, token)),
            status => Err(RedriveError::NotDead { id: id.clone(), status }),
        }
    }

    fn makes(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    /// How a time is compared with now to tell that it has come.
    fn has_come(&self, flaw: Flaw) -> &'static str {
        if self.makes(flaw) { "<" } else { "<=" }
    }

    fn connection(&self) -> &Connection {
        self.real.connection()
    }

    fn begin(&self) -> Result<(), StorageError> {
        self.run(if self.makes(Flaw::DeferredBegin) { "BEGIN" } else { "BEGIN IMMEDIATE" })
    }

    fn commit(&self) -> Result<(), StorageError> {
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

    fn execute(&self, sql: &str, params: impl rusqlite::Params) -> Result<(), StorageError> {
        self.connection().prepare_cached(sql)?.execute(params)?;
        Ok(())
    }
}
