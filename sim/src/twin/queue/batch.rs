//! How a twin claims and finishes several jobs in one transaction, mistakes included.

use ackward::port::{Fault, FaultPoint};
use ackward::rules::{Lease, Millis, Name, Ticket};
use ackward::storage::{ClaimError, FinishError, FinishOrder, Finished, Now, StorageError};

use super::Twin;
use crate::scenario::Flaw;

impl Twin {
    /// Whether its mistake is one with several jobs in one transaction. With any other it makes one for each job.
    pub(super) fn is_wrong_with_batches(&self) -> bool {
        matches!(
            self.flaw,
            Flaw::BatchFencedByItsFirst
                | Flaw::BatchEndsAtAStaleTicket
                | Flaw::BatchClaimReadsTheClockFirst
                | Flaw::BatchClaimForgetsItsFirst
        )
    }

    pub(super) fn claim_many_somehow(
        &mut self,
        owner: &Name,
        now: Now<'_>,
        lease: Lease,
        max: usize,
        fault: &mut dyn Fault,
    ) -> Result<Vec<Ticket>, ClaimError> {
        let early = if self.makes(Flaw::BatchClaimReadsTheClockFirst) { Some(now()?) } else { None };
        self.begin()?;
        let claimed = match early {
            Some(early) => self.claim_each(owner, &mut || Ok(early), lease, max, fault),
            None => self.claim_each(owner, now, lease, max, fault),
        };
        let tickets = self.inside(claimed)?;
        self.commit()?;
        if !tickets.is_empty() {
            fault.at(FaultPoint::AfterCommit)?;
        }
        Ok(tickets)
    }

    fn claim_each(
        &mut self,
        owner: &Name,
        now: Now<'_>,
        lease: Lease,
        max: usize,
        fault: &mut dyn Fault,
    ) -> Result<Vec<Ticket>, ClaimError> {
        let at = now()?;
        let mut tickets = Vec::new();
        while tickets.len() < max {
            let Some(ticket) = self.claim_inside(owner, &mut || Ok(at), lease, None, fault)? else { break };
            tickets.push(ticket);
        }
        if self.makes(Flaw::BatchClaimForgetsItsFirst) && tickets.len() > 1 {
            tickets.remove(0);
        }
        Ok(tickets)
    }

    pub(super) fn finish_many_somehow(
        &mut self,
        orders: &[FinishOrder],
        now: Millis,
        fault: &mut dyn Fault,
    ) -> Vec<Result<Finished, FinishError>> {
        match self.finish_each(orders, now, fault) {
            Ok(finished) => finished.into_iter().map(Ok).collect(),
            // A twin knows no error of several: the first has it, and the others were not done.
            Err(error) => {
                let others = orders.iter().skip(1).map(|_| Err(StorageError::RolledBack.into()));
                std::iter::once(Err(error)).chain(others).collect()
            }
        }
    }

    fn finish_each(
        &mut self,
        orders: &[FinishOrder],
        now: Millis,
        fault: &mut dyn Fault,
    ) -> Result<Vec<Finished>, FinishError> {
        self.begin()?;
        let recorded = self.record_each(orders, now, fault);
        let finished = self.inside(recorded)?;
        self.commit()?;
        if finished.iter().any(|finished| *finished != Finished::Stale) {
            fault.at(FaultPoint::AfterCommit)?;
        }
        Ok(finished)
    }

    fn record_each(
        &self,
        orders: &[FinishOrder],
        now: Millis,
        fault: &mut dyn Fault,
    ) -> Result<Vec<Finished>, FinishError> {
        let mut finished = Vec::new();
        for (at, FinishOrder { ticket, outcome, delay }) in orders.iter().enumerate() {
            let is_unfenced = at > 0 && self.makes(Flaw::BatchFencedByItsFirst);
            let by = if is_unfenced { Flaw::FinishById } else { self.flaw };
            let held = self.held_by(by, ticket, now)?;
            finished.push(self.finish_inside(ticket, *outcome, now, *delay, Some(held), fault)?);
            if self.makes(Flaw::BatchEndsAtAStaleTicket) && finished[at] == Finished::Stale {
                break;
            }
        }
        finished.resize(orders.len(), Finished::Stale);
        Ok(finished)
    }
}
