//! A run of the consumer (R36 to R41): open the store, connect, resume, consume to the end of the stream.

use std::path::{Path, PathBuf};

use super::session::{BeforeAck, Doing, SessionError, SessionOptions, consume_session, limited, send};
use super::wait::reclaim;
use crate::port::{Blocking, Clock, Fault, Lane, Network};
use crate::rules::resume_line;
use crate::storage::{Durability, EventStore, OpenOptions, State, StorageError};

/// The ports of a consumer.
#[derive(Debug, Clone)]
pub struct Client<C, N, B, F, E> {
    /// Limits the waits.
    pub clock: C,
    /// Connects.
    pub network: N,
    /// Owns the store.
    pub blocking: B,
    /// Called before the cursor moves and before each ACK.
    pub fault: F,
    /// Opens the store: [`Store::open`](crate::storage::Store::open).
    pub open: fn(&Path, &OpenOptions) -> Result<E, StorageError>,
}

/// What a consumer connects to and where it keeps its store.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The publisher, `host:port`.
    pub address: String,
    /// The store's file; created where it is missing.
    pub path: PathBuf,
    /// How the file is opened.
    pub open: OpenOptions,
    /// How a session goes about it.
    pub session: SessionOptions,
}

impl ClientOptions {
    /// A store under [`Durability::Extra`] on SQLite's default VFS.
    #[must_use]
    pub fn new(address: impl Into<String>, path: impl Into<PathBuf>, session: SessionOptions) -> Self {
        let open = OpenOptions::new(Durability::Extra);
        Self { address: address.into(), path: path.into(), open, session }
    }
}

/// One run: opens the store, connects, sends `RESUME`, consumes until the publisher ends the stream, and
/// returns where the store then stands (R37 to R39). Store and socket are closed on every path (R40, R41).
///
/// # Errors
/// [`SessionError`]; where the store fails no connection is made.
pub async fn run_client<C, N, B, F, E>(
    client: &Client<C, N, B, F, E>,
    options: &ClientOptions,
    before_ack: BeforeAck<'_>,
) -> Result<State, SessionError>
where
    C: Clock,
    N: Network,
    B: Blocking,
    F: Fault + Clone + Send + 'static,
    E: EventStore + 'static,
{
    let store = client.open_store(options).await?;
    let result = client.connect_and_consume(options, &store, before_ack).await;
    store.close().await;
    result
}

impl<C, N, B, F, E> Client<C, N, B, F, E>
where
    C: Clock,
    N: Network,
    B: Blocking,
    F: Fault + Clone + Send + 'static,
    E: EventStore + 'static,
{
    pub(super) async fn open_store(&self, options: &ClientOptions) -> Result<B::Lane<E>, SessionError> {
        let (open, path, how) = (self.open, options.path.clone(), options.open.clone());
        Ok(self.blocking.open("open", move || open(&path, &how)).await?)
    }

    /// One connection with a store that is open.
    pub(super) async fn connect_and_consume(
        &self,
        options: &ClientOptions,
        store: &impl Lane<E>,
        before_ack: BeforeAck<'_>,
    ) -> Result<State, SessionError> {
        let Self { clock, network, fault, .. } = self;
        let timeout = options.session.timeout;
        let mut stream =
            limited(clock, timeout, Doing::Connecting, network.connect(&options.address)).await?;
        let resumed = async {
            let state = store.call("state", |store| store.state()).await?;
            send(&mut stream, clock, timeout, resume_line(state.last).as_bytes()).await
        };
        if let Err(error) = resumed.await {
            // The first error is what comes out (R41).
            let _ = reclaim(clock, timeout, stream).await;
            return Err(error);
        }
        consume_session(stream, store, clock, fault.clone(), options.session, before_ack).await
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
