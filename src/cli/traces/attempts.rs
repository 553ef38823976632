//! A worker's spans: one for each attempt of a job, from the claim to its outcome, and within it one for the send, whose
//! identity goes with the request.

use std::cell::RefCell;
use std::collections::BTreeMap;

use ackward::rules::{Event, Outcome, Ticket};
use ackward::shell::{Happening, HttpError, Observer, SendError, Target, TraceParent};
use ackward::storage::{Finished, Released};
use hyper::header::HeaderValue;
use opentelemetry::trace::{Span as _, SpanContext, SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SdkTracer, Span};

use crate::cli::events::{answer_word, finished_word};

/// The attempts that are under way, by id and token.
#[derive(Debug)]
pub struct Attempts {
    tracer: SdkTracer,
    open: RefCell<BTreeMap<(String, i64), Attempt>>,
}

#[derive(Debug)]
struct Attempt {
    span: Span,
    /// While it is being sent.
    send: Option<Span>,
}

impl Attempts {
    /// None is under way.
    pub fn new(tracer: SdkTracer) -> Self {
        Self { tracer, open: RefCell::default() }
    }

    /// Ends what is still under way: the grace time is over.
    pub fn cut(&self) {
        for (_, attempt) in std::mem::take(&mut *self.open.borrow_mut()) {
            attempt.end("cut", &[]);
        }
    }

    fn claimed(&self, ticket: &Ticket) {
        let attributes = [
            KeyValue::new("ackward.job.id", ticket.id.to_string()),
            KeyValue::new("ackward.job.token", ticket.token.get()),
            KeyValue::new("ackward.job.attempt", ticket.attempt.get()),
            KeyValue::new("ackward.owner", ticket.owner.to_string()),
        ];
        let builder = self.tracer.span_builder("attempt").with_kind(SpanKind::Internal);
        // Each attempt is a trace of its own: the queue file has no place for what connects them.
        let span = builder.with_attributes(attributes).start_with_context(&self.tracer, &Context::new());
        self.open.borrow_mut().insert(key(ticket), Attempt { span, send: None });
    }

    fn answered(&self, ticket: &Ticket, answer: Result<(), &SendError>) {
        let mut open = self.open.borrow_mut();
        let Some(mut send) = open.get_mut(&key(ticket)).and_then(|attempt| attempt.send.take()) else {
            return;
        };
        if let Some(status) = status(answer) {
            send.set_attribute(KeyValue::new("http.response.status_code", i64::from(status)));
        }
        send.set_attribute(KeyValue::new("ackward.answer", answer_word(&answer)));
        if answer.is_err() {
            fail(&mut send, answer_word(&answer));
        }
        send.end();
    }

    fn ended(&self, ticket: &Ticket, outcome: &'static str, more: &[KeyValue]) {
        if let Some(attempt) = self.open.borrow_mut().remove(&key(ticket)) {
            attempt.end(outcome, more);
        }
    }
}

impl Attempt {
    fn end(mut self, outcome: &'static str, more: &[KeyValue]) {
        if let Some(mut send) = self.send.take() {
            // It was dropped before it was answered.
            fail(&mut send, outcome);
            send.end();
        }
        self.span.set_attribute(KeyValue::new("ackward.outcome", outcome));
        self.span.set_attributes(more.iter().cloned());
        if outcome != Outcome::Ok.as_str() {
            fail(&mut self.span, outcome);
        }
        self.span.end();
    }
}

impl Observer for Attempts {
    fn saw(&self, happening: &Happening<'_>) {
        match happening {
            Happening::Claimed { ticket } => self.claimed(ticket),
            Happening::Answered { ticket, answer } => self.answered(ticket, *answer),
            Happening::Finished { ticket, outcome, delay, finished } => {
                let mut more = vec![KeyValue::new("ackward.job.status", finished_word(*finished))];
                if *outcome == Outcome::Retry && *finished != Finished::Stale {
                    more.push(KeyValue::new("ackward.retry.delay_ms", delay.get()));
                }
                self.ended(ticket, outcome.as_str(), &more);
            }
            Happening::LeftToLease { ticket } => self.ended(ticket, happening.name(), &[]),
            Happening::LeaseLost { ticket } => self.ended(ticket, happening.name(), &[]),
            Happening::Released { ticket, released } => {
                let status = if *released == Released::Pending { "pending" } else { "stale" };
                self.ended(ticket, happening.name(), &[KeyValue::new("ackward.job.status", status)]);
            }
            _ => {}
        }
    }
}

impl TraceParent for Attempts {
    /// Begins the send: this is called right before it.
    fn traceparent(&self, event: &Event, target: &Target) -> Option<HeaderValue> {
        let mut open = self.open.borrow_mut();
        let id = event.id.to_string();
        // Where the lease of an older claim has just been lost, the newer one is meant.
        let (_, attempt) = open.range_mut((id.clone(), 0)..=(id, i64::MAX)).next_back()?;
        let parent = Context::new().with_remote_span_context(attempt.span.span_context().clone());
        let attributes = [
            KeyValue::new("http.request.method", "POST"),
            KeyValue::new("server.address", target.host().to_owned()),
            KeyValue::new("server.port", i64::from(target.port())),
        ];
        let builder = self.tracer.span_builder("POST").with_kind(SpanKind::Client);
        let send = builder.with_attributes(attributes).start_with_context(&self.tracer, &parent);
        let value = header(send.span_context());
        attempt.send = Some(send);
        value
    }
}

fn key(ticket: &Ticket) -> (String, i64) {
    (ticket.id.to_string(), ticket.token.get())
}

/// The reply's status, where one came.
fn status(answer: Result<(), &SendError>) -> Option<u16> {
    let cause = match answer {
        // Nothing else is an acknowledgement (W2).
        Ok(()) => return Some(200),
        Err(
            SendError::Retryable { cause, .. } | SendError::Permanent { cause } | SendError::BadAck { cause },
        ) => cause,
        Err(SendError::Other(_)) => return None,
    };
    match cause.downcast_ref::<HttpError>()? {
        HttpError::Status(status) => Some(status.as_u16()),
        HttpError::Body(_) | HttpError::BodyTooLarge => Some(200),
        _ => None,
    }
}

/// An error by its word alone: texts of receivers are no business of the collector's.
fn fail(span: &mut Span, word: &'static str) {
    span.set_attribute(KeyValue::new("error.type", word));
    span.set_status(Status::error(word));
}

/// The value of `traceparent` (W3C Trace Context, version 00).
fn header(context: &SpanContext) -> Option<HeaderValue> {
    let flags = u8::from(context.is_sampled());
    let value = format!("00-{}-{}-{flags:02x}", context.trace_id(), context.span_id());
    HeaderValue::from_str(&value).ok()
}
