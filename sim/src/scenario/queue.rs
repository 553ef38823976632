//! The tables of the queue: jobs, workers, the receiver, an operator's redrives.

use ackward::rules::{Attempts, Lease, Name, Qty, Ttl};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[expect(unused_imports, reason = "a link of the documentation, whose text is also the schema's")]
use super::vocabulary;
use super::{field, schema};

/// A job, or several like it, that the producer enqueues.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The identifier (Q1). Required. With `count` above 1 the jobs are `id-1`, `id-2`, …
    #[serde(with = "field::name")]
    #[schemars(schema_with = "schema::name")]
    pub id: Name,
    /// The quantity, 1 to 1000. Default 1.
    #[serde(with = "field::qty", default = "field::qty::default")]
    #[schemars(schema_with = "field::qty::schema")]
    pub qty: Qty,
    /// When the first one arrives, in ms from the start, 0 to `duration_ms`. Default 0.
    #[serde(with = "field::moment", default = "field::moment::default")]
    #[schemars(schema_with = "field::moment::schema")]
    pub at_ms: i64,
    /// The time to live, in ms, 1 to 60,000. Default 30,000.
    #[serde(with = "field::ttl", default = "field::ttl::default")]
    #[schemars(schema_with = "field::ttl::schema")]
    pub ttl_ms: Ttl,
    /// The budget of attempts, 1 to 16. Default 3.
    #[serde(with = "field::attempts", default = "field::attempts::default")]
    #[schemars(schema_with = "field::attempts::schema")]
    pub max_attempts: Attempts,
    /// How many such jobs, 1 to 10,000. Default 1.
    #[serde(with = "field::job_count", default = "field::job_count::default")]
    #[schemars(schema_with = "field::job_count::schema")]
    pub count: i64,
    /// The time between two of them, in ms, 0 to 3,600,000. Default 0.
    #[serde(with = "field::moment", default = "field::moment::default")]
    #[schemars(schema_with = "field::moment::schema")]
    pub every_ms: i64,
}

/// A worker process, or several like it, on the queue's machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Worker {
    /// The process's name, and its owner name in the queue (Q1); unique, not one of
    /// [`vocabulary::PROCESSES`], whatever `count` is. Required. With `count` above 1 the workers are `name-1`,
    /// `name-2`, …
    #[serde(with = "field::name")]
    #[schemars(schema_with = "schema::name")]
    pub name: Name,
    /// The lease that it takes, in ms, 1 to 60,000. Default 1000.
    #[serde(with = "field::lease", default = "field::lease::default")]
    #[schemars(schema_with = "field::lease::schema")]
    pub lease_ms: Lease,
    /// How long it waits where it found nothing, in ms, 1 to 60,000. Default 100.
    #[serde(with = "field::poll", default = "field::poll::default")]
    #[schemars(schema_with = "field::poll::schema")]
    pub poll_ms: i64,
    /// How far its clock is ahead (or behind, below 0), in ms, −600,000 to 600,000. Default 0. Where all workers
    /// are more than two minutes behind, jobs are not done in time, and the run does not settle.
    #[serde(with = "field::skew", default = "field::skew::default")]
    #[schemars(schema_with = "field::skew::schema")]
    pub clock_skew_ms: i64,
    /// How long after a kill it starts again, in ms, 0 to 600,000. Default 500.
    #[serde(with = "field::restart_after", default = "field::restart_after::default")]
    #[schemars(schema_with = "field::restart_after::schema")]
    pub restart_after_ms: i64,
    /// How often it starts again, 0 to 1000. Default 10.
    #[serde(with = "field::restarts", default = "field::restarts::default")]
    #[schemars(schema_with = "field::restarts::schema")]
    pub restarts: i64,
    /// How long SQLite waits for a lock before the worker loop tries again by itself, in ms, 0 to 1000. Default 0,
    /// as in production.
    #[serde(with = "field::busy_timeout", default = "field::busy_timeout::default")]
    #[schemars(schema_with = "field::busy_timeout::schema")]
    pub busy_timeout_ms: i64,
    /// How many jobs it delivers side by side, 1 to 8; a courier always 1. Default 1.
    #[serde(with = "field::slots", default = "field::slots::default")]
    #[schemars(schema_with = "field::slots::schema")]
    pub slots: i64,
    /// How many jobs it claims, and finishes, in one transaction at most, 1 to 64; a courier always 1. Above 1 all its
    /// slots share a connection. Default 1.
    #[serde(with = "field::batch", default = "field::batch::default")]
    #[schemars(schema_with = "field::batch::schema")]
    pub batch: i64,
    /// Whether it delivers one job after the other without renewing its leases, instead of running the worker
    /// loop. Default false.
    #[serde(default)]
    pub courier: bool,
    /// How many such workers, 1 to 64. Default 1.
    #[serde(with = "field::worker_count", default = "field::worker_count::default")]
    #[schemars(schema_with = "field::worker_count::schema")]
    pub count: i64,
}

