//! A scenario under way to being smaller: its tables, and apart from them its deviations.

use toml::{Table, Value};

use crate::choice::{Action, Deviation, Kind};
use crate::scenario::{
    ConsumerOutcome, Expect, Faults, Flaw, Job, JobOutcome, Scenario, SpanMs, Vary, Worker,
};

/// What is run next: a scenario without probabilities, as a tree of tables, and its deviations.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Candidate {
    pub(super) table: Table,
    pub(super) deviations: Vec<Deviation>,
    /// The right values, where it is one of them that must stay broken.
    right: Right,
}

/// The right value of each single job, and of each consumer.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Right {
    jobs: Vec<JobOutcome>,
    consumers: Vec<ConsumerOutcome>,
}

impl Right {
    /// What a scenario states.
    pub(super) fn of(scenario: &Scenario) -> Self {
        let stated = scenario.expect.jobs.iter();
        let jobs = stated.flat_map(|outcome| {
            let ids = scenario.jobs_named(&outcome.id).into_iter();
            ids.map(|id| JobOutcome { id, ..outcome.clone() })
        });
        Self { jobs: jobs.collect(), consumers: scenario.expect.consumers.clone() }
    }

    /// What of it a smaller scenario can still state.
    fn state_in(&self, scenario: &mut Scenario) {
        let has_job = |outcome: &&JobOutcome| scenario.jobs.iter().any(|job| job.id == outcome.id);
        let has_consumer =
            |outcome: &&ConsumerOutcome| scenario.consumers.iter().any(|known| known.name == outcome.name);
        scenario.expect.jobs = self.jobs.iter().filter(has_job).cloned().collect();
        scenario.expect.consumers = self.consumers.iter().filter(has_consumer).cloned().collect();
    }
}

impl Candidate {
    /// What a run did, without its randomness.
    pub(super) fn new(scenario: &Scenario, deviations: &[Deviation], right: Right) -> Self {
        let plain = Scenario {
            faults: Faults::default(),
            deviations: Vec::new(),
            expect: Expect::default(),
            vary: Vary::default(),
            jobs: jobs(scenario),
            workers: workers(scenario),
            ..scenario.clone()
        };
        let table = toml::from_str(&plain.to_toml()).unwrap_or_default();
        Self { table, deviations: deviations.to_vec(), right }
    }

    /// The scenario, where this is one.
    pub(super) fn scenario(&self) -> Option<Scenario> {
        let text = toml::to_string(&self.table).ok()?;
        let mut scenario = Scenario::parse("a candidate", text.as_bytes()).ok()?;
        let names = scenario.process_names();
        let knows = |name: &str| names.iter().any(|known| known == name);
        let is_possible = |deviation: &&Deviation| {
            knows(&deviation.at.process)
                && match &deviation.action {
                    Action::Process(_, other) => knows(other),
                    _ => true,
                }
        };
        scenario.deviations = self.deviations.iter().filter(is_possible).cloned().collect();
        scenario.faults = faults(&scenario.deviations);
        self.right.state_in(&mut scenario);
        Some(scenario)
    }

    /// A copy with other deviations.
    pub(super) fn with_deviations(&self, deviations: Vec<Deviation>) -> Self {
        Self { table: self.table.clone(), deviations, right: self.right.clone() }
    }

    /// A copy with one more change to the tables.
    pub(super) fn with(&self, change: impl FnOnce(&mut Table)) -> Self {
        let mut copy = self.clone();
        change(&mut copy.table);
        copy
    }

    /// The keys of tables of their own, and of lists of tables, each with the number in the list.
    pub(super) fn places(&self) -> Vec<Place> {
        let mut places = vec![Place { key: String::new(), index: 0 }];
        for (key, value) in &self.table {
            let count = match value {
                Value::Table(_) => 1,
                Value::Array(items) if items.iter().all(Value::is_table) => items.len(),
                _ => 0,
            };
            places.extend((0..count).map(|index| Place { key: key.clone(), index }));
        }
        places
    }
}

/// One table of a scenario: the whole, one of its tables, or one of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) key: String,
    pub(super) index: usize,
}

impl Place {
    /// The table, where it is there.
    pub(super) fn of<'t>(&self, table: &'t Table) -> Option<&'t Table> {
        if self.key.is_empty() {
            return Some(table);
        }
        match table.get(&self.key)? {
            Value::Table(inner) => Some(inner),
            Value::Array(items) => items.get(self.index)?.as_table(),
            _ => None,
        }
    }

    /// The table, to be changed.
    pub(super) fn of_mut<'t>(&self, table: &'t mut Table) -> Option<&'t mut Table> {
        if self.key.is_empty() {
            return Some(table);
        }
        match table.get_mut(&self.key)? {
            Value::Table(inner) => Some(inner),
            Value::Array(items) => items.get_mut(self.index)?.as_table_mut(),
            _ => None,
        }
    }
}

/// Every job on its own, under the same id.
fn jobs(scenario: &Scenario) -> Vec<Job> {
    let single = |arrival: crate::scenario::Arrival| Job {
        id: arrival.event.id,
        qty: arrival.event.qty,
        at_ms: arrival.at_ms,
        ttl_ms: arrival.ttl,
        max_attempts: arrival.max_attempts,
        count: 1,
        every_ms: 0,
    };
    scenario.arrivals().into_iter().map(single).collect()
}

/// Every worker on its own, under the same name.
fn workers(scenario: &Scenario) -> Vec<Worker> {
    let processes = scenario.worker_processes();
    processes.into_iter().map(|(name, worker)| Worker { name, count: 1, ..worker.clone() }).collect()
}

/// No probabilities; spans that hold what the deviations say.
pub(super) fn faults(deviations: &[Deviation]) -> Faults {
    let plain = Faults::default();
    let amounts = |kinds: &[Kind]| {
        let amount = |deviation: &Deviation| match deviation.action {
            Action::Amount(kind, amount) if kinds.contains(&kind) => Some(amount),
            _ => None,
        };
        deviations.iter().filter_map(amount).collect::<Vec<_>>()
    };
    Faults {
        stall_ms: holding(plain.stall_ms, &amounts(&[Kind::Stall])),
        slow_ms: holding(plain.slow_ms, &amounts(&[Kind::Slow, Kind::Partition])),
        clock_jump_ms: holding(plain.clock_jump_ms, &amounts(&[Kind::ClockJump])),
        ..plain
    }
}

fn holding<const LEAST: i64>(span: SpanMs<LEAST>, amounts: &[i64]) -> SpanMs<LEAST> {
    let least = amounts.iter().copied().fold(span.min(), i64::min);
    let most = amounts.iter().copied().fold(span.max(), i64::max);
    SpanMs::new(least, most).unwrap_or(span)
}

/// What a file expects: that a twin is caught; of the real system, that it holds.
pub(super) fn expect(scenario: &Scenario, property: &str) -> Expect {
    let fails = (scenario.system != Flaw::None).then(|| property.to_owned());
    let Expect { jobs, consumers, .. } = scenario.expect.clone();
    Expect { fails, seeds: 1, jobs, consumers, ..Expect::default() }
}
