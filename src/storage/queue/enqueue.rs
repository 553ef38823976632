//! enqueue (Q20 to Q24): a job is added once per id; a known id is never touched.

use rusqlite::{CachedStatement, Connection};

use crate::rules::{Attempts, Event, INSTANT_MAX_MS, Invalid, Millis, Ttl};
use crate::storage::transaction::Immediate;
use crate::storage::{Durability, EnqueueError, Enqueued, StorageError};

use super::row::{first, shown};

const FIND: &str = "SELECT qty FROM jobs WHERE id = ?1";
// Looked up first and not left to ON CONFLICT: an insert that then does nothing would still spend a seq.
const INSERT: &str = "INSERT INTO jobs (id, qty, status, attempts, max_attempts, token, available_at, deadline) \
    VALUES (?1, ?2, 'pending', 0, ?3, 0, ?4, ?5)";

pub(super) fn enqueue(
    connection: &Connection,
    event: &Event,
    now: Millis,
    ttl: Ttl,
    max_attempts: Attempts,
    durability: Durability,
) -> Result<Enqueued, EnqueueError> {
    let events = std::slice::from_ref(event);
    let answers = enqueue_many(connection, events, now, ttl, max_attempts, durability)?;
    // One event in, one answer out.
    answers.into_iter().next().unwrap_or(Ok(Enqueued::Duplicate))
}

/// Several events in one transaction, with an answer for each.
pub(super) fn enqueue_many(
    connection: &Connection,
    events: &[Event],
    now: Millis,
    ttl: Ttl,
    max_attempts: Attempts,
    durability: Durability,
) -> Result<Vec<Result<Enqueued, EnqueueError>>, EnqueueError> {
    let deadline_ms = deadline_ms(now, ttl)?;
    let transaction = Immediate::begin(connection)?;
    let mut answers = Vec::with_capacity(events.len());
    let mut statements = Statements::new(connection).map_err(StorageError::from)?;
    for event in events {
        answers.push(match add(&mut statements, event, now, deadline_ms, max_attempts) {
            Err(error @ EnqueueError::Conflict { .. }) => Err(error),
            added => Ok(added?),
        });
    }
    drop(statements);
    commit(transaction, &answers, durability)?;
    Ok(answers)
}

/// What is run for each event, made ready once.
struct Statements<'c> {
    find: CachedStatement<'c>,
    insert: CachedStatement<'c>,
}

impl<'c> Statements<'c> {
    fn new(connection: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Self { find: connection.prepare_cached(FIND)?, insert: connection.prepare_cached(INSERT)? })
    }
}

/// Looks an event up and adds it where it is new, inside a transaction.
fn add(
    statements: &mut Statements<'_>,
    event: &Event,
    now: Millis,
    deadline_ms: i64,
    max_attempts: Attempts,
) -> Result<Enqueued, EnqueueError> {
    let stored_qty = first(&mut statements.find, [event.id.as_str()], |row| row.get_ref(0).map(shown));
    if let Some(stored_qty) = stored_qty.map_err(StorageError::from)? {
        // As text: only an integer's is all digits, any other type shows as such.
        if stored_qty == event.qty.get().to_string() {
            return Ok(Enqueued::Duplicate);
        }
        return Err(EnqueueError::Conflict { id: event.id.clone(), stored_qty, given: event.qty });
    }
    let row = (event.id.as_str(), event.qty.get(), max_attempts.get(), now.get(), deadline_ms);
    statements.insert.execute(row).map_err(StorageError::from)?;
    Ok(Enqueued::New)
}

/// Commits what these answers tell.
fn commit(
    transaction: Immediate<'_>,
    answers: &[Result<Enqueued, EnqueueError>],
    durability: Durability,
) -> Result<(), StorageError> {
    let any = |what| answers.iter().any(|answer| matches!(answer, Ok(enqueued) if *enqueued == what));
    if durability == Durability::Extra && any(Enqueued::Duplicate) && !any(Enqueued::New) {
        // Whoever hears this will not come again, so the job must be durable as after a first acceptance.
        transaction.touch()?;
    }
    transaction.commit()
}

/// The deadline of a job that starts its life now, in ms.
pub(super) fn deadline_ms(now: Millis, ttl: Ttl) -> Result<i64, Invalid> {
    let deadline_ms = now.get() + ttl.get();
    if deadline_ms <= INSTANT_MAX_MS {
        return Ok(deadline_ms);
    }
    Err(Invalid::new("ttl_ms", ttl.get(), format!("at most {} at this time", INSTANT_MAX_MS - now.get())))
}
