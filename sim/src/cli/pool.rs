//! Runs a scenario's seeds in child processes: chunks are pulled by whoever is free, and results are merged in
//! a way that does not depend on who ran what when.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ackward_sim::campaign::{Sample, Share, Tally};
use ackward_sim::scenario::Net;

use super::child::Child;
use super::folder::Entry;
use super::outcome::{Cold, Death, Outcome};

/// Seeds of a chunk where the number of seeds is given.
const CHUNK_SEEDS: u64 = 64;
/// How long a chunk should take where the time is given.
const CHUNK_TIME: Duration = Duration::from_millis(100);
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

/// Places for children, which live on from one scenario to the next.
pub(crate) struct Pool {
    places: Vec<Option<Child>>,
}

/// What the places share.
struct Shared<'a> {
    xray: Share,
    entry: &'a Entry,
    chunks: Mutex<Chunks>,
    outcome: Mutex<Outcome>,
    on_progress: &'a (dyn Fn(&Outcome) + Sync),
}

/// Hands out ranges of seeds.
struct Chunks {
    next: u64,
    end: u64,
    until: Option<Instant>,
    size: u64,
    is_first: bool,
}

impl Pool {
    /// A pool of `jobs` places; children are started when they are needed.
    pub(crate) fn new(jobs: usize) -> Self {
        Self { places: (0..jobs.max(1)).map(|_| None).collect() }
    }

    /// Runs a scenario's seeds from `start` on; `on_progress` is called after each chunk.
    pub(crate) fn run(
        &mut self,
        entry: &Entry,
        start: u64,
        budget: Budget,
        on_progress: &(dyn Fn(&Outcome) + Sync),
    ) -> anyhow::Result<Outcome> {
        self.run_with_xray(entry, start, budget, Share::default(), on_progress)
    }

    /// As [`Pool::run`]; a share of the seeds is run again in the same process, and once more in a fresh one.
    pub(crate) fn run_with_xray(
        &mut self,
        entry: &Entry,
        start: u64,
        budget: Budget,
        xray: Share,
        on_progress: &(dyn Fn(&Outcome) + Sync),
    ) -> anyhow::Result<Outcome> {
        let began = Instant::now();
        let mut chunks = Chunks::new(start, budget, began);
        if entry.scenario.net == Net::Turmoil && chunks.until.is_some() {
            // A seed may take long there: the first chunk is to find out.
            chunks.size = 1;
        }
        let shared =
            Shared { xray, entry, chunks: Mutex::new(chunks), outcome: Mutex::default(), on_progress };
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                self.places.iter_mut().map(|place| scope.spawn(|| shared.work(place))).collect();
            threads.into_iter().try_for_each(|thread| {
                thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread of the pool panicked")))
            })
        })?;
        let mut outcome = shared.outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(sample) = outcome.tally.sample {
            let before = outcome.cold;
            compare_cold(entry, sample, &mut outcome)?;
            outcome.cold = first_cold(before, outcome.cold);
        }
        outcome.seconds = began.elapsed().as_secs_f64();
        Ok(outcome)
    }
}

impl Shared<'_> {
    /// Runs chunks until none is left.
    fn work(&self, place: &mut Option<Child>) -> anyhow::Result<()> {
        loop {
            let Some((start, count)) = lock(&self.chunks).take() else { return Ok(()) };
            let mut child = match place.take() {
                Some(child) => child,
                None => Child::spawn()?,
            };
            let began = Instant::now();
            let result = child.run(self.entry, start, count, self.xray);
            lock(&self.chunks).learn(count, began.elapsed());
            let cold = match &result {
                Ok(tally) => self.cold_runs(tally)?,
                Err(_) => Outcome::default(),
            };
            let mut outcome = lock(&self.outcome);
            outcome.cold = first_cold(outcome.cold, cold.cold);
            cold.deaths.into_iter().for_each(|death| outcome.bury(death));
            match result {
                Ok(tally) => {
                    outcome.merge(tally);
                    *place = Some(child);
                }
                Err(how) => outcome.bury(Death { start, count, how }),
            }
            (self.on_progress)(&outcome);
        }
    }
}

impl Shared<'_> {
    /// Runs the samples of a chunk in processes of their own.
    fn cold_runs(&self, tally: &Tally) -> anyhow::Result<Outcome> {
        let mut outcome = Outcome::default();
        for sample in &tally.samples {
            let before = outcome.cold;
            compare_cold(self.entry, *sample, &mut outcome)?;
            outcome.cold = first_cold(before, outcome.cold);
        }
        Ok(outcome)
    }
}

/// The one with the smaller seed.
fn first_cold(one: Option<Cold>, other: Option<Cold>) -> Option<Cold> {
    one.into_iter().chain(other).min_by_key(|cold| cold.seed)
}

impl Chunks {
    fn new(start: u64, budget: Budget, began: Instant) -> Self {
        let (seeds, until, size) = match budget {
            Budget::Seeds(seeds) => (seeds, None, CHUNK_SEEDS),
            Budget::Time(time, seeds) => (seeds, Some(began + time), 4),
        };
        Self { next: start, end: start.saturating_add(seeds), until, size, is_first: true }
    }

    fn take(&mut self) -> Option<(u64, u64)> {
        let is_late = self.until.is_some_and(|until| Instant::now() >= until);
        if self.next >= self.end || (is_late && !self.is_first) {
            return None;
        }
        self.is_first = false;
        let start = self.next;
        let count = self.size.min(self.end - start);
        self.next += count;
        Some((start, count))
    }

    /// Sizes chunks by what the last one took, where the time counts.
    fn learn(&mut self, count: u64, took: Duration) {
        if self.until.is_some() {
            let fitting = count as f64 * CHUNK_TIME.as_secs_f64() / took.as_secs_f64().max(1e-6);
            self.size = (fitting as u64).clamp(1, CHUNK_SEEDS_MAX);
        }
    }
}

/// Runs one seed again in a process that has never run another.
fn compare_cold(entry: &Entry, warm: Sample, outcome: &mut Outcome) -> anyhow::Result<()> {
    match Child::spawn()?.run(entry, warm.seed, 1, Share::default()) {
        Err(how) => outcome.bury(Death { start: warm.seed, count: 1, how }),
        Ok(tally) => outcome.cold = differing(warm, tally.sample),
    }
    Ok(())
}

fn differing(warm: Sample, cold: Option<Sample>) -> Option<Cold> {
    let cold = cold.filter(|cold| *cold != warm)?;
    Some(Cold { seed: warm.seed, warm: warm.hash, cold: cold.hash })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_every_seed_once() {
        let mut chunks = Chunks::new(10, Budget::Seeds(130), Instant::now());
        let all: Vec<_> = std::iter::from_fn(|| chunks.take()).collect();
        assert_eq!(all, [(10, 64), (74, 64), (138, 2)]);
    }

    #[test]
    fn at_least_one_chunk_is_run_however_short_the_time() {
        let mut chunks = Chunks::new(1, Budget::Time(Duration::ZERO, 1_000), Instant::now());
        assert_eq!(chunks.take(), Some((1, 4)));
        assert_eq!(chunks.take(), None);
    }

    #[test]
    fn a_cold_run_with_another_hash_is_seen() {
        let warm = Sample { seed: 3, hash: 1 };
        assert_eq!(differing(warm, Some(warm)), None);
        let cold = differing(warm, Some(Sample { seed: 3, hash: 2 }));
        assert_eq!(cold, Some(Cold { seed: 3, warm: 1, cold: 2 }));
    }
}
