//! One request and its reply on one connection, polled together: no task is spawned.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::FusedFuture;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::{Bytes, Incoming};

use super::class::HttpError;

/// A request's body.
pub(super) type Body = Full<Bytes>;
/// A reply.
pub(super) type Response = hyper::Response<Incoming>;

/// The largest body of a reply, in bytes. An acknowledgement has 11.
const BODY_BYTES_MAX: usize = 16 * 1024;

/// Waits for `part` of an exchange while the connection moves its bytes. The end of the connection does not
/// end the wait: `part` then learns of it by itself.
pub(super) async fn alongside<C, F>(connection: &mut Pin<Box<C>>, part: F) -> F::Output
where
    C: FusedFuture,
    F: Future,
{
    let mut part = std::pin::pin!(part);
    loop {
        tokio::select! {
            biased;
            output = &mut part => return output,
            _ = &mut *connection, if !connection.is_terminated() => {}
        }
    }
}

/// Reads a body to its end.
pub(super) async fn read(mut body: Incoming) -> Result<Vec<u8>, HttpError> {
    let mut read = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(HttpError::Exchange)?.into_data() else { continue };
        if read.len() + data.len() > BODY_BYTES_MAX {
            return Err(HttpError::BodyTooLarge);
        }
        read.extend_from_slice(&data);
    }
    Ok(read)
}

/// Whether an interim reply (1xx) came: from then on the receiver has seen the request.
#[derive(Debug, Clone, Default)]
pub(super) struct Interim(Arc<AtomicBool>);

impl Interim {
    /// The request, with a look-out for interim replies.
    pub(super) fn watched(&self, mut request: Request<Body>) -> Request<Body> {
        let came = Arc::clone(&self.0);
        hyper::ext::on_informational(&mut request, move |_| came.store(true, Ordering::Relaxed));
        request
    }

    pub(super) fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
