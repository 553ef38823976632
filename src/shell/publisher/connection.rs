//! The publisher's side of one connection: `RESUME`, then windows of events and their ACKs in order.

use std::convert::Infallible;
use std::future::Future;

use futures_util::FutureExt;

use super::log::{LogBytes, LogError, LogPosition};
use super::{Publisher, host_of};
use crate::port::{Clock, Stream};
use crate::rules::{Cursor, Invalid, Limit, Resync, Timeout, bad_line, parse_ack, parse_resume};
use crate::shell::line_reader::{Line, LineReader};
use crate::shell::session::{Doing, SessionError, limited, send};
use crate::shell::wait::{reclaim, within, yield_now};

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stop {
    #[error("the consumer closed")]
    Closed,
    /// Only where the publisher does not follow its log.
    #[error("everything is acknowledged")]
    CaughtUp,
    #[error("nothing was to be sent for the idle timeout")]
    Idle,
    #[error("the publisher is shutting down")]
    Shutdown,
    #[error("the consumer needs a resync, only events {0} are held")]
    Resync(Resync),
    /// The only one that concerns more than this connection.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The consumer is gone, or does not keep to the protocol.
    #[error(transparent)]
    Peer(#[from] SessionError),
}

impl From<Invalid> for Stop {
    fn from(error: Invalid) -> Self {
        Self::Peer(error.into())
    }
}

/// How far a connection is.
struct Window {
    /// Behind the last event sent.
    sent: LogPosition,
    /// The last event acknowledged, at most a window behind.
    acknowledged: Cursor,
}

impl Window {
    fn due(&self) -> i64 {
        self.sent.last().get() - self.acknowledged.get()
    }

    /// Takes an ACK, which must be the next one that is due.
    fn acknowledge(&mut self, line: &Line) -> Result<(), Invalid> {
        let seq = parse_ack(line.as_ref())?;
        if self.due() == 0 || self.acknowledged.next() != Some(seq) {
            let allowed = match self.due() {
                0 => "none, since no ACK is due".to_owned(),
                _ => format!("{}, the next one due", self.acknowledged.get() + 1),
            };
            return Err(Invalid::new("ACK", seq, allowed));
        }
        self.acknowledged = seq.into();
        Ok(())
    }
}

/// One consumer's connection.
pub(super) struct Connection<'a, B, C, S, F> {
    publisher: &'a Publisher<'a, B, C>,
    stream: S,
    reader: LineReader,
    shutdown: F,
}

