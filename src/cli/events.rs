//! The event log of a worker: what it did, one JSON object a line. Several workers may write to one file: each line
//! is appended in one write. What could not be written is told by a line `lost` as soon as it can.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use ackward::adapter::SystemClock;
use ackward::port::Clock;
use ackward::rules::Ticket;
use ackward::shell::{Happening, Observer, SendError, Trouble, TroubleLine};
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
        Ok(Self(RefCell::new(Lines::new(file))))
    }
}

fn begins_as_sqlite(file: &File) -> io::Result<bool> {
    const MAGIC: &[u8; 16] = b"SQLite format 3\0";
    let mut head = [0; MAGIC.len()];
    let count = file.read_at(&mut head, 0)?;
    Ok(count == MAGIC.len() && head == *MAGIC)
}

/// What lines are appended to.
trait Log: Write {
    /// Whether it is empty or its last line is whole.
    fn ends_with_a_line(&self) -> io::Result<bool>;
}

impl Log for File {
    fn ends_with_a_line(&self) -> io::Result<bool> {
        let len = self.metadata()?.len();
        let mut last = [b'\n'];
        if len > 0 {
            self.read_exact_at(&mut last, len - 1)?;
        }
        Ok(last == [b'\n'])
    }
}

impl Observer for Events {
    fn saw(&self, happening: &Happening<'_>) {
        let at_ms = now_ms();
        let line = fields(happening, at_ms.map_or(Value::Null, Into::into));
        self.0.borrow_mut().append(&Value::Object(line), at_ms.unwrap_or(0));
    }
}

fn now_ms() -> Option<i64> {
    SystemClock.now().ok().map(|now| now.get())
}

/// Whole lines, each in one write.
struct Lines<W: Log> {
    out: W,
    /// Whether the last line may be there only as far as its beginning: left so by a full disk, or by an earlier
    /// process. Such a beginning stays, since taking it back could cut off a line of somebody who writes to the file, too.
    may_be_torn: bool,
    lost: Option<Lost>,
    trouble: Trouble,
}

/// The lines that could not be written since the last one that could.
#[derive(Clone, Copy)]
struct Lost {
    count: u64,
    /// When the first of them was to be, in ms.
    since_ms: i64,
}

impl<W: Log> Lines<W> {
    fn new(out: W) -> Self {
        Self { out, may_be_torn: true, lost: None, trouble: Trouble::default() }
    }

    /// Appends a line, behind what tells of those that are lost.
    fn append(&mut self, line: &Value, now_ms: i64) {
        let written = self.tell_lost(now_ms).and_then(|()| self.write(line));
        let Err(error) = written else { return };
        let count = self.lost.map_or(0, |lost| lost.count) + 1;
        self.lost = Some(Lost { count, since_ms: self.lost.map_or(now_ms, |lost| lost.since_ms) });
        // The work goes on without its log.
        if let Some(TroubleLine { left_out }) = self.trouble.failed(now_ms) {
            tracing::error!(%error, left_out, lost = count, "the event log cannot be written: events are lost");
        }
    }

    /// Tells how many lines are lost, where any are.
    fn tell_lost(&mut self, now_ms: i64) -> io::Result<()> {
        let Some(Lost { count, since_ms }) = self.lost else { return Ok(()) };
        let line =
            serde_json::json!({ "at_ms": now_ms, "what": "lost", "count": count, "since_ms": since_ms });
        self.write(&line)?;
        self.lost = None;
        if self.trouble.worked().is_some() {
            tracing::info!(
                lost = count,
                "the event log can be written again: it says how many events are lost"
            );
        }
        Ok(())
    }

    fn write(&mut self, line: &Value) -> io::Result<()> {
        // What may be there of the line before must not become part of this one. The file tells; somebody may have
        // emptied it meanwhile to make room.
        let is_torn = self.may_be_torn && !self.out.ends_with_a_line().unwrap_or(false);
        let before = if is_torn { "\n" } else { "" };
        let written = self.out.write_all(format!("{before}{line}\n").as_bytes());
        self.may_be_torn = written.is_err();
        written
    }
}

