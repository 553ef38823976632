//! How a twin claims, mistakes included.

use ackward::port::{Fault, FaultPoint};
use ackward::rules::{Attempt, Event, Lease, Limits, Millis, Name, Qty, Ticket, Token};
use ackward::storage::{ClaimError, Now, StorageError};
use rusqlite::{OptionalExtension, params};

use super::Twin;
use crate::scenario::Flaw;

/// After so many ms a job counts as lost for whoever goes by the time since it became available.
const RESCUE_AFTER_MS: i64 = 300;

/// The columns of a job that claim needs.
pub(super) struct Job {
    seq: i64,
    event: Event,
    attempts: i64,
    token: i64,
    deadline_ms: i64,
    is_leased: bool,
}

impl Twin {
    pub(super) fn claim_somehow(
        &mut self,
        owner: &Name,
        now: Now<'_>,
        lease: Lease,
        fault: &mut dyn Fault,
    ) -> Result<Option<Ticket>, ClaimError> {
        match self.flaw {
            Flaw::ClaimInTwoStatements | Flaw::ClaimRereadsItsMark => {
                self.claim_without_transaction(owner, now, lease, fault)
            }
            Flaw::ClaimReadsTheClockFirst => {
                let read = now()?;
                self.claim_in_transaction(owner, &mut || Ok(read), lease, fault)
            }
            Flaw::LeaseInTheWrongUnit => {
                let lease = Limits::CONTRACT.lease((lease.get() / 1_000).max(1))?;
                self.claim_in_transaction(owner, now, lease, fault)
            }
            _ => self.claim_in_transaction(owner, now, lease, fault),
        }
    }

    fn claim_in_transaction(
        &mut self,
        owner: &Name,
        now: Now<'_>,
        lease: Lease,
        fault: &mut dyn Fault,
    ) -> Result<Option<Ticket>, ClaimError> {
        let (mut early, mut expired) = (None, Vec::new());
        match self.flaw {
            Flaw::SelectOutsideTheTransaction => early = Some(self.first_eligible(now()?, lease)?),
            Flaw::RescueByNumber => expired = self.expired(now()?)?,
            _ => {}
        }
        self.begin()?;
        for seq in expired {
            let rescue =
                "UPDATE jobs SET status = 'pending', owner = NULL, lease_until = NULL WHERE seq = ?1";
            self.inside(self.execute(rescue, [seq]))?;
        }
        let claimed = self.claim_inside(owner, now, lease, early, fault);
        let ticket = self.inside(claimed)?;
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

    pub(super) fn claim_inside(
        &mut self,
        owner: &Name,
        now: Now<'_>,
        lease: Lease,
        early: Option<Option<Job>>,
        fault: &mut dyn Fault,
    ) -> Result<Option<Ticket>, ClaimError> {
        let now = now()?;
        if self.makes(Flaw::StatementTriedAgain) && self.first_eligible(now, lease)?.is_none() {
            return Ok(None);
        }
        self.treat_own_leases(owner, now, lease)?;
        self.quarantine(now)?;
        let job = match early {
            Some(job) => job,
            None => self.first_eligible(now, lease)?,
        };
        let Some(job) = job else { return Ok(None) };
        let ticket = self.mark(job, owner, now, lease)?;
        fault.at(FaultPoint::AfterClaim)?;
        Ok(Some(ticket))
    }

    /// What looks for a job, and what marks it, are transactions of their own.
    fn claim_without_transaction(
        &mut self,
        owner: &Name,
        now: Now<'_>,
        lease: Lease,
        fault: &mut dyn Fault,
    ) -> Result<Option<Ticket>, ClaimError> {
        let Some(job) = self.first_eligible(now()?, lease)? else {
            return self.claim_in_transaction(owner, now, lease, fault);
        };
        let seq = job.seq;
        self.begin()?;
        let ticket = now().map_err(Into::into).and_then(|now| self.mark(job, owner, now, lease));
        let ticket = self.inside(ticket)?;
        fault.at(FaultPoint::AfterClaim)?;
        self.commit()?;
        if self.makes(Flaw::ClaimRereadsItsMark) && self.status(seq)? != "leased" {
            return Ok(None);
        }
        fault.at(FaultPoint::AfterCommit)?;
        Ok(Some(ticket))
    }

    /// What a process does with the leases of its own name before it claims: nothing, without a mistake.
    fn treat_own_leases(&self, owner: &Name, now: Millis, lease: Lease) -> Result<(), StorageError> {
        let sql = match self.flaw {
            Flaw::RestartExtendsItsLeases => {
                "UPDATE jobs SET lease_until = min(?2 + ?3, deadline) WHERE status = 'leased' AND owner = ?1"
            }
            Flaw::RestartTakesItsJobsBack if !self.has_claimed => {
                "UPDATE jobs SET status = 'pending', owner = NULL, lease_until = NULL \
                 WHERE status = 'leased' AND owner = ?1 AND ?2 + ?3 > 0"
            }
            _ => return Ok(()),
        };
        self.execute(sql, params![owner.as_str(), now.get(), lease.get()])
    }

    fn quarantine(&self, now: Millis) -> Result<(), StorageError> {
        let (dead, over) = (self.has_come(Flaw::LateDeadline), self.has_come(Flaw::LateExpiry));
        let leased = if self.makes(Flaw::NeverReclaims) { "0" } else { "1" };
        let used_up = match self.flaw {
            Flaw::LastAttemptNeverDies => "attempts >= max_attempts AND status = 'pending'",
            _ => "attempts >= max_attempts",
        };
        let exhausted = match self.flaw {
            Flaw::CrashIsAPermanentFailure => "iif(status = 'leased', 'permanent', 'exhausted')",
            _ => "'exhausted'",
        };
        let sql = format!(
            "UPDATE jobs SET status = 'dead', reason = iif(deadline {dead} ?1, 'deadline', {exhausted}), \
             owner = NULL, lease_until = NULL \
             WHERE (status = 'pending' OR (status = 'leased' AND lease_until {over} ?1 AND {leased})) \
             AND (deadline {dead} ?1 OR ({used_up}))"
        );
        self.execute(&sql, [now.get()])
    }

    fn first_eligible(&self, now: Millis, lease: Lease) -> Result<Option<Job>, ClaimError> {
        let ready = self.has_come(Flaw::LateAvailability);
        let (waits, over) = (self.waits(), self.is_over());
        let sql = format!(
            "SELECT seq, id, qty, attempts, token, deadline, status = 'leased' FROM jobs \
             WHERE (status = 'pending' AND available_at {ready} ?1 AND {waits}) OR (status = 'leased' AND {over}) \
             AND ?2 > 0 ORDER BY seq LIMIT 1"
        );
        let mut statement = self.connection().prepare_cached(&sql).map_err(StorageError::from)?;
        let row = statement.query_row([now.get(), lease.get()], |row| {
            let id: String = row.get(1)?;
            Ok((row.get(0)?, id, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?))
        });
        let Some((seq, id, qty, attempts, token, deadline_ms, is_leased)) =
            row.optional().map_err(StorageError::from)?
        else {
            return Ok(None);
        };
        let event = Event { id: Name::new("id", &id)?, qty: Qty::new(qty)? };
        Ok(Some(Job { seq, event, attempts, token, deadline_ms, is_leased }))
    }

    /// Which pending jobs can be claimed, once they are available.
    fn waits(&self) -> &'static str {
        if self.makes(Flaw::RetryNeverSelected) { "reason IS NULL" } else { "1" }
    }

