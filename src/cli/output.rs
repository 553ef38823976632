//! What goes to stdout. A reader that has gone is no reason to fail, since what counts is in the file; a stdout that
//! cannot be written to, such as a full disk, is.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use ackward::storage::JobRow;
use rusqlite::types::Value;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::values::time;

/// Whether something could not be written.
static FAILED: AtomicBool = AtomicBool::new(false);
/// Whether a write has found that nobody reads.
static GONE: AtomicBool = AtomicBool::new(false);

/// The columns that are times.
const TIMES: &[&str] = &["available_at", "deadline", "lease_until", "at_ms"];

/// Prints a line of results.
pub fn say(line: impl Display) {
    note(writeln!(io::stdout(), "{line}"));
}

/// A number of things: "1 job", "2 jobs".
pub fn counted(number: impl Display, thing: &str) -> String {
    let number = number.to_string();
    let plural = if number == "1" { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// Flushes, and tells whether everything was written or nobody wanted it.
pub fn all_written() -> bool {
    note(io::stdout().flush());
    !FAILED.load(Ordering::Relaxed)
}

/// Remembers a failed write.
pub fn note(written: io::Result<()>) {
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => GONE.store(true, Ordering::Relaxed),
        Err(_) => FAILED.store(true, Ordering::Relaxed),
    }
}

/// Whether nobody reads stdout any more, as the last write or the pipe itself tells.
pub fn is_reader_gone() -> bool {
    let stdout = io::stdout();
    let mut ends = [PollFd::new(&stdout, PollFlags::empty())];
    let polled = poll(&mut ends, Some(&Timespec::default()));
    let has_closed = ends[0].revents().intersects(PollFlags::ERR | PollFlags::HUP);
    GONE.load(Ordering::Relaxed) || (polled.is_ok() && has_closed)
}

/// A row as a JSON object.
pub fn json(row: JobRow) -> serde_json::Value {
    let column = |(name, value)| (name, value_json(value));
    serde_json::Value::Object(row.0.into_iter().map(column).collect())
}

fn value_json(value: Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Integer(value) => value.into(),
        Value::Real(value) => value.into(),
        Value::Text(value) => value.into(),
        Value::Blob(value) => format!("{} bytes", value.len()).into(),
    }
}

/// The columns of a row that are not NULL, each with its name.
pub fn text(row: &JobRow) -> String {
    let shown = row.0.iter().filter(|(_, value)| *value != Value::Null);
    let column = |(name, value): &(String, Value)| format!("{name} {}", spelt(name, value));
    shown.map(column).collect::<Vec<_>>().join("  ")
}

/// A value of a column as text, a time as date and time.
pub fn spelt(name: &str, value: &Value) -> String {
    match value {
        Value::Integer(ms) if TIMES.contains(&name) => time(*ms),
        other => plain(other),
    }
}

/// A value for the terminal, which control characters of another program are not to reach.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Integer(value) => value.to_string(),
        Value::Real(value) => format!("{value:?}"),
        Value::Text(value) => printable(value),
        Value::Blob(value) => format!("{} bytes", value.len()),
    }
}

/// A sentence for the terminal that may have words of another program in it: quotes and backslashes stay, what is no
/// character to be seen is escaped.
pub fn printable(sentence: &str) -> String {
    let mut printable = String::with_capacity(sentence.len());
    for character in sentence.chars() {
        match character {
            '"' | '\'' | '\\' => printable.push(character),
            other => printable.extend(other.escape_debug()),
        }
    }
    printable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_keeps_its_quotes_and_loses_control_characters() {
        let sentence = "the file's mode, \"a\\b\": \u{1b}[31mred\u{202e}\n";
        assert_eq!(printable(sentence), "the file's mode, \"a\\b\": \\u{1b}[31mred\\u{202e}\\n");
    }

    /// Programs read milliseconds, people a date.
    #[test]
    fn a_row_spells_times_out_for_people_only() {
        let row = JobRow(vec![
            ("seq".into(), Value::Integer(7)),
            ("available_at".into(), Value::Integer(1_000)),
            ("deadline".into(), Value::Text("x\n".into())),
            ("owner".into(), Value::Null),
        ]);
        assert_eq!(text(&row), "seq 7  available_at 1970-01-01T00:00:01.000Z  deadline x\\n");
        assert_eq!(json(row)["available_at"], 1_000);
    }
}
