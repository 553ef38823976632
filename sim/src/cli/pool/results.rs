//! What chunks gave, merged in the order of their seeds, so that a limit on failures cuts at the same seed however many
//! processes run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use ackward_sim::campaign::Tally;

use super::super::folder::Entry;
use super::super::outcome::{Cold, Death, Outcome};

/// A range of seeds that was run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Chunk {
    /// The first seed.
    pub(crate) start: u64,
    /// What came of it; it says how many seeds there were.
    pub(crate) tally: Tally,
    /// A run in a fresh process that differed.
    pub(crate) cold: Option<Cold>,
    /// Real time that the scenario had taken by then, in milliseconds.
    pub(crate) spent_ms: u64,
}

/// How a chunk ended.
#[derive(Debug)]
pub(super) enum Part {
    /// With the samples of it whose child died.
    Done(Box<Chunk>, Vec<Death>),
    Died(Death),
    /// The user has had enough before it ended.
    Left,
    /// Time was up before the first of its seeds ended.
    GivenUp {
        start: u64,
        count: u64,
    },
}

/// Chunks that wait for those before them, and what the others came to.
pub(super) struct Results {
    waiting: BTreeMap<u64, Option<Part>>,
    pub(super) outcome: Outcome,
    failures_max: u64,
    pub(super) is_full: bool,
}

impl Results {
    pub(super) fn new(failures_max: u64, done: Vec<Chunk>) -> Self {
        let waiting =
            done.into_iter().map(|chunk| (chunk.start, Some(Part::Done(Box::new(chunk), Vec::new()))));
        Self { waiting: waiting.collect(), outcome: Outcome::default(), failures_max, is_full: false }
    }

    /// A chunk is handed out.
    pub(super) fn expect(&mut self, start: u64) {
        self.waiting.insert(start, None);
    }

    /// A chunk has ended; merges all before `frontier` that wait for no other.
    pub(super) fn put(&mut self, entry: &Entry, start: u64, part: Part, frontier: u64) {
        self.waiting.insert(start, Some(part));
        self.merge(entry, frontier);
    }

    /// Merges what is there below `frontier`, up to the first chunk that still runs.
    pub(super) fn merge(&mut self, entry: &Entry, frontier: u64) {
        while let Some(first) = self.waiting.first_entry() {
            if self.is_full || *first.key() >= frontier || first.get().is_none() {
                return;
            }
            if let Some(part) = first.remove() {
                self.add(part);
            }
            self.is_full = self.outcome.failures(entry) >= self.failures_max;
        }
    }

    fn add(&mut self, part: Part) {
        match part {
            Part::Done(chunk, deaths) => {
                let Chunk { start, tally, cold, .. } = *chunk;
                self.outcome.ranges.add(start, tally.seeds);
                self.outcome.cold = first_cold(self.outcome.cold, cold);
                self.outcome.merge(tally);
                deaths.into_iter().for_each(|death| self.outcome.bury(death));
            }
            Part::Died(death) => self.outcome.bury(death),
            Part::Left => {}
            Part::GivenUp { start, count } => self.outcome.given_up.push((start, count)),
        }
    }
}

/// The one with the smaller seed.
pub(crate) fn first_cold(one: Option<Cold>, other: Option<Cold>) -> Option<Cold> {
    one.into_iter().chain(other).min_by_key(|cold| cold.seed)
}
