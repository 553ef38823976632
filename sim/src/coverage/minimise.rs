//! The smallest corpus that reaches the same: greedily what reaches most that is not reached yet, then without what
//! the others reach together. That is not always the least possible set, which would take for ever to find.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::Behaviours;

/// The places of the lists to keep, ascending. Each comes with its length, the shorter one being kept of two that are
/// worth the same, and with its behaviours.
#[must_use]
pub fn smallest(lists: &[(usize, Behaviours)]) -> Vec<usize> {
    let kept = greedy(lists);
    let mut kept = without_needless(lists, kept);
    kept.sort_unstable();
    kept
}

/// In the order of what they add. What a list adds only ever becomes less: the one that seems best is looked at again,
/// and taken if it still is.
fn greedy(lists: &[(usize, Behaviours)]) -> Vec<usize> {
    let rank = |gain: usize, at: usize| (gain, Reverse((lists[at].0, at)));
    let mut best: BinaryHeap<_> = (0..lists.len()).map(|at| rank(lists[at].1.len(), at)).collect();
    let (mut reached, mut kept) = (Behaviours::new(), Vec::new());
    while let Some((_, Reverse((_, at)))) = best.pop() {
        let now = rank(lists[at].1.difference(&reached).count(), at);
        if now.0 == 0 {
            continue;
        }
        if best.peek().is_some_and(|next| *next > now) {
            best.push(now);
            continue;
        }
        reached.extend(&lists[at].1);
        kept.push(at);
    }
    kept
}

/// In the same order: the first ones were taken when nothing else was there, and are the likeliest to be needless now.
fn without_needless(lists: &[(usize, Behaviours)], mut kept: Vec<usize>) -> Vec<usize> {
    let mut times: BTreeMap<u64, usize> = BTreeMap::new();
    for behaviour in kept.iter().flat_map(|at| &lists[*at].1) {
        *times.entry(*behaviour).or_default() += 1;
    }
    kept.retain(|at| {
        let is_needed = lists[*at].1.iter().any(|behaviour| times.get(behaviour) == Some(&1));
        if !is_needed {
            for behaviour in &lists[*at].1 {
                times.entry(*behaviour).and_modify(|times| *times -= 1);
            }
        }
        is_needed
    });
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lists: &[(usize, &[u64])], kept: &[usize]) {
        let lists: Vec<_> =
            lists.iter().map(|(length, set)| (*length, set.iter().copied().collect())).collect();
        assert_eq!(smallest(&lists), kept);
    }

    #[test]
    fn what_others_reach_goes() {
        check(&[], &[]);
        check(&[(0, &[])], &[]);
        check(&[(1, &[1]), (1, &[1, 2]), (1, &[3])], &[1, 2]);
    }

    #[test]
    fn of_two_that_reach_the_same_the_shorter_stays() {
        check(&[(5, &[1, 2]), (2, &[1, 2]), (2, &[2, 1])], &[1]);
    }

    /// Greed takes the first and then needs both others, which make the first one needless.
    #[test]
    fn what_greed_took_first_goes_where_the_rest_makes_it_needless() {
        check(&[(1, &[2, 3, 4, 5]), (1, &[1, 2, 3]), (1, &[4, 5, 6])], &[1, 2]);
    }
}
