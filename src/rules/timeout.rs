//! How long a peer is waited for.

use std::time::Duration;

use super::Invalid;

/// The longest wait; longer ones are cut to it, since no timer tells them apart.
const TIMEOUT_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);

/// A limit on one wait (R27): more than nothing, and finite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timeout(Duration);

impl Timeout {
    /// Checks a number of seconds: finite and greater than 0. Above 100 years it is cut, below 1 ns raised.
    ///
    /// # Errors
    /// [`Invalid`] for 0, -0.0, a negative number, NaN and the infinities.
    pub fn from_seconds(seconds: f64) -> Result<Self, Invalid> {
        if !(seconds.is_finite() && seconds > 0.0) {
            return Err(Invalid::new("timeout", seconds, "a finite number of seconds greater than 0"));
        }
        let duration = Duration::try_from_secs_f64(seconds).unwrap_or(TIMEOUT_MAX);
        Ok(Self(duration.clamp(Duration::from_nanos(1), TIMEOUT_MAX)))
    }

    /// The length of the wait.
    #[must_use]
    pub const fn duration(self) -> Duration {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R27.
    #[test]
    fn only_finite_positive_timeouts_exist() {
        for bad in [0.0, -0.0, -1.0, -5e-324, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(Timeout::from_seconds(bad).is_err(), "{bad}");
        }
        assert_eq!(Timeout::from_seconds(0.5).unwrap().duration(), Duration::from_millis(500));
        assert_eq!(Timeout::from_seconds(5e-324).unwrap().duration(), Duration::from_nanos(1));
        let century = Duration::from_secs(3_153_600_000);
        assert_eq!(
            Timeout::from_seconds(3_153_599_999.0).unwrap().duration(),
            century - Duration::from_secs(1)
        );
        assert_eq!(Timeout::from_seconds(3_153_600_001.0).unwrap().duration(), century);
        assert_eq!(Timeout::from_seconds(f64::MAX).unwrap().duration(), century);
    }
}
