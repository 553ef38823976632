//! How easily a failure is found again, and how many seeds must be clean before its fix can be believed.
//!
//! Only IEEE multiplications: the same numbers on every machine.

use std::fmt;

/// Most seeds that are ever asked for.
pub const SEEDS_MAX: u64 = 1_000_000_000;

/// The share of seeds that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HitRate {
    hits: u64,
    seeds: u64,
}

impl HitRate {
    /// `hits` of `seeds` failed; none unless 0 < `hits` ≤ `seeds`.
    #[must_use]
    pub fn new(hits: u64, seeds: u64) -> Option<Self> {
        (0 < hits && hits <= seeds).then_some(Self { hits, seeds })
    }

    /// Reads `3/1000`, `0.3%` or `0.003`.
    ///
    /// # Errors
    /// What is allowed.
    pub fn parse(text: &str) -> Result<Self, String> {
        let allowed = || "allowed: a share above 0 and up to 1, such as 3/1000, 0.3% or 0.003".to_owned();
        let rate = if let Some((hits, seeds)) = text.split_once('/') {
            Self::new(whole(hits).ok_or_else(allowed)?, whole(seeds).ok_or_else(allowed)?)
        } else if let Some(percent) = text.strip_suffix('%') {
            decimal(percent).and_then(|(hits, seeds)| Self::new(hits, seeds.checked_mul(100)?))
        } else {
            decimal(text).and_then(|(hits, seeds)| Self::new(hits, seeds))
        };
        rate.ok_or_else(allowed)
    }

    /// How many clean seeds it takes to say with a probability of `confidence_percent` (1 to 99) that a failure
    /// this frequent is gone: the least n with (1−p)ⁿ ≤ 1−c, that is ln(1−c)/ln(1−p) rounded up; at most
    /// [`SEEDS_MAX`].
    #[must_use]
    pub fn clean_seeds(self, confidence_percent: u32) -> u64 {
        let doubt = f64::from(100 - confidence_percent.clamp(1, 99)) / 100.0;
        let stays_hidden = (self.seeds - self.hits) as f64 / self.seeds as f64;
        let is_enough = |seeds: u64| power(stays_hidden, seeds) <= doubt;
        let (mut too_few, mut enough) = (0, SEEDS_MAX);
        while too_few + 1 < enough {
            let middle = too_few + (enough - too_few) / 2;
            if is_enough(middle) { enough = middle } else { too_few = middle }
        }
        enough
    }
}

impl fmt::Display for HitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.hits, self.seeds)
    }
}

/// `base` to a whole power, by squaring.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut product = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            product *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    product
}

fn whole(text: &str) -> Option<u64> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

/// A decimal fraction as a numerator and a denominator, at most 15 digits after the point.
fn decimal(text: &str) -> Option<(u64, u64)> {
    let (before, after) = text.split_once('.').unwrap_or((text, ""));
    let is_short = after.len() <= 15 && !(text.contains('.') && after.is_empty());
    let digits = whole(&format!("{before}{after}")).filter(|_| is_short && !before.is_empty())?;
    Some((digits, 10_u64.pow(u32::try_from(after.len()).ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clean_seeds_follow_the_rule() {
        // n = ln(1-c)/ln(1-p), rounded up.
        let seeds = |text: &str, percent| HitRate::parse(text).unwrap().clean_seeds(percent);
        assert_eq!((seeds("1/100", 95), seeds("1/100", 99)), (299, 459));
        assert_eq!((seeds("0.001", 95), seeds("0.1%", 99)), (2_995, 4_603));
        assert_eq!((seeds("1/2", 95), seeds("1/2", 99)), (5, 7));
        assert_eq!((seeds("1", 95), seeds("100%", 99)), (1, 1));
        assert_eq!(seeds("1/18446744073709551615", 99), SEEDS_MAX);
    }

    #[test]
    fn a_rate_is_a_share_above_0() {
        for right in ["3/1000", "0.3%", "0.003", "1", "1.0", "100%", "0.000000000000001"] {
            assert!(HitRate::parse(right).is_ok(), "{right}");
        }
        for wrong in [
            "", "0", "0/5", "6/5", "1/0", "-1", "+1", "1.1", "101%", "1e-3", "NaN", "1/2/3", ".5", "1.",
            "٣%", "1 %",
        ] {
            assert!(HitRate::parse(wrong).is_err_and(|allowed| allowed.contains("3/1000")), "{wrong}");
        }
    }
}
