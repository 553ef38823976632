//! Why an operation failed, and the one name of it that part X prints.

use ackward::rules::{Invalid, ReplayError};
use ackward::shell::{RunOnceError, SendError};
use ackward::storage::{
    ApplyError, ClaimError, ConsumeError, EnqueueError, FinishError, RedriveError, StorageError,
};

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The line is no JSON object of a known operation.
    #[error("not an operation: {0}")]
    Malformed(String),
    /// An argument is missing, of the wrong type or out of range.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The id exists with another quantity.
    #[error("{0}")]
    Conflict(EnqueueError),
    /// The event was applied with another content, or its ledger row is missing.
    #[error("{0}")]
    Contradiction(ApplyError),
    /// An event before this one is missing.
    #[error("{0}")]
    Gap(ApplyError),
    /// The event after the consumer's last one is no longer held.
    #[error("{0}")]
    Resync(ReplayError),
    /// There is no such job, or it is not dead.
    #[error("{0}")]
    NotDead(RedriveError),
    /// SQLite failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The hook failed, as it was asked to.
    #[error("the hook failed at its point")]
    Fault,
    /// The sender of `run_once` failed in the named way.
    #[error("the sender failed: {0}")]
    Sender(&'static str),
}

impl Failure {
    /// The name that stands in the output.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Malformed(_) | Self::Invalid(_) | Self::NotDead(_) => "ValueError",
            Self::Conflict(_) | Self::Contradiction(_) => "Conflict",
            Self::Gap(_) => "Gap",
            Self::Resync(_) => "ResyncRequired",
            Self::Storage(_) => "OperationalError",
            Self::Fault => "Fault",
            Self::Sender(name) => name,
        }
    }
}

impl From<EnqueueError> for Failure {
    fn from(error: EnqueueError) -> Self {
        match error {
            EnqueueError::Invalid(invalid) => invalid.into(),
            EnqueueError::Storage(error) => error.into(),
            conflict @ EnqueueError::Conflict { .. } => Self::Conflict(conflict),
        }
    }
}

impl From<ClaimError> for Failure {
    fn from(error: ClaimError) -> Self {
        match error {
            ClaimError::Clock(invalid) => invalid.into(),
            ClaimError::Hook(_) => Self::Fault,
            ClaimError::Storage(error) => error.into(),
        }
    }
}

impl From<FinishError> for Failure {
    fn from(error: FinishError) -> Self {
        match error {
            FinishError::Hook(_) => Self::Fault,
            FinishError::Storage(error) => error.into(),
        }
    }
}

impl From<RedriveError> for Failure {
    fn from(error: RedriveError) -> Self {
        match error {
            RedriveError::Invalid(invalid) => invalid.into(),
            RedriveError::Hook(_) => Self::Fault,
            RedriveError::Storage(error) => error.into(),
            other => Self::NotDead(other),
        }
    }
}

impl From<ApplyError> for Failure {
    fn from(error: ApplyError) -> Self {
        match error {
            gap @ ApplyError::Gap { .. } => Self::Gap(gap),
            conflict @ ApplyError::Conflict { .. } => Self::Contradiction(conflict),
            ApplyError::Hook(_) => Self::Fault,
            ApplyError::Storage(error) => error.into(),
        }
    }
}

impl From<ConsumeError> for Failure {
    fn from(error: ConsumeError) -> Self {
        match error {
            ConsumeError::Invalid(invalid) => invalid.into(),
            ConsumeError::Apply(error) => error.into(),
        }
    }
}

impl From<ReplayError> for Failure {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Invalid(invalid) => invalid.into(),
            resync @ ReplayError::ResyncRequired { .. } => Self::Resync(resync),
        }
    }
}

impl From<RunOnceError> for Failure {
    fn from(error: RunOnceError) -> Self {
        match error {
            RunOnceError::Invalid(invalid) => invalid.into(),
            RunOnceError::Claim(error) => error.into(),
            RunOnceError::Finish(error) => error.into(),
            RunOnceError::Send(error) => Self::Sender(sender_name(error)),
        }
    }
}

/// Only BadAck and the unclassified errors come out of `run_once`; those carry their names.
fn sender_name(error: SendError) -> &'static str {
    match error {
        SendError::Other(cause) => cause.downcast::<Unclassified>().map_or("Crash", |error| error.0),
        _ => "BadAck",
    }
}

/// An unclassified error of a sender, by the name under which it is reported.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unclassified(pub(super) &'static str);
