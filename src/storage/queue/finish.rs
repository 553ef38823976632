//! What a ticket's holder does with it: finish (Q35 to Q41), renew and release (M10). Each is one UPDATE
//! that changes the row only while the ticket holds (Q36). What it wrote is read back where the ticket does
//! not say it: RETURNING would open a temporary table at every execution, which costs more than a lookup.

use rusqlite::types::{FromSql, ToSql};
use rusqlite::{CachedStatement, Connection};

use crate::port::{Fault, FaultPoint};
use crate::rules::{Delay, Lease, Millis, Outcome, Status, Ticket};
use crate::storage::transaction::Immediate;
use crate::storage::{ClaimError, FinishError, FinishOrder, Finished, Now, Released, Renewed, StorageError};

/// Q36: whether ticket `?1` … `?6` holds at `?7`. The types are asked for where a comparison alone would let
/// text pass, which is greater than every number (M12).
macro_rules! ticket_holds {
    () => {
        " WHERE id = ?1 AND status = 'leased' AND qty = ?2 AND owner = ?3 AND token = ?4 AND attempts = ?5 \
         AND lease_until = ?6 AND ?7 < lease_until AND ?7 < deadline \
         AND typeof(deadline) = 'integer' AND deadline <= 1000000000000000 \
         AND typeof(max_attempts) = 'integer' AND max_attempts BETWEEN 1 AND 16 \
         AND typeof(available_at) = 'integer'"
    };
}

const OK: &str = concat!(
    "UPDATE jobs SET status = 'done', reason = NULL, available_at = ?7, owner = NULL, lease_until = NULL",
    ticket_holds!()
);
const PERMANENT: &str = concat!(
    "UPDATE jobs SET status = 'dead', reason = 'permanent', available_at = ?7, owner = NULL, lease_until = NULL",
    ticket_holds!()
);
/// The budget is asked before the deadline (Q39).
const RETRY: &str = concat!(
    "UPDATE jobs SET \
     status = iif(attempts >= max_attempts OR ?8 >= deadline, 'dead', 'pending'), \
     reason = iif(attempts >= max_attempts, 'exhausted', iif(?8 >= deadline, 'deadline', 'retry')), \
     available_at = iif(attempts >= max_attempts OR ?8 >= deadline, ?7, ?8), \
     owner = NULL, lease_until = NULL",
    ticket_holds!()
);
const RENEW: &str = concat!("UPDATE jobs SET lease_until = min(?8, deadline)", ticket_holds!());
const RELEASE: &str = concat!(
    "UPDATE jobs SET status = 'pending', attempts = attempts - 1, owner = NULL, lease_until = NULL, \
     reason = NULL, available_at = ?7",
    ticket_holds!()
);
const STATUS: &str = "SELECT status FROM jobs WHERE id = ?1";
const LEASE_UNTIL: &str = "SELECT lease_until FROM jobs WHERE id = ?1";

pub(super) fn finish(
    connection: &Connection,
    ticket: &Ticket,
    outcome: Outcome,
    now: Millis,
    delay: Delay,
    fault: &mut dyn Fault,
) -> Result<Finished, FinishError> {
    // One ticket in, one answer out.
    let finished = finish_all(connection, [(ticket, outcome, delay)], now, fault)?;
    Ok(finished.first().copied().unwrap_or(Finished::Stale))
}

/// Several outcomes in one transaction, each ticket fenced on its own.
pub(super) fn finish_many(
    connection: &Connection,
    orders: &[FinishOrder],
    now: Millis,
    fault: &mut dyn Fault,
) -> Result<Vec<Finished>, FinishError> {
    let orders = orders.iter().map(|order| (&order.ticket, order.outcome, order.delay));
    finish_all(connection, orders, now, fault)
}

fn finish_all<'t>(
    connection: &Connection,
    orders: impl IntoIterator<Item = (&'t Ticket, Outcome, Delay)>,
    now: Millis,
    fault: &mut dyn Fault,
) -> Result<Vec<Finished>, FinishError> {
    let transaction = Immediate::begin(connection)?;
    let mut updates = Updates::new(connection);
    let record = |(ticket, outcome, delay)| record(&mut updates, ticket, outcome, now, delay);
    let finished: Vec<_> = orders.into_iter().map(record).collect::<Result<_, _>>()?;
    commit(transaction, &finished, |finished| *finished != Finished::Stale, FaultPoint::AfterFinish, fault)?;
    Ok(finished)
}

/// Records one outcome, inside a transaction.
fn record(
    updates: &mut Updates<'_>,
    ticket: &Ticket,
    outcome: Outcome,
    now: Millis,
    delay: Delay,
) -> Result<Finished, StorageError> {
    let holds = match outcome {
        Outcome::Ok => updates.run(OK, ticket, now, None)?,
        Outcome::Permanent => updates.run(PERMANENT, ticket, now, None)?,
        Outcome::Retry => updates.run(RETRY, ticket, now, Some(now.get() + delay.get()))?,
    };
    Ok(match outcome {
        _ if !holds => Finished::Stale,
        Outcome::Ok => Finished::Now(Status::Done),
        Outcome::Permanent => Finished::Now(Status::Dead),
        Outcome::Retry => Finished::Now(retried(updates.connection, ticket)?),
    })
}

