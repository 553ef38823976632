//! Waiting on the ports: a limit on a wait, a turn for the others, the end of a stream (R28, R33, B8).

use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind};
use std::task::Poll;

use tokio::io::AsyncWriteExt;

use crate::port::{Clock, Stream};
use crate::rules::Timeout;

/// The limit passed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Elapsed;

/// Waits for `future`, no longer than `limit`. Where both are ready, the future's result counts.
pub(super) async fn within<F: Future>(
    clock: &impl Clock,
    limit: Timeout,
    future: F,
) -> Result<F::Output, Elapsed> {
    tokio::select! {
        biased;
        output = future => Ok(output),
        () = clock.sleep(limit.duration()) => Err(Elapsed),
    }
}

/// Lets the executor run something else, and see that this task was cancelled (B8).
pub(super) async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Ends a stream (R33, R34): what was written still arrives, within `limit`; else it is cut off.
///
/// # Errors
/// What closing failed of, other than the limit or the peer (B9).
pub(super) async fn reclaim(
    clock: &impl Clock,
    limit: Timeout,
    mut stream: impl Stream,
) -> Result<(), io::Error> {
    let closed = within(clock, limit, stream.shutdown()).await;
    match closed {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) if !is_connection_error(&error) => {
            stream.abort();
            Err(error)
        }
        Ok(Err(_)) | Err(Elapsed) => {
            stream.abort();
            Ok(())
        }
    }
}

/// Whether the peer or the network is to blame, as Python's `ConnectionError` has it.
fn is_connection_error(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::BrokenPipe
            | ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::NotConnected
            | ErrorKind::TimedOut
    )
}
