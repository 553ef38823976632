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

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_MS: i64 = 60_000;
    const DAY_MS: i64 = 86_400_000;

    /// M11: each span passes at its ends and nowhere beyond, in the contract and in long-running use.
    #[test]
    fn m11_each_span_holds_at_its_boundaries() {
        let ttl = |limits: &Limits, ms| limits.ttl(ms).map(Ttl::get).map_err(|e| e.field.into_owned());
        let lease = |limits: &Limits, ms| limits.lease(ms).map(Lease::get).map_err(|e| e.field.into_owned());
        let delay = |limits: &Limits, ms| limits.delay(ms).map(Delay::get).map_err(|e| e.field.into_owned());
        for (limits, ttl_max, lease_max, delay_max) in [
            (Limits::CONTRACT, MINUTE_MS, MINUTE_MS, MINUTE_MS),
            (Limits::WIDE, 30 * DAY_MS, DAY_MS / 2, DAY_MS),
        ] {
            assert_eq!((ttl(&limits, 1), ttl(&limits, ttl_max)), (Ok(1), Ok(ttl_max)));
            assert_eq!((lease(&limits, 1), lease(&limits, lease_max)), (Ok(1), Ok(lease_max)));
            assert_eq!((delay(&limits, 0), delay(&limits, delay_max)), (Ok(0), Ok(delay_max)));
            for outside in [0, ttl_max + 1] {
                assert_eq!(ttl(&limits, outside), Err("ttl_ms".into()));
            }
            for outside in [0, lease_max + 1] {
                assert_eq!(lease(&limits, outside), Err("lease_ms".into()));
            }
            for outside in [-1, delay_max + 1] {
                assert_eq!(delay(&limits, outside), Err("delay_ms".into()));
            }
        }
    }

    /// W2: a `Retry-After` raises a delay, never lowers it, and ends at the limit whatever its size.
    #[test]
    fn w2_a_delay_is_raised_up_to_the_limit() {
        let raised = |at_least_ms| Limits::CONTRACT.raise(Delay(500), at_least_ms).get();
        assert_eq!((raised(0), raised(500), raised(501)), (500, 500, 501));
        assert_eq!((raised(60_000), raised(60_001), raised(u64::MAX)), (60_000, 60_000, 60_000));
    }
}
