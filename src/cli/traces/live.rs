//! The option, and what an endpoint sets up: a tracer whose spans go to the collector.

#![expect(clippy::disallowed_methods, reason = "spans are flushed within a time that passes for real")]

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use ackward::rules::Timeout;
use ackward::shell::{NoObserver, Observer, RequestObserver, TraceParent};
use clap::Args;
use opentelemetry::trace::TracerProvider;
use opentelemetry::{Key, KeyValue};
use opentelemetry_otlp::{ExporterBuildError, Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanExporter as _};

use super::attempts::Attempts;
use super::collector::Collector;
use super::endpoint::Endpoint;
use super::export::{self, Export};
use super::requests::Requests;
use crate::cli::exit::{Ended, Exit};

/// The longest that the end waits for a collector, however much of the grace is left.
const FLUSH_MAX: Duration = Duration::from_secs(5);
/// What the traces' service is called where nothing else is said.
const SERVICE: &str = "ackward";

/// Where traces go.
#[derive(Debug, Clone, Args)]
pub struct TraceArgs {
    /// Send traces to this OpenTelemetry collector: the base URL for OTLP over HTTP, such as http://127.0.0.1:4318;
    /// /v1/traces is appended. OTEL_SERVICE_NAME [default: ackward], OTEL_RESOURCE_ATTRIBUTES,
    /// OTEL_EXPORTER_OTLP_HEADERS and OTEL_TRACES_SAMPLER count as well
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL", value_parser = Endpoint::parse)]
    otlp_endpoint: Option<Endpoint>,
}

/// What is traced, if anything is.
pub struct Traces(Option<Rc<Live>>);

struct Live {
    endpoint: Endpoint,
    attempts: Rc<Attempts>,
    requests: Requests,
    export: Export,
    /// When the end was asked for.
    told: Cell<Option<Instant>>,
}

impl TraceArgs {
    /// Sets up what an endpoint asks for; what is there already for the same one is kept.
    pub fn prepare(&self, before: Option<&Traces>) -> Result<Traces, Ended> {
        let Some((endpoint, target)) =
            self.otlp_endpoint.as_ref().and_then(|endpoint| Some((endpoint, endpoint.traces()?)))
        else {
            return Ok(Traces(None));
        };
        let before = before.and_then(|traces| traces.0.as_ref());
        if let Some(live) = before.filter(|live| live.endpoint == *endpoint) {
            return Ok(Traces(Some(Rc::clone(live))));
        }
        let collector = Collector::new(target.clone())?;
        let live = Live::start(endpoint.clone(), &target.to_string(), collector)
            .map_err(|error| Ended::new(Exit::Failure, format_args!("--otlp-endpoint {target}: {error}")))?;
        tracing::info!(url = %target, "traces");
        Ok(Traces(Some(Rc::new(live))))
    }
}

impl Live {
    fn start(endpoint: Endpoint, url: &str, collector: Collector) -> Result<Self, ExporterBuildError> {
        let resource = resource();
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(collector)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(url)
            .build()?;
        exporter.set_resource(&resource);
        let (queue, export) = export::start(exporter);
        let provider =
            SdkTracerProvider::builder().with_resource(resource).with_span_processor(queue).build();
        let tracer = provider.tracer(SERVICE);
        Ok(Self {
            endpoint,
            attempts: Rc::new(Attempts::new(tracer.clone())),
            requests: Requests::new(tracer),
            export,
            told: Cell::default(),
        })
    }
}

impl Traces {
    /// Is to be told what a worker does.
    pub fn worker(&self) -> Option<&dyn Observer> {
        self.0.as_ref().map(|live| &*live.attempts as &dyn Observer)
    }

    /// What a worker's requests say of their trace.
    pub fn header(&self) -> Option<Rc<dyn TraceParent>> {
        self.0.as_ref().map(|live| Rc::clone(&live.attempts) as Rc<dyn TraceParent>)
    }

    /// Is to be told what a receiver does.
    pub fn receiver(&self) -> &dyn RequestObserver {
        self.0.as_ref().map_or(&NoObserver, |live| &live.requests)
    }

    /// `told`, whose end is noted: from then on the grace time runs.
    pub async fn noting(&self, told: impl Future<Output = ()>) {
        told.await;
        if let Some(live) = &self.0 {
            live.told.set(Some(Instant::now()));
        }
    }

    /// Sends what is left, within what is left of `grace`.
    pub async fn flush(&self, grace: Timeout) {
        let Some(live) = &self.0 else { return };
        live.attempts.cut();
        let gone = live.told.get().map_or(Duration::ZERO, |told| told.elapsed());
        live.export.flush(grace.duration().saturating_sub(gone).min(FLUSH_MAX)).await;
    }
}

/// Who the spans are from: what the environment says, by OpenTelemetry's convention.
fn resource() -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let found = Resource::builder().with_attribute(version.clone()).build();
    let name = found.get(&Key::from_static_str("service.name"));
    let name = name.map_or_else(String::new, |name| name.as_str().into_owned());
    if !name.is_empty() && !name.starts_with("unknown_service") {
        return found;
    }
    Resource::builder().with_attribute(version).with_service_name(SERVICE).build()
}
