//! How a job's event leaves the house: the seam between the courier and whatever carries it (HTTP, a test).

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use crate::rules::Event;

/// Sends one event.
pub trait Sender {
    /// Sends `event` once and waits for the answer. `Ok` means acknowledged, and nothing else does (Q50).
    ///
    /// # Errors
    /// [`SendError`] says what the courier does next.
    fn send(&mut self, event: Event) -> impl Future<Output = Result<(), SendError>>;
}

/// Why an event was not acknowledged.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// Not delivered, and worth another attempt within the job's budget (Q51).
    #[error("not delivered, to be tried again: {cause}")]
    Retryable {
        /// What happened.
        cause: Cause,
        /// The shortest wait that the receiver asked for (`Retry-After`, W2).
        retry_after: Option<Duration>,
    },
    /// Refused for good: the job dies (Q51).
    #[error("refused for good: {cause}")]
    Permanent {
        /// What the receiver said.
        cause: Cause,
    },
    /// Something came back that is no acknowledgement: whether the event was delivered is unknown. The job
    /// stays leased and comes back when the lease ends (Q50, Q52).
    #[error("no acknowledgement: {cause}")]
    BadAck {
        /// What came back.
        cause: Cause,
    },
    /// Any other failure; comes out unchanged, the job stays leased (Q52).
    #[error(transparent)]
    Other(Cause),
}

/// The error beneath a [`SendError`].
pub type Cause = Box<dyn Error + Send + Sync>;

impl SendError {
    /// A [`SendError::Retryable`] without a wait of the receiver's choosing.
    pub fn retryable(cause: impl Into<Cause>) -> Self {
        Self::Retryable { cause: cause.into(), retry_after: None }
    }

    /// A [`SendError::Permanent`].
    pub fn permanent(cause: impl Into<Cause>) -> Self {
        Self::Permanent { cause: cause.into() }
    }

    /// A [`SendError::BadAck`].
    pub fn bad_ack(cause: impl Into<Cause>) -> Self {
        Self::BadAck { cause: cause.into() }
    }
}
