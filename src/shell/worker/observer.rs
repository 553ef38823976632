//! What a worker tells of its work while it works: for metrics and event logs. Telling changes nothing, and costs no
//! reading of the clock.

use std::error::Error;

use crate::rules::{Delay, Outcome, Ticket};
use crate::shell::sender::SendError;
use crate::storage::{Finished, Released};

/// Is told what a worker does.
pub trait Observer {
    /// Something happened. Called on the worker's own task: it must not block.
    fn saw(&self, happening: &Happening<'_>);
}

/// Tells nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn saw(&self, _happening: &Happening<'_>) {}
}

/// Something that a worker did or met.
#[derive(Debug)]
#[non_exhaustive]
pub enum Happening<'a> {
    /// A job was claimed; it is sent next, unless the worker is stopping.
    Claimed {
        /// The claim's ticket.
        ticket: &'a Ticket,
    },
    /// An attempt was answered, or failed.
    Answered {
        /// The ticket, with the lease that the last renewal gave it.
        ticket: &'a Ticket,
        /// `Ok` is an acknowledgement.
        answer: Result<(), &'a SendError>,
    },
    /// An outcome was recorded, or came too late to be.
    Finished {
        /// The ticket.
        ticket: &'a Ticket,
        /// What was to be recorded.
        outcome: Outcome,
        /// The wait before the next attempt; counts for [`Outcome::Retry`] only.
        delay: Delay,
        /// What it came to.
        finished: Finished,
    },
    /// Nobody knows whether the job arrived: it comes back when the lease ends.
    LeftToLease {
        /// The ticket.
        ticket: &'a Ticket,
    },
    /// The lease was lost before the job was answered, or before its outcome could be recorded.
    LeaseLost {
        /// The ticket as it was claimed.
        ticket: &'a Ticket,
    },
    /// A job that was claimed and not sent was given back.
    Released {
        /// The ticket.
        ticket: &'a Ticket,
        /// What it came to.
        released: Released,
    },
    /// A transaction had to wait for another process's.
    LockWait {
        /// How long, in ms, by the worker's own clock.
        waited_ms: i64,
        /// How often it was tried.
        tries: u32,
    },
    /// A transaction failed. What it was for is tried again or left to its lease.
    QueueFailed {
        /// What was tried: `claim`, `finish`, `release`.
        operation: &'static str,
        /// What it failed of.
        error: &'a dyn Error,
        /// Whether the file was only locked.
        is_busy: bool,
    },
}

impl Happening<'_> {
    /// Its name in text.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Claimed { .. } => "claimed",
            Self::Answered { .. } => "answered",
            Self::Finished { .. } => "finished",
            Self::LeftToLease { .. } => "left-to-lease",
            Self::LeaseLost { .. } => "lease-lost",
            Self::Released { .. } => "released",
            Self::LockWait { .. } => "lock-wait",
            Self::QueueFailed { .. } => "queue-failed",
        }
    }

    /// The ticket that it is about, where there is one.
    #[must_use]
    pub const fn ticket(&self) -> Option<&Ticket> {
        match self {
            Self::Claimed { ticket }
            | Self::Answered { ticket, .. }
            | Self::Finished { ticket, .. }
            | Self::LeftToLease { ticket }
            | Self::LeaseLost { ticket }
            | Self::Released { ticket, .. } => Some(ticket),
            Self::LockWait { .. } | Self::QueueFailed { .. } => None,
        }
    }
}
