//! The receiver (W3, part Y): takes events over HTTP, each at most once, and answers after the commit. All
//! connections, and the commits that they share, run in the one task that runs [`receive`].

mod connection;
mod group;
mod refusal;
mod request;

use std::cell::Cell;
use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};

use super::signature::Secrets;
use super::wait::within;
use crate::port::{Clock, Fault, Lane, Listener};
use crate::rules::Timeout;
use crate::storage::{Accepted, Arrival, EventInbox};
use group::Group;
use refusal::Refusal;

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

/// Pause after a failed accept: what it failed of (no descriptor left, say) needs time to pass.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

type Reply = Response<Full<Bytes>>;

/// Serves requests until `shutdown` completes; then no connection is accepted any more, requests that have begun
/// are answered, within the grace time, and all else is closed. Dropping the future closes everything at once;
/// what was being committed then still is.
///
/// A request that is refused changes nothing and gets a 4xx whose body is `{"error":…,"message":…}`; so does,
/// with 503, one whose commit failed, and the sender may try again.
pub async fn receive<I, L, C, F>(
    mut listener: impl Listener,
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
    let receiver = Receiver { clock, options, group: Group::default(), received: Cell::default() };
    let shutdown = shutdown.shared();
    let serving = async {
        let mut connections = FuturesUnordered::new();
        loop {
            let has_room = connections.len() < options.connections_max.max(1);
            tokio::select! {
                biased;
                () = shutdown.clone() => break,
                Some(()) = connections.next() => {}
                accepted = listener.accept(), if has_room => match accepted {
                    Ok((stream, peer)) => {
                        receiver.count(|received| received.connections += 1);
                        connections.push(receiver.serve(stream, peer, shutdown.clone()));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "accept failed");
                        clock.sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        }
        drop(listener);
        let ended = async { while connections.next().await.is_some() {} };
        if within(clock, options.grace, ended).await.is_err() {
            receiver.count(|received| received.cut = connections.len() as u64);
            tracing::warn!(connections = connections.len(), "cut off: the grace time is over");
        }
    };
    tokio::select! {
        biased;
        () = serving => receiver.received.get(),
        never = receiver.group.commit(inbox, options.group_max.max(1), fault) => match never {},
    }
}

/// What the connections share.
struct Receiver<'a, C> {
    clock: &'a C,
    options: &'a ReceiverOptions,
    group: Group,
    received: Cell<Received>,
}

impl<C: Clock> Receiver<'_, C> {
    async fn serve(
        &self,
        stream: impl crate::port::Stream,
        peer: String,
        shutdown: impl Future<Output = ()> + Unpin,
    ) {
        let limit = self.options.head_timeout;
        let served = connection::serve(stream, self.clock, limit, shutdown, |request| self.answer(request));
        match served.await {
            Ok(()) => tracing::debug!(%peer, "connection ended"),
            Err(error) => tracing::info!(%peer, %error, "connection failed"),
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Reply {
        match self.take(request).await {
            Ok(accepted) => {
                self.count(|received| match accepted {
                    Accepted::Applied => received.applied += 1,
                    Accepted::Repeat => received.repeats += 1,
                });
                refusal::ok()
            }
            Err(refusal) => {
                tracing::info!(%refusal, "refused");
                self.count(|received| received.refused += 1);
                refusal.reply()
            }
        }
    }

    /// From the request to the commit.
    async fn take(&self, request: Request<Incoming>) -> Result<Accepted, Refusal> {
        let at = self.clock.now().map_err(|error| Refusal::Unavailable(error.to_string()))?;
        let event = request::read(request, self.clock, self.options, at).await?;
        self.group.take(Arrival { event, at }).await
    }

    fn count(&self, change: impl FnOnce(&mut Received)) {
        let mut received = self.received.get();
        change(&mut received);
        self.received.set(received);
    }
}
