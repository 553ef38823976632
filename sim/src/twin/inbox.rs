//! Twins of the receiver's inbox. The real one lends its connection, and does what no mistake concerns.

use ackward::port::{Fault, FaultPoint};
use ackward::storage::{AcceptError, Accepted, Answer, Arrival, EventInbox, Inbox, StorageError};
use rusqlite::OptionalExtension;

use crate::scenario::Flaw;

/// After so many ms an inbox forgets what it has seen, with the mistake.
const FORGETS_AFTER_MS: i64 = 300;
const COUNT: &str = "INSERT INTO totals (id, count, qty) VALUES (1, 1, ?2) \
                     ON CONFLICT (id) DO UPDATE SET count = count + 1, qty = qty + excluded.qty \
                     WHERE ?1 <> '' AND ?3 >= 0";

/// An inbox that makes a mistake, or none.
pub struct InboxTwin {
    pub(super) real: Inbox,
    pub(super) flaw: Flaw,
}

impl EventInbox for InboxTwin {
    fn accept_many(
        &mut self,
        arrivals: &[Arrival],
        fault: &mut dyn Fault,
    ) -> Result<Vec<Answer>, AcceptError> {
        match self.flaw {
            Flaw::EffectApart | Flaw::KeyCheckedOutside | Flaw::EffectPerDelivery | Flaw::InboxForgets => {
                let taken = self.take(arrivals, fault);
                if taken.is_err() && !self.real.connection().is_autocommit() {
                    let _ = self.run("ROLLBACK");
                }
                taken
            }
            Flaw::AnswersDespiteTheCommit => {
                let answers = self.real.accept_many(arrivals, fault);
                match answers {
                    Err(AcceptError::Storage(_)) => {
                        Ok(arrivals.iter().map(|_| Ok(Accepted::Applied)).collect())
                    }
                    Ok(answers) => {
                        let answer = |answer| match answer {
                            Err(AcceptError::Storage(_)) => Ok(Accepted::Applied),
                            answer => answer,
                        };
                        Ok(answers.into_iter().map(answer).collect())
                    }
                    failed => failed,
                }
            }
            _ => self.real.accept_many(arrivals, fault),
        }
    }
}

impl InboxTwin {
    fn take(&self, arrivals: &[Arrival], fault: &mut dyn Fault) -> Result<Vec<Answer>, AcceptError> {
        let mut answers = Vec::new();
        let is_outside = self.flaw == Flaw::KeyCheckedOutside;
        let known: Vec<bool> = if is_outside { self.all_known(arrivals)? } else { Vec::new() };
        if is_outside && known.iter().all(|known| *known) {
            return Ok(known.iter().map(|_| Ok(Accepted::Repeat)).collect());
        }
        self.run("BEGIN IMMEDIATE")?;
        let insert = if self.flaw == Flaw::InboxForgets { "INSERT OR REPLACE" } else { "INSERT" };
        for (at, arrival) in arrivals.iter().enumerate() {
            let is_known = if is_outside { known[at] } else { self.is_known(arrival)? };
            if is_known {
                if self.flaw == Flaw::EffectPerDelivery {
                    self.insert(COUNT, arrival)?;
                }
                answers.push(Ok(Accepted::Repeat));
                continue;
            }
            self.insert(&format!("{insert} INTO inbox (id, qty, at_ms) VALUES (?1, ?2, ?3)"), arrival)?;
            if self.flaw == Flaw::EffectApart {
                self.run("COMMIT")?;
                self.run("BEGIN IMMEDIATE")?;
            }
            self.insert(&format!("{insert} INTO effects (id, qty, at_ms) VALUES (?1, ?2, ?3)"), arrival)?;
            self.insert(COUNT, arrival)?;
            fault.at(FaultPoint::AfterAccept)?;
            answers.push(Ok(Accepted::Applied));
        }
        self.run("COMMIT")?;
        fault.at(FaultPoint::AfterCommit)?;
        Ok(answers)
    }

    fn all_known(&self, arrivals: &[Arrival]) -> Result<Vec<bool>, StorageError> {
        arrivals.iter().map(|arrival| self.is_known(arrival)).collect()
    }

    fn is_known(&self, arrival: &Arrival) -> Result<bool, StorageError> {
        let since_ms = if self.flaw == Flaw::InboxForgets { arrival.at.get() - FORGETS_AFTER_MS } else { 0 };
        let sql = "SELECT 1 FROM inbox WHERE id = ?1 AND at_ms >= ?2";
        let mut statement = self.real.connection().prepare_cached(sql)?;
        let given = (arrival.event.id.as_str(), since_ms);
        let found: Option<i64> = statement.query_row(given, |row| row.get(0)).optional()?;
        Ok(found.is_some())
    }

    fn insert(&self, sql: &str, arrival: &Arrival) -> Result<(), StorageError> {
        let Arrival { event, at } = arrival;
        let row = (event.id.as_str(), event.qty.get(), at.get());
        self.real.connection().prepare_cached(sql)?.execute(row)?;
        Ok(())
    }

    fn run(&self, sql: &str) -> Result<(), StorageError> {
        self.real.connection().prepare_cached(sql)?.execute([])?;
        Ok(())
    }
}