/// Commits, with a hook inside for each answer that tells of a change and one outside where there was any.
fn commit<T>(
    transaction: Immediate<'_>,
    answers: &[T],
    has_changed: impl Fn(&T) -> bool,
    inside: FaultPoint,
    fault: &mut dyn Fault,
) -> Result<(), FinishError> {
    let changed = answers.iter().filter(|answer| has_changed(answer)).count();
    for _ in 0..changed {
        fault.at(inside)?;
    }
    transaction.commit()?;
    if changed > 0 {
        fault.at(FaultPoint::AfterCommit)?;
    }
    Ok(())
}

pub(super) fn renew(
    connection: &Connection,
    ticket: &Ticket,
    now: Now<'_>,
    lease: Lease,
    fault: &mut dyn Fault,
) -> Result<Renewed, ClaimError> {
    let transaction = Immediate::begin(connection)?;
    let now = now()?;
    if !Updates::new(connection).run(RENEW, ticket, now, Some(now.get() + lease.get()))? {
        transaction.commit()?;
        return Ok(Renewed::Stale);
    }
    let until = read(connection, LEASE_UNTIL, ticket)?;
    let renewed = Ticket::new(ticket.event(), ticket.owner.clone(), ticket.token, ticket.attempt, until)?;
    fault.at(FaultPoint::AfterRenew)?;
    transaction.commit()?;
    fault.at(FaultPoint::AfterCommit)?;
    Ok(Renewed::Until(renewed))
}

pub(super) fn release(
    connection: &Connection,
    ticket: &Ticket,
    now: Millis,
    fault: &mut dyn Fault,
) -> Result<Released, FinishError> {
    // One ticket in, one answer out.
    Ok(release_many(connection, std::slice::from_ref(ticket), now, fault)?.pop().unwrap_or(Released::Stale))
}

/// Several tickets in one transaction.
pub(super) fn release_many(
    connection: &Connection,
    tickets: &[Ticket],
    now: Millis,
    fault: &mut dyn Fault,
) -> Result<Vec<Released>, FinishError> {
    let transaction = Immediate::begin(connection)?;
    let mut updates = Updates::new(connection);
    let release = |ticket: &Ticket| {
        let holds = updates.run(RELEASE, ticket, now, None)?;
        Ok(if holds { Released::Pending } else { Released::Stale })
    };
    let released: Vec<_> = tickets.iter().map(release).collect::<Result<_, StorageError>>()?;
    commit(transaction, &released, |one| *one == Released::Pending, FaultPoint::AfterRelease, fault)?;
    Ok(released)
}

/// The UPDATEs of one transaction, each made ready once.
struct Updates<'c> {
    connection: &'c Connection,
    ready: Vec<(&'static str, CachedStatement<'c>)>,
}

impl<'c> Updates<'c> {
    const fn new(connection: &'c Connection) -> Self {
        Self { connection, ready: Vec::new() }
    }

    /// Runs one of them; false where the ticket does not hold.
    fn run(
        &mut self,
        sql: &'static str,
        ticket: &Ticket,
        now: Millis,
        last: Option<i64>,
    ) -> Result<bool, StorageError> {
        let (qty, token, attempt) = (ticket.qty.get(), ticket.token.get(), ticket.attempt.get());
        let (until, now) = (ticket.lease_until_ms(), now.get());
        let (id, owner) = (ticket.id.as_str(), ticket.owner.as_str());
        let mut params: [&dyn ToSql; 8] = [&id, &qty, &owner, &token, &attempt, &until, &now, &now];
        let mut used = 7;
        if let Some(last) = &last {
            params[7] = last;
            used = 8;
        }
        Ok(self.ready(sql)?.execute(&params[..used])? > 0)
    }

    fn ready(&mut self, sql: &'static str) -> rusqlite::Result<&mut CachedStatement<'c>> {
        let at = match self.ready.iter().position(|(known, _)| *known == sql) {
            Some(at) => at,
            None => {
                self.ready.push((sql, self.connection.prepare_cached(sql)?));
                self.ready.len() - 1
            }
        };
        Ok(&mut self.ready[at].1)
    }
}

/// What became of a job that was to be retried.
fn retried(connection: &Connection, ticket: &Ticket) -> Result<Status, StorageError> {
    let status: String = read(connection, STATUS, ticket)?;
    Ok(if status == Status::Pending.as_str() { Status::Pending } else { Status::Dead })
}

/// Reads back one column that has just been written.
fn read<T: FromSql>(connection: &Connection, sql: &str, ticket: &Ticket) -> Result<T, StorageError> {
    Ok(connection.prepare_cached(sql)?.query_row([ticket.id.as_str()], |row| row.get(0))?)
}
