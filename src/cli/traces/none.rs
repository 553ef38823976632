//! A build without OpenTelemetry: no option, no traces.

use std::rc::Rc;

use ackward::rules::Timeout;
use ackward::shell::{NoObserver, Observer, RequestObserver, TraceParent};
use clap::Args;

use crate::cli::exit::Ended;

/// No option.
#[derive(Debug, Clone, Args)]
pub struct TraceArgs {}

/// No traces.
pub struct Traces;

impl TraceArgs {
    /// Never fails.
    #[expect(clippy::unnecessary_wraps, reason = "with the feature it can fail")]
    pub const fn prepare(&self, _before: Option<&Traces>) -> Result<Traces, Ended> {
        Ok(Traces)
    }
}

impl Traces {
    /// Nobody is told what a worker does.
    pub fn worker(&self) -> Option<&dyn Observer> {
        None
    }

    /// No request says which trace it belongs to.
    pub fn header(&self) -> Option<Rc<dyn TraceParent>> {
        None
    }

    /// Nobody is told what a receiver does.
    pub fn receiver(&self) -> &dyn RequestObserver {
        &NoObserver
    }

    /// `told`, as it is.
    pub fn noting<F: Future<Output = ()>>(&self, told: F) -> F {
        told
    }

    /// There is nothing to flush.
    pub async fn flush(&self, _grace: Timeout) {}
}
