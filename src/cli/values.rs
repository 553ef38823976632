//! How the command line reads values: each parser says what it allows.

use std::ops::RangeInclusive;

use ackward::rules::{
    Attempts, Invalid, Lease, Limits, Name, Qty, Reason, RetryPolicy, Status, Timeout, Ttl,
};

const SECONDS: &str = "allowed: a number of seconds greater than 0, such as 10 or 0.5, or one with a unit: 500ms, 30s, \
    15m, 12h, 7d";
/// The units that may follow a number, with their length in seconds; `ms` stands before `s` and `m`.
const UNITS: &[(&str, f64)] = &[("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3_600.0), ("d", 86_400.0)];

/// A timeout in seconds, or with a unit.
pub fn timeout(text: &str) -> Result<Timeout, String> {
    let (number, unit) = UNITS
        .iter()
        .find_map(|(unit, seconds)| text.strip_suffix(unit).map(|number| (number, *seconds)))
        .unwrap_or((text, 1.0));
    let number: f64 = number.parse().map_err(|_| SECONDS.to_owned())?;
    Timeout::from_seconds(number * unit).map_err(|_| SECONDS.to_owned())
}

/// Where to listen, as HOST:PORT.
pub fn host_port(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(text.to_owned()),
        _ => Err("allowed: HOST:PORT, with a port from 0 to 65535".to_owned()),
    }
}

/// A whole number within a range.
pub fn whole<T>(
    range: RangeInclusive<i64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: TryFrom<i64>,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| format!("allowed: a whole number from {} to {}", range.start(), range.end()))
    }
}

/// A number of seconds as whole milliseconds; the range is the caller's to check.
pub fn seconds_ms(text: &str) -> Result<i64, String> {
    let duration = timeout(text)?.duration();
    i64::try_from(duration.as_millis()).map_err(|_| SECONDS.to_owned())
}

/// A job's time to live in seconds.
pub fn ttl(text: &str) -> Result<Ttl, String> {
    said(Limits::WIDE.ttl(seconds_ms(text)?))
}

/// A lease in seconds.
pub fn lease(text: &str) -> Result<Lease, String> {
    said(Limits::WIDE.lease(seconds_ms(text)?))
}

/// The longest delay of `--retry-base-ms` and `--retry-cap-ms`, in ms.
const DELAY_MS_MAX: i64 = 86_400_000;

/// A delay in ms, of the two that make a retry policy.
pub fn delay_ms(text: &str) -> Result<i64, String> {
    whole(1..=DELAY_MS_MAX)(text)
}

/// What `--retry-base-ms` and `--retry-cap-ms` make together, each in its range.
pub fn retry(base_ms: i64, cap_ms: i64) -> Result<RetryPolicy, Invalid> {
    Limits::WIDE.retry(base_ms, cap_ms).map_err(|invalid| {
        if cap_ms >= base_ms {
            return invalid;
        }
        let allowed = format!("a whole number from {base_ms}, which is --retry-base-ms, to {DELAY_MS_MAX}");
        Invalid::new("--retry-cap-ms", cap_ms, allowed)
    })
}

/// A job's identifier.
pub fn id(text: &str) -> Result<Name, String> {
    said(Name::new("id", text))
}

/// A note for the audit.
pub fn note(text: &str) -> Result<Name, String> {
    said(Name::new("note", text))
}

/// A worker's name.
pub fn owner(text: &str) -> Result<Name, String> {
    said(Name::new("owner", text))
}

/// A job's status.
pub fn status(text: &str) -> Result<Status, String> {
    said(Status::parse(text))
}

/// The reason of a dead or waiting job.
pub fn reason(text: &str) -> Result<Reason, String> {
    said(Reason::parse(text))
}

/// A job's quantity.
pub fn qty(text: &str) -> Result<Qty, String> {
    said(Qty::new(text.parse().map_err(|_| "allowed: a whole number from 1 to 1000")?))
}

/// A job's budget.
pub fn attempts(text: &str) -> Result<Attempts, String> {
    said(Attempts::new(text.parse().map_err(|_| "allowed: a whole number from 1 to 16")?))
}

/// A time as people read it: UTC, to the millisecond; the number itself where no calendar reaches it.
pub fn time(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| format!("{ms} ms"), |time| format!("{time:.3}"))
}

fn said<T>(value: Result<T, Invalid>) -> Result<T, String> {
    value.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_seconds_or_a_unit() {
        for (text, ms) in [("10", 10_000), ("0.5", 500), ("500ms", 500), ("30s", 30_000), ("15m", 900_000)] {
            assert_eq!(seconds_ms(text), Ok(ms), "{text}");
        }
        assert_eq!(seconds_ms("12h"), Ok(43_200_000));
        assert_eq!(seconds_ms("7d"), Ok(604_800_000));
        for bad in ["", "d", "1w", "-1", "0", "1 d", "inf", "nan", "1e400"] {
            assert!(seconds_ms(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn where_to_listen_has_a_host_and_a_port() {
        for good in ["127.0.0.1:0", "[::1]:7410", "localhost:65535"] {
            assert_eq!(host_port(good), Ok(good.to_owned()));
        }
        for bad in ["", "7410", ":7410", "127.0.0.1:65536", "127.0.0.1:", "127.0.0.1:http", "nonsense"] {
            assert!(host_port(bad).unwrap_err().starts_with("allowed: HOST:PORT"), "{bad}");
        }
    }

    #[test]
    fn a_whole_number_is_refused_with_its_range() {
        let batch = whole::<u32>(1..=256);
        assert_eq!((batch("1"), batch("256")), (Ok(1), Ok(256)));
        for bad in ["", "0", "257", "-1", "abc", "1.0", "1e1", " 1", "99999999999999999999"] {
            assert_eq!(batch(bad), Err("allowed: a whole number from 1 to 256".to_owned()), "{bad}");
        }
    }

    /// What is wrong with two options together is told by their names, and by where the bound comes from.
    #[test]
    fn a_cap_below_its_base_is_told_in_the_users_words() {
        let error = retry(5_000, 1_000).unwrap_err().to_string();
        let said = "--retry-cap-ms is 1000, allowed: a whole number from 5000, which is --retry-base-ms, to 86400000";
        assert_eq!(error, said);
        assert!(retry(DELAY_MS_MAX, DELAY_MS_MAX).is_ok() && retry(1, 1).is_ok());
        for bad in ["0", "-1", "86400001", "x"] {
            assert_eq!(delay_ms(bad), Err("allowed: a whole number from 1 to 86400000".to_owned()), "{bad}");
        }
        assert_eq!((delay_ms("1"), delay_ms("86400000")), (Ok(1), Ok(DELAY_MS_MAX)));
    }

    /// The error names what was given, not just any name.
    #[test]
    fn a_refused_value_is_called_by_its_option() {
        assert!(id("a b").unwrap_err().starts_with("id is \"a b\""));
        assert!(note("").unwrap_err().starts_with("note is \"\""));
        assert!(owner("é").unwrap_err().starts_with("owner is"));
    }

    #[test]
    fn times_read_as_utc() {
        assert_eq!(time(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(time(1_000_000_000_000_000), "1000000000000000 ms");
    }
}
