//! What a reply, or its absence, means for the job (W2).

use std::error::Error;
use std::io;

use hyper::StatusCode;

use crate::rules::Json;
use crate::shell::sender::SendError;

/// What happened to an HTTP attempt.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// There is no connection.
    #[error("no connection: {0}")]
    Connect(#[source] io::Error),
    /// The exchange failed, or what came is not HTTP.
    #[error("{}", told(.0))]
    Exchange(#[source] hyper::Error),
    /// The limit passed.
    #[error("timed out")]
    Timeout,
    /// The reply's status.
    #[error("the receiver answered {0}")]
    Status(StatusCode),
    /// The reply's body is longer than what is read.
    #[error("the reply's body is too long")]
    BodyTooLarge,
    /// A 200 whose body is something else than `{"ok":true}`.
    #[error("the receiver answered 200 without {{\"ok\":true}}: {0}")]
    Body(String),
}

/// What to do about a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// 200: the body decides.
    AskBody,
    Retryable,
    Permanent,
    BadAck,
}

/// The class of a reply with this status.
pub(super) const fn of_status(status: u16) -> Class {
    match status {
        200 => Class::AskBody,
        401 | 403 | 408 | 409 | 425 | 429 | 500 | 502 | 503 | 504 => Class::Retryable,
        400..=499 => Class::Permanent,
        _ => Class::BadAck,
    }
}

/// The body of a 200: exactly `{"ok":true}` as JSON is an acknowledgement, anything else is none.
pub(super) fn of_body(body: &[u8]) -> Result<(), SendError> {
    let json = str::from_utf8(body).ok().and_then(|text| Json::parse(text).ok());
    match json {
        Some(Json::Object(fields)) if fields == [("ok".to_owned(), Json::Bool(true))] => Ok(()),
        _ => Err(SendError::bad_ack(HttpError::Body(shown(body)))),
    }
}

/// A failure before the head of a final reply. The transport's own is to be tried again, unless an interim reply
/// had come; what is not HTTP, or a head that is too large, leaves open what the receiver did.
pub(super) fn failed(error: HttpError, interim: bool) -> SendError {
    if !interim && is_transport(&error) { SendError::retryable(error) } else { SendError::bad_ack(error) }
}

fn is_transport(error: &HttpError) -> bool {
    match error {
        HttpError::Connect(_) | HttpError::Timeout => true,
        HttpError::Exchange(error) => {
            let from_io = error.source().is_some_and(|source| source.is::<io::Error>());
            error.is_incomplete_message() || error.is_canceled() || error.is_closed() || from_io
        }
        HttpError::Status(_) | HttpError::BodyTooLarge | HttpError::Body(_) => false,
    }
}

/// hyper's error with the cause beneath it, which its own text leaves out.
fn told(error: &hyper::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

/// The start of a body, for the log.
fn shown(body: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 80;
    let start = &body[..body.len().min(SHOWN_BYTES_MAX)];
    let more = if body.len() > start.len() { "…" } else { "" };
    format!("{:?}{more}", String::from_utf8_lossy(start))
}
