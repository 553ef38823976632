//! A receiver's spans: one for each request, with its result, in the trace that the sender says it belongs to.

use ackward::rules::Name;
use ackward::shell::{Answer, OnAnswer, RequestObserver};
use hyper::header::HeaderMap;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{Span as _, SpanKind, Status, Tracer};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, Span};

/// Makes the spans.
#[derive(Debug)]
pub struct Requests {
    tracer: SdkTracer,
}

impl Requests {
    /// With this tracer.
    pub const fn new(tracer: SdkTracer) -> Self {
        Self { tracer }
    }
}

impl RequestObserver for Requests {
    fn began(&self, headers: &HeaderMap) -> Option<OnAnswer> {
        let propagator = TraceContextPropagator::new();
        let parent = propagator.extract_with_context(&Context::new(), &HeaderExtractor(headers));
        let builder = self.tracer.span_builder("receive").with_kind(SpanKind::Server);
        let mut span = builder.start_with_context(&self.tracer, &parent);
        if let Some(id) = id(headers) {
            span.set_attribute(KeyValue::new("ackward.job.id", id.to_string()));
        }
        Some(Box::new(move |answer| end(span, answer)))
    }
}

/// A span that is dropped without an answer ends as well, and has no result.
fn end(mut span: Span, answer: Answer) {
    let (result, status) = match answer {
        Answer::New => ("new", 200),
        Answer::Repeat => ("repeat", 200),
        Answer::Refused { status, code } => {
            span.set_attribute(KeyValue::new("error.type", code));
            // By the convention for HTTP, a mistake of the other side is no error of the server's.
            if status >= 500 {
                span.set_status(Status::error(code));
            }
            ("refused", status)
        }
    };
    span.set_attribute(KeyValue::new("ackward.result", result));
    span.set_attribute(KeyValue::new("http.response.status_code", i64::from(status)));
    span.end();
}

/// The job that the request says it is about, where it is a name: nothing else of a request ends in a span.
fn id(headers: &HeaderMap) -> Option<Name> {
    let key = headers.get("idempotency-key")?.to_str().ok()?;
    Name::new("Idempotency-Key", key.strip_prefix('"')?.strip_suffix('"')?).ok()
}
