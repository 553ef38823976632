//! How a twin renews a lease, mistakes included.

use ackward::port::{Fault, FaultPoint};
use ackward::rules::{Lease, Ticket};
use ackward::storage::{ClaimError, LeaseQueue, Now, Renewed, StorageError};
use rusqlite::{OptionalExtension, params};

use super::Twin;
use crate::scenario::Flaw;

impl Twin {
    pub(super) fn renew_somehow(
        &mut self,
        ticket: &Ticket,
        now: Now<'_>,
        lease: Lease,
        fault: &mut dyn Fault,
    ) -> Result<Renewed, ClaimError> {
        match self.flaw {
            Flaw::RenewalIgnoresTheToken => {
                self.begin()?;
                let renewed = self.renew_inside(ticket, now, lease, fault);
                let renewed = self.inside(renewed)?;
                self.commit()?;
                Ok(renewed)
            }
            Flaw::RenewalReadsTheClockFirst => {
                let read = now()?;
                self.real.renew(ticket, &mut || Ok(read), lease, fault)
            }
            _ => self.real.renew(ticket, now, lease, fault),
        }
    }

    /// Extends the lease of the job, whoever holds it.
    fn renew_inside(
        &self,
        ticket: &Ticket,
        now: Now<'_>,
        lease: Lease,
        fault: &mut dyn Fault,
    ) -> Result<Renewed, ClaimError> {
        let now = now()?;
        let sql = "UPDATE jobs SET lease_until = min(?2 + ?3, deadline) \
                   WHERE id = ?1 AND status = 'leased' AND ?2 < lease_until RETURNING lease_until";
        let mut statement = self.connection().prepare_cached(sql).map_err(StorageError::from)?;
        let given = params![ticket.id.as_str(), now.get(), lease.get()];
        let until: Option<i64> =
            statement.query_row(given, |row| row.get(0)).optional().map_err(StorageError::from)?;
        let Some(until) = until else { return Ok(Renewed::Stale) };
        fault.at(FaultPoint::AfterRenew)?;
        let Ticket { token, attempt, .. } = *ticket;
        Ok(Renewed::Until(Ticket::new(ticket.event(), ticket.owner.clone(), token, attempt, until)?))
    }
}
