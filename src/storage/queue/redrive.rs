//! redrive (Q42 to Q46): a dead job's new life and its audit row, in one transaction.

use rusqlite::Connection;
use rusqlite::types::{FromSqlError, Type};

use crate::port::{Fault, FaultPoint};
use crate::rules::{Invalid, Millis, Name, Status, Ttl};
use crate::storage::transaction::Immediate;
use crate::storage::{RedriveError, StorageError};

use super::enqueue::deadline_ms;
use super::row::{columns, first, kept_by_redrive};

const FIND: &str = concat!("SELECT ", columns!(), " FROM jobs WHERE id = ?1");
const AUDIT: &str = "INSERT INTO redrives (id, token, at_ms, note) VALUES (?1, ?2, ?3, ?4)";
const REVIVE: &str = "UPDATE jobs SET status = 'pending', attempts = 0, available_at = ?2, deadline = ?3, \
    owner = NULL, lease_until = NULL, reason = NULL WHERE seq = ?1";

pub(super) fn redrive(
    connection: &Connection,
    id: &Name,
    now: Millis,
    ttl: Ttl,
    note: &Name,
    fault: &mut dyn Fault,
) -> Result<(), RedriveError> {
    let deadline_ms = deadline_ms(now, ttl)?;
    let transaction = Immediate::begin(connection)?;
    revive(connection, id, now, deadline_ms, note, fault)?;
    transaction.commit()?;
    fault.at(FaultPoint::AfterCommit)?;
    Ok(())
}

/// What [`redrive`] would answer now, without a change.
pub(super) fn check(connection: &Connection, id: &Name, now: Millis, ttl: Ttl) -> Result<(), RedriveError> {
    deadline_ms(now, ttl)?;
    find_dead(connection, id).map(drop)
}

/// Several jobs in one transaction, with an answer for each.
pub(super) fn redrive_many(
    connection: &Connection,
    ids: &[Name],
    now: Millis,
    ttl: Ttl,
    note: &Name,
    fault: &mut dyn Fault,
) -> Result<Vec<Result<(), RedriveError>>, RedriveError> {
    let deadline_ms = deadline_ms(now, ttl)?;
    let transaction = Immediate::begin(connection)?;
    let mut answers = Vec::with_capacity(ids.len());
    for id in ids {
        answers.push(match revive(connection, id, now, deadline_ms, note, fault) {
            // The row was only read: there is nothing to take back.
            Err(
                error @ (RedriveError::NoSuchJob { .. }
                | RedriveError::NotDead { .. }
                | RedriveError::Storage(StorageError::Row(_))),
            ) => Err(error),
            revived => Ok(revived?),
        });
    }
    transaction.commit()?;
    if answers.iter().any(Result::is_ok) {
        fault.at(FaultPoint::AfterCommit)?;
    }
    Ok(answers)
}

/// One job's audit row and new life, inside a transaction.
fn revive(
    connection: &Connection,
    id: &Name,
    now: Millis,
    deadline_ms: i64,
    note: &Name,
    fault: &mut dyn Fault,
) -> Result<(), RedriveError> {
    let (seq, token) = find_dead(connection, id)?;
    execute(connection, AUDIT, (id.as_str(), token, now.get(), note.as_str()))?;
    fault.at(FaultPoint::AfterAudit)?;
    execute(connection, REVIVE, (seq, now.get(), deadline_ms))?;
    fault.at(FaultPoint::AfterRedrive)?;
    Ok(())
}

/// Seq and token of a dead job that a claim would take once it is redriven.
fn find_dead(connection: &Connection, id: &Name) -> Result<(i64, i64), RedriveError> {
    let Found { seq, status, token } =
        find(connection, id)?.ok_or_else(|| RedriveError::NoSuchJob { id: id.clone() })?;
    if status != Status::Dead {
        return Err(RedriveError::NotDead { id: id.clone(), status });
    }
    Ok((seq, token.map_err(StorageError::Row)?))
}

/// A job as redrive finds it.
struct Found {
    seq: i64,
    status: Status,
    /// What the audit is to have (Q44), or what of the row no claim would take.
    token: Result<i64, Invalid>,
}

fn find(connection: &Connection, id: &Name) -> Result<Option<Found>, StorageError> {
    let mut statement = connection.prepare_cached(FIND)?;
    let found = first(&mut statement, [id.as_str()], |row| {
        let status: String = row.get(3)?;
        let status = Status::parse(&status).map_err(|invalid| {
            let cause = FromSqlError::Other(Box::new(invalid));
            rusqlite::Error::FromSqlConversionFailure(3, Type::Text, Box::new(cause))
        })?;
        Ok(Found { seq: row.get(0)?, status, token: kept_by_redrive(row) })
    })?;
    Ok(found)
}

fn execute(connection: &Connection, sql: &str, params: impl rusqlite::Params) -> Result<(), StorageError> {
    connection.prepare_cached(sql)?.execute(params)?;
    Ok(())
}
