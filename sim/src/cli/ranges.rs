//! Sets of seeds as ranges, so that the union of several campaigns can be checked seed by seed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text;

/// Seeds: ranges in order that neither overlap nor touch, each `[first, count]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Adds a range that holds none of those before.
    pub(crate) fn add(&mut self, start: u64, count: u64) {
        if count == 0 {
            return;
        }
        let at = self.0.partition_point(|(first, _)| *first < start);
        self.0.insert(at, (start, count));
        // Those that touch become one.
        self.0.dedup_by(|next, kept| {
            let touches = end(*kept) == next.0;
            kept.1 += if touches { next.1 } else { 0 };
            touches
        });
    }

    /// A seed that both hold.
    pub(crate) fn common(&self, other: &Self) -> Option<u64> {
        let pairs = self.0.iter().flat_map(|one| other.0.iter().map(move |two| (*one, *two)));
        pairs
            .filter(|(one, two)| one.0.max(two.0) < end(*one).min(end(*two)))
            .map(|(one, two)| one.0.max(two.0))
            .min()
    }

    /// Adds all of another set that holds none of these.
    pub(crate) fn extend(&mut self, other: &Self) {
        other.0.iter().for_each(|(start, count)| self.add(*start, *count));
    }

    /// The first range: its first seed and how many there are.
    pub(crate) fn first(&self) -> Option<(u64, u64)> {
        self.0.first().copied()
    }

    /// How many seeds there are.
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }
}

/// `seed 5`, or `64 seeds from 5 on`.
pub(crate) fn shown(start: u64, count: u64) -> String {
    match count {
        1 => format!("seed {start}"),
        _ => format!("{} from {start} on", text::count(count, "seed")),
    }
}

fn end((start, count): (u64, u64)) -> u64 {
    start.saturating_add(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(all: &[(u64, u64)]) -> Ranges {
        let mut ranges = Ranges::default();
        all.iter().for_each(|(start, count)| ranges.add(*start, *count));
        ranges
    }

    #[test]
    fn what_touches_becomes_one_in_any_order() {
        assert_eq!(ranges(&[(1, 2), (3, 4), (9, 1)]).0, [(1, 6), (9, 1)]);
        assert_eq!(ranges(&[(9, 1), (3, 4), (1, 2), (7, 2)]).0, [(1, 9)]);
        assert_eq!(ranges(&[(5, 0)]).0, []);
        assert_eq!(ranges(&[(1, 2), (9, 1)]).count(), 3);
    }

    #[test]
    fn a_seed_of_both_is_seen() {
        assert_eq!(ranges(&[(1, 5)]).common(&ranges(&[(6, 5)])), None);
        assert_eq!(ranges(&[(1, 5), (20, 5)]).common(&ranges(&[(6, 15)])), Some(20));
        assert_eq!(ranges(&[(1, 100)]).common(&ranges(&[(50, 1)])), Some(50));
    }
}
