//! The scenario file of `cargo sim`: which jobs, workers and faults a run has, and what is expected of it.
//!
//! A [`Scenario`] that exists is valid. Files are TOML; every error names file, line, column, key, value and
//! what is allowed. What a fault does, and where its points lie, belongs to the engine.

mod check;
mod deviation;
mod error;
mod faults;
mod field;
mod flaw;
mod outcome;
mod schema;
mod vary;
pub mod vocabulary;
mod write;

use std::path::Path;

use ackward::rules::{Attempts, Event, Lease, Name, Qty, Ttl};
use ackward::storage::Durability;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::outside::{self, OutsideError};

pub use crate::choice::{Action, Deviation, PointName};
pub use error::{ScenarioError, suggestion};
pub use faults::{Faults, Probability, SpanMs};
pub use flaw::Flaw;
pub use outcome::{ConsumerOutcome, Count, JobOutcome};
pub(crate) use vary::nested;
pub use vary::{Range, Values, Varied, Vary};

/// Largest scenario file, in bytes.
const FILE_LEN_MAX: u64 = 1 << 20;

/// A validated scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What the scenario shows: one line of 1 to 300 characters. Required.
    #[serde(with = "field::sentence")]
    #[schemars(schema_with = "schema::sentence")]
    pub about: String,
    /// When faults stop, in ms of virtual time, 1 to 3,600,000; afterwards the run must settle. Default
    /// 60,000.
    #[serde(with = "field::duration", default = "field::duration::default")]
    #[schemars(schema_with = "field::duration::schema")]
    pub duration_ms: i64,
    /// Durability of the queue file: `full` (default) or `extra`.
    #[serde(with = "field::durability", default = "field::durability::default")]
    #[schemars(schema_with = "schema::durability")]
    pub durability: Durability,
    /// What is run: `real` (default), or a twin with one mistake, of [`Flaw::ALL`], such as `finish-ignores-expiry`.
    #[serde(with = "field::system", default)]
    #[schemars(schema_with = "schema::system")]
    pub system: Flaw,
    /// What carries the connections: `built-in` (default) or `turmoil`.
    #[serde(with = "field::net", default)]
    #[schemars(schema_with = "schema::net")]
    pub net: Net,
    /// Jobs and when they arrive, `[[job]]`; with workers at least one, at most 10,000 in all. The same id may arrive twice.
    #[serde(rename = "job", default)]
    pub jobs: Vec<Job>,
    /// Worker processes, `[[worker]]`; at most 64 in all. A scenario has workers, or consumers, or both.
    #[serde(rename = "worker", default)]
    pub workers: Vec<Worker>,
    /// The publisher of a stream of events, on a machine of its own; needed by consumers.
    #[serde(default)]
    pub publisher: Option<Publisher>,
    /// Consumers of that stream, `[[consumer]]`, on one machine; at most 16.
    #[serde(rename = "consumer", default)]
    pub consumers: Vec<Consumer>,
    /// The receiver, on a machine of its own.
    #[serde(default)]
    pub receiver: Receiver,
    /// What the operator redrives, `[[redrive]]`.
    #[serde(rename = "redrive", default)]
    pub redrives: Vec<Redrive>,
    /// How likely each fault is.
    #[serde(default)]
    pub faults: Faults,
    /// What happens exactly so, `[[deviation]]`; at most 1,000.
    #[serde(rename = "deviation", default)]
    pub deviations: Vec<Deviation>,
    /// What whole numbers may be, `[vary]`, for `fuzz --cover` alone; everybody else takes the plain ones, which lie
    /// within. Paths are `duration_ms`, `job.ID.KEY`, `worker.NAME.KEY`, `consumer.NAME.KEY`, `redrive.JOB.KEY`,
    /// `receiver.KEY` and `publisher.KEY`; ranges `[least, most]`. Default none.
    #[serde(default, skip_serializing_if = "Vary::is_empty")]
    pub vary: Vary,
    /// What the run must show.
    #[serde(default)]
    pub expect: Expect,
}

/// What carries the connections between processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Net {
    /// The built-in executor and its network: processes can be preempted inside SQLite, and idle time costs nothing.
    #[default]
    BuiltIn,
    /// turmoil's hosts and its TCP: the second opinion, and much slower.
    Turmoil,
}

impl Net {
    /// Both, by their names in scenario files and on the command line.
    pub const ALL: &'static [Self] = &[Self::BuiltIn, Self::Turmoil];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::Turmoil => "turmoil",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|net| net.as_str() == name)
    }
}

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
    /// [`vocabulary::PROCESSES`]. Required. With `count` above 1 the workers are `name-1`, `name-2`, …
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

