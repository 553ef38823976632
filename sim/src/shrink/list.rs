//! Fewer of anything that is listed: delta debugging (Zeller and Hildebrandt 2002), and its use on the lists of a
//! scenario's tables.

use toml::Value;

use super::Hunt;
use super::candidate::Candidate;

/// The lists of a scenario, processes before jobs.
const LISTS: &[&str] = &["worker", "consumer", "redrive", "job"];
/// Whole parts of a scenario.
const PARTS: &[&str] = &["publisher", "receiver"];

/// Removes ever smaller chunks of `0..len` as long as `removes` accepts that; it is given the places left, from the
/// first removed one on.
pub(crate) fn minimize(len: usize, mut removes: impl FnMut(&[usize]) -> bool) {
    let mut left: Vec<usize> = (0..len).collect();
    let mut size = len;
    while size > 0 && !left.is_empty() {
        let mut start = 0;
        while start < left.len() {
            let end = (start + size).min(left.len());
            let rest: Vec<usize> = [&left[..start], &left[end..]].concat();
            if removes(&rest) {
                left = rest;
            } else {
                start = end;
            }
        }
        size /= 2;
    }
}

/// Fewer processes, redrives and jobs, and whole parts left out.
pub(super) fn fewer(hunt: &mut Hunt<'_>) {
    for part in PARTS {
        let candidate = hunt.best.with(|table| drop(table.remove(*part)));
        if candidate != hunt.best {
            hunt.accepts(candidate);
        }
    }
    // A stream goes as a whole, or a queue does.
    for parts in [["publisher", "consumer", ""], ["job", "worker", "redrive"]] {
        let candidate = hunt.best.with(|table| parts.iter().for_each(|part| drop(table.remove(*part))));
        if candidate != hunt.best {
            hunt.accepts(candidate);
        }
    }
    LISTS.iter().for_each(|key| fewer_of(hunt, key));
}

fn fewer_of(hunt: &mut Hunt<'_>, key: &str) {
    let Some(Value::Array(items)) = hunt.best.table.get(key).cloned() else { return };
    minimize(items.len(), |rest| {
        let kept: Vec<Value> = rest.iter().map(|at| items[*at].clone()).collect();
        let candidate = hunt.best.with(|table| {
            if kept.is_empty() {
                table.remove(key);
            } else {
                table.insert(key.to_owned(), Value::Array(kept.clone()));
            }
        });
        hunt.accepts(candidate.clone()) || hunt.accepts(first_operations(candidate))
    });
}

/// With fewer jobs, what happened in an operation happens in an earlier one.
fn first_operations(mut candidate: Candidate) -> Candidate {
    candidate.deviations.iter_mut().for_each(|deviation| deviation.at.ordinal = 1);
    candidate
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of `0..len` where the places of `needed` must stay.
    fn left(len: usize, needed: &[usize]) -> Vec<usize> {
        let mut left: Vec<usize> = (0..len).collect();
        minimize(len, |rest| {
            let accepts = needed.iter().all(|place| rest.contains(place));
            if accepts {
                left = rest.to_vec();
            }
            accepts
        });
        left
    }

    #[test]
    fn only_what_is_needed_is_left() {
        assert_eq!(left(100, &[3, 50, 99]), [3, 50, 99]);
        assert_eq!(left(7, &[]), [] as [usize; 0]);
        assert_eq!(left(1, &[0]), [0]);
        assert_eq!(left(0, &[]), [] as [usize; 0]);
    }
}
