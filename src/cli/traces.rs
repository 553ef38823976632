//! `--otlp-endpoint`: traces of `work` and `receive`, for an OpenTelemetry collector. Without the feature `otel` there
//! is neither the option nor anything to export.

#[cfg(feature = "otel")]
mod attempts;
#[cfg(feature = "otel")]
mod collector;
#[cfg(feature = "otel")]
mod endpoint;
#[cfg(feature = "otel")]
mod export;
#[cfg(feature = "otel")]
mod live;
#[cfg(not(feature = "otel"))]
mod none;
#[cfg(feature = "otel")]
mod requests;

#[cfg(feature = "otel")]
pub use live::{TraceArgs, Traces};
#[cfg(not(feature = "otel"))]
pub use none::{TraceArgs, Traces};
