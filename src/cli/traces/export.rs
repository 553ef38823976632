//! The way of spans from where they end to the exporter: a bounded queue and a task beside the work, which is never
//! waited for. What finds the queue full, or is not taken, is dropped and counted.

#![expect(clippy::disallowed_methods, reason = "an export takes real time, and is part of no run")]

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter, SpanProcessor};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// Spans that may wait; more are dropped.
const QUEUE_SPANS_MAX: usize = 2_048;
/// Spans that go out in one request.
const BATCH_SPANS_MAX: usize = 512;
/// The longest that a span waits for others.
const GATHER: Duration = Duration::from_secs(1);
/// How often at most it is said that spans were dropped.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// The queue's end where spans come in.
#[derive(Debug)]
pub struct Queue {
    spans: mpsc::Sender<SpanData>,
    shared: Arc<Shared>,
}

/// What both ends of the queue know.
#[derive(Debug, Default)]
struct Shared {
    /// Spans that are queued or on their way.
    waiting: AtomicU64,
    /// Spans that were dropped, and have not been told of.
    dropped: AtomicU64,
    /// Whether what is queued now is the last.
    stopping: AtomicBool,
    /// Something is to be done at once.
    wake: Notify,
}

/// The exporting task. Where this is dropped, the task exports what is queued, and ends.
pub struct Export {
    shared: Arc<Shared>,
    task: RefCell<Option<JoinHandle<()>>>,
}

/// A queue, and the task that empties it into `exporter`.
pub fn start(exporter: impl SpanExporter + 'static) -> (Queue, Export) {
    let (sender, spans) = mpsc::channel(QUEUE_SPANS_MAX);
    let shared = Arc::<Shared>::default();
    let task = Task { spans, exporter, shared: Arc::clone(&shared), told: None };
    let task = RefCell::new(Some(tokio::spawn(task.run())));
    (Queue { spans: sender, shared: Arc::clone(&shared) }, Export { shared, task })
}

