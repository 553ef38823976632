//! Numbers, durations and paths as people write them.

use std::time::Duration;

use ackward_sim::choice::Kind;
pub(crate) use ackward_sim::numbers::{count, grouped};
use ackward_sim::scenario::Net;
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// The units of a duration, longest name first so that `ms` is not read as `s`.
const UNITS: &[(&str, f64)] = &[("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3_600.0)];
/// Longest duration, in seconds: a week.
const SECONDS_MAX: f64 = 604_800.0;

/// Reads `500ms`, `60s`, `1.5m` or `2h`.
///
/// # Errors
/// What is allowed.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let allowed =
        || "allowed: a number with ms, s, m or h, from 1ms to 168h, such as 500ms, 60s or 5m".to_owned();
    let split = UNITS.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let (number, seconds) = split.ok_or_else(allowed)?;
    let is_plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = number.parse().ok().filter(|_| is_plain).ok_or_else(allowed)?;
    let span = number * seconds;
    if (0.001..=SECONDS_MAX).contains(&span) { Ok(Duration::from_secs_f64(span)) } else { Err(allowed()) }
}

/// Reads a whole number from `least` to `most`.
pub(crate) fn whole(least: u64, most: u64) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync {
    move |text| {
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
        number.filter(|_| is_plain).ok_or_else(|| format!("allowed: a whole number from {least} to {most}"))
    }
}

/// Reads a share from 0 to 1.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "allowed: a number from 0 to 1, such as 0.01".to_owned())
}

/// The word for all kinds of deviations.
pub(crate) const ALL: &str = "all";

/// Reads the word of a kind of deviation, or `all`.
pub(crate) fn kind(text: &str) -> Result<String, String> {
    let known: Vec<_> = Kind::ALL.iter().skip(1).map(|kind| kind.as_str()).collect();
    let found = known.iter().chain([&ALL]).find(|word| **word == text);
    found.map(ToString::to_string).ok_or_else(|| format!("allowed: one of {}, or all", known.join(", ")))
}

/// Reads the name of a net.
pub(crate) fn net() -> impl TypedValueParser<Value = Net> {
    PossibleValuesParser::new(Net::ALL.iter().map(|net| net.as_str()))
        .map(|name| Net::parse(&name).unwrap_or_default())
}

/// A span of virtual time in two units: `3d 4h`, `2h 5m`, `7m 12s`, `12s`, `250ms`.
pub(crate) fn span(microseconds: u64) -> String {
    let seconds = microseconds / 1_000_000;
    match seconds {
        0 => format!("{}ms", microseconds / 1_000),
        1..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// A word that a shell takes as it stands.
pub(crate) fn shell_word(text: &str) -> String {
    let is_plain = |byte: u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/' | b',' | b'+' | b':')
    };
    if !text.is_empty() && !text.starts_with('-') && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    let dot = if text.starts_with('-') { "./" } else { "" };
    format!("'{dot}{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_numbers_with_a_unit() {
        let ms = |text| parse_duration(text).map(|duration| duration.as_millis()).ok();
        assert_eq!(ms("500ms"), Some(500));
        assert_eq!(ms("60s"), Some(60_000));
        assert_eq!(ms("1.5m"), Some(90_000));
        assert_eq!(ms("168h"), Some(604_800_000));
        for wrong in
            ["", "s", "60", "-1s", "+1s", "1e3s", "nans", "infs", "169h", "0s", "1 s", "1d", "١s", "1..2s"]
        {
            assert!(parse_duration(wrong).is_err_and(|allowed| allowed.contains("60s")), "{wrong}");
        }
    }

    #[test]
    fn whole_numbers_are_digits_within_their_range() {
        let read = whole(1, 256);
        assert_eq!((read("1"), read("256")), (Ok(1), Ok(256)));
        for wrong in ["", "0", "257", "-1", "+1", "1.0", "1e2", " 1", "99999999999999999999999"] {
            assert_eq!(read(wrong), Err("allowed: a whole number from 1 to 256".to_owned()), "{wrong}");
        }
    }

    #[test]
    fn spans_read_well() {
        let spans: Vec<_> =
            [0, 250_000, 12_000_000, 432_000_000, 7_500_000_000, 273_600_000_000].map(span).to_vec();
        assert_eq!(spans, ["0ms", "250ms", "12s", "7m 12s", "2h 5m", "3d 4h"]);
    }

    #[test]
    fn a_shell_takes_a_word_as_it_was() {
        assert_eq!(shell_word("scenarios/a-1.toml"), "scenarios/a-1.toml");
        assert_eq!(shell_word("it's here.toml"), r"'it'\''s here.toml'");
        assert_eq!(shell_word("-x.toml"), "'./-x.toml'");
        assert_eq!(shell_word("$(x)"), "'$(x)'");
    }
}
