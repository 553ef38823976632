//! claim (Q25 to Q34): quarantine what is due, then lease the first eligible job, in one transaction.

use rusqlite::{Connection, Statement};

use crate::port::{Fault, FaultPoint};
use crate::rules::{Attempt, Invalid, Lease, Millis, Name, Reason, Ticket, Token};
use crate::storage::transaction::Immediate;
use crate::storage::{ClaimError, Now, StorageError};

use super::due;
use super::row::{Log, StoredJob};

const QUARANTINE: &str =
    "UPDATE jobs SET status = 'dead', reason = ?2, owner = NULL, lease_until = NULL WHERE seq = ?1";
const LEASE: &str = "UPDATE jobs SET status = 'leased', attempts = ?2, token = ?3, owner = ?4, \
    lease_until = ?5, reason = NULL WHERE seq = ?1";

pub(super) fn claim(
    connection: &Connection,
    owner: &Name,
    now: Now<'_>,
    lease: Lease,
    fault: &mut dyn Fault,
    log: &mut Log<'_>,
) -> Result<Option<Ticket>, ClaimError> {
    Ok(claim_many(connection, owner, now, lease, 1, fault, log)?.pop())
}

/// Up to `max` jobs in one transaction. The quarantine comes once, before the first; what is leased here does not
/// bring about another, since its lease ends after now.
pub(super) fn claim_many(
    connection: &Connection,
    owner: &Name,
    now: Now<'_>,
    lease: Lease,
    max: usize,
    fault: &mut dyn Fault,
    log: &mut Log<'_>,
) -> Result<Vec<Ticket>, ClaimError> {
    let transaction = Immediate::begin(connection)?;
    let now = now()?;
    let any_due = quarantine_due(connection, now, log).map_err(StorageError::from)?;
    let walks = max > 1 && !any_due;
    let head = if walks { due::head(connection, now, max).map_err(StorageError::from)? } else { Vec::new() };
    let mut head = head.into_iter();
    let mut tickets = Vec::new();
    let mut lease_job = connection.prepare_cached(LEASE).map_err(StorageError::from)?;
    while tickets.len() < max {
        let job = match head.next() {
            Some(job) => Some(job),
            None => due::first_eligible(connection, now, any_due, log).map_err(StorageError::from)?,
        };
        let Some(job) = job else { break };
        let ticket = ticket(&job, owner, now, lease)?;
        write_lease(&mut lease_job, job.seq, &ticket).map_err(StorageError::from)?;
        fault.at(FaultPoint::AfterClaim)?;
        tickets.push(ticket);
    }
    drop(lease_job);
    transaction.commit()?;
    if !tickets.is_empty() {
        fault.at(FaultPoint::AfterCommit)?;
    }
    Ok(tickets)
}

/// Whether anything was due at all; if so, what must die is dead now.
fn quarantine_due(connection: &Connection, now: Millis, log: &mut Log<'_>) -> rusqlite::Result<bool> {
    let any_due = due::any_due(connection, now)?;
    if any_due {
        quarantine(connection, &due::doomed(connection, now, log)?)?;
    }
    Ok(any_due)
}

fn quarantine(connection: &Connection, doomed: &[(i64, Reason)]) -> rusqlite::Result<()> {
    let mut update = connection.prepare_cached(QUARANTINE)?;
    for (seq, reason) in doomed {
        update.execute((seq, reason.as_str()))?;
    }
    Ok(())
}

/// The ticket of this claim (Q31, Q32).
fn ticket(job: &StoredJob, owner: &Name, now: Millis, lease: Lease) -> Result<Ticket, Invalid> {
    let token = Token::new(job.token + 1)?;
    let attempt = Attempt::new(job.attempts + 1)?;
    let lease_until_ms = (now.get() + lease.get()).min(job.deadline_ms);
    Ticket::new(job.event.clone(), owner.clone(), token, attempt, lease_until_ms)
}

fn write_lease(lease_job: &mut Statement<'_>, seq: i64, ticket: &Ticket) -> rusqlite::Result<usize> {
    lease_job.execute((
        seq,
        ticket.attempt.get(),
        ticket.token.get(),
        ticket.owner.as_str(),
        ticket.lease_until_ms(),
    ))
}
