//! An HTTP server on the ports: accepts connections, as many at once as is allowed, and serves each with limits on
//! every wait. What is answered is somebody else's.

mod connection;
mod heads;
mod host;

use std::future::Future;
use std::time::Duration;

use futures_util::future::Shared;
use futures_util::stream::{FuturesUnordered, StreamExt};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};

use super::wait::within;
use crate::port::{Clock, Listener};
use crate::rules::Timeout;

pub(super) use host::{has_proper_host, is_plain};

/// Pause after a failed accept: what it failed of (no descriptor left, say) needs time to pass.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub(super) type Reply = Response<Full<Bytes>>;

/// What is allowed to those who ask.
#[derive(Debug, Clone, Copy)]
pub struct ServerLimits {
    /// How long a connection is kept that waits for a request, for the rest of its head, or to be read by its peer.
    pub head_timeout: Timeout,
    /// How long requests may take to end after the shutdown.
    pub grace: Timeout,
    /// Connections served at once, at least 1; others wait to be accepted.
    pub connections_max: usize,
}

/// Stands in the extensions of a request whose head has both Transfer-Encoding and Content-Length: where it ends is a
/// matter of opinion, and somebody in between may have had another (RFC 9112, 6.3). The connection ends after it.
#[derive(Debug, Clone, Copy)]
pub(super) struct TwoLengths;

/// Serves requests until `shutdown` completes; then no connection is accepted any more, requests that have begun are
/// answered, within the grace time, and all else is closed. Returns how many connections were cut off.
pub(super) async fn serve<A, R>(
    mut listener: impl Listener,
    clock: &impl Clock,
    limits: ServerLimits,
    shutdown: Shared<impl Future<Output = ()>>,
    on_accept: impl Fn(),
    answer: A,
) -> usize
where
    A: Fn(Request<Incoming>) -> R,
    R: Future<Output = Reply>,
{
    let mut connections = FuturesUnordered::new();
    loop {
        let has_room = connections.len() < limits.connections_max.max(1);
        tokio::select! {
            biased;
            () = shutdown.clone() => break,
            Some(()) = connections.next() => {}
            accepted = listener.accept(), if has_room => match accepted {
                Ok((stream, peer)) => {
                    on_accept();
                    connections.push(one(stream, peer, clock, limits.head_timeout, shutdown.clone(), &answer));
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
    if within(clock, limits.grace, ended).await.is_ok() {
        return 0;
    }
    tracing::warn!(connections = connections.len(), "cut off: the grace time is over");
    connections.len()
}

async fn one<A, R>(
    stream: impl crate::port::Stream,
    peer: String,
    clock: &impl Clock,
    limit: Timeout,
    shutdown: impl Future<Output = ()> + Unpin,
    answer: &A,
) where
    A: Fn(Request<Incoming>) -> R,
    R: Future<Output = Reply>,
{
    match connection::serve(stream, clock, limit, shutdown, answer).await {
        Ok(()) => tracing::debug!(%peer, "connection ended"),
        Err(error) => tracing::info!(%peer, %error, "connection failed"),
    }
}
