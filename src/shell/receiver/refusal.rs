//! What the receiver answers.

use std::fmt;

use http_body_util::Full;
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};

use super::Answer;
use crate::rules::Invalid;
use crate::shell::http_server::Reply;
use crate::shell::signature::SignatureError;
use crate::storage::AcceptError;

/// Why a request is refused; nothing was changed.
#[derive(Debug)]
pub(super) enum Refusal {
    /// 404.
    Path,
    /// 405.
    Method,
    /// 431.
    HeadTooLarge,
    /// 415.
    ContentType,
    /// 400: what of the idempotency key is wrong.
    Key(&'static str),
    /// 400: Host is missing, stands more than once, or is malformed.
    Host,
    /// 400: Transfer-Encoding and Content-Length.
    TwoLengths,
    /// 413.
    BodyTooLarge,
    /// 408.
    BodyTimeout,
    /// 408.
    BodyCut,
    /// 400.
    BodyFraming,
    /// 401.
    Signature(&'static str),
    /// 401.
    BadSignature(SignatureError),
    /// 400: not JSON, or a field is wrong.
    Body(Invalid),
    /// 422: the id was accepted with another quantity.
    Conflict(String),
    /// 503: it may be tried again.
    Unavailable(String),
}

impl Refusal {
    const fn status(&self) -> StatusCode {
        match self {
            Self::Path => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Host | Self::Key(_) | Self::TwoLengths | Self::BodyFraming | Self::Body(_) => {
                StatusCode::BAD_REQUEST
            }
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            // The sender may be the same one with the same request, on a network that cut it: no reason to give up.
            Self::BodyTimeout | Self::BodyCut => StatusCode::REQUEST_TIMEOUT,
            Self::Signature(_) | Self::BadSignature(_) => StatusCode::UNAUTHORIZED,
            Self::Conflict(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// A word for programs.
    const fn code(&self) -> &'static str {
        match self {
            Self::Path => "not-found",
            Self::Method => "method-not-allowed",
            Self::HeadTooLarge => "head-too-large",
            Self::ContentType => "unsupported-media-type",
            Self::Key(_) => "idempotency-key",
            Self::Host => "host",
            Self::TwoLengths => "two-lengths",
            Self::BodyTooLarge => "body-too-large",
            Self::BodyTimeout => "body-timeout",
            Self::BodyCut => "body-cut",
            Self::BodyFraming => "body-framing",
            Self::Signature(_) => "signature",
            Self::BadSignature(SignatureError::Time { .. }) => "timestamp",
            Self::BadSignature(_) => "signature",
            Self::Body(_) => "invalid",
            Self::Conflict(_) => "conflict",
            Self::Unavailable(_) => "unavailable",
        }
    }

    /// The answer as an observer gets it.
    pub(super) const fn answer(&self) -> Answer {
        Answer::Refused { status: self.status().as_u16(), code: self.code() }
    }

    /// The reply: `{"error":CODE,"message":TEXT}`.
    pub(super) fn reply(&self) -> Reply {
        let body = serde_json::json!({ "error": self.code(), "message": self.to_string() });
        let mut reply = json(self.status(), body.to_string());
        let headers = reply.headers_mut();
        match self {
            Self::Method => {
                headers.insert(ALLOW, HeaderValue::from_static("POST"));
            }
            Self::Unavailable(_) => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            // The rest of the request is not worth reading.
            Self::BodyTooLarge
            | Self::BodyTimeout
            | Self::BodyCut
            | Self::BodyFraming
            | Self::HeadTooLarge => {
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        reply
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path => f.write_str("there is only / and /jobs"),
            Self::Method => f.write_str("only POST is served"),
            Self::HeadTooLarge => f.write_str("the head is too large"),
            Self::ContentType => f.write_str("the content type is not application/json, plain"),
            Self::Key(what) | Self::Signature(what) => f.write_str(what),
            Self::Host => f.write_str("Host must stand exactly once, as HOST or HOST:PORT (RFC 9112, 3.2)"),
            Self::TwoLengths => {
                f.write_str("Transfer-Encoding and Content-Length stand both: send one of them, plain")
            }
            Self::BodyTooLarge => f.write_str("the body is too large"),
            Self::BodyTimeout => f.write_str("the body did not come in time"),
            Self::BodyCut => f.write_str("the body did not come whole"),
            Self::BodyFraming => f.write_str("the body's chunks are malformed"),
            Self::BadSignature(error) => error.fmt(f),
            Self::Body(invalid) => invalid.fmt(f),
            Self::Conflict(message) | Self::Unavailable(message) => f.write_str(message),
        }
    }
}

impl From<AcceptError> for Refusal {
    fn from(error: AcceptError) -> Self {
        match error {
            AcceptError::Conflict { .. } => Self::Conflict(error.to_string()),
            AcceptError::Hook(_) | AcceptError::Storage(_) => Self::Unavailable(error.to_string()),
        }
    }
}

/// 200 `{"ok":true}`: the event is committed, now or before.
pub(super) fn ok() -> Reply {
    json(StatusCode::OK, r#"{"ok":true}"#.to_owned())
}

fn json(status: StatusCode, body: String) -> Reply {
    let mut reply = Response::new(Full::from(body));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}