/// The publisher of a stream and its log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Publisher {
    /// How many events the log holds at the beginning, 0 to 100,000. Default 0.
    #[serde(with = "field::events", default = "field::events::default")]
    #[schemars(schema_with = "field::events::schema")]
    pub events: i64,
    /// The number of the first of them, 0 to 1,000,000: above 0 the log has lost what came before. Default 0.
    #[serde(with = "field::first", default = "field::first::default")]
    #[schemars(schema_with = "field::first::schema")]
    pub first: i64,
    /// How many events are appended later, 0 to 100,000. Default 0.
    #[serde(with = "field::grow", default = "field::grow::default")]
    #[schemars(schema_with = "field::grow::schema")]
    pub grow: i64,
    /// The time between two of those, in ms, 1 to 60,000. Default 100.
    #[serde(with = "field::poll", default = "field::poll::default")]
    #[schemars(schema_with = "field::poll::schema")]
    pub grow_every_ms: i64,
    /// How long it waits for its consumer each time, in ms, 1 to 60,000. Default 2000.
    #[serde(with = "field::timeout", default = "field::timeout::default")]
    #[schemars(schema_with = "field::timeout::schema")]
    pub timeout_ms: i64,
    /// Whether it breaks the rules of the stream, by the fault `bad_line`. Default false.
    #[serde(default)]
    pub rogue: bool,
}

/// A consumer process, or several like it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Consumer {
    /// The process's name (Q1); unique. Required.
    #[serde(with = "field::name")]
    #[schemars(schema_with = "schema::name")]
    pub name: Name,
    /// Its store's file; the same for two consumers is a mistake that must do no harm. Default `NAME.db`.
    #[serde(with = "field::optional_name", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::name")]
    pub store: Option<Name>,
    /// The limit on each of its waits, in ms, 1 to 60,000. Default 2000.
    #[serde(with = "field::timeout", default = "field::timeout::default")]
    #[schemars(schema_with = "field::timeout::schema")]
    pub timeout_ms: i64,
    /// Whether lines that arrived together share a transaction. Default true.
    #[serde(default = "field::yes")]
    pub group: bool,
    /// How long after a kill it starts again, in ms, 0 to 600,000. Default 500.
    #[serde(with = "field::restart_after", default = "field::restart_after::default")]
    #[schemars(schema_with = "field::restart_after::schema")]
    pub restart_after_ms: i64,
    /// How often it starts again, 0 to 1000. Default 10.
    #[serde(with = "field::restarts", default = "field::restarts::default")]
    #[schemars(schema_with = "field::restarts::schema")]
    pub restarts: i64,
}

impl Consumer {
    /// The name of its store's file.
    #[must_use]
    pub fn store_file(&self) -> String {
        format!("{}.db", self.store.as_ref().unwrap_or(&self.name))
    }
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

/// What the runs must show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// What must be reached at least once within `seeds` seeds, of [`vocabulary::SOMETIMES`]. Default none.
    #[serde(with = "field::sometimes", default)]
    #[schemars(schema_with = "schema::sometimes")]
    pub sometimes: Vec<String>,
    /// After how many seeds `sometimes` is judged, 1 to 1,000,000. Default 500.
    #[serde(with = "field::seeds", default = "field::seeds::default")]
    #[schemars(schema_with = "field::seeds::schema")]
    pub seeds: i64,
    /// The property that must fail, of [`vocabulary::properties`]: for canaries, whose bug must be found.
    #[serde(with = "field::fails", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::fails")]
    pub fails: Option<String>,
    /// What must have become of jobs at the end of every run, `[[expect.job]]`.
    #[serde(rename = "job", default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobOutcome>,
    /// Where consumers must stand at the end of every run, `[[expect.consumer]]`.
    #[serde(rename = "consumer", default, skip_serializing_if = "Vec::is_empty")]
    pub consumers: Vec<ConsumerOutcome>,
}

impl Default for Expect {
    fn default() -> Self {
        let (sometimes, jobs, consumers) = Default::default();
        Self { sometimes, seeds: field::seeds::default(), fails: None, jobs, consumers }
    }
}

/// A single job's arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// When, in ms from the start.
    pub at_ms: i64,
    /// What is enqueued.
    pub event: Event,
    /// Its time to live.
    pub ttl: Ttl,
    /// Its budget of attempts.
    pub max_attempts: Attempts,
}

