//! One slot of a worker: a job at a time, from the claim to the finish.

use std::cell::Cell;
use std::error::Error;
use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::Shared;

use super::desk::Desk;
use super::keep::{Kept, keep, left};
use super::turn::Turn;
use super::wake::Wake;
use super::{Happening, Observer, WorkOptions, Worked, count};
use crate::port::{Clock, Fault, Lane};
use crate::rules::{Delay, Jitter, Outcome, Status, Ticket};
use crate::shell::courier::verdict;
use crate::shell::sender::{SendError, Sender};
use crate::shell::trouble::{Line, Trouble};
use crate::storage::{
    ClaimError, FinishError, FinishOrder, Finished, LeaseQueue, MayBeBusy, Released, Renewed,
};

/// Logs with the ticket's identity.
macro_rules! log {
    ($level:ident, $ticket:expr, $($rest:tt)+) => {
        tracing::$level!(
            id = %$ticket.id,
            token = $ticket.token.get(),
            attempt = $ticket.attempt.get(),
            owner = %$ticket.owner,
            $($rest)+
        )
    };
}

/// The first wait after a failure of the queue, and the longest.
const TROUBLE_MIN: Duration = Duration::from_millis(50);
const TROUBLE_MAX: Duration = Duration::from_secs(1);

/// What can go wrong for long, of all slots together.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    claim: Trouble,
    renew: Trouble,
    finish: Trouble,
}

pub(super) struct Slot<'a, C, F, L, Q> {
    pub(super) clock: &'a C,
    pub(super) fault: &'a F,
    pub(super) options: &'a WorkOptions,
    pub(super) jitter: &'a dyn Fn() -> Jitter,
    pub(super) wake: &'a Wake,
    pub(super) observer: &'a dyn Observer,
    pub(super) turn: &'a Turn<'a, C>,
    pub(super) troubles: &'a Troubles,
    pub(super) lane: L,
    /// Where there is one, it claims and finishes.
    pub(super) desk: Option<&'a Desk<'a, C, F, L, Q>>,
    pub(super) worked: &'a Cell<Worked>,
}

