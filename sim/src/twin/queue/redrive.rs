//! How a twin redrives, mistakes included.

use ackward::port::{Fault, FaultPoint};
use ackward::rules::{Millis, Name, Status, Ttl};
use ackward::storage::{RedriveError, StorageError};
use rusqlite::{OptionalExtension, params};

use super::Twin;
use crate::scenario::Flaw;

/// A dead job's seq and token.
type Dead = (i64, i64);

impl Twin {
    pub(super) fn redrive_somehow(
        &self,
        id: &Name,
        now: Millis,
        ttl: Ttl,
        note: &Name,
        fault: &mut dyn Fault,
    ) -> Result<(), RedriveError> {
        let early = if self.makes(Flaw::RedriveChecksOutside) { Some(self.find_dead(id)?) } else { None };
        self.begin()?;
        let redriven = self.redrive_inside(id, now, ttl, note, early, fault);
        self.inside(redriven)?;
        self.commit()?;
        Ok(fault.at(FaultPoint::AfterCommit)?)
    }

    fn redrive_inside(
        &self,
        id: &Name,
        now: Millis,
        ttl: Ttl,
        note: &Name,
        early: Option<Dead>,
        fault: &mut dyn Fault,
    ) -> Result<(), RedriveError> {
        let (seq, token) = match early {
            Some(dead) => dead,
            None => self.find_dead(id)?,
        };
        if !self.makes(Flaw::RedriveWithoutAudit) {
            let audit = "INSERT INTO redrives (id, token, at_ms, note) VALUES (?1, ?2, ?3, ?4)";
            self.execute(audit, params![id.as_str(), token, now.get(), note.as_str()])?;
        }
        if self.makes(Flaw::AuditApart) {
            self.commit()?;
            self.begin()?;
        }
        fault.at(FaultPoint::AfterAudit)?;
        let token = if self.makes(Flaw::RedriveResetsTheToken) { 0 } else { token };
        let (attempts, max_attempts) = match self.flaw {
            Flaw::RedriveKeepsTheAttempts => ("attempts", "max_attempts"),
            Flaw::RedriveDropsTheBudget => ("0", "16"),
            _ => ("0", "max_attempts"),
        };
        let revive = format!(
            "UPDATE jobs SET status = 'pending', attempts = {attempts}, max_attempts = {max_attempts}, \
             token = ?2, available_at = ?3, deadline = ?4, owner = NULL, lease_until = NULL, reason = NULL \
             WHERE seq = ?1"
        );
        self.execute(&revive, params![seq, token, now.get(), now.get() + ttl.get()])?;
        Ok(fault.at(FaultPoint::AfterRedrive)?)
    }

    fn find_dead(&self, id: &Name) -> Result<Dead, RedriveError> {
        let find = || -> rusqlite::Result<Option<(i64, String, i64)>> {
            let mut statement =
                self.connection().prepare_cached("SELECT seq, status, token FROM jobs WHERE id = ?1")?;
            statement.query_row([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()
        };
        let found = find().map_err(StorageError::from)?;
        let (seq, status, token) = found.ok_or_else(|| RedriveError::NoSuchJob { id: id.clone() })?;
        match Status::parse(&status)? {
            Status::Dead => Ok((seq, token)),
            _ if self.makes(Flaw::RedriveOfTheLiving) => Ok((seq, token)),
            status => Err(RedriveError::NotDead { id: id.clone(), status }),
        }
    }
}
