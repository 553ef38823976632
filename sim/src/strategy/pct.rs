//! PCT: the process with the highest priority runs, and at d−1 points, drawn among the k of a run, the one that runs
//! falls to the lowest. With n processes a bug of depth d is found with a probability of at least 1/(n·k^(d−1)): as
//! far as scheduling goes, and as far as n and k are those of the run.
//!
//! Priorities are drawn anew when a process is started again. Time goes on only when nobody is ready, so that nobody
//! starves longer than an instant; a process that has been preferred very often in a row lets the others go first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use rand_chacha::rand_core::RngCore;

use crate::choice::{Chooser, Decision, Kind, Offer, Point, Random, stable_hash, stream};
use crate::scenario::Scenario;
use crate::scene::probabilities;

/// The greatest depth that every other seed aims at: most bugs are no deeper.
const DEPTH_MAX: u64 = 3;
/// The others change at up to one in so many points, for races that need one process after the other to stand still.
const POINTS_PER_CHANGE_MIN: u64 = 8;
/// Preferred so often in a row, a process lets others go first.
const PATIENCE: u32 = 200;

/// The size of a run in which nothing happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Measured {
    /// Processes that ever run.
    pub(super) processes: u64,
    /// Points at which another one could run.
    pub(super) points: u64,
}

/// Which preemptions a scenario allows.
fn scheduling(scenario: &Scenario) -> Vec<Kind> {
    let faults = scenario.faults.probabilities();
    let is_on = |wanted: Kind| faults.iter().any(|(kind, p)| *kind == wanted && *p > 0.0);
    [Kind::Switch, Kind::Pick].into_iter().filter(|kind| is_on(*kind)).collect()
}

/// Whether an offer asks who runs next, and may be taken.
fn is_scheduling(offers: &[Offer], kinds: &[Kind]) -> bool {
    offers.iter().any(|offer| kinds.contains(&offer.kind))
}

/// Measures a run.
pub(super) struct Counter {
    kinds: Vec<Kind>,
    processes: BTreeSet<usize>,
    points: u64,
}

impl Counter {
    pub(super) fn new(scenario: &Scenario) -> Self {
        Self { kinds: scheduling(scenario), processes: BTreeSet::new(), points: 0 }
    }

    pub(super) fn measured(&self) -> Measured {
        Measured { processes: (self.processes.len() as u64).max(1), points: self.points.max(1) }
    }
}

impl Chooser for Counter {
    fn choose(&mut self, point: &Point, offers: &[Offer]) -> Decision {
        self.processes.insert(point.process);
        self.points += u64::from(is_scheduling(offers, &self.kinds));
        Decision::GO
    }
}

pub(super) struct Pct {
    seed: u64,
    measured: Measured,
    kinds: Vec<Kind>,
    /// Faults other than scheduling.
    faults: Random,
    /// The points of change, in order.
    changes: Vec<u64>,
    point: u64,
    /// The incarnation in which each process was seen last.
    lives: BTreeMap<usize, u32>,
    /// Priorities that a change has lowered.
    lowered: BTreeMap<(usize, u32), u64>,
    /// Who was preferred last, and how often in a row.
    preferred: (usize, u32),
}

impl Pct {
    pub(super) fn new(scenario: &Scenario, seed: u64, measured: Measured) -> Self {
        let mut faults = probabilities(&scenario.faults);
        faults.disable(Kind::Switch);
        faults.disable(Kind::Pick);
        let mut random = stream(seed, stable_hash(b"pct"));
        let depth = depth(measured.points, random.next_u64(), random.next_u64());
        let mut changes: Vec<u64> = (1..depth).map(|_| 1 + random.next_u64() % measured.points).collect();
        changes.sort_unstable();
        Self {
            seed,
            measured,
            kinds: scheduling(scenario),
            faults: Random::new(seed, faults),
            changes,
            point: 0,
            lives: BTreeMap::new(),
            lowered: BTreeMap::new(),
            preferred: (0, 0),
        }
    }

    /// The drawn priority, above all lowered ones.
    fn priority(&self, process: usize) -> u64 {
        let life = self.lives.get(&process).copied().unwrap_or(1);
        if let Some(lowered) = self.lowered.get(&(process, life)) {
            return *lowered;
        }
        let name = [self.seed, process as u64, u64::from(life)].map(u64::to_le_bytes);
        stable_hash(name.as_flattened()) | (1 << 63)
    }

    /// At a point of change the process that runs falls below all others, those of later changes above it.
    fn change(&mut self, process: usize, life: u32) {
        self.point += 1;
        let count = self.changes.iter().filter(|at| **at == self.point).count();
        if count > 0 {
            let place = self.changes.partition_point(|at| *at < self.point) as u64;
            self.lowered.insert((process, life), place);
        }
    }
}

impl Chooser for Pct {
    fn choose(&mut self, point: &Point, offers: &[Offer]) -> Decision {
        self.lives.insert(point.process, point.incarnation);
        let fault = self.faults.choose(point, offers);
        let is_scheduling = is_scheduling(offers, &self.kinds);
        if is_scheduling {
            self.change(point.process, point.incarnation);
        }
        if !fault.is_go() || !is_scheduling {
            return fault;
        }
        let others = offers.iter().filter(|offer| self.kinds.contains(&offer.kind));
        let others = others.filter_map(|offer| Some((usize::try_from(offer.low).ok()?, offer.kind)));
        let best = others.max_by_key(|(process, _)| self.priority(*process));
        let best = best.filter(|(process, _)| self.priority(*process) > self.priority(point.process));
        let runs = best.map_or(point.process, |(process, _)| process);
        self.preferred = (runs, if self.preferred.0 == runs { self.preferred.1 + 1 } else { 0 });
        match best {
            Some((process, kind)) if self.preferred.1 < PATIENCE => {
                Decision { kind, value: i64::try_from(process).unwrap_or_default() }
            }
            _ => Decision::GO,
        }
    }
}

