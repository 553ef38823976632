//! What a worker or a receiver counts, in Prometheus' text format.

#![expect(clippy::disallowed_methods, reason = "latencies are measured on the real clock")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Instant;

use ackward::rules::{Outcome, Status};
use ackward::shell::{Happening, Observer, Received};
use ackward::storage::{Depth, Finished, Released, Stats, Totals};
use prometheus::{
    Encoder, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, TextEncoder,
};

use super::super::events::{answer_word, finished_word};

/// The metrics of a worker.
pub struct WorkMetrics {
    registry: Registry,
    jobs: IntGaugeVec,
    dead: IntGaugeVec,
    ready: IntGauge,
    oldest_ready: IntGauge,
    overdue: IntGauge,
    redrives: IntGauge,
    claims: IntCounter,
    finishes: IntCounterVec,
    stale: IntCounter,
    retries: IntCounter,
    deaths: IntCounterVec,
    leases_lost: IntCounter,
    left_to_lease: IntCounter,
    released: IntCounter,
    failures: IntCounterVec,
    send: HistogramVec,
    lock_wait: Histogram,
    /// When each job that is being sent was claimed, by its token.
    sending: RefCell<BTreeMap<(String, i64), Instant>>,
}

impl WorkMetrics {
    /// All at zero.
    pub fn new() -> Result<Self, prometheus::Error> {
        let made = Maker(Registry::new());
        Ok(Self {
            jobs: made.gauges("ackward_jobs", "Jobs in the queue file by status", "status")?,
            dead: made.gauges("ackward_dead_jobs", "Dead jobs in the queue file by reason", "reason")?,
            ready: made.gauge("ackward_jobs_ready", "Pending jobs that could be claimed now")?,
            oldest_ready: made
                .gauge("ackward_oldest_ready_ms", "How long the oldest ready job has waited")?,
            overdue: made.gauge("ackward_leases_overdue", "Leases that are over and not taken up yet")?,
            redrives: made.gauge("ackward_redrives", "Rows of the redrive audit")?,
            claims: made.counter("ackward_claims_total", "Jobs claimed by this worker")?,
            finishes: made.counters(
                "ackward_finishes_total",
                "Outcomes recorded, by what they came to",
                "to",
            )?,
            stale: made
                .counter("ackward_stale_finishes_total", "Outcomes that came after the lease was lost")?,
            retries: made.counter("ackward_retries_total", "Attempts recorded as to be tried again")?,
            deaths: made.counters(
                "ackward_deaths_total",
                "Jobs that died at a finish: refused for good, or their budget or time was used up",
                "reason",
            )?,
            leases_lost: made
                .counter("ackward_leases_lost_total", "Leases lost before the job was answered")?,
            left_to_lease: made
                .counter("ackward_unacknowledged_total", "Attempts without an acknowledgement")?,
            released: made.counter("ackward_released_total", "Jobs given back unsent")?,
            failures: made.counters(
                "ackward_queue_failures_total",
                "Transactions that failed",
                "operation",
            )?,
            send: made.histograms("ackward_send_seconds", "From claim to answer, by answer", "answer")?,
            lock_wait: made
                .histogram("ackward_lock_wait_seconds", "Waits for another process's transaction")?,
            sending: RefCell::default(),
            registry: made.0,
        })
    }

    /// Takes over what was counted in the file.
    pub fn set(&self, stats: &Stats, now_ms: i64) {
        for (status, count) in [
            (Status::Pending, stats.pending),
            (Status::Leased, stats.leased),
            (Status::Done, stats.done),
            (Status::Dead, stats.dead),
        ] {
            self.jobs.with_label_values(&[status.as_str()]).set(count);
        }
        // Reasons that nobody has any more go.
        self.dead.reset();
        for (reason, count) in &stats.dead_by_reason {
            self.dead.with_label_values(&[reason.as_str()]).set(*count);
        }
        self.ready.set(stats.ready);
        self.oldest_ready
            .set(stats.ready_since_ms.map_or(0, |since_ms| now_ms.saturating_sub(since_ms).max(0)));
        self.overdue.set(stats.overdue);
        self.redrives.set(stats.redrives);
    }

    /// Takes over the jobs that are not finished.
    pub fn set_depth(&self, depth: Depth) {
        self.jobs.with_label_values(&[Status::Pending.as_str()]).set(depth.pending);
        self.jobs.with_label_values(&[Status::Leased.as_str()]).set(depth.leased);
    }

    /// In the text format.
    pub fn text(&self) -> String {
        text(&self.registry)
    }

    /// Notes how long a send took.
    fn sent(&self, happening: &Happening<'_>, answer: Option<&str>) {
        let Some(ticket) = happening.ticket() else { return };
        let key = (ticket.id.to_string(), ticket.token.get());
        let claimed = self.sending.borrow_mut().remove(&key);
        if let (Some(claimed), Some(answer)) = (claimed, answer) {
            self.send.with_label_values(&[answer]).observe(claimed.elapsed().as_secs_f64());
        }
    }
}

