//! Runs a scenario's seeds in child processes: chunks are pulled by whoever is free, and results are merged in
//! a way that does not depend on who ran what when.

mod chunks;
mod results;
mod watch;

use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ackward_sim::campaign::{Sample, Share, Tally};
use ackward_sim::scenario::Net;

use super::child::Child;
use super::folder::Entry;
use super::interrupt::Interrupt;
use super::outcome::{Cold, Death, Outcome};
use super::{lock, millis};
use chunks::{CHUNK_TIME, Chunks};
use results::{Part, Results};

pub(crate) use chunks::Budget;
pub(crate) use results::{Chunk, first_cold};
pub(crate) use watch::{GRACE, PATIENCE, Watch};

/// Places for children, which live on from one scenario to the next.
pub(crate) struct Pool {
    places: Vec<Option<Child>>,
    interrupt: Interrupt,
}

/// Which seeds of a scenario are run, and when that ends.
pub(crate) struct Task<'a> {
    pub(crate) entry: &'a Entry,
    /// The first seed.
    pub(crate) start: u64,
    pub(crate) budget: Budget,
    /// How long a seed may run on when time is up.
    pub(crate) grace: Duration,
    /// The share of seeds that is run again in the same process, and once more in a fresh one.
    pub(crate) xray: Share,
    /// After this many unexpected failures, in the order of seeds, the rest is left.
    pub(crate) failures_max: u64,
    /// What an earlier process has run.
    pub(crate) done: Vec<Chunk>,
    /// Keeps a chunk that has ended.
    pub(crate) keep: &'a (dyn Fn(&Chunk) -> anyhow::Result<()> + Sync),
}

/// What the places share.
struct Shared<'a> {
    task: &'a Task<'a>,
    began: Instant,
    spent_ms: u64,
    state: Mutex<State>,
    watch: Watch,
    interrupt: Interrupt,
    on_progress: &'a (dyn Fn(&Outcome) + Sync),
}

struct State {
    chunks: Chunks,
    results: Results,
}

impl Pool {
    /// A pool of `jobs` places; children are started when they are needed, and an interrupt ends them.
    pub(crate) fn new(jobs: usize, interrupt: Interrupt) -> Self {
        Self { places: (0..jobs.max(1)).map(|_| None).collect(), interrupt }
    }

    /// Runs a scenario's seeds from `start` on; `on_progress` is called after each chunk.
    pub(crate) fn run(
        &mut self,
        entry: &Entry,
        start: u64,
        budget: Budget,
        on_progress: &(dyn Fn(&Outcome) + Sync),
    ) -> anyhow::Result<Outcome> {
        let (xray, done) = (Share::default(), Vec::new());
        let (grace, failures_max) = (GRACE, u64::MAX);
        let task = Task { entry, start, budget, grace, xray, failures_max, done, keep: &|_| Ok(()) };
        self.run_task(&task, on_progress)
    }

    /// Runs what a task asks for; `on_progress` is called after each chunk.
    pub(crate) fn run_task(
        &mut self,
        task: &Task<'_>,
        on_progress: &(dyn Fn(&Outcome) + Sync),
    ) -> anyhow::Result<Outcome> {
        let shared = Shared::new(task, self.places.len(), self.interrupt.clone(), on_progress);
        let until = lock(&shared.state).chunks.until().map(|until| until + task.grace);
        let (sender, gone) = mpsc::channel();
        let cold = std::thread::scope(|scope| {
            let watch = &shared.watch;
            let interrupt = &shared.interrupt;
            scope.spawn(move || watch.stand(until, interrupt, &gone));
            let places = self.places.iter_mut().enumerate();
            let threads: Vec<_> = places
                .map(|(at, place)| {
                    let present = sender.clone();
                    let shared = &shared;
                    scope.spawn(move || shared.work(at, place, present))
                })
                .collect();
            let ended = threads.into_iter().try_for_each(|thread| {
                thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread of the pool panicked")))
            });
            let cold = ended.and_then(|()| shared.last_cold_run());
            drop(sender);
            cold
        })?;
        let State { mut results, .. } = shared.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.outcome.cold = first_cold(results.outcome.cold, cold.cold);
        cold.deaths.into_iter().for_each(|death| results.outcome.bury(death));
        results.outcome.seconds = shared.began.elapsed().as_secs_f64() + shared.spent_ms as f64 / 1_000.0;
        Ok(results.outcome)
    }
}