/// The receiver and the sender's patience with it. Its inbox is a SQLite file on its own machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Receiver {
    /// How long it works on a group of requests, in ms, 0 to 60,000. Default 5.
    #[serde(with = "field::service", default = "field::service::default")]
    #[schemars(schema_with = "field::service::schema")]
    pub service_ms: i64,
    /// How long a sender waits for its reply, in ms, 1 to 60,000. Default 2000.
    #[serde(with = "field::timeout", default = "field::timeout::default")]
    #[schemars(schema_with = "field::timeout::schema")]
    pub timeout_ms: i64,
    /// How long it waits for a request, in ms, 1 to 60,000. Default 2000.
    #[serde(with = "field::timeout", default = "field::timeout::default")]
    #[schemars(schema_with = "field::timeout::schema")]
    pub head_timeout_ms: i64,
    /// Connections that it serves at once, 1 to 1000. Default 64.
    #[serde(with = "field::connections", default = "field::connections::default")]
    #[schemars(schema_with = "field::connections::schema")]
    pub connections_max: i64,
    /// The most events that share a transaction, 1 to 6. Default 4.
    #[serde(with = "field::group", default = "field::group::default")]
    #[schemars(schema_with = "field::group::schema")]
    pub group_max: i64,
    /// Connections that somebody keeps busy with requests that never end, 0 to 16. Default 0.
    #[serde(with = "field::lorises", default = "field::lorises::default")]
    #[schemars(schema_with = "field::lorises::schema")]
    pub lorises: i64,
}

impl Default for Receiver {
    fn default() -> Self {
        Self {
            service_ms: field::service::default(),
            timeout_ms: field::timeout::default(),
            head_timeout_ms: field::timeout::default(),
            connections_max: field::connections::default(),
            group_max: field::group::default(),
            lorises: field::lorises::default(),
        }
    }
}

/// An operator's redrive; where the job is not dead by then, it is refused (Q43) and nothing happens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Redrive {
    /// The job, one that arrives in this scenario. Required.
    #[serde(with = "field::name")]
    #[schemars(schema_with = "schema::name")]
    pub job: Name,
    /// When, in ms from the start, 0 to `duration_ms`. Required.
    #[serde(with = "field::moment")]
    #[schemars(schema_with = "field::moment::schema")]
    pub at_ms: i64,
    /// The new time to live, in ms, 1 to 60,000. Default 30,000.
    #[serde(with = "field::ttl", default = "field::ttl::default")]
    #[schemars(schema_with = "field::ttl::schema")]
    pub ttl_ms: Ttl,
    /// Why (Q1). Default `redriven`.
    #[serde(with = "field::name", default = "field::note_default")]
    #[schemars(schema_with = "schema::name")]
    pub note: Name,
    /// Which of two operators does it, 1 or 2: each does its redrives one after the other. Default 1.
    #[serde(with = "field::operator", default = "field::operator::default")]
    #[schemars(schema_with = "field::operator::schema")]
    pub operator: i64,
}
