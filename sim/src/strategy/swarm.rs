//! Swarm testing: a seed that has fewer kinds of faults goes further with those that it has. Who runs when is no fault:
//! preemption stays on in every seed, since a race needs it whatever else happens.

use std::fmt;

use crate::choice::{Chooser, Decision, Kind, Offer, Point, Probabilities, Random, stable_hash};
use crate::scenario::Scenario;

/// How much more often what is left strikes.
const BOOST: f64 = 1.5;

/// What is in every seed, as often as the scenario says: who runs, and how much a power cut keeps.
const ALWAYS: [Kind; 3] = [Kind::Switch, Kind::Pick, Kind::Keep];

pub(super) struct Swarm {
    enabled: Vec<Kind>,
    random: Random,
    /// Whether anything can strike at all.
    is_armed: bool,
}

impl Swarm {
    pub(super) fn new(scenario: &Scenario, seed: u64) -> Self {
        let faults = scenario.faults.probabilities();
        let is_in = |kind: Kind| ALWAYS.contains(&kind) || is_in(seed, kind);
        let enabled: Vec<_> = faults.into_iter().filter(|(kind, p)| *p > 0.0 && is_in(*kind)).collect();
        let boost = |kind: Kind| if ALWAYS.contains(&kind) { 1.0 } else { BOOST };
        let all = Probabilities::default();
        let probabilities = enabled.iter().fold(all, |all, (kind, p)| all.with(*kind, p * boost(*kind)));
        let is_armed = !enabled.is_empty();
        let enabled = enabled.into_iter().map(|(kind, _)| kind).filter(|kind| *kind != Kind::Keep).collect();
        Self { enabled, random: Random::new(seed, probabilities), is_armed }
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
        let words: Vec<_> = self.enabled.iter().map(|kind| kind.as_str()).collect();
        let words = if words.is_empty() { "nothing".to_owned() } else { words.join(", ") };
        write!(f, "swarm, of {words}")
    }
}

/// Whether a kind is in a seed: in two of three.
fn is_in(seed: u64, kind: Kind) -> bool {
    !stable_hash(&[&seed.to_le_bytes()[..], b"swarm", kind.as_str().as_bytes()].concat()).is_multiple_of(3)
}
