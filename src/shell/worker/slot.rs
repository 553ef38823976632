//! One slot of a worker: a job at a time, from the claim to the finish.

use std::cell::Cell;
use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::Shared;

use super::keep::{Kept, keep, left};
use super::turn::Turn;
use super::wake::Wake;
use super::{WorkOptions, Worked, count};
use crate::port::{Clock, Fault, Lane};
use crate::rules::{Delay, Jitter, Outcome, Status, Ticket};
use crate::shell::courier::verdict;
use crate::shell::sender::{SendError, Sender};
use crate::storage::{ClaimError, FinishError, Finished, LeaseQueue, Released, Renewed};

/// The first wait after a failure of the queue, and the longest.
const TROUBLE_MIN: Duration = Duration::from_millis(50);
const TROUBLE_MAX: Duration = Duration::from_secs(1);

pub(super) struct Slot<'a, C, F, L> {
    pub(super) clock: &'a C,
    pub(super) fault: &'a F,
    pub(super) options: &'a WorkOptions,
    pub(super) jitter: &'a dyn Fn() -> Jitter,
    pub(super) wake: &'a Wake,
    pub(super) turn: &'a Turn<'a, C>,
    pub(super) lane: L,
    pub(super) worked: &'a Cell<Worked>,
}

impl<C, F, L> Slot<'_, C, F, L>
where
    C: Clock + Send,
    F: Fault + Clone + Send + 'static,
{
    /// Works until the shutdown, and closes the connection.
    pub(super) async fn work<Q, S>(self, mut sender: S, shutdown: Shared<impl Future<Output = ()>>)
    where
        Q: LeaseQueue + 'static,
        L: Lane<Q>,
        S: Sender,
    {
        let mut idle = Waits::new(self.options.poll_min.duration(), self.options.poll_max.duration());
        let mut trouble = Waits::new(TROUBLE_MIN, TROUBLE_MAX);
        while !is_over(&shutdown) {
            let seen = self.wake.count();
            let wait = match self.claim().await {
                Ok(Some(ticket)) if is_over(&shutdown) => {
                    self.release(ticket).await;
                    break;
                }
                Ok(Some(ticket)) => {
                    (idle, trouble) = (idle.anew(), trouble.anew());
                    self.deliver(&mut sender, ticket).await;
                    continue;
                }
                Ok(None) => {
                    trouble = trouble.anew();
                    idle.next(self.jitter)
                }
                Err(error) => {
                    tracing::warn!(%error, "nothing could be claimed");
                    trouble.next(self.jitter)
                }
            };
            tokio::select! {
                biased;
                () = shutdown.clone() => {}
                () = self.wake.after(seen) => idle = idle.anew(),
                () = self.clock.sleep(wait) => {}
            }
        }
        self.lane.close().await;
    }

    /// Sends a claimed job and records how it went.
    async fn deliver<Q, S>(&self, sender: &mut S, ticket: Ticket)
    where
        Q: LeaseQueue + 'static,
        L: Lane<Q>,
        S: Sender,
    {
        count(self.worked, |worked| worked.claimed += 1);
        let (id, attempt) = (ticket.id.clone(), ticket.attempt);
        // keep looks at the clock before it sends (M10).
        let send = sender.send(ticket.event());
        let renew = async |ticket| self.renew(ticket).await;
        let Kept::Sent(sent, ticket) = keep(self.clock, self.options.lease, ticket, send, renew).await else {
            tracing::warn!(%id, "the lease was lost");
            return count(self.worked, |worked| worked.stale += 1);
        };
        if let Err(error @ (SendError::Retryable { .. } | SendError::Permanent { .. })) = &sent {
            tracing::info!(%id, attempt = attempt.get(), %error, "not delivered");
        }
        let jitter = (self.jitter)();
        match verdict(sent, attempt, self.options.retry, self.options.limits, jitter) {
            Ok((outcome, delay)) => self.finish(ticket, outcome, delay).await,
            Err(error) => {
                tracing::warn!(%id, attempt = attempt.get(), %error, "left to its lease");
                count(self.worked, |worked| worked.unknown += 1);
            }
        }
    }

    /// Records an outcome, and tries to for as long as the lease lasts.
    async fn finish<Q>(&self, ticket: Ticket, outcome: Outcome, delay: Delay)
    where
        Q: LeaseQueue + 'static,
        L: Lane<Q>,
    {
        let mut trouble = Waits::new(TROUBLE_MIN, TROUBLE_MAX);
        loop {
            let error = match self.finish_once(&ticket, outcome, delay).await {
                Ok(finished) => {
                    tracing::debug!(id = %ticket.id, ?finished, "finished");
                    return count(self.worked, |worked| match finished {
                        Finished::Now(Status::Done) => worked.done += 1,
                        Finished::Now(Status::Dead) => worked.dead += 1,
                        Finished::Now(_) => worked.retried += 1,
                        Finished::Stale => worked.stale += 1,
                    });
                }
                Err(error) => error,
            };
            tracing::warn!(id = %ticket.id, %error, "the outcome could not be recorded");
            if left(self.clock, &ticket).is_none() {
                return count(self.worked, |worked| worked.stale += 1);
            }
            self.clock.sleep(trouble.next(self.jitter)).await;
        }
    }

    async fn claim<Q>(&self) -> Result<Option<Ticket>, ClaimError>
    where
        Q: LeaseQueue + 'static,
        L: Lane<Q>,
    {
        let transaction = async || {
            let (owner, lease) = (self.options.owner.clone(), self.options.lease);
            let (clock, mut fault) = (self.clock.clone(), self.fault.clone());
            let job = move |queue: &mut Q| queue.claim_at(&owner, &mut || clock.now(), lease, &mut fault);
            self.lane.call("claim", job).await
        };
        self.turn.take(transaction, claim_is_busy).await
    }

    async fn renew<Q>(&self, ticket: Ticket) -> Result<Renewed, ClaimError>
    where
        Q: LeaseQueue + 'static,
        L: Lane<Q>,
    {
        let transaction = async || {
            let (ticket, lease) = (ticket.clone(), self.options.lease);
            let (clock, mut fault) = (self.clock.clone(), self.fault.clone());
            let job = move |queue: &mut Q| queue.renew(&ticket, &mut || clock.now(), lease, &mut fault);
            self.lane.call("renew", job).await
        };
        self.turn.take(transaction, claim_is_busy).await
    }

    /// `Stale` also where the clock fails: then nobody can say that the ticket still holds.
    async fn finish_once<Q>(
        &self,
        ticket: &Ticket,
        outcome: Outcome,
        delay: Delay,
    ) -> Result<Finished, FinishError>
    where
        Q: LeaseQueue + 'static,
        L: Lane<Q>,
    {
        let transaction = async || {
            let Ok(now) = self.clock.now() else { return Ok(Finished::Stale) };
            let (ticket, mut fault) = (ticket.clone(), self.fault.clone());
            let job = move |queue: &mut Q| queue.finish(&ticket, outcome, now, delay, &mut fault);
            self.lane.call("finish", job).await
        };
        self.turn.take(transaction, finish_is_busy).await
    }

    /// Gives a job back that was claimed but not sent. Where that fails it comes back when the lease ends.
    async fn release<Q>(&self, ticket: Ticket)
    where
        Q: LeaseQueue + 'static,
        L: Lane<Q>,
    {
        count(self.worked, |worked| worked.claimed += 1);
        let transaction = async || {
            let Ok(now) = self.clock.now() else { return Ok(Released::Stale) };
            let (ticket, mut fault) = (ticket.clone(), self.fault.clone());
            self.lane.call("release", move |queue: &mut Q| queue.release(&ticket, now, &mut fault)).await
        };
        match self.turn.take(transaction, finish_is_busy).await {
            Ok(Released::Pending) => count(self.worked, |worked| worked.released += 1),
            Ok(Released::Stale) => count(self.worked, |worked| worked.stale += 1),
            Err(error) => tracing::warn!(id = %ticket.id, %error, "not released, left to its lease"),
        }
    }
}

fn claim_is_busy(error: &ClaimError) -> bool {
    matches!(error, ClaimError::Storage(error) if error.is_busy())
}

fn finish_is_busy(error: &FinishError) -> bool {
    matches!(error, FinishError::Storage(error) if error.is_busy())
}

fn is_over(shutdown: &Shared<impl Future<Output = ()>>) -> bool {
    shutdown.clone().now_or_never().is_some()
}

/// Waits that double.
#[derive(Debug, Clone, Copy)]
struct Waits {
    next: Duration,
    min: Duration,
    max: Duration,
}

impl Waits {
    fn new(min: Duration, max: Duration) -> Self {
        Self { next: min.min(max), min: min.min(max), max }
    }

    const fn anew(self) -> Self {
        Self { next: self.min, ..self }
    }

    /// The next wait, a half of it random, so that many workers do not come all at once.
    fn next(&mut self, jitter: &dyn Fn() -> Jitter) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(self.max);
        wait.mul_f64(0.5 + jitter().get() / 2.0)
    }
}
