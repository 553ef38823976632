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
mod net;
mod outcome;
mod queue;
mod schema;
mod stream;
mod vary;
pub mod vocabulary;
mod write;

use std::path::Path;

use ackward::rules::{Attempts, Event, Name, Ttl};
use ackward::storage::Durability;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::outside::{self, OutsideError};

pub use crate::choice::{Action, Deviation, PointName};
pub use error::{ScenarioError, suggestion};
pub use faults::{Faults, Probability, SpanMs};
pub use flaw::Flaw;
pub use net::Net;
pub use outcome::{ConsumerOutcome, Count, JobOutcome};
pub use queue::{Job, Receiver, Redrive, Worker};
pub use stream::{Consumer, Publisher};
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
