//! What a twin does inside its transactions, mistakes included.

use ackward::port::{Fault, FaultPoint};
use ackward::rules::{Attempt, Delay, Event, Lease, Millis, Name, Outcome, Qty, Status, Ticket, Token, Ttl};
use ackward::storage::{ClaimError, FinishError, Finished, Now, RedriveError, StorageError};
use rusqlite::{OptionalExtension, params};

use super::queue::Twin;
use crate::scenario::Flaw;

/// The columns of a job that claim needs.
pub(super) struct Job {
    seq: i64,
    event: Event,
    attempts: i64,
    token: i64,
    deadline_ms: i64,
}

impl Twin {
    pub(super) fn claim_inside(
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

    pub(super) fn first_eligible(&self, now: Millis) -> Result<Option<Job>, ClaimError> {
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

    pub(super) fn finish_inside(
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
        // The last condition is always true: it makes SQLite accept a value for every parameter.
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

    pub(super) fn redrive_inside(
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
}
