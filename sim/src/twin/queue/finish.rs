//! How a twin records an outcome, mistakes included.

use ackward::port::{Fault, FaultPoint};
use ackward::rules::{Delay, Millis, Outcome, Status, Ticket};
use ackward::storage::{FinishError, Finished, StorageError};
use rusqlite::{OptionalExtension, params};

use super::Twin;
use crate::scenario::Flaw;

/// The row that a ticket holds.
#[derive(Clone, Copy)]
pub(super) struct Held {
    seq: i64,
    attempts: i64,
    max_attempts: i64,
    deadline_ms: i64,
}

impl Twin {
    pub(super) fn finish_somehow(
        &self,
        ticket: &Ticket,
        outcome: Outcome,
        now: Millis,
        delay: Delay,
        fault: &mut dyn Fault,
    ) -> Result<Finished, FinishError> {
        let early = if self.makes(Flaw::FinishChecksOutside) { Some(self.held(ticket, now)?) } else { None };
        if !self.makes(Flaw::LockHeldWhileSending) {
            self.begin()?;
        }
        let finished = self.finish_inside(ticket, outcome, now, delay, early, fault);
        let finished = self.inside(finished)?;
        match self.commit() {
            Err(error) if error.is_busy() && self.makes(Flaw::BusyCommitIsGivenUp) => {
                return Ok(Finished::Stale);
            }
            committed => committed?,
        }
        if finished != Finished::Stale {
            fault.at(FaultPoint::AfterCommit)?;
        }
        Ok(finished)
    }

    pub(super) fn finish_inside(
        &self,
        ticket: &Ticket,
        outcome: Outcome,
        now: Millis,
        delay: Delay,
        early: Option<Option<Held>>,
        fault: &mut dyn Fault,
    ) -> Result<Finished, FinishError> {
        let held = match early {
            Some(held) => held,
            None => self.held(ticket, now)?,
        };
        let Some(Held { seq, attempts, max_attempts, deadline_ms }) = held else {
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
        let counted = self.makes(Flaw::AttemptsCountedByFinish) && outcome == Outcome::Retry;
        let sql = "UPDATE jobs SET status = ?2, reason = ?3, available_at = ?4, owner = NULL, \
                   lease_until = NULL, attempts = attempts + ?5 WHERE seq = ?1";
        self.execute(sql, params![seq, status.as_str(), reason, available_ms, i64::from(counted)])?;
        if self.makes(Flaw::EnqueueWaitsForASlot) {
            self.let_next_in(now)?;
        }
        fault.at(FaultPoint::AfterFinish)?;
        Ok(Finished::Now(status))
    }

    /// The row that the ticket holds.
    fn held(&self, ticket: &Ticket, now: Millis) -> Result<Option<Held>, StorageError> {
        self.held_by(self.flaw, ticket, now)
    }

    /// The row that the ticket holds for whoever makes this mistake.
    pub(super) fn held_by(
        &self,
        flaw: Flaw,
        ticket: &Ticket,
        now: Millis,
    ) -> Result<Option<Held>, StorageError> {
        let condition = match flaw {
            Flaw::FinishById => "1",
            Flaw::FinishByStatus => "status = 'leased'",
            Flaw::FinishChecksTheOwnerOnly => "status = 'leased' AND owner = ?2",
            Flaw::FinishTrustsItsClock => "status = 'leased' AND ?7 < ?6",
            flaw => {
                let time = match flaw {
                    Flaw::FinishIgnoresExpiry => "",
                    Flaw::FinishAtTheLeasesEnd => "AND ?7 <= lease_until AND ?7 < deadline",
                    _ => "AND ?7 < lease_until AND ?7 < deadline",
                };
                let fields = "AND qty = ?3 AND token = ?4 AND attempts = ?5 AND lease_until = ?6";
                &format!("status = 'leased' AND owner = ?2 {fields} {time}")
            }
        };
        // The last condition is always true: it makes SQLite accept a value for every parameter.
        let sql = format!(
            "SELECT seq, attempts, max_attempts, deadline FROM jobs \
             WHERE id = ?1 AND {condition} AND coalesce(?2, ?3, ?4, ?5, ?6, ?7) IS NOT NULL"
        );
        let mut statement = self.connection().prepare_cached(&sql)?;
        let (qty, token, attempt) = (ticket.qty.get(), ticket.token.get(), ticket.attempt.get());
        let (id, owner) = (ticket.id.as_str(), ticket.owner.as_str());
        let given = params![id, owner, qty, token, attempt, ticket.lease_until_ms(), now.get()];
        let row = statement.query_row(given, |row| {
            let (seq, attempts, max_attempts) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(Held { seq, attempts, max_attempts, deadline_ms: row.get(3)? })
        });
        Ok(row.optional()?)
    }
}