impl Scenario {
    /// Reads a scenario file.
    ///
    /// # Errors
    /// [`ScenarioError`] where it cannot be read, is a named pipe, is larger than 1 MiB, or is no valid scenario.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        Self::load_with_text(path).map(|(scenario, _)| scenario)
    }

    /// As [`Scenario::load`], with the file's text.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn load_with_text(path: &Path) -> Result<(Self, String), ScenarioError> {
        let file = path.display().to_string();
        let bytes = outside::read(path, FILE_LEN_MAX).map_err(|error| match error {
            OutsideError::Access(error) => ScenarioError::unreadable(file.clone(), &error),
            other => ScenarioError::at_start(&file, &other.to_string()),
        })?;
        let scenario = Self::parse(&file, &bytes)?;
        // Parsed, so it is UTF-8.
        Ok((scenario, String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Reads a scenario from bytes; `file` is the name for errors.
    ///
    /// # Errors
    /// [`ScenarioError`] where it is no valid scenario.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, ScenarioError> {
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => return Err(ScenarioError::not_utf8(file, bytes, error.valid_up_to())),
        };
        let scenario: Self =
            toml::from_str(text).map_err(|error| ScenarioError::from_toml(file, text, &error))?;
        check::check(&scenario).map_err(|problem| ScenarioError::from_problem(file, text, &problem))?;
        Ok(scenario)
    }

    /// The scenario as TOML text that [`parse`](Self::parse) reads back as the same; defaults are left out.
    #[must_use]
    pub fn to_toml(&self) -> String {
        write::to_toml(self)
    }

    /// Every single job's arrival, in the order of the file.
    #[must_use]
    pub fn arrivals(&self) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        for job in &self.jobs {
            for at in 0..job.count {
                let Some(id) = numbered(&job.id, at, job.count) else { continue };
                let event = Event { id, qty: job.qty };
                let at_ms = job.at_ms + at * job.every_ms;
                arrivals.push(Arrival { at_ms, event, ttl: job.ttl_ms, max_attempts: job.max_attempts });
            }
        }
        arrivals
    }

    /// The jobs of this name: one, or all of a numbered group.
    #[must_use]
    pub fn jobs_named(&self, name: &Name) -> Vec<Name> {
        let group = self.jobs.iter().filter(|job| job.id == *name);
        let grouped = group.flat_map(|job| (0..job.count).filter_map(|at| numbered(&job.id, at, job.count)));
        let mut ids: Vec<Name> = grouped.collect();
        ids.extend(self.arrivals().into_iter().map(|arrival| arrival.event.id).filter(|id| id == name));
        ids.sort();
        ids.dedup();
        ids
    }

    /// Every single worker's name with its settings, in the order of the file.
    #[must_use]
    pub fn worker_processes(&self) -> Vec<(Name, &Worker)> {
        let mut processes = Vec::new();
        for worker in &self.workers {
            let names = (0..worker.count).filter_map(|at| numbered(&worker.name, at, worker.count));
            processes.extend(names.map(|name| (name, worker)));
        }
        processes
    }
}

impl Scenario {
    /// The operators that have something to do, each with its process's name.
    #[must_use]
    pub fn operators(&self) -> Vec<(i64, &'static str)> {
        let all = [(1, "operator"), (2, "operator-2")];
        let is_there = |number| self.redrives.iter().any(|redrive| redrive.operator == number);
        all.into_iter().filter(|(number, _)| is_there(*number)).collect()
    }

    /// The names of all processes, in the order in which a run numbers them.
    #[must_use]
    pub fn process_names(&self) -> Vec<String> {
        let mut names = vec!["receiver".to_owned()];
        if !self.jobs.is_empty() {
            names.push("producer".to_owned());
            names.extend(self.worker_processes().iter().map(|(name, _)| name.to_string()));
            names.extend(self.operators().into_iter().map(|(_, name)| name.to_owned()));
            names.extend((self.receiver.lorises > 0).then(|| "loris".to_owned()));
        }
        if let Some(publisher) = &self.publisher {
            names.push("publisher".to_owned());
            names.extend((publisher.grow > 0).then(|| "author".to_owned()));
            names.extend(self.consumers.iter().map(|consumer| consumer.name.to_string()));
        }
        names
    }
}

/// The name of one of `count`, counted from 0; none where it would be too long, which [`check`] refuses.
fn numbered(name: &Name, at: i64, count: i64) -> Option<Name> {
    if count == 1 {
        return Some(name.clone());
    }
    Name::new("name", &format!("{name}-{}", at + 1)).ok()
}
