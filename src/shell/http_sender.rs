//! Sends a job's event over HTTP (W1, W2): one connection and exactly one POST an attempt, limited in time and
//! in what it reads. Redirects, cookies, connections kept open and resending are deliberately left out.

mod class;
mod exchange;
mod retry_after;
mod target;
#[cfg(test)]
mod tests;
mod trace_parent;

use std::pin::pin;
use std::rc::Rc;

use futures_util::FutureExt;
use hyper::Request;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CONNECTION, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use hyper_util::rt::TokioIo;

use super::sender::{SendError, Sender};
use super::signature::{Secrets, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP};
use crate::port::{Clock, Connect};
use crate::rules::{Event, Timeout};
use class::Class;
use exchange::{Body, Interim, Response};

pub use class::HttpError;
pub use target::Target;
pub use trace_parent::TraceParent;

/// The header with the id, in quotes, under which the receiver knows a repeat.
pub(super) const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The largest head of a reply, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// The most header fields of a reply.
const HEADERS_MAX: usize = 100;
/// What the sender calls itself.
const AGENT: &str = concat!("ackward/", env!("CARGO_PKG_VERSION"));

/// Where and how an [`HttpSender`] sends.
#[derive(Debug, Clone)]
pub struct HttpSenderOptions {
    /// The receiver.
    pub target: Target,
    /// The limit on a whole attempt, from the connection to the last byte of the reply. Keep it below the lease.
    pub timeout: Timeout,
    /// Signs every request, where given.
    pub secrets: Option<Secrets>,
}

/// The sender. It keeps nothing between two attempts.
#[derive(Debug, Clone)]
pub struct HttpSender<N, C> {
    connect: N,
    clock: C,
    options: HttpSenderOptions,
    trace: Option<Rc<dyn TraceParent>>,
}

impl<N: Connect, C: Clock> HttpSender<N, C> {
    /// A sender that connects through `connect`: it must speak TLS where the target's scheme is `https`.
    pub const fn new(connect: N, clock: C, options: HttpSenderOptions) -> Self {
        Self { connect, clock, options, trace: None }
    }

    /// The same, whose requests say which trace they belong to.
    #[must_use]
    pub fn traced(self, trace: Option<Rc<dyn TraceParent>>) -> Self {
        Self { trace, ..self }
    }

    /// One attempt, up to the head of the reply; then the body where it matters. Dropping the future closes
    /// the connection.
    async fn attempt(&self, event: &Event) -> Result<(), SendError> {
        let request = self.request(event)?;
        let interim = Interim::default();
        let mut limit = pin!(self.clock.sleep(self.options.timeout.duration()).fuse());
        let exchange = async {
            let stream = self.connect.connect_to(self.options.target.host(), self.options.target.port());
            let stream = stream.await.map_err(HttpError::Connect)?;
            let (mut sender, connection) = http1::Builder::new()
                .max_buf_size(HEAD_BYTES_MAX)
                .max_headers(HEADERS_MAX)
                .handshake::<_, Body>(TokioIo::new(stream))
                .await
                .map_err(HttpError::Exchange)?;
            let mut connection = Box::pin(connection.fuse());
            let request = interim.watched(request);
            let head = exchange::alongside(&mut connection, sender.send_request(request)).await;
            Ok::<_, HttpError>((head.map_err(HttpError::Exchange)?, connection))
        };
        let (response, mut connection) = tokio::select! {
            biased;
            head = exchange => head.map_err(|error| class::failed(error, interim.came()))?,
            () = &mut limit => return Err(class::failed(HttpError::Timeout, interim.came())),
        };
        let status = response.status();
        match class::of_status(status.as_u16()) {
            Class::Retryable => {
                let retry_after = self.retry_after(&response);
                Err(SendError::Retryable { cause: HttpError::Status(status).into(), retry_after })
            }
            Class::Permanent => Err(SendError::permanent(HttpError::Status(status))),
            Class::BadAck => Err(SendError::bad_ack(HttpError::Status(status))),
            Class::AskBody => {
                let body = exchange::alongside(&mut connection, exchange::read(response.into_body()));
                tokio::select! {
                    biased;
                    body = body => class::of_body(&body.map_err(SendError::bad_ack)?),
                    () = &mut limit => Err(SendError::bad_ack(HttpError::Timeout)),
                }
            }
        }
    }

    fn request(&self, event: &Event) -> Result<Request<Body>, SendError> {
        let body = event.to_json();
        let mut request = Request::post(self.options.target.path())
            .header(HOST, self.options.target.authority())
            .header(CONTENT_TYPE, "application/json")
            .header(IDEMPOTENCY_KEY, format!("\"{}\"", event.id))
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, AGENT)
            .header(CONNECTION, "close");
        if let Some(secrets) = &self.options.secrets {
            let now = self.clock.now().map_err(|error| SendError::Other(error.into()))?;
            let signed = secrets.sign(event.id.as_str(), now, body.as_bytes());
            request = request
                .header(WEBHOOK_ID, event.id.as_str())
                .header(WEBHOOK_TIMESTAMP, signed.timestamp)
                .header(WEBHOOK_SIGNATURE, signed.signature);
        }
        let trace = self.trace.as_deref();
        if let Some(value) = trace.and_then(|trace| trace.traceparent(event, &self.options.target)) {
            request = request.header(trace_parent::HEADER, value);
        }
        request.body(Body::from(body)).map_err(|error| SendError::Other(error.into()))
    }

    /// The wait that the receiver asks for; a value that is none is passed over.
    fn retry_after(&self, response: &Response) -> Option<std::time::Duration> {
        let value = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
        retry_after::parse(value, self.clock.now().ok()?)
    }
}

impl<N: Connect, C: Clock> Sender for HttpSender<N, C> {
    async fn send(&mut self, event: Event) -> Result<(), SendError> {
        self.attempt(&event).await
    }
}
