//! Batches: one desk claims and finishes for all slots of a worker, so that they share transactions. Each job keeps a
//! ticket of its own, is fenced on its own and gets an answer of its own.
//!
//! What arrives while a transaction runs shares the next one. A job that was claimed and waits for a slot for longer
//! than half its lease is given back, and so are those that still wait at the end.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::pending;
use std::marker::PhantomData;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::turn::Turn;
use super::{Happening, Observer, WorkOptions, Worked, count};
use crate::port::{Clock, Fault, Lane};
use crate::rules::Ticket;
use crate::storage::{
    ClaimError, FinishError, FinishOrder, Finished, LeaseQueue, MayBeBusy, Released, all_or_busy,
};

pub(super) struct Desk<'a, C, F, L, Q> {
    pub(super) clock: &'a C,
    pub(super) fault: &'a F,
    pub(super) options: &'a WorkOptions,
    pub(super) observer: &'a dyn Observer,
    pub(super) turn: &'a Turn<'a, C>,
    pub(super) lane: L,
    pub(super) worked: &'a Cell<Worked>,
    /// The most jobs of a transaction.
    pub(super) batch: usize,
    pub(super) papers: RefCell<Papers>,
    pub(super) arrived: Notify,
    pub(super) queue: PhantomData<Q>,
}

/// What lies on the desk.
#[derive(Default)]
pub(super) struct Papers {
    /// Claimed, and not yet taken by a slot; each with the time, in ms since 1970, from which on it is too old to be.
    claimed: VecDeque<(Ticket, i64)>,
    /// Claimed too long ago to be sent.
    old: Vec<Ticket>,
    /// Slots that want a job.
    hungry: VecDeque<oneshot::Sender<Claimed>>,
    /// Outcomes to be recorded.
    finishing: VecDeque<(FinishOrder, oneshot::Sender<Result<Finished, FinishError>>)>,
}

type Claimed = Result<Option<Ticket>, ClaimError>;

/// An answer for each ticket of a batch.
type Answers<T> = Vec<Result<T, FinishError>>;

/// What the desk does next.
enum Task {
    Release(Vec<Ticket>),
    Claim,
    Finish,
    /// For what arrives, and for the first claimed ticket to turn old, where there is one.
    Wait(Option<Duration>),
}

