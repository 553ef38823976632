//! What a job is made of, and the ticket that a claim hands out.

use std::fmt;

use super::Name;
use super::invalid::{Invalid, in_range};
use super::time::INSTANT_MAX_MS;

macro_rules! ranged {
    ($(#[$doc:meta])* $name:ident, $field:literal, $min:expr, $max:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(i64);

        impl $name {
            /// Checks the range.
            ///
            /// # Errors
            /// [`Invalid`] outside of it.
            pub fn new(value: i64) -> Result<Self, Invalid> {
                in_range($field, value, $min, $max).map(Self)
            }

            /// The number.
            #[must_use]
            pub const fn get(self) -> i64 {
                self.0
            }
        }
    };
}
pub(super) use ranged;

ranged!(
    /// A job's quantity, 1 to 1000 (Q20).
    Qty, "qty", 1, 1000
);
ranged!(
    /// A job's budget of attempts, 1 to 16 (Q20).
    Attempts, "max_attempts", 1, 16
);
ranged!(
    /// The number of an attempt, 1 to 16 (Q13, Q35).
    Attempt, "attempt", 1, 16
);
ranged!(
    /// A fencing token, 1 to 10^15 on a ticket (Q11, Q35).
    Token, "token", 1, 1_000_000_000_000_000
);

impl Attempts {
    /// The budget where none is given: 3 (Q21).
    pub const DEFAULT: Self = Self(3);
}

/// What is to be delivered: a job's identity and quantity (Q20).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The job's identifier, also the idempotency key.
    pub id: Name,
    /// The quantity.
    pub qty: Qty,
}

/// Proof of a claim (Q32). Every field fences: [`finish`](crate::storage::LeaseQueue::finish) compares all
/// of them with the row (Q36).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The job's identifier.
    pub id: Name,
    /// The quantity.
    pub qty: Qty,
    /// Who claimed.
    pub owner: Name,
    /// The fencing token of this claim.
    pub token: Token,
    /// The number of this attempt.
    pub attempt: Attempt,
    /// End of the lease, in ms since the Unix epoch, 1 to 10^15; from then on the ticket is stale.
    lease_until_ms: i64,
}

impl Ticket {
    /// Puts a ticket together.
    ///
    /// # Errors
    /// [`Invalid`] where `lease_until_ms` is outside 1 to 10^15.
    pub fn new(
        event: Event,
        owner: Name,
        token: Token,
        attempt: Attempt,
        lease_until_ms: i64,
    ) -> Result<Self, Invalid> {
        let lease_until_ms = in_range("lease_until", lease_until_ms, 1, INSTANT_MAX_MS)?;
        Ok(Self { id: event.id, qty: event.qty, owner, token, attempt, lease_until_ms })
    }

    /// End of the lease, in ms since the Unix epoch.
    #[must_use]
    pub const fn lease_until_ms(&self) -> i64 {
        self.lease_until_ms
    }

    /// What is to be delivered.
    #[must_use]
    pub fn event(&self) -> Event {
        Event { id: self.id.clone(), qty: self.qty }
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $field:literal { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$vdoc])* $variant),+
        }

        impl $name {
            /// Every value, in the order of the contract.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word that stands in the database and on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// Reads the word, to the letter.
            ///
            /// # Errors
            /// [`Invalid`] for any other text.
            pub fn parse(text: &str) -> Result<Self, Invalid> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err(Invalid::new($field, format!("{text:?}"), concat!("one of", $(" ", $text),+))),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words!(
    /// Where a job stands.
    Status, "status" {
        /// Waits to be claimed.
        Pending = "pending",
        /// Claimed; the lease may have run out.
        Leased = "leased",
        /// Delivered and acknowledged.
        Done = "done",
        /// In quarantine until it is redriven.
        Dead = "dead",
    }
);
words!(
    /// Why a job is pending again or dead.
    Reason, "reason" {
        /// Pending after a retry.
        Retry = "retry",
        /// Dead: its deadline passed.
        Deadline = "deadline",
        /// Dead: its attempts are used up.
        Exhausted = "exhausted",
        /// Dead: the receiver refused it for good.
        Permanent = "permanent",
    }
);
words!(
    /// How an attempt ended, as told to finish (Q35).
    Outcome, "outcome" {
        /// Acknowledged.
        Ok = "ok",
        /// To be tried again within the budget.
        Retry = "retry",
        /// Refused for good.
        Permanent = "permanent",
    }
);
