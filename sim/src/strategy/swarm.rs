//! Swarm testing: each seed has a few kinds of faults far more often than the scenario says, and others not at all. A
//! bug that needs two unlikely things in one run is found where both are likely, and each fault goes furthest where
//! another one does not end the run before it.
//!
//! An intensity for each kind, instead of the on and off of Groce et al., is what the planted mistakes ask for: leaving
//! kinds out makes what needs several of them rarer (`cargo sim strategies` measures it).

use std::fmt;

use crate::choice::{Chooser, Decision, Kind, Offer, Point, Probabilities, Random, stable_hash};
use crate::scenario::Scenario;

/// How many times as often as the scenario says a kind of fault strikes: one of these, drawn for each seed and kind.
const INTENSITIES: [u32; 8] = [0, 1, 1, 2, 2, 4, 4, 8];
/// The same for who runs next, which is no fault: a race needs it, whatever else happens.
const PREEMPTION: [u32; 2] = [1, 2];
/// How much a power cut keeps stays as it is: more of it is no worse.
const KEEP: [u32; 1] = [1];

/// No fault is made more frequent than this: where every step fails, nothing goes on that could break.
const MOST: f64 = 0.5;

pub(super) struct Swarm {
    /// The kinds that strike more or less often than the scenario says.
    changed: Vec<(Kind, u32)>,
    random: Random,
    /// Whether anything can strike at all.
    is_armed: bool,
}

impl Swarm {
    pub(super) fn new(scenario: &Scenario, seed: u64) -> Self {
        let mut probabilities = Probabilities::default();
        let (mut changed, mut is_armed) = (Vec::new(), false);
        for (kind, p) in scenario.faults.probabilities().into_iter().filter(|(_, p)| *p > 0.0) {
            let times = intensity(seed, kind);
            // What the scenario itself makes more frequent than the limit stays so.
            probabilities = probabilities.with(kind, (p * f64::from(times)).min(p.max(MOST)));
            is_armed |= times > 0;
            changed.extend((times != 1).then_some((kind, times)));
        }
        Self { changed, random: Random::new(seed, probabilities), is_armed }
    }
}

impl Chooser for Swarm {
    fn choose(&mut self, point: &Point, offers: &[Offer]) -> Decision {
        self.random.choose(point, offers)
    }

    fn is_armed(&self) -> bool {
        self.is_armed
    }
}

impl fmt::Display for Swarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.changed.is_empty() {
            return f.write_str("swarm, with every fault as often as the scenario says");
        }
        let in_words = |(kind, times): &(Kind, u32)| match times {
            0 => format!("no {}", kind.as_str()),
            times => format!("{} {times} times", kind.as_str()),
        };
        let words: Vec<_> = self.changed.iter().map(in_words).collect();
        write!(f, "swarm, against the scenario: {}", words.join(", "))
    }
}

/// How many times as often as the scenario says a kind strikes in a seed.
fn intensity(seed: u64, kind: Kind) -> u32 {
    let intensities: &[u32] = match kind {
        Kind::Switch | Kind::Pick => &PREEMPTION,
        Kind::Keep => &KEEP,
        _ => &INTENSITIES,
    };
    let draw = stable_hash(&[&seed.to_le_bytes()[..], b"swarm", kind.as_str().as_bytes()].concat());
    // The remainder is below the length of the list.
    intensities[(draw % intensities.len() as u64) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::{Phase, Role};

    const SCENARIO: &str = "about = \"x\"\n[[job]]\nid = \"a\"\n[[worker]]\nname = \"w\"\n[faults]\n";

    fn swarm(faults: &str, seed: u64) -> Swarm {
        let text = format!("{SCENARIO}{faults}");
        Swarm::new(&Scenario::parse("x.toml", text.as_bytes()).unwrap(), seed)
    }

    #[test]
    fn each_intensity_has_its_share_and_preemption_never_stops() {
        for kind in [Kind::Kill, Kind::Reset] {
            let share = |wanted| (0..4_000).filter(|seed| intensity(*seed, kind) == wanted).count();
            assert!((400..600).contains(&share(0)) && (400..600).contains(&share(8)), "{}", kind.as_str());
            assert!([1, 2, 4].iter().all(|wanted| (900..1_100).contains(&share(*wanted))));
        }
        assert!((0..1_000).all(|seed| intensity(seed, Kind::Pick) >= 1 && intensity(seed, Kind::Keep) == 1));
    }

    #[test]
    fn kinds_are_independent_of_each_other() {
        let both = |seed: &u64| intensity(*seed, Kind::Kill) == 8 && intensity(*seed, Kind::Reset) == 0;
        assert!((30..100).contains(&(0..4_000).filter(both).count()));
    }

    #[test]
    fn what_is_frequent_already_is_not_made_certain() {
        let offers = [Offer::plain(Kind::Kill)];
        let strikes = |faults: &str, seed: u64| {
            let mut swarm = swarm(faults, seed);
            let (phase, role) = (Phase::Write, Role::DbWrite);
            let point = Point {
                process: 0,
                process_hash: 1,
                incarnation: 1,
                operation: "claim",
                ordinal: 1,
                phase,
                role,
                count: 1,
            };
            (0..1_000).filter(|_| !swarm.choose(&point, &offers).is_go()).count()
        };
        let seed = (0..).find(|seed| intensity(*seed, Kind::Kill) == 8).unwrap();
        assert!((40..130).contains(&strikes("kill = 0.01", seed)));
        assert!((420..580).contains(&strikes("kill = 0.2", seed)));
        assert!((620..780).contains(&strikes("kill = 0.7", seed)));
    }

    #[test]
    fn it_says_what_differs_from_the_scenario() {
        let about = |wanted| {
            let seed = (0..).find(|seed| intensity(*seed, Kind::Kill) == wanted).unwrap();
            swarm("kill = 0.01", seed).to_string()
        };
        assert_eq!(about(0), "swarm, against the scenario: no kill");
        assert_eq!(about(4), "swarm, against the scenario: kill 4 times");
        assert_eq!(about(1), "swarm, with every fault as often as the scenario says");
    }
}
