//! How long to wait before the next attempt (Q13 to Q15): exponential in the attempt, capped, then scaled
//! by a jitter that the caller draws. No randomness and no clock in here.

use super::invalid::{Invalid, in_range};
use super::{Attempt, Delay, Limits};

/// A jitter: a finite number from 0 to 1 that scales a delay (Q13).
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Jitter(f64);

impl Jitter {
    /// No wait at all.
    pub const NONE: Self = Self(0.0);
    /// The whole delay.
    pub const FULL: Self = Self(1.0);

    /// Checks the range. The integers 0 and 1 arrive as `0.0` and `1.0` (M4); `-0.0` passes.
    ///
    /// # Errors
    /// [`Invalid`] for NaN, an infinity, or a number outside 0 to 1.
    pub fn new(value: f64) -> Result<Self, Invalid> {
        if (0.0..=1.0).contains(&value) {
            return Ok(Self(value));
        }
        Err(Invalid::new("jitter", value, "a finite number from 0 to 1"))
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

/// The first delay and the longest one; made by [`Limits::retry`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    base_ms: i64,
    cap_ms: i64,
}

impl RetryPolicy {
    /// The policy of `run_once` (Q51): 100 ms, doubling up to 1,000 ms.
    pub const CONTRACT: Self = Self { base_ms: 100, cap_ms: 1_000 };

    /// The delay after the first attempt at full jitter, in ms.
    #[must_use]
    pub const fn base_ms(self) -> i64 {
        self.base_ms
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::CONTRACT
    }
}

impl Limits {
    /// Checks a retry policy: `base_ms` from 1 to the delay limit, `cap_ms` from `base_ms` to the same.
    ///
    /// # Errors
    /// [`Invalid`] that names the one out of range.
    pub fn retry(&self, base_ms: i64, cap_ms: i64) -> Result<RetryPolicy, Invalid> {
        let max_ms = self.delay_max_ms();
        let base_ms = in_range("base_ms", base_ms, 1, max_ms)?;
        let cap_ms = in_range("cap_ms", cap_ms, base_ms, max_ms)?;
        Ok(RetryPolicy { base_ms, cap_ms })
    }
}

/// The wait after `attempt` (Q14): `floor(min(cap, base · 2^(attempt − 1)) · jitter)`, the cap first, the
/// product in IEEE doubles.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "at most 24 hours in ms, exact in a double; floor of a value from 0 to that"
)]
pub fn retry_delay(attempt: Attempt, policy: RetryPolicy, jitter: Jitter) -> Delay {
    let full_ms = (policy.base_ms << (attempt.get() - 1)).min(policy.cap_ms);
    Delay::unchecked((full_ms as f64 * jitter.get()).floor() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delay_ms(attempt: i64, base_ms: i64, cap_ms: i64, jitter: f64) -> i64 {
        let policy = Limits::CONTRACT.retry(base_ms, cap_ms).unwrap();
        retry_delay(Attempt::new(attempt).unwrap(), policy, Jitter::new(jitter).unwrap()).get()
    }

    #[test]
    fn q14_caps_first_then_scales_then_floors() {
        let cases = [
            ((5, 100, 1000, 0.5), 500),
            ((5, 100, 1599, 1.0), 1599),
            ((5, 100, 1601, 1.0), 1600),
            ((16, 1, 60000, 1.0), 32768),
            ((1, 100, 1000, 0.29), 28),
            ((1, 100, 1000, 0.57), 56),
            ((1, 1, 1, 0.999_999_999_999_999_9), 0),
            ((3, 100, 1000, 0.0), 0),
            ((3, 100, 1000, -0.0), 0),
            ((16, 60000, 60000, 1.0), 60000),
        ];
        for ((attempt, base, cap, jitter), expected) in cases {
            assert_eq!(delay_ms(attempt, base, cap, jitter), expected, "{attempt} {base} {cap} {jitter}");
        }
    }

    #[test]
    fn q13_refuses_a_jitter_outside_zero_to_one() {
        for good in [0.0, 1.0, -0.0, 5e-324] {
            assert!(Jitter::new(good).is_ok(), "{good}");
        }
        let bad = [-5e-324, 1.000_000_000_000_000_2, 2.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        for bad in bad {
            assert!(Jitter::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn q13_base_and_cap_boundaries() {
        let retry = |base, cap| Limits::CONTRACT.retry(base, cap).map_err(|e| e.field.into_owned());
        assert!(retry(1, 1).is_ok());
        assert!(retry(60000, 60000).is_ok());
        assert_eq!(retry(0, 1), Err("base_ms".into()));
        assert_eq!(retry(60001, 60001), Err("base_ms".into()));
        assert_eq!(retry(100, 99), Err("cap_ms".into()));
        assert_eq!(retry(1, 60001), Err("cap_ms".into()));
    }

    #[test]
    fn m11_wide_limits_allow_a_day_and_the_contract_policy_is_100_to_1000() {
        let day_ms = 24 * 3_600_000;
        assert!(Limits::WIDE.retry(1_000, day_ms).is_ok());
        assert!(Limits::WIDE.retry(1_000, day_ms + 1).is_err());
        assert_eq!(Limits::CONTRACT.retry(100, 1000), Ok(RetryPolicy::CONTRACT));
        assert_eq!(RetryPolicy::CONTRACT.base_ms(), 100);
        let policy = Limits::WIDE.retry(day_ms, day_ms).unwrap();
        assert_eq!(retry_delay(Attempt::new(16).unwrap(), policy, Jitter::FULL).get(), day_ms);
    }
}
