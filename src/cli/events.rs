//! The event log of a worker: what it did, one JSON object a line. Several workers may write to one file: each line
//! is appended in one write.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use ackward::adapter::SystemClock;
use ackward::port::Clock;
use ackward::rules::Ticket;
use ackward::shell::{Happening, Observer, SendError};
use ackward::storage::{Finished, Released};
use serde_json::{Map, Value};

use super::files;

/// The log file.
pub struct Events(RefCell<Lines<File>>);

impl Events {
    /// Opens the file to append to it; it is made, for its owner alone, where it is missing.
    pub fn open(path: &Path) -> io::Result<Self> {
        files::appendable(path)?;
        let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
        if begins_as_sqlite(&file)? {
            return Err(io::Error::other("it is a SQLite file, allowed: an event log, or a new path"));
        }
        // An earlier process may have left the beginning of a line.
        let has_failed = !ends_with_a_line(&file)?;
        Ok(Self(RefCell::new(Lines { out: file, has_failed })))
    }
}

fn begins_as_sqlite(file: &File) -> io::Result<bool> {
    const MAGIC: &[u8; 16] = b"SQLite format 3\0";
    let mut head = [0; MAGIC.len()];
    let count = file.read_at(&mut head, 0)?;
    Ok(count == MAGIC.len() && head == *MAGIC)
}

fn ends_with_a_line(file: &File) -> io::Result<bool> {
    let len = file.metadata()?.len();
    let mut last = [b'\n'];
    if len > 0 {
        file.read_exact_at(&mut last, len - 1)?;
    }
    Ok(last == [b'\n'])
}

impl Observer for Events {
    fn saw(&self, happening: &Happening<'_>) {
        let at_ms = SystemClock.now().map_or(Value::Null, |now| now.get().into());
        self.0.borrow_mut().append(&Value::Object(fields(happening, at_ms)).to_string());
    }
}

/// Whole lines, each in one write.
struct Lines<W> {
    out: W,
    /// Whether the last line could not be written, or only its beginning.
    has_failed: bool,
}

impl<W: Write> Lines<W> {
    fn append(&mut self, line: &str) {
        // What may be there of the line before must not become part of this one.
        let before = if self.has_failed { "\n" } else { "" };
        let written = self.out.write_all(format!("{before}{line}\n").as_bytes());
        // The work goes on without its log; once is enough to say so.
        if let (Err(error), false) = (&written, self.has_failed) {
            tracing::error!(%error, "the event log cannot be written");
        }
        self.has_failed = written.is_err();
    }
}

/// The fields of a line: `at_ms` and `what`, the ticket's six where there is one, and what else there is to say.
fn fields(happening: &Happening<'_>, at_ms: Value) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
    put("at_ms", at_ms);
    put("what", happening.name().into());
    if let Some(ticket) = happening.ticket() {
        put("ticket", ticket_json(ticket));
    }
    match happening {
        Happening::Answered { answer, .. } => {
            put("answer", answer_word(answer).into());
            if let Err(error) = answer {
                put("error", error.to_string().into());
            }
        }
        Happening::Finished { outcome, delay, finished, .. } => {
            put("outcome", outcome.as_str().into());
            put("delay_ms", delay.get().into());
            put("finished", finished_word(*finished).into());
        }
        Happening::Released { released, .. } => {
            let word = if *released == Released::Pending { "pending" } else { "stale" };
            put("released", word.into());
        }
        Happening::LockWait { waited_ms, tries } => {
            put("waited_ms", (*waited_ms).into());
            put("tries", (*tries).into());
        }
        Happening::QueueFailed { operation, .. } => put("operation", (*operation).into()),
        _ => {}
    }
    fields
}

/// A ticket as the contract writes it (Q32).
fn ticket_json(ticket: &Ticket) -> Value {
    serde_json::json!({
        "id": ticket.id.as_str(), "qty": ticket.qty.get(), "owner": ticket.owner.as_str(),
        "token": ticket.token.get(), "attempt": ticket.attempt.get(), "lease_until": ticket.lease_until_ms(),
    })
}

/// One word for an answer.
pub const fn answer_word(answer: &Result<(), &SendError>) -> &'static str {
    match answer {
        Ok(()) => "ok",
        Err(SendError::Retryable { .. }) => "retryable",
        Err(SendError::Permanent { .. }) => "permanent",
        Err(SendError::BadAck { .. }) => "bad-ack",
        Err(SendError::Other(_)) => "other",
    }
}

/// The job's new status, or `stale`.
pub const fn finished_word(finished: Finished) -> &'static str {
    match finished {
        Finished::Now(status) => status.as_str(),
        Finished::Stale => "stale",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with room for so many bytes.
    struct Disk {
        room: usize,
        text: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.room);
            if count == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.room -= count;
            self.text.extend(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What a full disk left of a line, or of several, stands alone; lines that fit are as ever.
    #[test]
    fn a_line_cut_short_by_a_full_disk_does_not_join_the_next() {
        let mut lines = Lines { out: Disk { room: 12, text: Vec::new() }, has_failed: false };
        lines.append("{\"a\":1}");
        lines.append("{\"b\":2}");
        lines.append("{\"c\":3}");
        lines.out.room = 100;
        lines.append("{\"d\":4}");
        lines.append("{\"e\":5}");
        let text = String::from_utf8(lines.out.text).unwrap();
        assert_eq!(text, "{\"a\":1}\n{\"b\"\n{\"d\":4}\n{\"e\":5}\n");
    }
}
