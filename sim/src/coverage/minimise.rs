//! The smallest corpus that reaches the same: greedily what reaches most that is not reached yet, then without what
//! the others reach together. That is not always the least possible set, which would take for ever to find.

use super::Behaviours;

/// The places of the lists to keep, ascending. Each comes with its length, the shorter one being kept of two that are
/// worth the same, and with its behaviours.
#[must_use]
pub fn smallest(lists: &[(usize, Behaviours)]) -> Vec<usize> {
    let mut reached = Behaviours::new();
    let mut kept: Vec<usize> = Vec::new();
    loop {
        let gain = |at: &usize| lists[*at].1.difference(&reached).count();
        let rest = (0..lists.len()).filter(|at| !kept.contains(at));
        let best = rest.max_by_key(|at| (gain(at), std::cmp::Reverse((lists[*at].0, *at))));
        let Some(best) = best.filter(|best| gain(best) > 0) else { break };
        reached.extend(&lists[best].1);
        kept.push(best);
    }
    // The last ones were taken for little: they go last.
    for at in kept.clone() {
        let is_reached_by_others =
            |behaviour: &u64| kept.iter().any(|other| *other != at && lists[*other].1.contains(behaviour));
        if lists[at].1.iter().all(is_reached_by_others) {
            kept.retain(|other| *other != at);
        }
    }
    kept.sort_unstable();
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
