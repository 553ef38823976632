//! The scenario of a log: its jobs, its workers, and what struck them, as far as a log can tell.

use std::collections::{BTreeMap, BTreeSet};

use ackward::rules::{Attempts, Limits, Name, Qty};

use super::What;
use super::log::Log;
use super::plan::{Answer, Cue, End, plan};
use crate::numbers::count;
use crate::scenario::vocabulary::PROCESSES;
use crate::scenario::{Job, Redrive, Scenario, ScenarioError, SpanMs, Worker};

/// The longest that a job of a scenario can take, in ms, with room for what is slower there: its time to live is 60 s.
const LIFE_MS: i64 = 40_000;
/// A scenario's longest time to live, and its longest lease, in ms.
const SPAN_MAX_MS: i64 = 60_000;
/// The longest incident in simulated time, in ms; and how long it may take to end.
const LONG_MS: i64 = 3_500_000;
const END_MS: i64 = 10_000;
/// How long an idle worker waits, in ms: little, since it was there when its time came.
const POLL_MS: i64 = 10;
/// The longest stall, and the longest delay of a message, in ms.
const FAULT_MAX_MS: i64 = 600_000;

const PLAIN: &str =
    "about = \"x\"\n[[job]]\nid = \"x\"\n[[worker]]\nname = \"x\"\n[[redrive]]\njob = \"x\"\nat_ms = 0\n";

