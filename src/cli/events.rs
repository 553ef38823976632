//! The event log of a worker: what it did, one JSON object a line. Several workers may write to one file: each line
//! is appended in one write.

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ackward::adapter::SystemClock;
use ackward::port::Clock;
use ackward::rules::Ticket;
use ackward::shell::{Happening, Observer, SendError};
use ackward::storage::{Finished, Released};
use serde_json::{Map, Value};

use super::files;

/// The log file.
pub struct Events {
    file: File,
    /// Whether the last line could not be written.
    failed: Cell<bool>,
}

impl Events {
    /// Opens the file to append to it; it is made, for its owner alone, where it is missing.
    pub fn open(path: &Path) -> io::Result<Self> {
        files::appendable(path)?;
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        Ok(Self { file, failed: Cell::new(false) })
    }

    fn write(&self, line: &str) {
        let written = (&self.file).write_all(line.as_bytes());
        // The work goes on without its log; once is enough to say so.
        if let Err(error) = &written
            && !self.failed.get()
        {
            tracing::error!(%error, "the event log cannot be written");
        }
        self.failed.set(written.is_err());
    }
}

impl Observer for Events {
    fn saw(&self, happening: &Happening<'_>) {
        let at_ms = SystemClock.now().map_or(Value::Null, |now| now.get().into());
        let mut line = Value::Object(fields(happening, at_ms)).to_string();
        line.push('\n');
        self.write(&line);
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
        Happening::QueueFailed { operation } => put("operation", (*operation).into()),
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