impl Export {
    /// Exports what is queued, for so long at most; what is left then is dropped, counted and told of.
    pub async fn flush(&self, limit: Duration) {
        self.shared.stop();
        let Some(task) = self.task.take() else { return };
        let abort = task.abort_handle();
        if timeout(limit, task).await.is_err() {
            abort.abort();
            let left = self.shared.waiting.load(Ordering::Relaxed);
            tell(left + self.shared.dropped.swap(0, Ordering::Relaxed), "there was no more time");
        }
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

impl Shared {
    fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.wake.notify_one();
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        if !span.span_context.is_sampled() {
            return;
        }
        if self.spans.try_send(span).is_err() {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // The task runs on the same thread, so it has not seen the span yet.
        let waiting = self.shared.waiting.fetch_add(1, Ordering::Relaxed) + 1;
        if waiting >= BATCH_SPANS_MAX as u64 {
            self.shared.wake.notify_one();
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// What the task works with.
struct Task<E> {
    spans: mpsc::Receiver<SpanData>,
    exporter: E,
    shared: Arc<Shared>,
    /// When it was last said that spans were dropped.
    told: Option<Instant>,
}

impl<E: SpanExporter> Task<E> {
    async fn run(mut self) {
        let mut error = None;
        loop {
            let stopping = self.shared.stopping.load(Ordering::Relaxed);
            while let Some(batch) = self.batch() {
                let count = batch.len() as u64;
                if let Err(failed) = self.exporter.export(batch).await {
                    error = Some(failed.to_string());
                    self.shared.dropped.fetch_add(count, Ordering::Relaxed);
                }
                self.shared.waiting.fetch_sub(count, Ordering::Relaxed);
                self.tell(error.as_deref(), false);
            }
            self.tell(error.as_deref(), stopping);
            if stopping {
                return;
            }
            tokio::select! {
                () = self.shared.wake.notified() => {}
                () = sleep(GATHER) => {}
            }
        }
    }

    /// What is queued, or as much of it as goes out at once.
    fn batch(&mut self) -> Option<Vec<SpanData>> {
        let batch: Vec<_> = std::iter::from_fn(|| self.spans.try_recv().ok()).take(BATCH_SPANS_MAX).collect();
        (!batch.is_empty()).then_some(batch)
    }

    /// Says what was dropped since the last time, unless that was a moment ago.
    fn tell(&mut self, error: Option<&str>, at_once: bool) {
        let lately = self.told.is_some_and(|told| told.elapsed() < TELL_EVERY);
        if self.shared.dropped.load(Ordering::Relaxed) > 0 && (at_once || !lately) {
            self.told = Some(Instant::now());
            let dropped = self.shared.dropped.swap(0, Ordering::Relaxed);
            tell(dropped, error.unwrap_or("the queue was full"));
        }
    }
}

fn tell(spans: u64, error: &str) {
    tracing::warn!(spans, error, "spans were dropped; the work goes on without them");
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::{Span as _, SpanContext, Tracer, TracerProvider};
    use opentelemetry_sdk::error::OTelSdkError;
    use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};

    use super::*;

    /// What an exporter makes of a batch.
    #[derive(Debug, Clone, Copy)]
    enum Manner {
        Stick,
        Fail,
    }

    impl SpanExporter for Manner {
        async fn export(&self, _batch: Vec<SpanData>) -> OTelSdkResult {
            match self {
                Self::Stick => std::future::pending().await,
                Self::Fail => Err(OTelSdkError::InternalFailure("no".into())),
            }
        }
    }

    fn traced(manner: Manner) -> (SdkTracer, Export) {
        let (queue, export) = start(manner);
        let provider = SdkTracerProvider::builder().with_span_processor(queue).build();
        (provider.tracer("test"), export)
    }

    fn spans(tracer: &SdkTracer, count: usize) {
        for _ in 0..count {
            let mut span = tracer.start_with_context("span", &Context::new());
            assert_ne!(*span.span_context(), SpanContext::NONE);
            span.end();
        }
    }

    /// The queue is bounded, and what finds it full is counted; ending a span never waits.
    #[tokio::test(start_paused = true)]
    async fn spans_that_find_the_queue_full_are_dropped_and_counted() {
        let (tracer, export) = traced(Manner::Stick);
        let dropped = || export.shared.dropped.load(Ordering::Relaxed);
        spans(&tracer, QUEUE_SPANS_MAX);
        assert_eq!(dropped(), 0);
        spans(&tracer, 3);
        assert_eq!(dropped(), 3);
        // A batch is on its way, and leaves room for as many.
        sleep(GATHER).await;
        spans(&tracer, BATCH_SPANS_MAX + 1);
        assert_eq!(dropped(), 4);
        assert_eq!(export.shared.waiting.load(Ordering::Relaxed), (QUEUE_SPANS_MAX + BATCH_SPANS_MAX) as u64);
        let started = Instant::now();
        export.flush(Duration::from_secs(3)).await;
        assert_eq!((started.elapsed(), dropped()), (Duration::from_secs(3), 0));
    }

    /// Each span is told of once, at once for the first, then once a minute, and the rest at the end.
    #[tokio::test(start_paused = true)]
    async fn dropped_spans_are_told_of_once_a_minute() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let log = Arc::new(file.reopen().unwrap());
        let subscriber = tracing_subscriber::fmt().json().with_writer(log).finish();
        let _guard = tracing::subscriber::set_default(subscriber);
        let (tracer, export) = traced(Manner::Fail);
        for _ in 0..130 {
            spans(&tracer, 2);
            sleep(GATHER).await;
        }
        spans(&tracer, 2);
        export.flush(GATHER).await;
        let log = std::fs::read_to_string(file.path()).unwrap();
        let told: Vec<u64> = log
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .map(|line| line["fields"]["spans"].as_u64().unwrap())
            .collect();
        assert_eq!((told.len(), told[0], told.iter().sum()), (4, 2, 2 * 131), "{told:?}");
        assert!(log.contains("Operation failed: no"), "{log}");
    }
}
