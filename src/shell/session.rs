//! The consumer's side of one connection (R27 to R35): read a line, commit it, acknowledge it.

use std::fmt;
use std::future::Future;
use std::io;
use std::marker::PhantomData;

use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::line_reader::{Line, LineError, LineReader};
use super::wait::{reclaim, within, yield_now};
use crate::port::{Clock, Fault, FaultPoint, Injected, Lane, Stream};
use crate::rules::{Invalid, Resync, Seq, Timeout, ack_line, parse_resync};
use crate::storage::{ApplyError, ConsumeError, EventStore, State, StorageError};

/// Called with the number of a committed event, before its ACK is written (R30). Where it fails there is no
/// ACK; the commit stays.
pub type BeforeAck<'a> = &'a mut dyn FnMut(Seq) -> Result<(), Injected>;

/// How many lines share a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Commit {
    /// Each line is a transaction of its own.
    PerLine,
    /// Lines that have arrived together, up to 16, share one. Nothing waits for a batch to fill: a line that
    /// comes alone is committed alone.
    #[default]
    Group,
}

/// Lines in one transaction at most: a publisher's window.
const BATCH_LINES_MAX: usize = 16;

impl Commit {
    const fn lines_max(self) -> usize {
        match self {
            Self::PerLine => 1,
            Self::Group => BATCH_LINES_MAX,
        }
    }
}

/// How a session goes about it.
#[derive(Debug, Clone, Copy)]
pub struct SessionOptions {
    /// The limit on each single wait: for a line (R28), for an ACK to be taken (R31), for the end (R33).
    pub timeout: Timeout,
    /// How many lines share a transaction.
    pub commit: Commit,
}

/// What a session does with its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Doing {
    /// Opening the connection (R37).
    Connecting,
    /// Waiting for a line (R28).
    Reading,
    /// Sending `RESUME` or an ACK (R31, R38).
    Writing,
    /// Ending the connection (R33).
    Closing,
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connecting => "connecting",
            Self::Reading => "reading",
            Self::Writing => "writing",
            Self::Closing => "closing",
        })
    }
}

/// Why a session failed. What was committed before stays; a new session resumes after it.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// A wait took longer than the timeout (R28, R31, R37). The peer may be gone, or have nothing to say.
    #[error("timeout while {doing}")]
    Timeout {
        /// What was waited for.
        doing: Doing,
    },
    /// The network failed, or the peer cut the connection.
    #[error("{doing}: {source}")]
    Connection {
        /// During what.
        doing: Doing,
        /// The network's error.
        source: io::Error,
    },
    /// A line was malformed, over-long, or cut off by the end of the stream (R29, R32). It is not applied.
    #[error(transparent)]
    Line(#[from] Invalid),
    /// An event was not applied: a gap, a conflict, a hook, or SQLite.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The publisher cannot continue from here (W4); only a new start helps.
    #[error("the publisher holds only events {0}: a resync is needed")]
    Resync(Resync),
    /// The hook before the ACK failed (R30). The event is committed and not acknowledged.
    #[error("before the ACK of event {seq}: {source}")]
    BeforeAck {
        /// The event's number.
        seq: Seq,
        /// What the hook returned.
        source: Injected,
    },
    /// The store could not be opened or read.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl From<ConsumeError> for SessionError {
    fn from(error: ConsumeError) -> Self {
        match error {
            ConsumeError::Invalid(error) => Self::Line(error),
            ConsumeError::Apply(error) => Self::Apply(error),
        }
    }
}

/// Consumes a stream to its end and returns where the store then stands (R29). Each line is committed before
/// it is acknowledged (R30). The stream is closed on every path, within the timeout (R33, R34); the store
/// stays open (R35). Dropping the future cancels: the stream is closed, a commit that runs is completed, and
/// nothing is half-applied (M5).
///
/// # Errors
/// [`SessionError`].
pub async fn consume_session<S, E, L, F>(
    stream: S,
    store: &L,
    clock: &impl Clock,
    fault: F,
    options: SessionOptions,
    before_ack: BeforeAck<'_>,
) -> Result<State, SessionError>
where
    S: Stream,
    E: EventStore + 'static,
    L: Lane<E>,
    F: Fault + Clone + Send + 'static,
{
    let kind = PhantomData::<fn(&E)>;
    let mut session = Session { stream, store, kind, clock, fault, options, before_ack };
    let result = session.run().await;
    let closed = reclaim(clock, options.timeout, session.stream).await;
    let state = result?;
    closed.map_err(|source| SessionError::Connection { doing: Doing::Closing, source })?;
    Ok(state)
}

