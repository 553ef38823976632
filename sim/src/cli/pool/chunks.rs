//! Which seeds come next: ranges handed out in order, around those that are done already.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Seeds of a chunk where the number of seeds is given.
const CHUNK_SEEDS: u64 = 64;
/// How long a chunk should take where the time is given.
pub(super) const CHUNK_TIME: Duration = Duration::from_millis(100);
/// Largest chunk where the time is given.
const CHUNK_SEEDS_MAX: u64 = 512;

/// When a scenario has had enough.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Budget {
    /// After this many seeds.
    Seeds(u64),
    /// After this long, or this many seeds if that is sooner.
    Time(Duration, u64),
}

/// Hands out ranges of seeds.
pub(super) struct Chunks {
    next: u64,
    end: u64,
    until: Option<Instant>,
    size: u64,
    /// Whether one more is handed out however late it is.
    is_first: bool,
    /// Ranges that are done, by their first seed: how many seeds.
    done: BTreeMap<u64, u64>,
}

impl Chunks {
    pub(super) fn new(start: u64, budget: Budget, began: Instant, done: BTreeMap<u64, u64>) -> Self {
        let (seeds, until, size) = match budget {
            Budget::Seeds(seeds) => (seeds, None, CHUNK_SEEDS),
            Budget::Time(time, seeds) => (seeds, Some(began + time), 4),
        };
        let is_first = done.is_empty();
        Self { next: start, end: start.saturating_add(seeds), until, size, is_first, done }
    }

    /// The first chunk is to find out how long one seed takes.
    pub(super) fn start_small(&mut self) {
        if self.until.is_some() {
            self.size = 1;
        }
    }

    /// When no other chunk is begun.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// All seeds below it are done or handed out.
    pub(super) fn frontier(&self) -> u64 {
        self.next
    }

    pub(super) fn take(&mut self) -> Option<(u64, u64)> {
        while let Some(count) = self.done.get(&self.next) {
            self.next = self.next.saturating_add(*count);
        }
        let is_late = self.until.is_some_and(|until| Instant::now() >= until);
        if self.next >= self.end || (is_late && !self.is_first) {
            return None;
        }
        self.is_first = false;
        let start = self.next;
        let gap = self.done.range(start..).next().map_or(self.end, |(next, _)| self.end.min(*next));
        let count = self.size.min(gap - start);
        self.next += count;
        Some((start, count))
    }

    /// Hands out nothing more.
    pub(super) fn stop(&mut self) {
        self.end = self.next;
        self.is_first = false;
    }

    /// Sizes chunks by what the last one took, where the time counts.
    pub(super) fn learn(&mut self, count: u64, took: Duration) {
        if self.until.is_some() {
            let fitting = count as f64 * CHUNK_TIME.as_secs_f64() / took.as_secs_f64().max(1e-6);
            self.size = (fitting as u64).clamp(1, CHUNK_SEEDS_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(start: u64, seeds: u64, done: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let done = done.iter().copied().collect();
        let mut chunks = Chunks::new(start, Budget::Seeds(seeds), Instant::now(), done);
        std::iter::from_fn(|| chunks.take()).collect()
    }

    #[test]
    fn chunks_cover_every_seed_once() {
        assert_eq!(all(10, 130, &[]), [(10, 64), (74, 64), (138, 2)]);
    }

    #[test]
    fn what_is_done_is_left_out_and_gaps_are_filled() {
        assert_eq!(all(10, 130, &[(10, 64), (138, 2)]), [(74, 64)]);
        assert_eq!(all(1, 100, &[(5, 3)]), [(1, 4), (8, 64), (72, 29)]);
        assert_eq!(all(1, 100, &[(1, 64), (65, 36)]), []);
    }

    #[test]
    fn at_least_one_chunk_is_run_however_short_the_time() {
        let budget = Budget::Time(Duration::ZERO, 1_000);
        let mut chunks = Chunks::new(1, budget, Instant::now(), BTreeMap::new());
        assert_eq!(chunks.take(), Some((1, 4)));
        assert_eq!(chunks.take(), None);
        let mut resumed = Chunks::new(1, budget, Instant::now(), [(1, 4)].into());
        assert_eq!(resumed.take(), None);
    }
}
