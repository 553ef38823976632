//! A collector on loopback: keeps the requests it gets, and reads the spans in them by the published schema.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

use super::super::wait;

/// What it does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Takes it.
    Take,
    /// Answers the first with 503 and a wait of 4 s, and takes the others.
    BusyAtFirst,
    /// Reads it and never answers.
    Stall,
}

pub struct Collector {
    pub endpoint: String,
    got: Arc<Mutex<Vec<Got>>>,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Got {
    /// Request line and header fields, in lower case.
    pub head: Vec<String>,
    pub body: Vec<u8>,
    taken: bool,
}

/// A span as a test looks at it.
#[derive(Debug, Clone)]
pub struct Seen {
    pub service: String,
    pub span: Span,
}

impl Collector {
    pub fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let got = Arc::<Mutex<Vec<Got>>>::default();
        let kept = Arc::clone(&got);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let kept = Arc::clone(&kept);
                thread::spawn(move || answer(stream, manner, &kept));
            }
        });
        Self { endpoint, got }
    }

    /// All requests up to now.
    pub fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }

    /// The spans that were taken up to now.
    pub fn seen(&self) -> Vec<Seen> {
        self.got().iter().filter(|got| got.taken).flat_map(Got::spans).collect()
    }

    /// Waits for as many spans.
    #[track_caller]
    pub fn wait(&self, count: usize) -> Vec<Seen> {
        wait(&format!("{count} spans"), || self.seen().len() >= count);
        self.seen()
    }
}

impl Got {
    fn spans(&self) -> Vec<Seen> {
        let request = ExportTraceServiceRequest::decode(&self.body[..]).expect("OTLP");
        let of_resource = |spans: opentelemetry_proto::tonic::trace::v1::ResourceSpans| {
            let resource = attributes(&spans.resource.expect("a resource").attributes);
            let service = resource["service.name"].clone();
            let spans = spans.scope_spans.into_iter().flat_map(|scope| scope.spans);
            spans.map(|span| Seen { service: service.clone(), span }).collect::<Vec<_>>()
        };
        request.resource_spans.into_iter().flat_map(of_resource).collect()
    }
}

impl Seen {
    /// Its attributes, values as text.
    pub fn attributes(&self) -> BTreeMap<String, String> {
        attributes(&self.span.attributes)
    }

    #[track_caller]
    pub fn has(&self, expected: &[(&str, &str)]) {
        let mut attributes = self.attributes();
        for (key, value) in expected {
            let found = attributes.remove(*key);
            assert_eq!(found.as_deref(), Some(*value), "{key} of {}", self.span.name);
        }
        assert!(attributes.is_empty(), "more attributes of {}: {attributes:?}", self.span.name);
    }

    /// Whether it is a child of `parent`, in the same trace.
    pub fn is_child_of(&self, parent: &Self) -> bool {
        self.span.trace_id == parent.span.trace_id && self.span.parent_span_id == parent.span.span_id
    }
}

fn attributes(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &Option<AnyValue>| match value.as_ref().and_then(|any| any.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => panic!("neither text nor number: {other:?}"),
    };
    attributes.iter().map(|pair| (pair.key.clone(), text(&pair.value))).collect()
}

fn answer(mut stream: TcpStream, manner: Manner, got: &Mutex<Vec<Got>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let head: Vec<String> = (&mut reader)
        .lines()
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty())
        .map(|line| line.to_ascii_lowercase())
        .collect();
    let length = head.iter().find_map(|line| line.strip_prefix("content-length: "));
    let Some(length) = length.and_then(|length| length.parse().ok()) else { return };
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let taken = {
        let mut got = got.lock().unwrap();
        let taken = manner == Manner::Take || manner == Manner::BusyAtFirst && !got.is_empty();
        got.push(Got { head, body, taken });
        taken
    };
    if manner == Manner::Stall {
        // Until the other side has had enough.
        let _ = reader.read_to_end(&mut Vec::new());
        return;
    }
    let status = if taken { "200 OK" } else { "503 Service Unavailable\r\nretry-after: 4" };
    let _ = stream.write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").as_bytes());
}
