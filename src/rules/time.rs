//! Points in time, in whole milliseconds.

use super::invalid::{Invalid, in_range};

/// Latest `now` that the contract accepts, in ms since the Unix epoch (Q3).
pub const NOW_MAX_MS: i64 = 1_000_000_000_000_000 - 60_000;
/// Latest instant that the contract stores: a deadline, a lease's end, a time of availability, in ms.
pub const INSTANT_MAX_MS: i64 = 1_000_000_000_000_000;

/// A reading of a clock, in ms since the Unix epoch, 0 to 10^15 − 60,000 (Q3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(i64);

impl Millis {
    /// Checks a reading.
    ///
    /// # Errors
    /// [`Invalid`] below 0 or above 999,999,999,940,000.
    pub fn new(now_ms: i64) -> Result<Self, Invalid> {
        Self::named("now_ms", now_ms)
    }

    /// As [`Millis::new`], with the field's name for the error.
    ///
    /// # Errors
    /// As [`Millis::new`].
    pub fn named(field: &'static str, now_ms: i64) -> Result<Self, Invalid> {
        in_range(field, now_ms, 0, NOW_MAX_MS).map(Self)
    }

    /// The number of milliseconds.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }
}
