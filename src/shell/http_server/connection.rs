//! One connection: its requests one after the other, with a limit on each wait for a head.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::heads::{Framing, Framings, Heads};
use super::{Reply, TwoLengths};
use crate::port::{Clock, Stream};
use crate::rules::Timeout;
use crate::shell::wait::within;

/// The largest head that is read at all, in bytes; beyond it hyper answers 431 without a body.
const BUFFER_BYTES_MAX: usize = 64 * 1024;
/// How much, and for how long, is still read of a request that was answered before its end: closing at once would
/// reset the connection, and the reply with it.
const LINGER_BYTES_MAX: u64 = 1024 * 1024;
const LINGER: Duration = Duration::from_secs(1);

/// Why a connection ended badly.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServeError {
    #[error("no complete head in time")]
    HeadTimeout,
    #[error(transparent)]
    Http(#[from] hyper::Error),
}

/// Serves requests until the peer closes, the limit passes, or `shutdown` completes and the request that has
/// begun is answered.
pub(super) async fn serve<S, C, A, R>(
    stream: S,
    clock: &C,
    head_timeout: Timeout,
    mut shutdown: impl Future<Output = ()> + Unpin,
    answer: A,
) -> Result<(), ServeError>
where
    S: Stream,
    C: Clock,
    A: Fn(Request<Incoming>) -> R,
    R: Future<Output = Reply>,
{
    let (phase, framings) = (Phase::default(), Framings::default());
    let service = service_fn(|mut request: Request<Incoming>| {
        phase.answering.set(true);
        let framing = framings.next();
        if framing == Some(Framing::Both) {
            request.extensions_mut().insert(TwoLengths);
        }
        let answer = answer(request);
        let (phase, framings) = (&phase, &framings);
        Box::pin(async move {
            let mut reply = answer.await;
            if !matches!(framing, Some(Framing::Length(_))) {
                reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            phase.answering.set(false);
            framings.answered();
            phase.answered.set(phase.answered.get() + 1);
            Ok::<_, Infallible>(reply)
        })
    });
    let mut connection = http1::Builder::new()
        .auto_date_header(false)
        // Whoever sends nothing more may still want the answers to what was sent.
        .half_close(true)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(Heads::new(stream, BUFFER_BYTES_MAX, &framings)), service);
    let mut stopping = false;
    let ended = loop {
        let answered = phase.answered.get();
        let mut limit = pin!(clock.sleep(head_timeout.duration()));
        let step = poll_fn(|context| {
            if !stopping && Pin::new(&mut shutdown).poll(context).is_ready() {
                stopping = true;
                Pin::new(&mut connection).graceful_shutdown();
            }
            if let Poll::Ready(result) = connection.poll_without_shutdown(context) {
                return Poll::Ready(Step::Ended(result));
            }
            if phase.answered.get() != answered {
                return Poll::Ready(Step::Answered);
            }
            if phase.answering.get() {
                return Poll::Pending;
            }
            limit.as_mut().poll(context).map(|()| Step::TimedOut)
        });
        match step.await {
            Step::Answered => {}
            Step::Ended(result) => break result,
            Step::TimedOut => return Err(ServeError::HeadTimeout),
        }
    };
    let stream = connection.into_parts().io.into_inner().into_inner();
    let last = if framings.is_too_long() { TOO_LONG } else { "" };
    linger(stream, last, clock).await;
    Ok(ended?)
}

/// Where a connection stands.
#[derive(Debug, Default)]
struct Phase {
    answering: Cell<bool>,
    answered: Cell<u64>,
}

enum Step {
    Answered,
    Ended(hyper::Result<()>),
    TimedOut,
}

/// The answer to a request whose body is too long for hyper to count: it never gets to see it.
const TOO_LONG: &str = "HTTP/1.1 413 Payload Too Large\r\ncontent-type: application/json\r\nconnection: close\r\n\
    content-length: 60\r\n\r\n{\"error\":\"body-too-large\",\"message\":\"the body is too large\"}";

/// Ends a connection: `last` and the reply's end are sent, and what still comes is read and dropped, within limits.
async fn linger(mut stream: impl Stream, last: &str, clock: &impl Clock) {
    let Ok(limit) = Timeout::from_seconds(LINGER.as_secs_f64()) else { return };
    let rest = async {
        if !last.is_empty() {
            stream.write_all(last.as_bytes()).await?;
        }
        stream.shutdown().await?;
        let mut rest = stream.take(LINGER_BYTES_MAX);
        let mut buffer = [0; 4096];
        while rest.read(&mut buffer).await? > 0 {}
        Ok::<_, io::Error>(())
    };
    // However it goes, the connection is over.
    let _ = within(clock, limit, rest).await;
}