impl<'a, B, C, S, F> Connection<'a, B, C, S, F>
where
    B: LogBytes,
    C: Clock,
    S: Stream,
    F: Future<Output = ()> + Clone + Unpin,
{
    pub(super) fn new(publisher: &'a Publisher<'a, B, C>, stream: S, shutdown: F) -> Self {
        Self { publisher, stream, reader: LineReader::default(), shutdown }
    }

    /// Serves the consumer to its end, and closes the stream.
    pub(super) async fn serve(mut self, peer: &str) -> Stop {
        let Err(stop) = self.run(host_of(peer)).await;
        // Why the connection ended is settled; closing it can add nothing.
        let _ = reclaim(self.publisher.clock, self.publisher.options.timeout, self.stream).await;
        stop
    }

    async fn run(&mut self, host: &str) -> Result<Infallible, Stop> {
        let mut window = self.resume(host).await?;
        let result = self.send_all(&mut window).await;
        if window.due() > 0 {
            self.publisher.remember(host, window.acknowledged);
        }
        result
    }

    /// Reads `RESUME` and decides where to begin: after the consumer's last event, or after the last that
    /// was acknowledged, where that is a window behind at most. The repeats are acknowledged anew (R42).
    async fn resume(&mut self, host: &str) -> Result<Window, Stop> {
        let Some(line) = self.line_or_shutdown(self.publisher.options.timeout).await? else {
            return Err(Stop::Closed);
        };
        let last = parse_resume(line.as_ref())?;
        let log = &self.publisher.log;
        log.borrow_mut().refresh()?;
        let sought = log.borrow().seek(last);
        let sent = match sought {
            Ok(sent) => sent,
            Err(held) => return Err(self.refuse(held).await),
        };
        let due = self.publisher.recall(host);
        let due = due.filter(|due| *due < last && last.get() - due.get() <= Limit::MAX.get());
        let resent = due.and_then(|due| log.borrow().seek(due).ok());
        let sent = resent.unwrap_or(sent);
        Ok(Window { sent, acknowledged: sent.last() })
    }

    async fn send_all(&mut self, window: &mut Window) -> Result<Infallible, Stop> {
        loop {
            yield_now().await;
            let stopping = self.shutdown.clone().now_or_never().is_some();
            // Whole windows: to refill one as single ACKs come would split the consumer's group commits.
            if !stopping && window.due() == 0 {
                self.send_window(window).await?;
            }
            if window.due() > 0 {
                self.take_acks(window).await?;
            } else if stopping {
                return Err(Stop::Shutdown);
            } else if self.publisher.options.follow {
                self.wait_for_more(window).await?;
            } else {
                return Err(Stop::CaughtUp);
            }
        }
    }

    /// Sends what follows, at most a window.
    async fn send_window(&mut self, window: &mut Window) -> Result<(), Stop> {
        let publisher = self.publisher;
        // A log that was empty may have begun after the consumer's next event.
        let sought = publisher.log.borrow().seek(window.sent.last());
        if let Err(held) = sought {
            return Err(self.refuse(held).await);
        }
        let read = publisher.log.borrow_mut().read(window.sent, Limit::MAX);
        let (mut events, mut sent) = read?;
        if events.is_empty() {
            publisher.log.borrow_mut().refresh()?;
            let read = publisher.log.borrow_mut().read(window.sent, Limit::MAX);
            (events, sent) = read?;
        }
        if events.is_empty() {
            return Ok(());
        }
        let lines: String = events.iter().map(|event| event.to_line()).collect();
        window.sent = sent;
        publisher.count(|published| published.sent += events.len() as u64);
        Ok(send(&mut self.stream, publisher.clock, publisher.options.timeout, lines.as_bytes()).await?)
    }

    /// Waits for the next ACK, and takes those that came with it.
    async fn take_acks(&mut self, window: &mut Window) -> Result<(), Stop> {
        let publisher = self.publisher;
        let reading = self.reader.next(&mut self.stream);
        let mut line = limited(publisher.clock, publisher.options.timeout, Doing::Reading, reading).await?;
        if line.is_none() {
            return Err(Stop::Closed);
        }
        while let Some(ack) = line {
            window.acknowledge(&ack)?;
            publisher.count(|published| published.acknowledged += 1);
            line = self.reader.buffered()?;
        }
        Ok(())
    }

    /// At the end of the log: waits until it has grown.
    async fn wait_for_more(&mut self, window: &Window) -> Result<(), Stop> {
        let publisher = self.publisher;
        let waiting = async {
            loop {
                match self.line_or_shutdown(publisher.options.poll_interval).await {
                    Ok(Some(line)) => return Err(unexpected(&line)),
                    Ok(None) => return Err(Stop::Closed),
                    Err(Stop::Peer(SessionError::Timeout { .. })) => publisher.log.borrow_mut().refresh()?,
                    Err(stop) => return Err(stop),
                }
                if publisher.log.borrow().held().last() > window.sent.last() {
                    return Ok(());
                }
            }
        };
        let waited = within(publisher.clock, publisher.options.idle_timeout, waiting).await;
        waited.unwrap_or(Err(Stop::Idle))
    }

    /// The next line within the limit, unless the publisher shuts down first. Losing the race loses no byte.
    async fn line_or_shutdown(&mut self, limit: Timeout) -> Result<Option<Line>, Stop> {
        let reading = self.reader.next(&mut self.stream);
        let reading = limited(self.publisher.clock, limit, Doing::Reading, reading);
        tokio::select! {
            biased;
            line = reading => Ok(line?),
            () = self.shutdown.clone() => Err(Stop::Shutdown),
        }
    }

    /// Tells the consumer what is held.
    async fn refuse(&mut self, held: Resync) -> Stop {
        let publisher = self.publisher;
        let line = held.to_line();
        match send(&mut self.stream, publisher.clock, publisher.options.timeout, line.as_bytes()).await {
            Ok(()) => Stop::Resync(held),
            Err(error) => error.into(),
        }
    }
}

fn unexpected(line: &Line) -> Stop {
    bad_line(line.as_ref(), "none, since no ACK is due").into()
}