struct Session<'a, S, E, L, C, F> {
    stream: S,
    store: &'a L,
    kind: PhantomData<fn(&E)>,
    clock: &'a C,
    fault: F,
    options: SessionOptions,
    before_ack: BeforeAck<'a>,
}

impl<S, E, L, C, F> Session<'_, S, E, L, C, F>
where
    S: Stream,
    E: EventStore + 'static,
    L: Lane<E>,
    C: Clock,
    F: Fault + Clone + Send + 'static,
{
    async fn run(&mut self) -> Result<State, SessionError> {
        let mut reader = LineReader::default();
        loop {
            yield_now().await;
            let reading = reader.next(&mut self.stream);
            let Some(line) = limited(self.clock, self.options.timeout, Doing::Reading, reading).await? else {
                return Ok(self.store.call("state", |store| store.state()).await?);
            };
            let (lines, end) = self.gather(line, &mut reader);
            if !lines.is_empty() {
                self.consume(lines).await?;
            }
            if let Some(end) = end {
                return Err(end);
            }
        }
    }

    /// The lines that go into one transaction, and what ends the stream after them.
    fn gather(&self, first: Line, reader: &mut LineReader) -> (Vec<Line>, Option<SessionError>) {
        let mut lines = Vec::with_capacity(self.options.commit.lines_max());
        let mut next = Some(first);
        while let Some(line) = next {
            if let Ok(resync) = parse_resync(line.as_ref()) {
                return (lines, Some(SessionError::Resync(resync)));
            }
            lines.push(line);
            if lines.len() == self.options.commit.lines_max() {
                break;
            }
            next = match reader.buffered() {
                Ok(line) => line,
                Err(error) => return (lines, Some(error.into())),
            };
        }
        (lines, None)
    }

    /// Commits the lines and acknowledges those that are committed (R30).
    async fn consume(&mut self, lines: Vec<Line>) -> Result<(), SessionError> {
        let mut fault = self.fault.clone();
        let batch = self.store.call("consume", move |store| store.consume_lines(&lines, &mut fault)).await;
        for line in batch.consumed {
            let allowed = self.fault.at(FaultPoint::BeforeAck).and_then(|()| (self.before_ack)(line.seq));
            allowed.map_err(|source| SessionError::BeforeAck { seq: line.seq, source })?;
            let ack = ack_line(line.seq);
            send(&mut self.stream, self.clock, self.options.timeout, ack.as_bytes()).await?;
        }
        batch.error.map_or(Ok(()), |error| Err(error.into()))
    }
}

/// Writes and flushes, within the timeout (R31).
pub(super) async fn send(
    stream: &mut (impl AsyncWrite + Unpin),
    clock: &impl Clock,
    timeout: Timeout,
    bytes: &[u8],
) -> Result<(), SessionError> {
    let writing = async {
        stream.write_all(bytes).await?;
        stream.flush().await
    };
    limited(clock, timeout, Doing::Writing, writing).await
}

/// Waits no longer than the timeout, and says of both kinds of failure during what they happened.
pub(super) async fn limited<T, E: Into<LineError>>(
    clock: &impl Clock,
    timeout: Timeout,
    doing: Doing,
    future: impl Future<Output = Result<T, E>>,
) -> Result<T, SessionError> {
    let Ok(result) = within(clock, timeout, future).await else {
        return Err(SessionError::Timeout { doing });
    };
    result.map_err(|error| match error.into() {
        LineError::Invalid(error) => SessionError::Line(error),
        LineError::Io(source) => SessionError::Connection { doing, source },
    })
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
