//! The publisher's log: `<seq> <delta>` a line, numbers without gaps, only ever appended to (W4).

use std::io;

use crate::rules::{
    Cursor, Invalid, LINE_BYTES_MAX, Limit, ReplayError, Resync, Seq, StreamEvent, bad_line, parse_log_line,
    replay,
};

/// The bytes of a log, wherever they are kept: a file, or the simulator's disk. Reads are small and are made
/// on the publisher's own task.
#[expect(clippy::len_without_is_empty, reason = "an empty log is nothing special")]
pub trait LogBytes: 'static {
    /// How many bytes there are now.
    ///
    /// # Errors
    /// What the storage reports.
    fn len(&mut self) -> io::Result<u64>;

    /// Reads from `offset` on; fewer bytes than fit, and 0 at the end.
    ///
    /// # Errors
    /// What the storage reports.
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Whether these bytes are still where they were found: a log that is rotated leaves them behind.
    ///
    /// # Errors
    /// What the storage reports.
    fn is_in_place(&mut self) -> io::Result<bool> {
        Ok(true)
    }
}

/// Why a log cannot be published. A person must look at it: a consumer that has applied another history
/// would not notice.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A whole line is malformed. A torn last line is none yet: it is waited for.
    #[error("log line {line_number}: {source}")]
    Line {
        /// The line's number, from 1.
        line_number: u64,
        /// What is wrong.
        source: Invalid,
    },
    /// A number is missing, repeated or out of order.
    #[error("log line {line_number}: event {found} follows event {last}")]
    Gap {
        /// The line's number, from 1.
        line_number: u64,
        /// The event before.
        last: Cursor,
        /// The event found.
        found: Seq,
    },
    /// The log has become shorter: a tail that consumers may have seen is gone.
    #[error("the log shrank from {from_bytes} to {to_bytes} bytes")]
    Shrank {
        /// Bytes read before.
        from_bytes: u64,
        /// Bytes now.
        to_bytes: u64,
    },
    /// Other bytes stand where lines were read: the log was cut and has grown again, with another history.
    #[error("the log was rewritten before byte {end_bytes}: its last line is no longer what it was")]
    Rewritten {
        /// Bytes read before.
        end_bytes: u64,
    },
    /// Another file, or none, is where the log was: it was moved or rotated. Start again with the whole log in place.
    #[error("the log was moved, removed or rotated: only one file that is appended to can be followed")]
    Moved,
    /// The storage failed.
    #[error("reading the log: {0}")]
    Io(#[from] io::Error),
}

/// Lines between two entries of the index.
const INDEX_STEP: u64 = 1024;
/// Bytes read at once.
const CHUNK_BYTES: usize = 8 * 1024;

/// A checked log and an index of it, 8 bytes for each 1024 events.
#[derive(Debug)]
pub struct Log<B> {
    bytes: B,
    /// The first event; `None` while the log is empty.
    first: Option<Seq>,
    last: Cursor,
    lines: u64,
    /// Bytes that hold whole, checked lines.
    end: u64,
    /// The last of these lines.
    tail: Vec<u8>,
    /// Where every 1024th line starts.
    index: Vec<u64>,
}

/// A place in a log: behind `last`, at a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogPosition {
    last: Cursor,
    offset: u64,
}

impl LogPosition {
    /// The event before.
    #[must_use]
    pub const fn last(self) -> Cursor {
        self.last
    }
}

