//! Points in time, in whole milliseconds.

use std::fmt;

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

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Q3.
    #[test]
    fn q3_a_reading_holds_at_its_boundaries_and_shows_its_unit() {
        for now_ms in [0, 999_999_999_940_000] {
            assert_eq!(Millis::new(now_ms).map(Millis::get), Ok(now_ms));
        }
        for outside in [-1, 999_999_999_940_001] {
            assert_eq!(Millis::named("clock", outside).unwrap_err().field, "clock");
        }
        assert_eq!(Millis(7).to_string(), "7ms");
    }
}