impl<W: Log> Drop for Lines<W> {
    /// There may be room by now, though nothing more has happened.
    fn drop(&mut self) {
        let Some(lost) = self.lost else { return };
        if let Err(error) = self.tell_lost(now_ms().unwrap_or(lost.since_ms)) {
            tracing::error!(%error, lost = lost.count, "the event log does not tell of the events that are lost");
        }
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

    impl Log for Disk {
        fn ends_with_a_line(&self) -> io::Result<bool> {
            Ok(self.text.last().is_none_or(|last| *last == b'\n'))
        }
    }

    fn lines(room: usize) -> Lines<Disk> {
        Lines::new(Disk { room, text: Vec::new() })
    }

    fn text(lines: &Lines<Disk>) -> &str {
        str::from_utf8(&lines.out.text).unwrap()
    }

    /// What a full disk left of a line, or of several, stands alone; how many it took, and since when, is told before
    /// the next line; lines that fit are as ever.
    #[test]
    fn lines_that_a_full_disk_took_are_counted_and_join_no_other() {
        let mut lines = lines(12);
        for (now_ms, line) in [(1, "a"), (2, "b"), (3, "c")] {
            lines.append(&serde_json::json!({ line: 1 }), now_ms);
        }
        lines.out.room = 100;
        lines.append(&serde_json::json!({ "d": 4 }), 4);
        lines.append(&serde_json::json!({ "e": 5 }), 5);
        let lost = r#"{"at_ms":4,"count":2,"since_ms":2,"what":"lost"}"#;
        assert_eq!(text(&lines), format!("{{\"a\":1}}\n{{\"b\"\n{lost}\n{{\"d\":4}}\n{{\"e\":5}}\n"));
    }

    /// Room for what tells of the lost lines, and not for the line itself: no event is counted twice, and none left out.
    #[test]
    fn a_line_that_does_not_fit_behind_the_count_is_the_first_of_the_next() {
        let mut lines = lines(0);
        lines.append(&serde_json::json!({ "a": 1 }), 1);
        let lost = r#"{"at_ms":2,"count":1,"since_ms":1,"what":"lost"}"#;
        lines.out.room = lost.len() + 1;
        lines.append(&serde_json::json!({ "b": 2 }), 2);
        lines.out.room = 100;
        lines.append(&serde_json::json!({ "c": 3 }), 3);
        let next = r#"{"at_ms":3,"count":1,"since_ms":2,"what":"lost"}"#;
        assert_eq!(text(&lines), format!("{lost}\n{next}\n{{\"c\":3}}\n"));
    }

    /// Whoever makes room by emptying the log finds no empty line in it, and no torn one.
    #[test]
    fn a_log_that_was_emptied_begins_with_what_is_lost() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let file = OpenOptions::new().read(true).append(true).open(path.path()).unwrap();
        file.set_len(0).unwrap();
        let mut lines = Lines::new(Either { file, is_full: false });
        lines.append(&serde_json::json!({ "a": 1 }), 1);
        lines.out.file.write_all(b"{\"to").unwrap();
        lines.out.is_full = true;
        lines.append(&serde_json::json!({ "b": 2 }), 2);
        lines.out.file.set_len(0).unwrap();
        lines.out.is_full = false;
        lines.append(&serde_json::json!({ "c": 3 }), 3);
        let text = std::fs::read_to_string(path.path()).unwrap();
        assert_eq!(text, "{\"at_ms\":3,\"count\":1,\"since_ms\":2,\"what\":\"lost\"}\n{\"c\":3}\n");
    }

    /// The process ends, and nothing has happened since there is room again.
    #[test]
    fn lost_lines_are_told_at_the_end_as_well() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let mut lines = Lines::new(Either::full(path.reopen().unwrap()));
        lines.append(&serde_json::json!({ "a": 1 }), 1);
        lines.out.is_full = false;
        drop(lines);
        let text = std::fs::read_to_string(path.path()).unwrap();
        assert!(text.starts_with("{\"at_ms\":") && text.contains("\"count\":1,\"since_ms\":1"), "{text}");
    }

    /// A file on a disk that is full for a while.
    struct Either {
        file: File,
        is_full: bool,
    }

    impl Either {
        fn full(file: File) -> Self {
            Self { file, is_full: true }
        }
    }

    impl Write for Either {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.is_full { Err(io::ErrorKind::StorageFull.into()) } else { self.file.write(bytes) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Log for Either {
        fn ends_with_a_line(&self) -> io::Result<bool> {
            self.file.ends_with_a_line()
        }
    }
}
