//! The ranges that differ between the contract and long-running use (M11).

use super::invalid::{Invalid, in_range};

macro_rules! span {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(i64);

        impl $name {
            /// Milliseconds.
            #[must_use]
            pub const fn get(self) -> i64 {
                self.0
            }
        }
    };
}

span!(
    /// A job's time to live, in ms; made by [`Limits::ttl`].
    Ttl
);
span!(
    /// A lease's length, in ms; made by [`Limits::lease`].
    Lease
);
span!(
    /// A wait before the next attempt, in ms; made by [`Limits::delay`].
    Delay
);

impl Lease {
    /// The lease where none is given: 1,000 ms (Q25).
    pub const DEFAULT: Self = Self(1_000);
}

impl Delay {
    /// No wait: the delay where none is given (Q35).
    pub const NONE: Self = Self(0);

    /// A delay whose range the caller vouches for.
    pub(super) const fn unchecked(delay_ms: i64) -> Self {
        Self(delay_ms)
    }
}

/// The largest spans that are accepted; the smallest are fixed (1 ms, and 0 ms for a delay).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    ttl_max_ms: i64,
    lease_max_ms: i64,
    delay_max_ms: i64,
}

impl Limits {
    /// The contract's own ranges: everything up to 60,000 ms.
    pub const CONTRACT: Self = Self { ttl_max_ms: 60_000, lease_max_ms: 60_000, delay_max_ms: 60_000 };
    /// For real outages: ttl up to 30 days, lease up to 12 hours, delay up to 24 hours.
    pub const WIDE: Self =
        Self { ttl_max_ms: 30 * 86_400_000, lease_max_ms: 12 * 3_600_000, delay_max_ms: 24 * 3_600_000 };

    /// Checks a time to live.
    ///
    /// # Errors
    /// [`Invalid`] outside 1 ms to the limit.
    pub fn ttl(&self, ttl_ms: i64) -> Result<Ttl, Invalid> {
        in_range("ttl_ms", ttl_ms, 1, self.ttl_max_ms).map(Ttl)
    }

    /// Checks a lease's length.
    ///
    /// # Errors
    /// [`Invalid`] outside 1 ms to the limit.
    pub fn lease(&self, lease_ms: i64) -> Result<Lease, Invalid> {
        in_range("lease_ms", lease_ms, 1, self.lease_max_ms).map(Lease)
    }

    /// Checks a delay.
    ///
    /// # Errors
    /// [`Invalid`] outside 0 ms to the limit.
    pub fn delay(&self, delay_ms: i64) -> Result<Delay, Invalid> {
        in_range("delay_ms", delay_ms, 0, self.delay_max_ms).map(Delay)
    }

    /// `delay`, raised to `at_least_ms` (a `Retry-After`), but never beyond the limit (W2).
    #[must_use]
    pub fn raise(&self, delay: Delay, at_least_ms: u64) -> Delay {
        let at_least_ms = i64::try_from(at_least_ms).unwrap_or(i64::MAX).min(self.delay_max_ms);
        Delay(delay.0.max(at_least_ms))
    }

    /// The longest delay, in ms.
    #[must_use]
    pub const fn delay_max_ms(&self) -> i64 {
        self.delay_max_ms
    }
}
