//! `Retry-After`: a number of seconds, or the date from which on to try again.

use std::time::{Duration, UNIX_EPOCH};

use crate::rules::Millis;

/// How long to wait from `now` on; `None` for what is neither of the two.
pub(super) fn parse(value: &str, now: Millis) -> Option<Duration> {
    let value = value.trim_matches([' ', '\t']);
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More than fits is as good as for ever; the delay limit caps it.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    let since_epoch = date.duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(since_epoch.saturating_sub(Duration::from_millis(now.get().unsigned_abs())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// W2; the date's moment is 784,111,777 s since the epoch.
    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = Millis::new(784_111_770_500).unwrap();
        let cases = [
            ("0", Some(0)),
            ("120", Some(120_000)),
            (" 7\t", Some(7_000)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(6_500)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(6_500)),
            ("Sun Nov  6 08:49:37 1994", Some(6_500)),
            ("Sun, 06 Nov 1994 08:49:30 GMT", Some(0)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("", None),
            ("-1", None),
            ("1.5", None),
            ("+1", None),
            ("soon", None),
            ("٣", None),
        ];
        for (value, expected) in cases {
            assert_eq!(parse(value, now), expected.map(Duration::from_millis), "{value:?}");
        }
        assert_eq!(parse("99999999999999999999999", now), Some(Duration::from_secs(u64::MAX)));
    }
}
