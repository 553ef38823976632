//! Fewer deviations, and plainer ones: shorter, of a plainer kind, at an earlier point.

use super::Hunt;
use super::candidate::Candidate;
use super::list::minimize;
use super::values::rounder;
use crate::choice::{Action, Deviation, Kind};

/// Leaves deviations out: all of a kind first, then ever smaller parts of what is left.
pub(super) fn fewer(hunt: &mut Hunt<'_>) {
    for kind in Kind::ALL {
        let without = |deviation: &&Deviation| deviation.action.kind() != *kind;
        let rest: Vec<_> = hunt.best.deviations.iter().filter(without).cloned().collect();
        if rest.len() < hunt.best.deviations.len() {
            hunt.accepts(hunt.best.with_deviations(rest));
        }
    }
    let all = hunt.best.deviations.clone();
    minimize(all.len(), |rest| {
        let kept = rest.iter().map(|at| all[*at].clone()).collect();
        hunt.accepts(hunt.best.with_deviations(kept))
    });
}

/// Makes each deviation plainer.
pub(super) fn plainer(hunt: &mut Hunt<'_>) {
    let mut at = 0;
    while let Some(deviation) = hunt.best.deviations.get(at).cloned() {
        for other in earlier(&deviation).into_iter().chain(plainer_actions(&deviation)) {
            let count = hunt.best.deviations.len();
            if hunt.accepts(replaced(&hunt.best, at, other)) {
                // What came of it may be shorter: the next round looks again.
                if hunt.best.deviations.len() < count {
                    return;
                }
                break;
            }
        }
        at += 1;
    }
}

/// A copy where a deviation is another.
pub(super) fn replaced(candidate: &Candidate, at: usize, other: Deviation) -> Candidate {
    let mut copy = candidate.clone();
    copy.deviations[at] = other;
    copy
}

/// The same at an earlier point.
fn earlier(deviation: &Deviation) -> Vec<Deviation> {
    let at = &deviation.at;
    let mut points = Vec::new();
    for ordinal in lower(at.ordinal) {
        points.push((at.incarnation, ordinal, at.count));
    }
    for count in lower(at.count) {
        points.push((at.incarnation, at.ordinal, count));
    }
    for incarnation in lower(at.incarnation) {
        points.push((incarnation, at.ordinal, at.count));
    }
    let with = |(incarnation, ordinal, count)| {
        let mut other = deviation.clone();
        (other.at.incarnation, other.at.ordinal, other.at.count) = (incarnation, ordinal, count);
        other
    };
    points.into_iter().map(with).collect()
}

/// A few numbers from 1 up to below this one.
fn lower(number: u32) -> Vec<u32> {
    let mut all = vec![1, 2, number / 2, number.saturating_sub(1)];
    all.retain(|other| (1..number).contains(other));
    all.sort_unstable();
    all.dedup();
    all
}

fn plainer_actions(deviation: &Deviation) -> Vec<Deviation> {
    let mut actions = deviation.action.plainer();
    if let Action::Amount(kind, amount) = deviation.action
        && kind != Kind::Refused
    {
        actions.extend(rounder(amount).into_iter().map(|amount| Action::Amount(kind, amount)));
    }
    actions.into_iter().map(|action| Deviation { at: deviation.at.clone(), action }).collect()
}
