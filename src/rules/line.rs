//! The lines of the stream protocol, read to the letter and written (R1 to R6, W4): `EVENT seq delta`,
//! `ACK seq`, `RESUME last`, `RESYNC first last`; and the lines of a publisher's log, `seq delta`.

use super::{Cursor, Delta, Invalid, Resync, Seq, StreamEvent};

/// Longest line of the protocol in bytes, its LF counted (R2).
pub const LINE_BYTES_MAX: usize = 64;

/// Reads `EVENT <seq> <delta>` and LF (R1 to R6).
///
/// # Errors
/// [`Invalid`] for anything else: another spelling of a number, another space, a missing LF, a number out of
/// range, more than 64 bytes.
pub fn parse_line(line: &[u8]) -> Result<StreamEvent, Invalid> {
    let [seq, delta] = words(line, "EVENT ", "EVENT <seq> <delta> and LF")?;
    event(seq, delta)
}

/// Reads `ACK <seq>` and LF (R25).
///
/// # Errors
/// [`Invalid`] for anything else.
pub fn parse_ack(line: &[u8]) -> Result<Seq, Invalid> {
    let [seq] = words(line, "ACK ", "ACK <seq> and LF")?;
    ranged(seq, Seq::new)
}

/// Reads `RESUME <last>` and LF; -1 stands for a new store (R38).
///
/// # Errors
/// [`Invalid`] for anything else.
pub fn parse_resume(line: &[u8]) -> Result<Cursor, Invalid> {
    let [last] = words(line, "RESUME ", "RESUME <last> and LF")?;
    ranged(last, Cursor::new)
}

/// Reads `RESYNC <first> <last>` and LF (W4).
///
/// # Errors
/// [`Invalid`] for anything else, also where `last` lies before `first` - 1.
pub fn parse_resync(line: &[u8]) -> Result<Resync, Invalid> {
    let [first, last] = words(line, "RESYNC ", "RESYNC <first> <last> and LF")?;
    Resync::new(ranged(first, Seq::new)?, ranged(last, Cursor::new)?)
}

/// Reads a line of a publisher's log: `<seq> <delta>` and LF, numbers spelled as on the wire.
///
/// # Errors
/// [`Invalid`] for anything else.
pub fn parse_log_line(line: &[u8]) -> Result<StreamEvent, Invalid> {
    let [seq, delta] = words(line, "", "<seq> <delta> and LF")?;
    event(seq, delta)
}

/// `ACK <seq>` and LF (R25).
#[must_use]
pub fn ack_line(seq: Seq) -> String {
    format!("ACK {seq}\n")
}

/// `RESUME <last>` and LF (R38).
#[must_use]
pub fn resume_line(last: Cursor) -> String {
    format!("RESUME {last}\n")
}

/// A line of a publisher's log: `<seq> <delta>` and LF.
#[must_use]
pub fn log_line(event: StreamEvent) -> String {
    format!("{} {}\n", event.seq, event.delta)
}

/// The error of a line that is not as it should be; repeats the bytes, escaped.
pub(crate) fn bad_line(line: &[u8], allowed: &'static str) -> Invalid {
    Invalid::new("line", format_args!("\"{}\"", line.escape_ascii()), allowed)
}

/// Splits a line into its word and exactly `N` numbers, each spelled canonically.
fn words<'l, const N: usize>(
    line: &'l [u8],
    word: &str,
    allowed: &'static str,
) -> Result<[&'l str; N], Invalid> {
    if line.len() > LINE_BYTES_MAX {
        return Err(bad_line(line, "at most 64 bytes, LF counted"));
    }
    split(line, word).ok_or_else(|| bad_line(line, allowed))
}

fn split<'l, const N: usize>(line: &'l [u8], word: &str) -> Option<[&'l str; N]> {
    let text = std::str::from_utf8(line).ok()?.strip_suffix('\n')?.strip_prefix(word)?;
    let mut numbers = [""; N];
    let mut parts = text.split(' ');
    for number in &mut numbers {
        *number = parts.next().filter(|part| is_number(part))?;
    }
    parts.next().is_none().then_some(numbers)
}

/// `0` or `-?[1-9][0-9]*` (R3): one spelling per number.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    match digits.as_bytes() {
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

fn event(seq: &str, delta: &str) -> Result<StreamEvent, Invalid> {
    Ok(StreamEvent { seq: ranged(seq, Seq::new)?, delta: ranged(delta, Delta::new)? })
}

/// Checks the range of a number, also of one that no integer type holds.
fn ranged<T>(number: &str, make: fn(i64) -> Result<T, Invalid>) -> Result<T, Invalid> {
    let saturated = if number.starts_with('-') { i64::MIN } else { i64::MAX };
    make(number.parse().unwrap_or(saturated)).map_err(|e| Invalid::new(e.field, number, e.allowed))
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
