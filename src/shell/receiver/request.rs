//! From a request to the event in it: all that can be refused without looking at the inbox (W3).

use std::error::Error;
use std::io;

use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use hyper::http::request::Parts;
use hyper::{Method, Request};

use super::ReceiverOptions;
use super::refusal::Refusal;
use crate::port::Clock;
use crate::rules::{Event, Invalid, Millis, Name};
use crate::shell::http_sender::IDEMPOTENCY_KEY;
use crate::shell::http_server::{TwoLengths, has_proper_host};
use crate::shell::signature::{Secrets, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP};
use crate::shell::wait::within;

/// The paths that are served (part Y).
const PATHS: [&str; 2] = ["/", "/jobs"];
/// The largest head, in bytes: target, names and values.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// The largest body, in bytes. An event's has less than 100.
const BODY_BYTES_MAX: usize = 4 * 1024;

/// Reads the event of a request, or says why there is none. What the head gives away is refused before the body
/// is read, and the signature is looked at before anything in the body is.
pub(super) async fn read<C: Clock>(
    request: Request<Incoming>,
    clock: &C,
    options: &ReceiverOptions,
    now: Millis,
) -> Result<Event, Refusal> {
    if !has_proper_host(&request) {
        return Err(Refusal::Host);
    }
    let (head, body) = request.into_parts();
    if head.extensions.get::<TwoLengths>().is_some() {
        return Err(Refusal::TwoLengths);
    }
    let key = check_head(&head)?;
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(Refusal::BodyTooLarge);
    }
    let body = within(clock, options.body_timeout, collect(body)).await;
    let body = body.map_err(|_| Refusal::BodyTimeout)??;
    if let Some(secrets) = &options.secrets {
        check_signature(&head.headers, &body, secrets, options, now)?;
    }
    let text =
        str::from_utf8(&body).map_err(|_| Refusal::Body(Invalid::new("event", "not UTF-8", "JSON text")))?;
    let event = Event::from_json(text).map_err(Refusal::Body)?;
    if event.id != key {
        return Err(Refusal::Key("Idempotency-Key is another than the event's id"));
    }
    Ok(event)
}

/// Checks what stands before the body, and returns the idempotency key.
fn check_head(head: &Parts) -> Result<Name, Refusal> {
    if !PATHS.contains(&head.uri.path()) || head.uri.query().is_some() {
        return Err(Refusal::Path);
    }
    if head.method != Method::POST {
        return Err(Refusal::Method);
    }
    let fields = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len());
    if fields.sum::<usize>() > HEAD_BYTES_MAX {
        return Err(Refusal::HeadTooLarge);
    }
    if !is_json(&head.headers) {
        return Err(Refusal::ContentType);
    }
    idempotency_key(&head.headers)
}

/// `application/json`, in UTF-8 if it says so, not compressed.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(Ok(value)) = only(headers, CONTENT_TYPE.as_str()) else { return false };
    let (essence, parameters) = value.split_once(';').unwrap_or((value, ""));
    let parameters = parameters.trim_matches([' ', '\t']);
    let utf_8 = ["", "charset=utf-8", "charset=\"utf-8\""].iter().any(|p| p.eq_ignore_ascii_case(parameters));
    let plain = !headers.contains_key(CONTENT_ENCODING);
    essence.trim_matches([' ', '\t']).eq_ignore_ascii_case("application/json") && utf_8 && plain
}

/// The id between quotes.
fn idempotency_key(headers: &HeaderMap) -> Result<Name, Refusal> {
    let value = only(headers, IDEMPOTENCY_KEY)
        .ok_or(Refusal::Key("Idempotency-Key is missing"))?
        .map_err(|()| Refusal::Key("Idempotency-Key stands more than once, or is no text"))?;
    let key = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    key.and_then(|key| Name::new("Idempotency-Key", key).ok())
        .ok_or(Refusal::Key("Idempotency-Key is not an event's id in quotes, such as \"cake\""))
}

fn check_signature(
    headers: &HeaderMap,
    body: &[u8],
    secrets: &Secrets,
    options: &ReceiverOptions,
    now: Millis,
) -> Result<(), Refusal> {
    let header = |name| match only(headers, name) {
        Some(Ok(value)) => Ok(value),
        _ => Err(Refusal::Signature(
            "webhook-id, webhook-timestamp and webhook-signature must stand once each",
        )),
    };
    let (id, timestamp) = (header(WEBHOOK_ID)?, header(WEBHOOK_TIMESTAMP)?);
    let signatures = header(WEBHOOK_SIGNATURE)?;
    secrets.verify(id, timestamp, signatures, body, now, options.tolerance).map_err(Refusal::BadSignature)
}

/// The value of a header that may stand once only: `None` where it is missing, an error where there are two, or one
/// that is no visible ASCII.
fn only<'h>(headers: &'h HeaderMap, name: &str) -> Option<Result<&'h str, ()>> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return Some(Err(()));
    }
    Some(value.to_str().map_err(|_| ()))
}

/// A body that ends too soon was cut by somebody; one whose framing cannot be read was sent so.
fn refused(error: &hyper::Error) -> Refusal {
    match error.source().and_then(|source| source.downcast_ref::<io::Error>()).map(io::Error::kind) {
        Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) => Refusal::BodyFraming,
        _ => Refusal::BodyCut,
    }
}

async fn collect(mut body: Incoming) -> Result<Vec<u8>, Refusal> {
    let mut collected = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| refused(&error))?.into_data() else { continue };
        if collected.len() + data.len() > BODY_BYTES_MAX {
            return Err(Refusal::BodyTooLarge);
        }
        collected.extend_from_slice(&data);
    }
    Ok(collected)
}