/// Why a log cannot be made a scenario.
#[derive(Debug, thiserror::Error)]
pub enum DraftError {
    /// It holds too much. Cut the incident out of it.
    #[error("the incident takes {0} ms of simulated time, allowed: up to 3500000; cut it out of the logs")]
    Long(i64),
    /// A worker has the name of a process that every scenario has.
    #[error("a worker is called {0}, as a process of every scenario is; rename it in the logs")]
    Name(String),
    /// It does not fit into a scenario, such as more than 10,000 jobs. Cut the incident out of it.
    #[error("the incident does not fit into a scenario: {0}; cut it out of the logs")]
    Scenario(#[from] ScenarioError),
    /// A value of the log is out of range.
    #[error(transparent)]
    Invalid(#[from] ackward::rules::Invalid),
}

/// A scenario made of a log.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The scenario, without any fault.
    pub scenario: Scenario,
    /// What had to be guessed, a sentence each.
    pub notes: Vec<String>,
    /// The claims in their order, on the scenario's scale of time.
    pub(super) cues: Vec<Cue>,
}

/// Makes a scenario of a log.
///
/// # Errors
/// [`DraftError`] where it does not fit into one.
pub fn draft(log: &Log) -> Result<Draft, DraftError> {
    let mut cues = plan(log);
    let life_ms = life(&cues).max(longest_lease(log));
    let scale = (life_ms + LIFE_MS - 1).div_euclid(LIFE_MS).max(1);
    for cue in &mut cues {
        (cue.at_ms, cue.last_ms) = (cue.at_ms / scale, cue.last_ms / scale);
    }
    let last_ms = cues.iter().map(|cue| cue.last_ms).max().unwrap_or(0);
    if last_ms > LONG_MS {
        return Err(DraftError::Long(last_ms));
    }
    let mut scenario = Scenario::parse("import", PLAIN.as_bytes())?;
    let (job, worker, redrive) =
        (scenario.jobs.remove(0), scenario.workers.remove(0), scenario.redrives.remove(0));
    scenario.jobs = jobs(log, &cues, &job)?;
    scenario.workers = workers(log, &cues, &worker, scale)?;
    scenario.redrives = redrives(&cues, &redrive)?;
    scenario.duration_ms =
        last_ms + END_MS + scenario.workers.iter().map(|worker| worker.lease_ms.get()).max().unwrap_or(0);
    let slow =
        cues.iter().filter(|cue| cue.answer == Answer::TimedOut).map(|cue| cue.last_ms - cue.at_ms).max();
    if let Some(slow_ms) = slow {
        scenario.receiver.timeout_ms = slow_ms.clamp(1, SPAN_MAX_MS);
    }
    let spans = (SpanMs::new(1, FAULT_MAX_MS), SpanMs::new(1, FAULT_MAX_MS));
    if let (Some(stall_ms), Some(slow_ms)) = spans {
        (scenario.faults.stall_ms, scenario.faults.slow_ms) = (stall_ms, slow_ms);
    }
    scenario.about = format!(
        "An incident of {} and {}, imported from event logs.",
        count(scenario.jobs.len() as u64, "job"),
        count(scenario.workers.len() as u64, "worker")
    );
    let scenario = Scenario::parse("the incident", scenario.to_toml().as_bytes())?;
    let notes = notes(&scenario, &cues, scale);
    Ok(Draft { scenario, notes, cues })
}

/// The longest time from a job's first line to its last, in ms.
fn life(cues: &[Cue]) -> i64 {
    let mut first: BTreeMap<&str, i64> = BTreeMap::new();
    let lives = cues.iter().map(|cue| cue.last_ms - *first.entry(&cue.job).or_insert(cue.at_ms));
    lives.max().unwrap_or(0)
}

fn longest_lease(log: &Log) -> i64 {
    log.lines
        .iter()
        .filter(|placed| placed.line.what == What::Claimed)
        .map(|placed| placed.line.ticket.lease_until_ms() - placed.line.at_ms)
        .max()
        .unwrap_or(0)
}

fn jobs(log: &Log, cues: &[Cue], plain: &Job) -> Result<Vec<Job>, DraftError> {
    let mut quantities: BTreeMap<&str, Qty> = BTreeMap::new();
    for placed in &log.lines {
        quantities.entry(placed.line.job()).or_insert(placed.line.ticket.qty);
    }
    let budgets = budgets(log);
    let mut known = BTreeSet::new();
    let mut jobs = Vec::new();
    for cue in cues.iter().filter(|cue| known.insert(cue.job.as_str())) {
        jobs.push(Job {
            id: Name::new("id", &cue.job)?,
            qty: quantities.get(cue.job.as_str()).copied().unwrap_or(plain.qty),
            // There when it is looked for.
            at_ms: (cue.at_ms - 1).max(0),
            ttl_ms: Limits::CONTRACT.ttl(SPAN_MAX_MS)?,
            max_attempts: Attempts::new(
                budgets.get(cue.job.as_str()).map_or(Attempts::DEFAULT.get(), Budget::attempts),
            )?,
            ..plain.clone()
        });
    }
    Ok(jobs)
}

/// How many attempts a job has.
enum Budget {
    /// A retry was refused after this one.
    Spent(i64),
    /// At least so many.
    Open(i64),
}

impl Budget {
    const fn attempts(&self) -> i64 {
        match self {
            Self::Spent(attempts) => *attempts,
            Self::Open(attempts) if *attempts > 16 => 16,
            Self::Open(attempts) => *attempts,
        }
    }
}

/// Of each job the attempt after which a retry was refused first, else more than were made.
fn budgets(log: &Log) -> BTreeMap<&str, Budget> {
    let mut budgets = BTreeMap::new();
    for line in log.lines.iter().map(|placed| &placed.line) {
        let budget = budgets.entry(line.job()).or_insert(Budget::Open(Attempts::DEFAULT.get()));
        let Budget::Open(so_far) = *budget else { continue };
        let attempt = line.ticket.attempt.get();
        *budget = match &line.what {
            What::Finished(ackward::rules::Outcome::Retry, _, word) if word == "dead" => {
                Budget::Spent(attempt)
            }
            What::Finished(_, _, word) if word == "pending" => Budget::Open(so_far.max(attempt + 1)),
            _ => Budget::Open(so_far.max(attempt)),
        };
    }
    budgets
}

fn workers(log: &Log, cues: &[Cue], plain: &Worker, scale: i64) -> Result<Vec<Worker>, DraftError> {
    let mut workers = Vec::new();
    let owners: BTreeSet<&str> = cues.iter().map(|cue| cue.owner.as_str()).collect();
    for owner in owners {
        if PROCESSES.contains(&owner) {
            return Err(DraftError::Name(owner.to_owned()));
        }
        let own: Vec<&Cue> = cues.iter().filter(|cue| cue.owner == owner).collect();
        let ends: Vec<_> = own.iter().filter(|cue| matches!(cue.end, End::Killed | End::Released)).collect();
        let again = |end: &Cue| {
            own.iter().filter(|cue| cue.at_ms > end.last_ms).map(|cue| cue.at_ms - end.last_ms).min()
        };
        let pauses: Vec<i64> = ends.iter().filter_map(|end| again(end)).collect();
        workers.push(Worker {
            name: Name::new("owner", owner)?,
            lease_ms: Limits::CONTRACT.lease(lease(log, owner, scale))?,
            poll_ms: POLL_MS,
            slots: slots(&own),
            restarts: i64::try_from(pauses.len()).unwrap_or(0).min(1_000),
            // Time to be there again.
            restart_after_ms: (pauses.iter().min().copied().unwrap_or(plain.restart_after_ms) / 2)
                .clamp(0, FAULT_MAX_MS),
            ..plain.clone()
        });
    }
    Ok(workers)
}

/// The lease that a worker takes, in ms: the longest that was left after a claim, and what the commit took.
fn lease(log: &Log, owner: &str, scale: i64) -> i64 {
    let claims = log.lines.iter().map(|placed| &placed.line);
    let claims = claims.filter(|line| line.what == What::Claimed && line.ticket.owner.as_str() == owner);
    let left_ms = claims.map(|line| line.ticket.lease_until_ms() - line.at_ms).max().unwrap_or(1_000);
    let lease_ms = if left_ms > 100 { (left_ms + 99) / 100 * 100 } else { left_ms };
    (lease_ms / scale).clamp(1, SPAN_MAX_MS)
}

/// How many claims were open at a time.
fn slots(own: &[&Cue]) -> i64 {
    let open = |at: &Cue| own.iter().filter(|cue| cue.at_ms <= at.at_ms && at.at_ms < cue.last_ms).count();
    let most = own.iter().map(|cue| open(cue)).max().unwrap_or(1);
    i64::try_from(most).unwrap_or(8).clamp(1, 8)
}

/// A job that is at its first attempt again was redriven, unless it was given back.
fn redrives(cues: &[Cue], plain: &Redrive) -> Result<Vec<Redrive>, DraftError> {
    let mut before: BTreeMap<&str, &Cue> = BTreeMap::new();
    let mut redrives = Vec::new();
    for cue in cues {
        let last = before.insert(&cue.job, cue);
        if let Some(last) = last.filter(|last| cue.attempt == 1 && last.end != End::Released) {
            let at_ms = cue.at_ms.max(last.last_ms + 1) - 1;
            redrives.push(Redrive { job: Name::new("id", &cue.job)?, at_ms, ..plain.clone() });
        }
    }
    Ok(redrives)
}

fn notes(scenario: &Scenario, cues: &[Cue], scale: i64) -> Vec<String> {
    let mut notes = vec!["a log does not tell when a job was enqueued nor its deadline: it comes when it is first claimed, and lives for 60 s".to_owned()];
    if scale > 1 {
        notes.push(format!("all times are divided by {scale}, since a simulated job lives for 60 s at most"));
    }
    if cues.iter().any(|cue| cue.answer == Answer::Permanent) {
        notes.push("the simulated receiver refuses nothing for good, as the log's did".to_owned());
    }
    let killed = cues.iter().filter(|cue| cue.end == End::Killed).count();
    if killed > 0 {
        let claims = count(killed as u64, "claim");
        notes.push(format!("{claims} without an end in the log: taken as killed there"));
    }
    if scenario.workers.iter().any(|worker| worker.slots > 1) {
        notes.push(
            "which slot had which job is not told: only workers with one slot are held to the log's order"
                .to_owned(),
        );
    }
    notes
}