impl<'a> Shared<'a> {
    fn new(
        task: &'a Task<'a>,
        places: usize,
        interrupt: Interrupt,
        on_progress: &'a (dyn Fn(&Outcome) + Sync),
    ) -> Self {
        let began = Instant::now();
        let ranges = task.done.iter().map(|chunk| (chunk.start, chunk.tally.seeds)).collect();
        let mut chunks = Chunks::new(task.start, task.budget, began, ranges);
        if task.entry.scenario.net == Net::Turmoil {
            // A seed may take long there.
            chunks.start_small();
        }
        let results = Results::new(task.failures_max, task.done.clone());
        let spent_ms = task.done.iter().map(|chunk| chunk.spent_ms).max().unwrap_or(0);
        // One place more than children: for the last cold run.
        let watch = Watch::new(places + 1);
        let state = Mutex::new(State { chunks, results });
        Self { task, began, spent_ms, state, watch, interrupt, on_progress }
    }

    /// Runs chunks until none is left. `_present` tells the watch that somebody still works.
    fn work(&self, at: usize, place: &mut Option<Child>, _present: Sender<()>) -> anyhow::Result<()> {
        while let Some((start, count)) = self.take() {
            let mut child = match place.take() {
                Some(child) => child,
                None => Child::spawn()?,
            };
            let began = Instant::now();
            let limit = lock(&self.state).chunks.until().map(|until| {
                // A first chunk has its time, too.
                until.saturating_duration_since(began).max(CHUNK_TIME)
            });
            let Task { entry, xray, .. } = self.task;
            let result = self
                .watch
                .during(at, &mut child, |child| child.run_within(entry, start, count, *xray, limit));
            let part = match result {
                Ok(tally) => {
                    *place = (!self.watch.is_over()).then_some(child);
                    lock(&self.state).chunks.learn(tally.seeds, began.elapsed());
                    self.finished(at, start, tally)?
                }
                Err(_) if self.interrupt.has_come() => Part::Left,
                Err(_) if self.watch.is_over() => Part::GivenUp { start, count },
                Err(how) => Part::Died(Death { start, count, how }),
            };
            self.put(start, part);
        }
        Ok(())
    }

    fn take(&self) -> Option<(u64, u64)> {
        let mut state = lock(&self.state);
        let State { chunks, results } = &mut *state;
        results.merge(self.task.entry, chunks.frontier());
        if results.is_full || self.interrupt.has_come() {
            chunks.stop();
        }
        let taken = chunks.take();
        if let Some((start, _)) = taken {
            results.expect(start);
        }
        taken
    }

    fn put(&self, start: u64, part: Part) {
        let mut state = lock(&self.state);
        let State { chunks, results } = &mut *state;
        results.put(self.task.entry, start, part, chunks.frontier());
        (self.on_progress)(&results.outcome);
    }

    /// Runs the samples of a chunk in processes of their own, and keeps it.
    fn finished(&self, at: usize, start: u64, tally: Tally) -> anyhow::Result<Part> {
        let mut outcome = Outcome::default();
        for sample in &tally.samples {
            self.compare_cold(at, *sample, &mut outcome)?;
        }
        let spent_ms = self.spent_ms + millis(self.began.elapsed());
        let chunk = Chunk { start, tally, cold: outcome.cold, spent_ms };
        // A death is not kept: who resumes shall see it happen.
        if outcome.deaths.is_empty() {
            (self.task.keep)(&chunk)?;
        }
        Ok(Part::Done(Box::new(chunk), outcome.deaths))
    }

    /// Merges what is left, and runs the greatest seed again in a process of its own.
    fn last_cold_run(&self) -> anyhow::Result<Outcome> {
        let sample = {
            let mut state = lock(&self.state);
            state.results.merge(self.task.entry, u64::MAX);
            state.results.outcome.tally.sample
        };
        let mut outcome = Outcome::default();
        if let Some(sample) = sample {
            let place = self.watch.places() - 1;
            self.compare_cold(place, sample, &mut outcome)?;
        }
        Ok(outcome)
    }

    /// Runs one seed again in a process that has never run another.
    fn compare_cold(&self, at: usize, warm: Sample, outcome: &mut Outcome) -> anyhow::Result<()> {
        let mut child = Child::spawn()?;
        let entry = self.task.entry;
        match self.watch.during(at, &mut child, |child| child.run(entry, warm.seed, 1, Share::default())) {
            Ok(tally) => outcome.cold = first_cold(outcome.cold, differing(warm, tally.sample)),
            Err(_) if self.watch.is_over() => {}
            Err(how) => outcome.bury(Death { start: warm.seed, count: 1, how }),
        }
        Ok(())
    }
}

fn differing(warm: Sample, cold: Option<Sample>) -> Option<Cold> {
    let cold = cold.filter(|cold| *cold != warm)?;
    Some(Cold { seed: warm.seed, warm: warm.hash, cold: cold.hash })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cold_run_with_another_hash_is_seen() {
        let warm = Sample { seed: 3, hash: 1 };
        assert_eq!(differing(warm, Some(warm)), None);
        let cold = differing(warm, Some(Sample { seed: 3, hash: 2 }));
        assert_eq!(cold, Some(Cold { seed: 3, warm: 1, cold: 2 }));
    }
}
