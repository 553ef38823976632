//! The consumer that stays: it reconnects until it is told to stop, and never skips an event.

use std::future::Future;
use std::pin::pin;

use super::client::{Client, ClientOptions};
use super::session::{BeforeAck, Doing, SessionError};
use crate::port::{Blocking, Clock, Fault, Lane, Network};
use crate::rules::{Attempt, Jitter, Resync, RetryPolicy, retry_delay};
use crate::storage::{ApplyError, EventStore, State, StorageError};

/// How a consumer follows its publisher.
#[derive(Debug, Clone)]
pub struct FollowOptions {
    /// What it connects to and where it keeps its store.
    pub client: ClientOptions,
    /// The wait before the next connection, by the number of failures in a row.
    pub retry: RetryPolicy,
    /// Failures in a row after which it gives up; `None` for never.
    pub failures_max: Option<u32>,
}

/// Why a consumer no longer follows. What was committed stays.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// Too many failures in a row, and no event applied between them. Start again when the cause is mended.
    #[error("given up after {failures} failures in a row{}", shown(last.as_deref()))]
    GivenUp {
        /// How many.
        failures: u32,
        /// The last one; `None` where the publisher ended the stream.
        #[source]
        last: Option<Box<SessionError>>,
    },
    /// The publisher cannot continue from here (W4): the store needs a new start.
    #[error("the publisher holds only events {0}: a resync is needed")]
    Resync(Resync),
    /// Another connection would not help: a gap, a conflict, a hook, or SQLite.
    #[error(transparent)]
    Session(SessionError),
}

fn shown(last: Option<&SessionError>) -> String {
    last.map_or_else(|| ": the publisher ended the stream".to_owned(), |error| format!(": {error}"))
}

/// The failures' number from which the wait grows no more.
const ATTEMPT_MAX: u32 = 16;

/// Follows the publisher until `shutdown` completes, and returns where the store then stands. Between
/// connections it waits by [`retry_delay`], the more the more failures came in a row; a session that applied
/// an event starts anew.
///
/// A publisher with nothing to say looks like one that is gone: when a read times out, the consumer connects
/// again at once, and counts neither a failure nor a success. A line that is malformed or cut off, a stream
/// that ends, a busy store, and a COMMIT with an unknown outcome are failures to try again after; what it
/// resumes from is what the store then holds. It never goes on over a gap.
///
/// # Errors
/// [`FollowError`].
pub async fn follow<C, N, B, F, E>(
    client: &Client<C, N, B, F, E>,
    options: &FollowOptions,
    jitter: &mut dyn FnMut() -> Jitter,
    before_ack: BeforeAck<'_>,
    shutdown: impl Future<Output = ()>,
) -> Result<State, FollowError>
where
    C: Clock,
    N: Network,
    B: Blocking,
    F: Fault + Clone + Send + 'static,
    E: EventStore + 'static,
{
    let mut shutdown = pin!(shutdown);
    let opened = tokio::select! {
        biased;
        () = &mut shutdown => None,
        opened = open_patiently(client, options) => Some(opened?),
    };
    let Some(store) = opened else {
        let store = client.open_store(&options.client).await.map_err(FollowError::Session)?;
        return read_state(&store).await.map_err(FollowError::Session);
    };
    let stopped = tokio::select! {
        biased;
        () = shutdown => None,
        error = keep_consuming(client, options, &store, jitter, before_ack) => Some(error),
    };
    let state = read_state(&store).await;
    store.close().await;
    stopped.map_or_else(|| state.map_err(FollowError::Session), Err)
}

/// Opens the store; one that is locked for longer than the busy timeout is waited for.
async fn open_patiently<C, N, B, F, E>(
    client: &Client<C, N, B, F, E>,
    options: &FollowOptions,
) -> Result<B::Lane<E>, FollowError>
where
    C: Clock,
    N: Network,
    B: Blocking,
    F: Fault + Clone + Send + 'static,
    E: EventStore + 'static,
{
    loop {
        match client.open_store(&options.client).await {
            Err(SessionError::Storage(error)) if error.is_busy() => {
                tracing::warn!(%error, "the store is locked, trying again");
            }
            opened => return opened.map_err(FollowError::Session),
        }
        let pause_ms = options.retry.base_ms().unsigned_abs();
        client.clock.sleep(std::time::Duration::from_millis(pause_ms)).await;
    }
}

async fn keep_consuming<C, N, B, F, E>(
    client: &Client<C, N, B, F, E>,
    options: &FollowOptions,
    store: &impl Lane<E>,
    jitter: &mut dyn FnMut() -> Jitter,
    before_ack: BeforeAck<'_>,
) -> FollowError
where
    C: Clock,
    N: Network,
    B: Blocking,
    F: Fault + Clone + Send + 'static,
    E: EventStore + 'static,
{
    let mut failures = 0;
    let mut reached = None;
    loop {
        let result = client.connect_and_consume(&options.client, store, before_ack).await;
        let now = read_state(store).await.ok().map(|state| state.last);
        if now > reached {
            failures = 0;
            reached = now;
        }
        let last = match result {
            Ok(_) => None,
            Err(SessionError::Timeout { doing: Doing::Reading }) => {
                tracing::info!("nothing came within the timeout, connecting again");
                continue;
            }
            Err(SessionError::Resync(held)) => return FollowError::Resync(held),
            Err(error) if is_final(&error) => return FollowError::Session(error),
            Err(error) => Some(Box::new(error)),
        };
        failures += 1;
        tracing::warn!(failures, "connection ended{}", shown(last.as_deref()));
        if options.failures_max.is_some_and(|max| failures >= max) {
            return FollowError::GivenUp { failures, last };
        }
        let attempt = Attempt::new(failures.min(ATTEMPT_MAX).into()).expect("1 to 16");
        let delay_ms = retry_delay(attempt, options.retry, jitter()).get();
        client.clock.sleep(std::time::Duration::from_millis(delay_ms.unsigned_abs())).await;
    }
}

async fn read_state<E: EventStore + 'static>(store: &impl Lane<E>) -> Result<State, SessionError> {
    let mut tries_left = STATE_TRIES;
    loop {
        tries_left -= 1;
        match store.call("state", |store| store.state()).await {
            // Each try has waited for the lock already.
            Err(error) if error.is_busy() && tries_left > 0 => {}
            state => return Ok(state?),
        }
    }
}

/// How often a locked store is asked where it stands.
const STATE_TRIES: u32 = 5;

/// Whether another connection would meet the same.
fn is_final(error: &SessionError) -> bool {
    match error {
        SessionError::Timeout { .. } | SessionError::Connection { .. } | SessionError::Line(_) => false,
        SessionError::Apply(ApplyError::Storage(error)) | SessionError::Storage(error) => {
            // A full disk needs a person, whichever statement meets it.
            error.is_full() || !(error.is_busy() || matches!(error, StorageError::CommitUnknown(_)))
        }
        SessionError::Apply(_) | SessionError::Resync(_) | SessionError::BeforeAck { .. } => true,
    }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