    /// Which leased jobs can be taken over: `?1` is now, `?2` the length of the lease that is asked for.
    fn is_over(&self) -> String {
        let over = self.has_come(Flaw::LateExpiry);
        match self.flaw {
            Flaw::NeverReclaims => "0".to_owned(),
            Flaw::LastAttemptNeverDies => "lease_until <= ?1 AND attempts < max_attempts".to_owned(),
            Flaw::RescueByElapsedTime => {
                format!("(lease_until <= ?1 OR available_at + {RESCUE_AFTER_MS} <= ?1)")
            }
            Flaw::RescueByTheAskersLease => "(lease_until <= ?1 OR available_at + ?2 <= ?1)".to_owned(),
            Flaw::SweepOfOnePage => {
                "lease_until <= ?1 AND seq = (SELECT min(seq) FROM jobs WHERE status = 'leased')".to_owned()
            }
            Flaw::ReclaimsFromMemory => {
                let known: Vec<String> = self.claimed.iter().map(ToString::to_string).collect();
                format!("lease_until <= ?1 AND seq IN ({})", known.join(", "))
            }
            _ => format!("lease_until {over} ?1"),
        }
    }

    /// The numbers of the jobs whose lease is over.
    fn expired(&self, now: Millis) -> Result<Vec<i64>, StorageError> {
        let sql = "SELECT seq FROM jobs WHERE status = 'leased' AND lease_until <= ?1 \
                   AND deadline > ?1 AND attempts < max_attempts";
        let mut statement = self.connection().prepare_cached(sql)?;
        let rows = statement.query_map([now.get()], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn status(&self, seq: i64) -> Result<String, StorageError> {
        let mut statement = self.connection().prepare_cached("SELECT status FROM jobs WHERE seq = ?1")?;
        Ok(statement.query_row([seq], |row| row.get(0))?)
    }

    /// Leases the job to its new owner.
    fn mark(&mut self, job: Job, owner: &Name, now: Millis, lease: Lease) -> Result<Ticket, ClaimError> {
        self.claimed.push(job.seq);
        let until_ms = (now.get() + lease.get()).min(job.deadline_ms);
        let keeps_token = self.makes(Flaw::ReclaimKeepsTheToken) && job.is_leased;
        let is_uncounted = self.makes(Flaw::AttemptsCountedByFinish)
            || (self.makes(Flaw::ReclaimNotCounted) && job.is_leased);
        let token = Token::new(job.token + i64::from(!keeps_token))?;
        let attempts = job.attempts + i64::from(!is_uncounted);
        let ticket = Ticket::new(job.event, owner.clone(), token, Attempt::new(attempts.max(1))?, until_ms)?;
        let status = if self.makes(Flaw::ClaimTakesTheJobAway) { "done" } else { "leased" };
        let until = (!self.makes(Flaw::LeaseApart)).then_some(until_ms);
        let sql = "UPDATE jobs SET status = ?6, attempts = ?2, token = ?3, owner = ?4, lease_until = ?5, \
                   reason = NULL WHERE seq = ?1";
        let row = params![job.seq, attempts, token.get(), owner.as_str(), until, status];
        self.execute(sql, row)?;
        if self.makes(Flaw::LeaseApart) {
            self.commit()?;
            self.begin()?;
            self.execute("UPDATE jobs SET lease_until = ?2 WHERE seq = ?1", [job.seq, until_ms])?;
        }
        Ok(ticket)
    }
}
