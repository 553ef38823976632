//! A publisher that breaks the rules now and then: malformed and over-long lines, gaps, other deltas under
//! old numbers, lines cut off by the end of the stream, and an over-long line whose end would be a good one.

use std::io;
use std::rc::Rc;

use ackward::port::Listener;
use ackward::rules::{LINE_BYTES_MAX, parse_resume};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::EventLog;
use crate::choice::{Kind, Offer, Phase, Role};
use crate::computer::{Context, SimListener, SimStream};
use crate::scene::Stage;

/// How many ways of breaking the rules there are.
const WAYS: i64 = 8;

/// Serves one consumer after the other.
pub(super) async fn serve(context: &Context, stage: &Rc<Stage>, mut listener: SimListener) {
    while let Ok((stream, _)) = listener.accept().await {
        if let Err(error) = converse(context, stage, stream).await {
            context.world().note(|| format!("loses its consumer: {error}"));
        }
    }
}

async fn converse(context: &Context, stage: &Rc<Stage>, stream: SimStream) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line).await?;
    let last = parse_resume(&line).map_err(io::Error::other)?.get();
    let (first, end) = stage.log.span();
    for seq in (last + 1).max(first)..end {
        let offer = [Offer { kind: Kind::BadLine, low: 1, high: WAYS }];
        let decision = context.world().choose(Phase::Message, Role::Serve, &offer);
        let delta = EventLog::delta(seq);
        let (text, goes_on) = match decision.value {
            0 => (format!("EVENT {seq} {delta}\n"), true),
            1 => ("EVENT x y\n".to_owned(), true),
            2 => ("E".repeat(3 * LINE_BYTES_MAX) + "\n", true),
            3 => (format!("EVENT {} {delta}\n", seq + 1), true),
            4 if seq > 0 => (format!("EVENT {} {}\n", seq - 1, EventLog::delta(seq - 1) + 1), true),
            4 => ("EVENT -1 0\n".to_owned(), true),
            5 => (format!("EVENT {seq} {delta}\r\n"), true),
            6 => (format!("EVENT {seq} {delta}"), false),
            7 => (format!("EVENT {seq} 1"), false),
            _ => ("E".repeat(LINE_BYTES_MAX) + &format!("EVENT {seq} {}\n", delta + 1), true),
        };
        if !decision.is_go() {
            context.world().had_effect(Kind::BadLine);
        }
        stream.write_all(text.as_bytes()).await?;
        if !goes_on {
            return stream.shutdown().await;
        }
        line.clear();
        stream.read_until(b'\n', &mut line).await?;
        if line != format!("ACK {seq}\n").as_bytes() {
            return Err(io::Error::other("no ACK"));
        }
    }
    stream.shutdown().await
}
