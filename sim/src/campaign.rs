//! Many seeds of a scenario: runs them, adds up what they reached, and keeps what failed.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::choice::{Kind, stable_hash};
use crate::judge::{Milestone, Milestones};
use crate::scenario::{Net, Scenario};
use crate::scene::{self, Report, System};
use crate::strategy::Strategist;

/// Failures kept with their texts; more are only counted.
const FAILURES_KEPT: usize = 5;

/// A seed that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The property that was broken first.
    pub property: String,
    /// Where and how.
    pub detail: String,
    /// Where the run left the default: `point = action`.
    pub deviations: Vec<String>,
}

/// How often a property was broken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Broken {
    /// In how many seeds it was broken first.
    pub seeds: u64,
    /// The first of them.
    pub first: Failure,
}

/// One run's hash, to be compared with that of the same run in another OS process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sample {
    /// The seed.
    pub seed: u64,
    /// Its run's hash.
    pub hash: u64,
}

/// A share of all seeds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share(u32);

impl Share {
    /// A share from 0 to 1; what is outside is taken as the nearer end.
    #[must_use]
    pub fn new(share: f64) -> Self {
        // As probabilities: exact, and `as` saturates.
        Self((share.clamp(0.0, 1.0) * 4_294_967_296.0) as u32)
    }

    /// Whether a seed belongs to it.
    #[must_use]
    pub const fn takes(self, seed: u64) -> bool {
        let coin = (stable_hash(&seed.to_be_bytes()) >> 32) as u32;
        self.0 == u32::MAX || coin < self.0
    }
}

/// What came of a range of seeds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// How many seeds were run.
    pub seeds: u64,
    /// The hashes of their runs.
    pub hashes: BTreeSet<u64>,
    /// A sum, modulo 2⁶⁴, over a hash of every seed together with its run: two tallies have the same sum where every
    /// seed gave the same run in both, whatever their order.
    #[serde(default)]
    pub runs: u64,
    /// Virtual time of all runs, in microseconds.
    pub virtual_us: u64,
    /// Milestones reached, as [`Milestones::bits`].
    pub milestones: u64,
    /// How often each kind of fault struck.
    pub chosen: Vec<u64>,
    /// How often that had an effect.
    pub effective: Vec<u64>,
    /// How many seeds failed.
    pub failed: u64,
    /// The first of them, by seed.
    pub failures: Vec<Failure>,
    /// Every property that was broken first in some seed.
    pub broken: BTreeMap<String, Broken>,
    /// Seeds whose second run differed from the first.
    pub nondeterministic: Vec<u64>,
    /// The run of the greatest seed.
    pub sample: Option<Sample>,
    /// Runs of other seeds that are to be compared as well.
    pub samples: Vec<Sample>,
    /// Deviations of the scenario that did not find their point, and in how many seeds.
    pub unmet: BTreeMap<String, u64>,
}

