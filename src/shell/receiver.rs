//! The receiver (W3, part Y): takes events over HTTP, each at most once, and answers after the commit. All
//! connections, and the commits that they share, run in the one task that runs [`receive`].

mod group;
mod observer;
mod refusal;
mod request;

use std::cell::Cell;
use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt;
use hyper::Request;
use hyper::body::Incoming;

use super::http_server::{Reply, ServerLimits, serve};
use super::signature::Secrets;
use super::worker::NoObserver;
use crate::port::{Clock, Fault, Lane, Listener};
use crate::rules::Timeout;
use crate::storage::{Accepted, Arrival, EventInbox};
use group::Group;
use refusal::Refusal;

pub use observer::{Answer, CommitFailed, OnAnswer, RequestObserver};

/// How a receiver goes about it.
#[derive(Debug, Clone)]
pub struct ReceiverOptions {
    /// How long a connection is kept that waits for a request, or for the rest of its head.
    pub head_timeout: Timeout,
    /// The limit on a request's whole body.
    pub body_timeout: Timeout,
    /// How long requests may take to end after the shutdown.
    pub grace: Timeout,
    /// Connections served at once, at least 1; others wait to be accepted.
    pub connections_max: usize,
    /// The most events that share a transaction, at least 1 (which means: none do).
    pub group_max: usize,
    /// Where given, a request counts only with a signature by one of them.
    pub secrets: Option<Secrets>,
    /// How far a signature's time may lie from the clock.
    pub tolerance: Duration,
}

/// What a receiver has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Received {
    /// Connections accepted.
    pub connections: u64,
    /// Events that took effect.
    pub applied: u64,
    /// Events that were here before.
    pub repeats: u64,
    /// Requests that were answered with an error.
    pub refused: u64,
    /// Connections that were still busy when the grace time was over.
    pub cut: u64,
}

/// Serves requests until `shutdown` completes; then no connection is accepted any more, requests that have begun
/// are answered, within the grace time, and all else is closed. Dropping the future closes everything at once;
/// what was being committed then still is.
///
/// A request that is refused changes nothing and gets a 4xx whose body is `{"error":…,"message":…}`; so does,
/// with 503, one whose commit failed, and the sender may try again.
pub async fn receive<I, L, C, F>(
    listener: impl Listener,
    inbox: &L,
    clock: &C,
    options: &ReceiverOptions,
    fault: F,
    shutdown: impl Future<Output = ()>,
) -> Received
where
    I: EventInbox + 'static,
    L: Lane<I>,
    C: Clock,
    F: Fault + Clone + Send + 'static,
{
    let received = Cell::default();
    let extras = ReceiverExtras { received: &received, observer: &NoObserver };
    receive_observed(listener, inbox, clock, options, fault, shutdown, extras).await;
    received.get()
}

/// What a receiver can have besides.
#[derive(Clone, Copy)]
pub struct ReceiverExtras<'a> {
    /// What is done is added to this while it is done: to what was done before, where it goes on.
    pub received: &'a Cell<Received>,
    /// Is told of each request and each commit.
    pub observer: &'a dyn RequestObserver,
}

/// [`receive`], observed.
pub async fn receive_observed<I, L, C, F>(
    listener: impl Listener,
    inbox: &L,
    clock: &C,
    options: &ReceiverOptions,
    fault: F,
    shutdown: impl Future<Output = ()>,
    extras: ReceiverExtras<'_>,
) where
    I: EventInbox + 'static,
    L: Lane<I>,
    C: Clock,
    F: Fault + Clone + Send + 'static,
{
    let receiver = Receiver { clock, options, group: Group::default(), extras };
    let limits = ServerLimits {
        head_timeout: options.head_timeout,
        grace: options.grace,
        connections_max: options.connections_max,
    };
    let on_accept = || receiver.count(|received| received.connections += 1);
    let answer = |request| receiver.answer(request);
    let serving = serve(listener, clock, limits, shutdown.shared(), on_accept, answer);
    tokio::select! {
        biased;
        cut = serving => receiver.count(|received| received.cut += cut as u64),
        never = receiver.group.commit(inbox, options.group_max.max(1), fault, extras.observer) => match never {},
    }
}

/// What the connections share.
struct Receiver<'a, C> {
    clock: &'a C,
    options: &'a ReceiverOptions,
    group: Group,
    extras: ReceiverExtras<'a>,
}

impl<C: Clock> Receiver<'_, C> {
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        let on_answer = self.extras.observer.began(request.headers());
        let (answer, reply) = match self.take(request).await {
            Ok(accepted) => (Answer::from(accepted), refusal::ok()),
            Err(refusal) => {
                tracing::info!(%refusal, "refused");
                (refusal.answer(), refusal.reply())
            }
        };
        self.count(|received| match answer {
            Answer::New => received.applied += 1,
            Answer::Repeat => received.repeats += 1,
            Answer::Refused { .. } => received.refused += 1,
        });
        if let Some(tell) = on_answer {
            tell(answer);
        }
        reply
    }

    /// From the request to the commit.
    async fn take(&self, request: Request<Incoming>) -> Result<Accepted, Refusal> {
        let at = self.clock.now().map_err(|error| Refusal::Unavailable(error.to_string()))?;
        let event = request::read(request, self.clock, self.options, at).await?;
        self.group.take(Arrival { event, at }).await
    }

    fn count(&self, change: impl FnOnce(&mut Received)) {
        let mut received = self.extras.received.get();
        change(&mut received);
        self.extras.received.set(received);
    }
}

impl From<Accepted> for Answer {
    fn from(accepted: Accepted) -> Self {
        match accepted {
            Accepted::Applied => Self::New,
            Accepted::Repeat => Self::Repeat,
        }
    }
}