impl Observer for WorkMetrics {
    fn saw(&self, happening: &Happening<'_>) {
        match happening {
            Happening::Claimed { ticket } => {
                self.claims.inc();
                let key = (ticket.id.to_string(), ticket.token.get());
                self.sending.borrow_mut().insert(key, Instant::now());
            }
            Happening::Answered { answer, .. } => self.sent(happening, Some(answer_word(answer))),
            Happening::Finished { outcome, finished, .. } => {
                self.finishes.with_label_values(&[finished_word(*finished)]).inc();
                match finished {
                    Finished::Stale => self.stale.inc(),
                    Finished::Now(Status::Pending) => self.retries.inc(),
                    Finished::Now(Status::Dead) => {
                        let permanent = *outcome == Outcome::Permanent;
                        let reason = if permanent { "permanent" } else { "exhausted-or-deadline" };
                        self.deaths.with_label_values(&[reason]).inc();
                    }
                    Finished::Now(_) => {}
                }
            }
            Happening::LeftToLease { .. } => self.left_to_lease.inc(),
            Happening::LeaseLost { .. } => {
                self.leases_lost.inc();
                self.sent(happening, None);
            }
            Happening::Released { released, .. } => {
                if *released == Released::Pending {
                    self.released.inc();
                }
                self.sent(happening, None);
            }
            Happening::LockWait { waited_ms, .. } => {
                let waited_ms = u32::try_from((*waited_ms).max(0)).unwrap_or(u32::MAX);
                self.lock_wait.observe(f64::from(waited_ms) / 1_000.0);
            }
            Happening::QueueFailed { operation, .. } => self.failures.with_label_values(&[operation]).inc(),
            _ => {}
        }
    }
}

/// The metrics of a receiver.
pub struct ReceiveMetrics {
    registry: Registry,
    events: IntGauge,
    qty: IntGauge,
    answers: IntGaugeVec,
    connections: IntGauge,
}

impl ReceiveMetrics {
    /// All at zero.
    pub fn new() -> Result<Self, prometheus::Error> {
        let made = Maker(Registry::new());
        Ok(Self {
            events: made.gauge("ackward_inbox_events", "Events that took effect, over the file's life")?,
            qty: made.gauge("ackward_inbox_qty", "The sum of their quantities")?,
            answers: made.gauges(
                "ackward_answers",
                "Requests answered since the start, by answer",
                "answer",
            )?,
            connections: made.gauge("ackward_connections", "Connections accepted since the start")?,
            registry: made.0,
        })
    }

    /// Takes over what was counted.
    pub fn set(&self, totals: Totals, received: Received) {
        self.events.set(totals.count);
        self.qty.set(totals.qty);
        let whole = |count| i64::try_from(count).unwrap_or(i64::MAX);
        for (answer, count) in
            [("applied", received.applied), ("repeat", received.repeats), ("refused", received.refused)]
        {
            self.answers.with_label_values(&[answer]).set(whole(count));
        }
        self.connections.set(whole(received.connections));
    }

    /// In the text format.
    pub fn text(&self) -> String {
        text(&self.registry)
    }
}

fn text(registry: &Registry) -> String {
    let mut text = Vec::new();
    match TextEncoder::new().encode(&registry.gather(), &mut text) {
        Ok(()) => String::from_utf8_lossy(&text).into_owned(),
        // A metric that was never touched cannot be encoded wrongly; say so all the same.
        Err(error) => format!("# {error}\n"),
    }
}

/// Makes metrics that are registered.
struct Maker(Registry);

impl Maker {
    fn keep<M: prometheus::core::Collector + Clone + 'static>(
        &self,
        metric: M,
    ) -> Result<M, prometheus::Error> {
        self.0.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    fn gauge(&self, name: &str, help: &str) -> Result<IntGauge, prometheus::Error> {
        self.keep(IntGauge::new(name, help)?)
    }

    fn gauges(&self, name: &str, help: &str, label: &str) -> Result<IntGaugeVec, prometheus::Error> {
        self.keep(IntGaugeVec::new(Opts::new(name, help), &[label])?)
    }

    fn counter(&self, name: &str, help: &str) -> Result<IntCounter, prometheus::Error> {
        self.keep(IntCounter::new(name, help)?)
    }

    fn counters(&self, name: &str, help: &str, label: &str) -> Result<IntCounterVec, prometheus::Error> {
        self.keep(IntCounterVec::new(Opts::new(name, help), &[label])?)
    }

    fn histogram(&self, name: &str, help: &str) -> Result<Histogram, prometheus::Error> {
        self.keep(Histogram::with_opts(HistogramOpts::new(name, help))?)
    }

    fn histograms(&self, name: &str, help: &str, label: &str) -> Result<HistogramVec, prometheus::Error> {
        self.keep(HistogramVec::new(HistogramOpts::new(name, help), &[label])?)
    }
}

#[cfg(test)]
mod tests {
    use ackward::rules::{Attempt, Event, Name, Qty, Ticket, Token};

    use super::*;

    /// What is no longer being sent is not remembered, also where it was given back.
    #[test]
    fn a_job_given_back_is_forgotten() {
        let metrics = WorkMetrics::new().unwrap();
        let event = Event { id: Name::new("id", "a").unwrap(), qty: Qty::new(1).unwrap() };
        let (token, attempt) = (Token::new(1).unwrap(), Attempt::new(1).unwrap());
        let ticket = Ticket::new(event, Name::new("owner", "w").unwrap(), token, attempt, 10).unwrap();
        for released in [Released::Pending, Released::Stale] {
            metrics.saw(&Happening::Claimed { ticket: &ticket });
            assert_eq!(metrics.sending.borrow().len(), 1);
            metrics.saw(&Happening::Released { ticket: &ticket, released });
            assert!(metrics.sending.borrow().is_empty(), "{released:?}");
        }
    }
}