impl Tally {
    /// Adds one run.
    pub fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.hashes.insert(report.hash);
        let run = [report.seed.to_be_bytes(), report.hash.to_be_bytes()].concat();
        self.runs = self.runs.wrapping_add(stable_hash(&run));
        self.sample = self.sample.max(Some(Sample { seed: report.seed, hash: report.hash }));
        self.virtual_us += report.at_us.unsigned_abs();
        self.milestones |= report.milestones.bits();
        self.chosen.resize(Kind::COUNT, 0);
        self.effective.resize(Kind::COUNT, 0);
        for kind in 0..Kind::COUNT {
            self.chosen[kind] += u64::from(report.struck.chosen[kind]);
            self.effective[kind] += u64::from(report.struck.effective[kind]);
        }
        for deviation in &report.unmet {
            *self.unmet.entry(deviation.to_string()).or_default() += 1;
        }
        if let Some(first) = report.violations.first() {
            self.failed += 1;
            let first = Failure {
                seed: report.seed,
                property: first.property.to_owned(),
                detail: first.detail.clone(),
                deviations: report.deviations.iter().map(ToString::to_string).collect(),
            };
            self.count(Broken { seeds: 1, first: first.clone() });
            self.keep(first);
        }
    }

    /// In how many seeds a property was broken first that is not the one expected to break.
    #[must_use]
    pub fn unexpected(&self, scenario: &Scenario) -> u64 {
        let expected = scenario.expect.fails.as_ref();
        let unexpected = self.broken.iter().filter(|(property, _)| Some(*property) != expected);
        unexpected.map(|(_, broken)| broken.seeds).sum()
    }

    /// Adds another tally; the order of merging does not matter.
    pub fn merge(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.hashes.extend(other.hashes);
        self.runs = self.runs.wrapping_add(other.runs);
        self.virtual_us += other.virtual_us;
        self.milestones |= other.milestones;
        for (sum, more) in [(&mut self.chosen, other.chosen), (&mut self.effective, other.effective)] {
            sum.resize(Kind::COUNT, 0);
            for (sum, more) in sum.iter_mut().zip(more) {
                *sum += more;
            }
        }
        self.failed += other.failed;
        other.failures.into_iter().for_each(|failure| self.keep(failure));
        other.broken.into_values().for_each(|broken| self.count(broken));
        self.sample = self.sample.max(other.sample);
        self.samples.extend(other.samples);
        self.samples.sort_unstable();
        for (deviation, seeds) in other.unmet {
            *self.unmet.entry(deviation).or_default() += seeds;
        }
        self.nondeterministic.extend(other.nondeterministic);
        self.nondeterministic.sort_unstable();
    }

    /// The milestones that were reached.
    #[must_use]
    pub const fn milestones(&self) -> Milestones {
        Milestones::from_bits(self.milestones)
    }

    /// What the scenario expects to be reached now and then and was not, once enough seeds were run.
    #[must_use]
    pub fn missing<'s>(&self, scenario: &'s Scenario) -> Vec<&'s str> {
        if self.seeds < scenario.expect.seeds.unsigned_abs() {
            return Vec::new();
        }
        self.unreached(scenario)
    }

    /// What the scenario expects to be reached now and then and was not, however few seeds were run.
    #[must_use]
    pub fn unreached<'s>(&self, scenario: &'s Scenario) -> Vec<&'s str> {
        let reached = self.milestones();
        let is_missing =
            |word: &&str| Milestone::parse(word).is_some_and(|milestone| !reached.has(milestone));
        scenario.expect.sometimes.iter().map(String::as_str).filter(is_missing).collect()
    }

    /// Kinds of faults that can strike by the scenario and never had an effect.
    #[must_use]
    pub fn inert(&self, scenario: &Scenario) -> Vec<&'static str> {
        let enabled = scenario.faults.probabilities();
        let enabled = enabled.into_iter().filter(|(_, probability)| *probability > 0.0).map(|(kind, _)| kind);
        // What is kept at a power cut is the absence of an effect; on turmoil nobody is preempted.
        let is_offered = |kind: &Kind| match kind {
            Kind::Keep => false,
            Kind::Switch | Kind::Pick => scenario.net != Net::Turmoil,
            _ => true,
        };
        let counts = enabled.filter(is_offered);
        counts.filter(|kind| self.effective.get(*kind as usize) == Some(&0)).map(Kind::as_str).collect()
    }

    fn count(&mut self, broken: Broken) {
        let Some(known) = self.broken.get_mut(&broken.first.property) else {
            self.broken.insert(broken.first.property.clone(), broken);
            return;
        };
        known.seeds += broken.seeds;
        if broken.first.seed < known.first.seed {
            known.first = broken.first;
        }
    }

    fn keep(&mut self, failure: Failure) {
        let at = self.failures.partition_point(|kept| kept.seed < failure.seed);
        self.failures.insert(at, failure);
        self.failures.truncate(FAILURES_KEPT);
    }
}

/// Runs `count` seeds from `start` on, on this thread, of any system. The first seed is run again at the end, warm,
/// and must give the same hash.
#[must_use]
pub fn run_seeds<S: System>(scenario: &Rc<Scenario>, start: u64, count: u64) -> Tally {
    let run = |seed| scene::run_system::<S>(scenario, seed, false);
    tally(start, count, Share::default(), run, || true)
}

/// As [`run_seeds`], by a strategy and on the system that the scenario names. A share of the seeds, chosen by their
/// numbers alone, is run a second time, warm, and listed to be compared with cold runs.
#[must_use]
pub fn run_named(strategist: &Strategist, start: u64, count: u64, xray: Share) -> Tally {
    run_while(strategist, start, count, xray, || true)
}

/// As [`run_named`], but before each seed after the first it is asked whether to go on; where not, the seeds so far are
/// what was run.
#[must_use]
pub fn run_while(
    strategist: &Strategist,
    start: u64,
    count: u64,
    xray: Share,
    goes_on: impl Fn() -> bool,
) -> Tally {
    tally(start, count, xray, |seed| strategist.run(seed, false), goes_on)
}

fn tally(
    start: u64,
    count: u64,
    xray: Share,
    run: impl Fn(u64) -> Report,
    goes_on: impl Fn() -> bool,
) -> Tally {
    let mut tally = Tally::default();
    let mut first = None;
    for seed in start..start.saturating_add(count) {
        if seed > start && !goes_on() {
            break;
        }
        let report = run(seed);
        let sample = Sample { seed, hash: report.hash };
        first = first.or(Some(sample));
        if xray.takes(seed) {
            tally.samples.push(sample);
        }
        tally.add(&report);
    }
    let first = first.filter(|first| tally.seeds > 1 && !tally.samples.contains(first));
    let again = first.iter().chain(&tally.samples);
    let differs = again.filter(|sample| run(sample.seed).hash != sample.hash).map(|sample| sample.seed);
    tally.nondeterministic = differs.collect();
    tally
}
