//! Batches: one desk claims and finishes for all slots of a worker, so that they share transactions. Each job keeps a
//! ticket of its own, is fenced on its own and gets an answer of its own.
//!
//! What arrives while a transaction runs shares the next one. A job that was claimed and waits for a slot for longer
//! than half its lease is given back, and so are those that still wait at the end.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::marker::PhantomData;

use tokio::sync::{Notify, oneshot};

use super::keep::left;
use super::turn::Turn;
use super::{Happening, Observer, WorkOptions, Worked, claim_is_busy, count, finish_is_busy};
use crate::port::{Clock, Fault, Lane};
use crate::rules::Ticket;
use crate::storage::{ClaimError, FinishError, FinishOrder, Finished, LeaseQueue, Released};

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
    /// Claimed, and not yet taken by a slot.
    claimed: VecDeque<Ticket>,
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
    Wait,
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
        {
            let mut papers = self.papers.borrow_mut();
            while let Some(ticket) = papers.claimed.pop_front() {
                if self.is_fresh(&ticket) {
                    return Ok(Some(ticket));
                }
                papers.old.push(ticket);
            }
            papers.hungry.push_back(reply);
        }
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
                Task::Wait => self.arrived.notified().await,
            }
        }
    }

    /// Gives back what no slot has taken.
    pub(super) async fn give_back(&self) {
        let papers = self.papers.take();
        let tickets: Vec<_> = papers.claimed.into_iter().chain(papers.old).collect();
        if !tickets.is_empty() {
            self.release(tickets).await;
        }
    }

    fn next(&self) -> Task {
        let mut papers = self.papers.borrow_mut();
        papers.hungry.retain(|reply| !reply.is_closed());
        if !papers.old.is_empty() {
            return Task::Release(std::mem::take(&mut papers.old));
        }
        if !papers.hungry.is_empty() {
            return Task::Claim;
        }
        if papers.finishing.is_empty() { Task::Wait } else { Task::Finish }
    }

    async fn claim_many(&self) {
        let transaction = async || {
            let (owner, lease, batch) = (self.options.owner.clone(), self.options.lease, self.batch);
            let (clock, mut fault) = (self.clock.clone(), self.fault.clone());
            let job =
                move |queue: &mut Q| queue.claim_many(&owner, &mut || clock.now(), lease, batch, &mut fault);
            self.lane.call("claim-many", job).await
        };
        let claimed = self.turn.take(transaction, claim_is_busy).await;
        let mut papers = self.papers.borrow_mut();
        let mut error = None;
        match claimed {
            Ok(tickets) => papers.claimed.extend(tickets),
            Err(failed) => error = Some(failed),
        }
        // A slot that has gone meanwhile leaves its job to the others.
        while let Some(reply) = papers.hungry.pop_front() {
            let claimed = error.take().map_or_else(|| Ok(papers.claimed.pop_front()), Err);
            if let Err(Ok(Some(ticket))) = reply.send(claimed) {
                papers.claimed.push_front(ticket);
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
            let Ok(now) = self.clock.now() else { return Ok(stale(orders.len())) };
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
            let Ok(now) = self.clock.now() else { return Ok(Vec::new()) };
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
                    self.observer.saw(&Happening::QueueFailed { operation: "release" });
                    tracing::warn!(id = %ticket.id, %error, "not released, left to its lease");
                }
            }
        }
    }

    /// Whether at least half of the lease is left.
    fn is_fresh(&self, ticket: &Ticket) -> bool {
        let half_ms = u128::from(self.options.lease.get().unsigned_abs()) / 2;
        left(self.clock, ticket).is_some_and(|left| left.as_millis() >= half_ms)
    }
}

/// All answers as an error where the file was locked, so that the turn tries again.
fn all_or_busy<T>(answers: Answers<T>) -> Result<Answers<T>, Answers<T>> {
    let busy = answers.iter().any(|answer| answer.as_ref().is_err_and(finish_is_busy));
    if busy { Err(answers) } else { Ok(answers) }
}

fn stale(count: usize) -> Answers<Finished> {
    (0..count).map(|_| Ok(Finished::Stale)).collect()
}