/// The depth that a seed aims at: from 1 to [`DEPTH_MAX`], or any up to that of a change at every eighth point, the lesser
/// ones more often (their logarithm is uniform).
fn depth(points: u64, coin: u64, draw: u64) -> u64 {
    let most = points / POINTS_PER_CHANGE_MIN;
    if coin & 1 == 0 || most <= DEPTH_MAX {
        return 1 + draw % DEPTH_MAX;
    }
    // 2^i up to 2^(i+1), with i drawn first.
    let doublings = u64::from(most.ilog2());
    let low = 1_u64 << (draw % (doublings + 1));
    (low + (draw >> 32) % low).min(most)
}

impl fmt::Display for Pct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Measured { processes, points } = self.measured;
        let depth = self.changes.len() + 1;
        let power = if depth == 2 { String::new() } else { format!("^{}", depth - 1) };
        let runs =
            if depth == 1 { format!("{processes}") } else { format!("({processes}·{points}{power})") };
        write!(
            f,
            "pct, n = {processes} processes, k = {points} points, d = {depth}: finds a scheduling bug of this depth \
             with a probability of at least 1/{runs}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::{Phase, Role};

    const SCENARIO: &str =
        "about = \"x\"\n[[job]]\nid = \"a\"\n[[worker]]\nname = \"w\"\n[faults]\npick = 0.5\n";

    fn pct(seed: u64) -> Pct {
        let scenario = Scenario::parse("x.toml", SCENARIO.as_bytes()).unwrap();
        Pct::new(&scenario, seed, Measured { processes: 3, points: 10 })
    }

    fn point(process: usize, incarnation: u32) -> Point {
        let (phase, role) = (Phase::Wait, Role::Resume);
        Point { process, process_hash: 7, incarnation, operation: "x", ordinal: 1, phase, role, count: 1 }
    }

    /// Who runs where `process` would and `others` are ready.
    fn runs(pct: &mut Pct, process: usize, others: &[i64]) -> i64 {
        let offers: Vec<_> = others.iter().map(|other| Offer::of(Kind::Pick, *other)).collect();
        let decision = pct.choose(&point(process, 1), &offers);
        if decision.is_go() { process as i64 } else { decision.value }
    }

    #[test]
    fn the_same_process_is_preferred_whoever_would_run() {
        for seed in 0..50 {
            let mut pct = Pct { changes: Vec::new(), ..pct(seed) };
            let first = runs(&mut pct, 0, &[1, 2]);
            assert_eq!(runs(&mut pct, 1, &[0, 2]), first);
            assert_eq!(runs(&mut pct, 2, &[1, 0]), first);
        }
    }

    #[test]
    fn every_process_is_the_first_in_some_seed() {
        let firsts: BTreeSet<_> =
            (0..50).map(|seed| runs(&mut Pct { changes: Vec::new(), ..pct(seed) }, 0, &[1, 2])).collect();
        assert_eq!(firsts.len(), 3);
    }

    #[test]
    fn at_a_change_the_one_that_runs_falls_behind() {
        for seed in 0..20 {
            let mut pct = Pct { changes: vec![2], ..pct(seed) };
            let first = runs(&mut pct, 0, &[1, 2]);
            let others: Vec<i64> = (0..3).filter(|other| *other != first).collect();
            assert_ne!(runs(&mut pct, usize::try_from(first).unwrap(), &others), first);
        }
    }

    #[test]
    fn nobody_is_preferred_for_ever() {
        let mut pct = Pct { changes: Vec::new(), ..pct(1) };
        let first = runs(&mut pct, 0, &[1, 2]);
        let other = usize::from(first == 0);
        let gone = (0..1_000).filter(|_| runs(&mut pct, other, &[first]) != first).count();
        assert!(gone > 0);
    }

    /// Half of the seeds aim at no more than three; the others reach up to a change at every eighth point, and few do.
    #[test]
    fn depths_are_small_half_of_the_time_and_never_beyond_an_eighth_of_the_points() {
        let mut random = stream(1, 1);
        let depths: Vec<_> = (0..4_000).map(|_| depth(8_000, random.next_u64(), random.next_u64())).collect();
        let share = |range: std::ops::RangeInclusive<u64>| {
            depths.iter().filter(|depth| range.contains(depth)).count() as f64 / depths.len() as f64
        };
        assert_eq!(share(1..=1_000), 1.0);
        assert!((0.5..0.7).contains(&share(1..=3)) && (0.05..0.2).contains(&share(256..=1_000)));
        assert!((0..100).all(|draw| (1..=DEPTH_MAX).contains(&depth(20, 1, draw << 20 | draw))));
    }

    #[test]
    fn a_new_life_has_a_new_priority() {
        let mut pct = pct(5);
        let before = pct.priority(1);
        pct.lives.insert(1, 2);
        assert_ne!(pct.priority(1), before);
    }
}
