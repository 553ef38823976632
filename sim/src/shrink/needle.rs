//! Where many deviations are left, the failure hangs on exact times: each of them only shifts something by a
//! millisecond. Then one job alone is tried, with at most one deviation, and its time to live is searched for the
//! millisecond that matters.

use toml::{Table, Value};

use super::Hunt;
use super::candidate::Candidate;
use crate::choice::Deviation;

/// A failure with more deviations is worth the search.
const FEW: usize = 4;
/// Runs kept for it.
const RUNS: u64 = 6_000;
/// Times to live that are tried, in ms.
const TTL_MS: std::ops::RangeInclusive<i64> = 1..=128;

/// Searches; returns whether something smaller was found.
pub(super) fn search(hunt: &mut Hunt) -> bool {
    if hunt.best.deviations.len() <= FEW {
        return false;
    }
    let runs_max = hunt.runs_max;
    hunt.runs_max = hunt.runs + RUNS;
    let found = haystack(&hunt.best).into_iter().any(|candidate| hunt.accepts(candidate));
    hunt.runs_max = runs_max.max(if found { hunt.runs + 1_000 } else { hunt.runs });
    found
}

/// Every candidate, one after the other.
fn haystack(best: &Candidate) -> Vec<Candidate> {
    let Some(Value::Array(jobs)) = best.table.get("job") else { return Vec::new() };
    let mut deviations: Vec<Vec<Deviation>> = vec![Vec::new()];
    for deviation in &best.deviations {
        let mut first = deviation.clone();
        first.at.ordinal = 1;
        if !deviations.contains(&vec![first.clone()]) {
            deviations.push(vec![first]);
        }
    }
    let mut all = Vec::new();
    for kept in &deviations {
        for job in jobs.iter().filter_map(Value::as_table) {
            all.extend(TTL_MS.map(|ttl_ms| alone(best, job, ttl_ms).with_deviations(kept.clone())));
        }
    }
    all
}

/// One job, with this time to live.
fn alone(best: &Candidate, job: &Table, ttl_ms: i64) -> Candidate {
    let mut job = job.clone();
    job.insert("ttl_ms".to_owned(), ttl_ms.into());
    best.with(|table| drop(table.insert("job".to_owned(), Value::Array(vec![job.into()]))))
}