impl<C, F, L, Q> Slot<'_, C, F, L, Q>
where
    Q: LeaseQueue + 'static,
    C: Clock + Send,
    F: Fault + Clone + Send + 'static,
    L: Lane<Q>,
{
    /// Works until the shutdown, and closes the connection.
    pub(super) async fn work<S: Sender>(self, mut sender: S, shutdown: Shared<impl Future<Output = ()>>) {
        let mut idle = Waits::new(self.options.poll_min.duration(), self.options.poll_max.duration());
        let mut trouble = Waits::new(TROUBLE_MIN, TROUBLE_MAX);
        while !is_over(&shutdown) {
            let seen = self.wake.count();
            let wait = match self.claim().await {
                Ok(Some(ticket)) if is_over(&shutdown) => {
                    over("claim", self.troubles.claim.worked());
                    self.release(ticket).await;
                    break;
                }
                Ok(Some(ticket)) => {
                    over("claim", self.troubles.claim.worked());
                    (idle, trouble) = (idle.anew(), trouble.anew());
                    self.deliver(&mut sender, ticket).await;
                    continue;
                }
                Ok(None) => {
                    over("claim", self.troubles.claim.idled(self.turn.began_ms()));
                    trouble = trouble.anew();
                    idle.next(self.jitter)
                }
                Err(error) => {
                    if let Some(Line { left_out }) = self.troubles.claim.failed(self.turn.began_ms()) {
                        tracing::warn!(%error, owner = %self.options.owner, left_out, "nothing could be claimed");
                    }
                    self.failed("claim", &error, error.is_busy());
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
    async fn deliver<S: Sender>(&self, sender: &mut S, ticket: Ticket) {
        count(self.worked, |worked| worked.claimed += 1);
        self.observer.saw(&Happening::Claimed { ticket: &ticket });
        let claimed = ticket.clone();
        let attempt = ticket.attempt;
        // keep looks at the clock before it sends (M10).
        let send = sender.send(ticket.event());
        let renew = async |ticket| self.renew(ticket).await;
        let Kept::Sent(sent, ticket) = keep(self.clock, self.options.lease, ticket, send, renew).await else {
            log!(warn, claimed, "the lease was lost");
            self.observer.saw(&Happening::LeaseLost { ticket: &claimed });
            return count(self.worked, |worked| worked.stale += 1);
        };
        self.observer.saw(&Happening::Answered { ticket: &ticket, answer: answer(&sent) });
        match &sent {
            // Whether it is tried again is not known yet.
            Err(SendError::Retryable { cause, .. }) => log!(info, ticket, error = %cause, "not delivered"),
            Err(error @ SendError::Permanent { .. }) => log!(info, ticket, %error, "not delivered"),
            Ok(()) | Err(_) => {}
        }
        let jitter = (self.jitter)();
        match verdict(sent, attempt, self.options.retry, self.options.limits, jitter) {
            Ok((outcome, delay)) => self.finish(ticket, outcome, delay).await,
            Err(error) => {
                log!(warn, ticket, %error, "left to its lease");
                self.observer.saw(&Happening::LeftToLease { ticket: &ticket });
                count(self.worked, |worked| worked.unknown += 1);
            }
        }
    }

    /// Records an outcome, and tries to for as long as the lease lasts.
    async fn finish(&self, ticket: Ticket, outcome: Outcome, delay: Delay) {
        let mut trouble = Waits::new(TROUBLE_MIN, TROUBLE_MAX);
        loop {
            let error = match self.finish_once(&ticket, outcome, delay).await {
                Ok(finished) => {
                    // A stale one writes nothing, which says nothing about the disk.
                    over(
                        "finish",
                        match finished {
                            Finished::Now(_) => self.troubles.finish.worked(),
                            Finished::Stale => self.troubles.finish.idled(self.turn.began_ms()),
                        },
                    );
                    match (finished, outcome) {
                        (Finished::Now(Status::Dead), Outcome::Permanent) => {
                            log!(warn, ticket, "dead: refused for good");
                        }
                        (Finished::Now(Status::Dead), _) => {
                            log!(warn, ticket, "dead: out of attempts or time")
                        }
                        _ => log!(debug, ticket, ?finished, "finished"),
                    }
                    self.observer.saw(&Happening::Finished { ticket: &ticket, outcome, delay, finished });
                    return count(self.worked, |worked| match finished {
                        Finished::Now(Status::Done) => worked.done += 1,
                        Finished::Now(Status::Dead) => worked.dead += 1,
                        Finished::Now(_) => worked.retried += 1,
                        Finished::Stale => worked.stale += 1,
                    });
                }
                Err(error) => error,
            };
            if let Some(Line { left_out }) = self.troubles.finish.failed(self.turn.began_ms()) {
                log!(warn, ticket, %error, left_out, "the outcome could not be recorded");
            }
            self.failed("finish", &error, error.is_busy());
            if left(self.clock, &ticket).is_none() {
                self.observer.saw(&Happening::LeaseLost { ticket: &ticket });
                return count(self.worked, |worked| worked.stale += 1);
            }
            self.clock.sleep(trouble.next(self.jitter)).await;
        }
    }

    async fn claim(&self) -> Result<Option<Ticket>, ClaimError> {
        if let Some(desk) = self.desk {
            return desk.claim().await;
        }
        let transaction = async || {
            let (owner, lease) = (self.options.owner.clone(), self.options.lease);
            let (clock, mut fault) = (self.clock.clone(), self.fault.clone());
            let job = move |queue: &mut Q| queue.claim_at(&owner, &mut || clock.now(), lease, &mut fault);
            self.lane.call("claim", job).await
        };
        self.turn.take(transaction, ClaimError::is_busy).await
    }

    async fn renew(&self, ticket: Ticket) -> Result<Renewed, ClaimError> {
        let transaction = async || {
            let (ticket, lease) = (ticket.clone(), self.options.lease);
            let (clock, mut fault) = (self.clock.clone(), self.fault.clone());
            let job = move |queue: &mut Q| queue.renew(&ticket, &mut || clock.now(), lease, &mut fault);
            self.lane.call("renew", job).await
        };
        let renewed = self.turn.take(transaction, ClaimError::is_busy).await;
        match &renewed {
            Ok(_) => over("renew", self.troubles.renew.worked()),
            Err(error) => {
                if let Some(Line { left_out }) = self.troubles.renew.failed(self.turn.began_ms()) {
                    log!(warn, ticket, %error, left_out, "the lease could not be renewed");
                }
            }
        }
        renewed
    }

    /// `Stale` also where the clock fails: then nobody can say that the ticket still holds.
    async fn finish_once(
        &self,
        ticket: &Ticket,
        outcome: Outcome,
        delay: Delay,
    ) -> Result<Finished, FinishError> {
        if let Some(desk) = self.desk {
            return desk.finish(FinishOrder { ticket: ticket.clone(), outcome, delay }).await;
        }
        let transaction = async || {
            let Ok(now) = self.clock.now() else { return Ok(Finished::Stale) };
            let (ticket, mut fault) = (ticket.clone(), self.fault.clone());
            let job = move |queue: &mut Q| queue.finish(&ticket, outcome, now, delay, &mut fault);
            self.lane.call("finish", job).await
        };
        self.turn.take(transaction, FinishError::is_busy).await
    }

    /// Gives a job back that was claimed but not sent. Where that fails it comes back when the lease ends.
    async fn release(&self, ticket: Ticket) {
        count(self.worked, |worked| worked.claimed += 1);
        let transaction = async || {
            let Ok(now) = self.clock.now() else { return Ok(Released::Stale) };
            let (ticket, mut fault) = (ticket.clone(), self.fault.clone());
            self.lane.call("release", move |queue: &mut Q| queue.release(&ticket, now, &mut fault)).await
        };
        let released = match self.turn.take(transaction, FinishError::is_busy).await {
            Ok(released) => released,
            Err(error) => {
                self.failed("release", &error, error.is_busy());
                return log!(warn, ticket, %error, "not released, left to its lease");
            }
        };
        self.observer.saw(&Happening::Released { ticket: &ticket, released });
        count(self.worked, |worked| match released {
            Released::Pending => worked.released += 1,
            Released::Stale => worked.stale += 1,
        });
    }

    fn failed(&self, operation: &'static str, error: &dyn Error, is_busy: bool) {
        self.observer.saw(&Happening::QueueFailed { operation, error, is_busy });
    }
}

/// Says that a trouble is over, where there was one.
fn over(operation: &str, failures: Option<u64>) {
    if let Some(failures) = failures {
        tracing::info!(operation, failures, "the queue can be worked on again");
    }
}

/// The answer as the observer gets it.
const fn answer(sent: &Result<(), SendError>) -> Result<(), &SendError> {
    match sent {
        Ok(()) => Ok(()),
        Err(error) => Err(error),
    }
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