impl<B: LogBytes> Log<B> {
    /// Reads and checks the whole log.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn open(bytes: B) -> Result<Self, LogError> {
        let mut log = Self {
            bytes,
            first: None,
            last: Cursor::START,
            lines: 0,
            end: 0,
            tail: Vec::new(),
            index: Vec::new(),
        };
        log.refresh()?;
        Ok(log)
    }

    /// Takes in what was appended meanwhile. A last line without LF is left for later.
    ///
    /// # Errors
    /// [`LogError`]; what was checked before stays readable.
    pub fn refresh(&mut self) -> Result<(), LogError> {
        let to_bytes = self.bytes.len()?;
        if to_bytes < self.end {
            return Err(LogError::Shrank { from_bytes: self.end, to_bytes });
        }
        if !self.bytes.is_in_place()? {
            return Err(LogError::Moved);
        }
        let mut chunk = vec![0; CHUNK_BYTES];
        if to_bytes > self.end && !self.tail.is_empty() {
            self.check_tail(&mut chunk)?;
        }
        while to_bytes > self.end {
            let read = fill(&mut self.bytes, self.end, &mut chunk)?;
            let taken = self.take_lines(&chunk[..read])?;
            if taken == 0 {
                return self.torn(&chunk[..read]);
            }
        }
        Ok(())
    }

    /// What the log holds; events 0 to -1 while it is empty.
    #[must_use]
    pub fn held(&self) -> Resync {
        let first = self.first.unwrap_or(Seq::ZERO);
        Resync::new(first, self.last).expect("a log ends at most one before its start")
    }

    /// The place behind `last`.
    ///
    /// # Errors
    /// What is held, where the event after `last` is not, or `last` lies beyond the end (W4).
    pub fn seek(&self, last: Cursor) -> Result<LogPosition, Resync> {
        let held = self.held();
        let reaches = held.first().before() <= last && last <= held.last();
        if !reaches {
            return Err(held);
        }
        // The nearest indexed line at or before the one wanted; `read` skips what lies between.
        let skipped = u64::try_from(last.get() - held.first().before().get()).unwrap_or(0);
        let entry = usize::try_from(skipped / INDEX_STEP).unwrap_or(usize::MAX);
        Ok(LogPosition { last, offset: self.index.get(entry).copied().unwrap_or(self.end) })
    }

    /// The events after `position`, at most `limit`, and the place behind them. Empty at the end.
    ///
    /// # Errors
    /// [`LogError`], where the log is not what it was when it was checked.
    pub fn read(
        &mut self,
        position: LogPosition,
        limit: Limit,
    ) -> Result<(Vec<StreamEvent>, LogPosition), LogError> {
        let LogPosition { last, mut offset } = position;
        let mut events: Vec<StreamEvent> = Vec::new();
        let mut chunk = vec![0; CHUNK_BYTES];
        let wanted = usize::try_from(limit.get()).unwrap_or(usize::MAX);
        while offset < self.end && events.len() < wanted {
            let read = fill(&mut self.bytes, offset, &mut chunk)?;
            let within = usize::try_from(self.end - offset).unwrap_or(usize::MAX).min(read);
            let before = offset;
            for line in whole_lines(&chunk[..within]) {
                if events.len() == wanted {
                    break;
                }
                let event = parse_log_line(line).map_err(|source| self.changed(last, source))?;
                offset += line.len() as u64;
                if !last.covers(event.seq) {
                    events.push(event);
                }
            }
            if offset == before {
                return Err(LogError::Shrank { from_bytes: self.end, to_bytes: offset + read as u64 });
            }
        }
        if events.is_empty() {
            return Ok((events, LogPosition { last, offset }));
        }
        let events = replay(&events, last, limit).map_err(|error| self.unreplayable(last, error))?;
        let last = events.last().map_or(last, |event| event.seq.into());
        Ok((events, LogPosition { last, offset }))
    }

    /// Whether the last line is still what it was, before what follows it is believed.
    fn check_tail(&mut self, chunk: &mut [u8]) -> Result<(), LogError> {
        let length = self.tail.len();
        let read = fill(&mut self.bytes, self.end - length as u64, &mut chunk[..length])?;
        if chunk[..read] == self.tail[..] {
            return Ok(());
        }
        Err(LogError::Rewritten { end_bytes: self.end })
    }

    /// Checks whole lines at the end of what is known; returns how many bytes they take.
    fn take_lines(&mut self, bytes: &[u8]) -> Result<usize, LogError> {
        let mut taken = 0;
        for line in whole_lines(bytes) {
            self.take_line(line)?;
            taken += line.len();
        }
        Ok(taken)
    }

    fn take_line(&mut self, line: &[u8]) -> Result<(), LogError> {
        let line_number = self.lines + 1;
        let event = parse_log_line(line).map_err(|source| LogError::Line { line_number, source })?;
        if self.first.is_some() && self.last.next() != Some(event.seq) {
            return Err(LogError::Gap { line_number, last: self.last, found: event.seq });
        }
        if self.lines.is_multiple_of(INDEX_STEP) {
            self.index.push(self.end);
        }
        self.first.get_or_insert(event.seq);
        self.last = event.seq.into();
        self.lines = line_number;
        self.end += line.len() as u64;
        self.tail.clear();
        self.tail.extend_from_slice(line);
        Ok(())
    }

    /// A rest without LF: torn, or no line at all.
    fn torn(&self, rest: &[u8]) -> Result<(), LogError> {
        if rest.len() <= LINE_BYTES_MAX {
            return Ok(());
        }
        let source = bad_line(&rest[..LINE_BYTES_MAX], "at most 64 bytes, LF counted");
        Err(LogError::Line { line_number: self.lines + 1, source })
    }

    fn changed(&self, last: Cursor, source: Invalid) -> LogError {
        let line_number = u64::try_from(last.get() - self.held().first().get() + 2).unwrap_or(1);
        LogError::Line { line_number, source }
    }

    fn unreplayable(&self, last: Cursor, error: ReplayError) -> LogError {
        let source = match error {
            ReplayError::Invalid(source) => source,
            ReplayError::ResyncRequired { held, .. } => {
                Invalid::new("log", held, "what it held when it was checked")
            }
        };
        self.changed(last, source)
    }
}

/// Fills the buffer, unless the bytes end before.
fn fill(bytes: &mut impl LogBytes, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match bytes.read_at(offset + filled as u64, &mut buffer[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}

/// The lines that end with LF, each with it.
fn whole_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n"))
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