impl<C, F, L, Q> Desk<'_, C, F, L, Q>
where
    Q: LeaseQueue + 'static,
    C: Clock + Send,
    F: Fault + Clone + Send + 'static,
    L: Lane<Q>,
{
    /// A job for a slot. Dropping the future leaves a job that was meant for it to its lease.
    pub(super) async fn claim(&self) -> Claimed {
        let (reply, answer) = oneshot::channel();
        let fresh = self.papers.borrow_mut().take_fresh(self.now_ms());
        if let Some(ticket) = fresh {
            return Ok(Some(ticket));
        }
        self.papers.borrow_mut().hungry.push_back(reply);
        // Also for what has turned out to be old.
        self.arrived.notify_one();
        answer.await.unwrap_or(Ok(None))
    }

    /// Records an outcome. Dropping the future takes nothing back.
    pub(super) async fn finish(&self, order: FinishOrder) -> Result<Finished, FinishError> {
        let (reply, answer) = oneshot::channel();
        self.papers.borrow_mut().finishing.push_back((order, reply));
        self.arrived.notify_one();
        // The desk outlives the slots.
        answer.await.unwrap_or(Ok(Finished::Stale))
    }

    /// Does one transaction after the other, for ever.
    pub(super) async fn run(&self) -> Infallible {
        loop {
            match self.next() {
                Task::Release(tickets) => self.release(tickets).await,
                Task::Claim => self.claim_many().await,
                Task::Finish => self.finish_many().await,
                Task::Wait(limit) => self.wait(limit).await,
            }
        }
    }

    /// Gives back what no slot has taken, and closes the connection where this is the last to use it.
    pub(super) async fn close(self) {
        let papers = self.papers.take();
        let claimed = papers.claimed.into_iter().map(|(ticket, _)| ticket);
        let tickets: Vec<_> = papers.old.into_iter().chain(claimed).collect();
        if !tickets.is_empty() {
            self.release(tickets).await;
        }
        self.lane.close().await;
    }

    fn next(&self) -> Task {
        let now_ms = self.now_ms();
        let mut papers = self.papers.borrow_mut();
        papers.set_old_apart(now_ms);
        papers.hungry.retain(|reply| !reply.is_closed());
        if !papers.old.is_empty() {
            return Task::Release(std::mem::take(&mut papers.old));
        }
        if !papers.hungry.is_empty() {
            return Task::Claim;
        }
        if !papers.finishing.is_empty() {
            return Task::Finish;
        }
        let first_ms = papers.claimed.iter().map(|(_, old_at_ms)| *old_at_ms).min();
        Task::Wait(first_ms.map(|first_ms| Duration::from_millis(first_ms.abs_diff(now_ms))))
    }

    async fn wait(&self, limit: Option<Duration>) {
        let first_is_old = async {
            match limit {
                Some(limit) => self.clock.sleep(limit).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.arrived.notified() => {}
            () = first_is_old => {}
        }
    }

    async fn claim_many(&self) {
        let transaction = async || {
            let (owner, lease, batch) = (self.options.owner.clone(), self.options.lease, self.batch);
            let (clock, mut fault) = (self.clock.clone(), self.fault.clone());
            let job =
                move |queue: &mut Q| queue.claim_many(&owner, &mut || clock.now(), lease, batch, &mut fault);
            self.lane.call("claim-many", job).await
        };
        let claimed = self.turn.take(transaction, ClaimError::is_busy).await;
        let now_ms = self.now_ms();
        let mut papers = self.papers.borrow_mut();
        let mut error = None;
        match claimed {
            Ok(tickets) => papers.claimed.extend(tickets.into_iter().map(|ticket| {
                let old_at_ms = old_at_ms(&ticket, now_ms);
                (ticket, old_at_ms)
            })),
            Err(failed) => error = Some(failed),
        }
        // A slot that has gone meanwhile leaves its job to the others.
        while let Some(reply) = papers.hungry.pop_front() {
            let (claimed, old_at_ms) = match error.take() {
                Some(failed) => (Err(failed), None),
                None => {
                    let (ticket, old_at_ms) = papers.claimed.pop_front().unzip();
                    (Ok(ticket), old_at_ms)
                }
            };
            if let (Err(Ok(Some(ticket))), Some(old_at_ms)) = (reply.send(claimed), old_at_ms) {
                papers.claimed.push_front((ticket, old_at_ms));
            }
        }
    }

    async fn finish_many(&self) {
        let (orders, replies): (Vec<_>, Vec<_>) = {
            let mut papers = self.papers.borrow_mut();
            let count = papers.finishing.len().min(self.batch);
            papers.finishing.drain(..count).unzip()
        };
        let transaction = async || {
            // Where the clock fails nobody can say that a ticket still holds.
            let Ok(now) = self.clock.now() else { return Ok(all(orders.len(), Finished::Stale)) };
            let (orders, mut fault) = (orders.clone(), self.fault.clone());
            let job = move |queue: &mut Q| queue.finish_many(&orders, now, &mut fault);
            all_or_busy(self.lane.call("finish-many", job).await)
        };
        let answers = self.turn.take(transaction, |_| true).await.unwrap_or_else(|busy| busy);
        for (answer, reply) in answers.into_iter().zip(replies) {
            // A slot that was cut off needs no answer.
            let _ = reply.send(answer);
        }
    }

    async fn release(&self, tickets: Vec<Ticket>) {
        let transaction = async || {
            let Ok(now) = self.clock.now() else { return Ok(all(tickets.len(), Released::Stale)) };
            let (tickets, mut fault) = (tickets.clone(), self.fault.clone());
            let job = move |queue: &mut Q| queue.release_many(&tickets, now, &mut fault);
            all_or_busy(self.lane.call("release-many", job).await)
        };
        let answers = self.turn.take(transaction, |_| true).await.unwrap_or_else(|busy| busy);
        for (ticket, answer) in tickets.iter().zip(answers) {
            count(self.worked, |worked| {
                worked.claimed += 1;
                match answer {
                    Ok(Released::Pending) => worked.released += 1,
                    Ok(Released::Stale) => worked.stale += 1,
                    Err(_) => {}
                }
            });
            match answer {
                Ok(released) => self.observer.saw(&Happening::Released { ticket, released }),
                Err(error) => {
                    let (operation, is_busy) = ("release", error.is_busy());
                    self.observer.saw(&Happening::QueueFailed { operation, error: &error, is_busy });
                    tracing::warn!(id = %ticket.id, %error, "not released, left to its lease");
                }
            }
        }
    }

    /// Where the clock fails everything is old: nobody can say that a ticket still holds.
    fn now_ms(&self) -> i64 {
        self.clock.now().map_or(i64::MAX, |now| now.get())
    }
}

impl Papers {
    /// The first ticket that is not too old.
    fn take_fresh(&mut self, now_ms: i64) -> Option<Ticket> {
        self.set_old_apart(now_ms);
        self.claimed.pop_front().map(|(ticket, _)| ticket)
    }

    fn set_old_apart(&mut self, now_ms: i64) {
        let (fresh, old): (VecDeque<_>, VecDeque<_>) =
            self.claimed.drain(..).partition(|(_, old_at_ms)| now_ms < *old_at_ms);
        self.claimed = fresh;
        self.old.extend(old.into_iter().map(|(ticket, _)| ticket));
    }
}

/// Half of what is left of the lease from `now_ms` on. A lease can be shorter than was asked for: the job's deadline
/// cuts it.
fn old_at_ms(ticket: &Ticket, now_ms: i64) -> i64 {
    let left_ms = ticket.lease_until_ms().saturating_sub(now_ms).max(0);
    now_ms.saturating_add(left_ms / 2)
}

/// The same answer for every ticket.
fn all<T: Copy>(count: usize, answer: T) -> Answers<T> {
    (0..count).map(|_| Ok(answer)).collect()
}
