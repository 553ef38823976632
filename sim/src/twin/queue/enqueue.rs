//! How a twin enqueues, mistakes included. Without one of its own it does as the real queue.

use std::time::Duration;

use ackward::rules::{Attempts, Event, Millis, Name, Ttl};
use ackward::storage::{EnqueueError, Enqueued, LeaseQueue, StorageError};
use rusqlite::{OptionalExtension, params};

use super::Twin;
use crate::scenario::Flaw;

const INSERT: &str = "INSERT INTO jobs (id, qty, status, attempts, max_attempts, token, available_at, deadline) \
                      VALUES (?1, ?2, 'pending', 0, ?3, 0, ?4, ?5)";

impl Twin {
    pub(super) fn enqueue_somehow(
        &mut self,
        event: &Event,
        now: Millis,
        ttl: Ttl,
        max: Attempts,
    ) -> Result<Enqueued, EnqueueError> {
        match self.flaw {
            Flaw::EnqueueOverwrites => {
                let anew = "status = 'pending', attempts = 0, token = 0, available_at = excluded.available_at, \
                            deadline = excluded.deadline, owner = NULL, lease_until = NULL, reason = NULL";
                self.upsert(event, now, ttl, max, anew)
            }
            Flaw::EnqueueResetsTheAttempts => {
                self.upsert(event, now, ttl, max, "attempts = excluded.attempts")
            }
            Flaw::EnqueueChecksOutside => {
                if self.is_known(&event.id)? {
                    return Ok(Enqueued::Duplicate);
                }
                self.insert(INSERT, event, now, now, ttl, max)?;
                Ok(Enqueued::New)
            }
            Flaw::EnqueueWaitsForASlot => {
                let from = if self.is_full()? { Millis::new(now.get() + ttl.get() - 1)? } else { now };
                if self.is_known(&event.id)? {
                    return self.real.enqueue(event, now, ttl, max);
                }
                self.insert(INSERT, event, now, from, ttl, max)?;
                Ok(Enqueued::New)
            }
            Flaw::BusyEnqueueIsDropped => {
                self.connection().busy_timeout(Duration::ZERO).map_err(StorageError::from)?;
                match self.real.enqueue(event, now, ttl, max) {
                    Err(EnqueueError::Storage(error)) if error.is_busy() => Ok(Enqueued::New),
                    enqueued => enqueued,
                }
            }
            _ => self.real.enqueue(event, now, ttl, max),
        }
    }

    /// Inserts, or changes what is there.
    fn upsert(
        &self,
        event: &Event,
        now: Millis,
        ttl: Ttl,
        max: Attempts,
        change: &str,
    ) -> Result<Enqueued, EnqueueError> {
        let is_known = self.is_known(&event.id)?;
        let sql = format!("{INSERT} ON CONFLICT (id) DO UPDATE SET {change}");
        self.insert(&sql, event, now, now, ttl, max)?;
        Ok(if is_known { Enqueued::Duplicate } else { Enqueued::New })
    }

    /// One transaction that makes a job, available from some time on.
    fn insert(
        &self,
        sql: &str,
        event: &Event,
        now: Millis,
        from: Millis,
        ttl: Ttl,
        max: Attempts,
    ) -> Result<(), StorageError> {
        let (id, qty, deadline_ms) = (event.id.as_str(), event.qty.get(), now.get() + ttl.get());
        self.begin()?;
        self.inside(self.execute(sql, params![id, qty, max.get(), from.get(), deadline_ms]))?;
        self.commit()
    }

    fn is_known(&self, id: &Name) -> Result<bool, StorageError> {
        let mut statement = self.connection().prepare_cached("SELECT 1 FROM jobs WHERE id = ?1")?;
        let found: Option<i64> = statement.query_row([id.as_str()], |row| row.get(0)).optional()?;
        Ok(found.is_some())
    }

    /// Whether some job runs: nobody else may, with the mistake.
    fn is_full(&self) -> Result<bool, StorageError> {
        let sql = "SELECT count(*) > 0 FROM jobs WHERE status = 'leased'";
        Ok(self.connection().prepare_cached(sql)?.query_row([], |row| row.get(0))?)
    }

    /// Lets the next job in that a mistaken enqueue has held back.
    pub(super) fn let_next_in(&self, now: Millis) -> Result<(), StorageError> {
        let sql = "UPDATE jobs SET available_at = ?1 WHERE seq = \
                   (SELECT min(seq) FROM jobs WHERE status = 'pending' AND attempts = 0 AND available_at > ?1)";
        self.execute(sql, [now.get()])
    }
}
