//! enqueue (Q20 to Q24): a job is added once per id; a known id is never touched.

use rusqlite::Connection;

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
    let deadline_ms = deadline_ms(now, ttl)?;
    let transaction = Immediate::begin(connection)?;
    let stored = stored_qty(connection, event)?;
    if let Some(stored_qty) = stored {
        let same = stored_qty == event.qty.get().to_string();
        if same && durability == Durability::Extra {
            // Whoever hears this will not come again, so the job must be durable as after a first acceptance.
            transaction.touch()?;
        }
        transaction.commit()?;
        if same {
            return Ok(Enqueued::Duplicate);
        }
        return Err(EnqueueError::Conflict { id: event.id.clone(), stored_qty, given: event.qty });
    }
    let insert = || -> rusqlite::Result<usize> {
        connection.prepare_cached(INSERT)?.execute((
            event.id.as_str(),
            event.qty.get(),
            max_attempts.get(),
            now.get(),
            deadline_ms,
        ))
    };
    insert().map_err(StorageError::from)?;
    transaction.commit()?;
    Ok(Enqueued::New)
}

/// The stored quantity as text; only an integer's text is all digits, any other type shows as such.
fn stored_qty(connection: &Connection, event: &Event) -> Result<Option<String>, StorageError> {
    let statement = connection.prepare_cached(FIND)?;
    Ok(first(statement, [event.id.as_str()], |row| row.get_ref(0).map(shown))?)
}

/// The deadline of a job that starts its life now, in ms.
pub(super) fn deadline_ms(now: Millis, ttl: Ttl) -> Result<i64, Invalid> {
    let deadline_ms = now.get() + ttl.get();
    if deadline_ms <= INSTANT_MAX_MS {
        return Ok(deadline_ms);
    }
    Err(Invalid::new("ttl_ms", ttl.get(), format!("at most {} at this time", INSTANT_MAX_MS - now.get())))
}
