//! Gaps in event logs, where a worker could not write what it did: what happened in them is not known, so no job's story
//! is told through one. A gap is no sign that anybody was killed.

use std::collections::{BTreeMap, BTreeSet};

use super::log::{Log, Placed};
use super::{What, line};

/// Lines that are missing, and whose story ends there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The file, by its place in [`Log::files`].
    pub file: usize,
    /// The line that tells of them, from 1.
    pub number: usize,
    /// How many, and when.
    pub lost: line::Lost,
    /// The jobs of which nothing is known from there on.
    pub jobs: Vec<String>,
}

/// Up to where a job is known whose story goes through a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    /// The last claim of which anything is known, by its token; nothing behind it is.
    pub(super) token: i64,
    /// The gap that it goes through, by file and line: its lines before that are known. Where there is none, nothing of it
    /// is.
    open_at: Option<(usize, usize)>,
    /// The gap, by its place in [`Log::gaps`].
    gap: usize,
}

impl Known {
    /// Whether a line of the job is before the gap.
    pub(super) fn contains(&self, placed: &Placed) -> bool {
        match placed.line.token().cmp(&self.token) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => {
                self.open_at.is_some_and(|(file, number)| placed.file == file && placed.number < number)
            }
            std::cmp::Ordering::Greater => false,
        }
    }

    /// Whether it goes on in the gap with the claim of this token.
    pub(super) const fn goes_on_with(&self, token: i64) -> bool {
        self.open_at.is_some() && self.token == token
    }
}

/// Up to where the jobs are known whose story goes through a gap; each gap is told which those are.
pub(super) fn known(log: &mut Log) -> BTreeMap<String, Known> {
    let mut known: BTreeMap<String, Known> = BTreeMap::new();
    let claims: Vec<_> = log.claims().into_iter().collect();
    for (at, ((job, token), lines)) in claims.iter().enumerate() {
        let (job, token) = (*job, *token);
        if known.contains_key(job) {
            continue;
        }
        let next = claims.get(at + 1).filter(|((other, _), _)| *other == job);
        let earlier = at.checked_sub(1).and_then(|at| claims.get(at)).filter(|((other, _), _)| *other == job);
        // Claims that no log knows may have been made in a gap.
        let is_skipped = earlier.is_some_and(|((_, earlier), _)| token > earlier + 1);
        let skipped = || log.gaps.iter().position(|gap| is_skipped && is_behind(gap, lines));
        let through = log.gaps.iter().position(|gap| {
            // It was over before where the next one had been made by then.
            goes_through(gap, lines) && next.is_none_or(|(_, next)| is_behind(gap, next))
        });
        let open_at = through.and_then(|at| log.gaps.get(at)).and_then(|gap| opens(gap, lines));
        if let Some(gap) = through.or_else(skipped) {
            known.insert(job.to_owned(), Known { token, open_at, gap });
        }
    }
    let mut jobs: Vec<BTreeSet<String>> = vec![BTreeSet::new(); log.gaps.len()];
    for (job, Known { gap, .. }) in &known {
        jobs[*gap].insert(job.clone());
    }
    for (gap, jobs) in log.gaps.iter_mut().zip(jobs) {
        gap.jobs = jobs.into_iter().collect();
    }
    known
}

/// Whether a claim was under way while lines were lost: it was not over before, or has no beginning behind.
fn goes_through(gap: &Gap, lines: &[&Placed]) -> bool {
    let (before, after) = around(gap, lines);
    match (before.is_empty(), after.first()) {
        (false, _) => !before.iter().any(|placed| placed.line.what.is_last()),
        (true, Some(first)) => !matches!(first.line.what, What::Claimed | What::Released(_)),
        (true, None) => false,
    }
}

/// Where a claim goes into a gap of which something is known before.
fn opens(gap: &Gap, lines: &[&Placed]) -> Option<(usize, usize)> {
    let (before, _) = around(gap, lines);
    (!before.is_empty()).then_some((gap.file, gap.number))
}

/// Whether a claim was made after lines began to be lost.
fn is_behind(gap: &Gap, lines: &[&Placed]) -> bool {
    lines.first().is_some_and(|first| first.line.at_ms >= gap.lost.since_ms)
}

/// A claim's lines of the gap's file, before it and behind.
fn around<'l>(gap: &Gap, lines: &[&'l Placed]) -> (Vec<&'l Placed>, Vec<&'l Placed>) {
    lines.iter().filter(|placed| placed.file == gap.file).partition(|placed| placed.number < gap.number)
}
