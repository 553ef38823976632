//! Swarm testing: a seed that has fewer kinds of faults, in fewer operations, goes further with those that it has.

use std::fmt;

use crate::choice::{Chooser, Decision, Kind, Offer, Point, Probabilities, Random, stable_hash};
use crate::scenario::Scenario;

/// How much more often what is left strikes.
const BOOST: f64 = 2.0;

pub(super) struct Swarm {
    seed: u64,
    enabled: Vec<Kind>,
    random: Random,
    /// Whether anything can strike at all.
    is_armed: bool,
    /// The coins of operations that were met: looked up at every point, and few.
    coins: Vec<(&'static str, bool)>,
}

impl Swarm {
    pub(super) fn new(scenario: &Scenario, seed: u64) -> Self {
        let faults = scenario.faults.probabilities();
        let is_in = |kind: &Kind| *kind == Kind::Keep || heads(seed, kind.as_str());
        let enabled: Vec<_> = faults.into_iter().filter(|(kind, p)| *p > 0.0 && is_in(kind)).collect();
        // How much a power cut keeps is no matter of how often it strikes.
        let boost = |kind: Kind| if kind == Kind::Keep { 1.0 } else { BOOST };
        let all = Probabilities::default();
        let probabilities = enabled.iter().fold(all, |all, (kind, p)| all.with(*kind, p * boost(*kind)));
        let is_armed = !enabled.is_empty();
        let enabled = enabled.into_iter().map(|(kind, _)| kind).filter(|kind| *kind != Kind::Keep).collect();
        let random = Random::new(seed, probabilities);
        Self { seed, enabled, random, is_armed, coins: Vec::new() }
    }

    /// Whether anything strikes in an operation.
    fn allows(&mut self, operation: &'static str) -> bool {
        if let Some((_, allows)) = self.coins.iter().find(|(known, _)| *known == operation) {
            return *allows;
        }
        let allows = heads(self.seed, operation);
        self.coins.push((operation, allows));
        allows
    }
}

impl Chooser for Swarm {
    fn choose(&mut self, point: &Point, offers: &[Offer]) -> Decision {
        if self.allows(point.operation) { self.random.choose(point, offers) } else { Decision::GO }
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

/// A seed's coin for a word. What a power cut keeps belongs to the cut.
fn heads(seed: u64, word: &str) -> bool {
    word == "power" || stable_hash(&[&seed.to_le_bytes()[..], b"swarm", word.as_bytes()].concat()) & 1 == 0
}
