//! The publisher (W4): serves the events of an append-only log over any number of connections at once, all
//! in the one task that runs it.

mod connection;
mod log;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::port::{Clock, Listener, Stream};
use crate::rules::{Cursor, Timeout};
use connection::{Connection, Stop};

pub use log::{Log, LogBytes, LogError, LogPosition};

/// How a publisher goes about it.
#[derive(Debug, Clone, Copy)]
pub struct PublishOptions {
    /// The limit on each single wait for a consumer: for its `RESUME`, for an ACK that is due, for a write to
    /// be taken, for the end. A consumer that is silent for longer is taken for gone.
    pub timeout: Timeout,
    /// How long a connection with nothing to send and nothing to wait for is kept.
    pub idle_timeout: Timeout,
    /// How often the log is looked at for new events while a consumer waits for some.
    pub poll_interval: Timeout,
    /// At the end of the log, keep connections open and send what is appended. Otherwise they are closed
    /// once everything is acknowledged, which tells a consumer that it has caught up.
    pub follow: bool,
    /// Connections served at once, at least 1; others wait to be accepted.
    pub connections_max: usize,
}

/// What a publisher has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Published {
    /// Connections accepted.
    pub connections: u64,
    /// Events sent, repeats included.
    pub sent: u64,
    /// ACKs received.
    pub acknowledged: u64,
}

/// Why a publisher ended without being told to.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The log is not, or no longer, one that may be published.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Pause after a failed accept: what it failed of (no descriptor left, say) needs time to pass.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the log until `shutdown` completes: then no connection is accepted and no event sent any more; ACKs
/// that are due are waited for, within the timeout. Dropping the future closes everything at once.
///
/// # Errors
/// [`PublishError`]; what a single consumer does wrong ends its connection only.
pub async fn publish<B: LogBytes>(
    mut listener: impl Listener,
    log: Log<B>,
    clock: &impl Clock,
    options: PublishOptions,
    shutdown: impl Future<Output = ()>,
) -> Result<Published, PublishError> {
    let publisher = Publisher::new(log, clock, options);
    let shutdown = shutdown.shared();
    let mut connections = FuturesUnordered::new();
    loop {
        let has_room = connections.len() < options.connections_max.max(1);
        tokio::select! {
            biased;
            () = shutdown.clone() => break,
            Some(result) = connections.next() => result?,
            accepted = accept(&mut listener, clock), if has_room => {
                let Some((stream, peer)) = accepted else { continue };
                connections.push(publisher.serve(stream, peer, shutdown.clone()));
            }
        }
    }
    drop(listener);
    while let Some(result) = connections.next().await {
        result?;
    }
    drop(connections);
    Ok(publisher.published.get())
}

async fn accept<L: Listener>(listener: &mut L, clock: &impl Clock) -> Option<(L::Stream, String)> {
    match listener.accept().await {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            tracing::warn!(%error, "accept failed");
            clock.sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

/// Consumers remembered by host, at most.
const REMEMBERED_MAX: usize = 1024;

/// What the connections share.
struct Publisher<'a, B, C> {
    log: RefCell<Log<B>>,
    clock: &'a C,
    options: PublishOptions,
    published: Cell<Published>,
    /// The last ACK from each host whose last connection ended with an ACK still due.
    ack_due: RefCell<BTreeMap<String, Cursor>>,
}

impl<'a, B: LogBytes, C: Clock> Publisher<'a, B, C> {
    fn new(log: Log<B>, clock: &'a C, options: PublishOptions) -> Self {
        Self {
            log: RefCell::new(log),
            clock,
            options,
            published: Cell::default(),
            ack_due: RefCell::default(),
        }
    }

    /// Serves one connection to its end. Only the log's errors come out.
    async fn serve(
        &self,
        stream: impl Stream,
        peer: String,
        shutdown: impl Future<Output = ()> + Clone + Unpin,
    ) -> Result<(), LogError> {
        self.count(|published| published.connections += 1);
        tracing::info!(%peer, "consumer connected");
        match Connection::new(self, stream, shutdown).serve(&peer).await {
            Stop::Log(error) => return Err(error),
            stop @ (Stop::Peer(_) | Stop::Resync(_)) => tracing::warn!(%peer, %stop, "connection failed"),
            stop => tracing::info!(%peer, %stop, "connection ended"),
        }
        Ok(())
    }

    fn count(&self, change: impl FnOnce(&mut Published)) {
        let mut published = self.published.get();
        change(&mut published);
        self.published.set(published);
    }

    fn remember(&self, host: &str, acknowledged: Cursor) {
        let mut ack_due = self.ack_due.borrow_mut();
        if ack_due.len() == REMEMBERED_MAX && !ack_due.contains_key(host) {
            ack_due.pop_first();
        }
        ack_due.insert(host.to_owned(), acknowledged);
    }

    fn recall(&self, host: &str) -> Option<Cursor> {
        self.ack_due.borrow_mut().remove(host)
    }
}

/// A peer's address without its port, which changes with each connection.
fn host_of(peer: &str) -> &str {
    peer.rsplit_once(':').map_or(peer, |(host, _port)| host)
}

#[cfg(test)]
mod tests;
