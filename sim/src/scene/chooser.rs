//! A scenario's chooser: its scripted deviations first, then its seed.

use std::collections::BTreeMap;

use crate::choice::{Chooser, Decision, Deviation, Kind, Offer, Point, Probabilities, Random};
use crate::scenario::{Faults, Scenario};

/// Applies a scenario's deviations by name; elsewhere draws by its probabilities.
#[derive(Debug)]
pub struct SceneChooser {
    scripted: BTreeMap<u64, Scripted>,
    /// Deviations that name a process that this scenario does not have.
    impossible: Vec<Deviation>,
    random: Option<Random>,
}

#[derive(Debug)]
struct Scripted {
    deviation: Deviation,
    decision: Decision,
    met: bool,
}

impl SceneChooser {
    /// The chooser of one seed.
    #[must_use]
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let probabilities = probabilities(&scenario.faults);
        let is_random = Kind::ALL.iter().any(|kind| probabilities.is_enabled(*kind));
        let random = is_random.then(|| Random::new(seed, probabilities));
        Self { random, ..Self::replay(scenario, &scenario.deviations) }
    }

    /// The chooser of deviations alone.
    #[must_use]
    pub fn replay(scenario: &Scenario, deviations: &[Deviation]) -> Self {
        let names = scenario.process_names();
        let number = |name: &str| names.iter().position(|known| known == name);
        let (mut scripted, mut impossible) = (BTreeMap::new(), Vec::new());
        for deviation in deviations.iter().cloned() {
            match deviation.action.decision(number) {
                Some(decision) => {
                    scripted.insert(deviation.at.key(), Scripted { deviation, decision, met: false });
                }
                None => impossible.push(deviation),
            }
        }
        Self { scripted, impossible, random: None }
    }

    /// The scripted deviations that did not happen: their point was never met, or what they say was not on
    /// offer there.
    #[must_use]
    pub fn unmet(&self) -> Vec<Deviation> {
        let unmet = self.scripted.values().filter(|scripted| !scripted.met);
        unmet.map(|scripted| &scripted.deviation).chain(&self.impossible).cloned().collect()
    }
}

impl Chooser for SceneChooser {
    fn choose(&mut self, point: &Point, offers: &[Offer]) -> Decision {
        if !self.scripted.is_empty()
            && let Some(scripted) = self.scripted.get_mut(&point.key())
            && offers.iter().any(|offer| offer.allows(scripted.decision))
        {
            scripted.met = true;
            return scripted.decision;
        }
        self.random.as_mut().map_or(Decision::GO, |random| random.choose(point, offers))
    }

    fn is_armed(&self) -> bool {
        self.random.is_some() || !self.scripted.is_empty()
    }
}

/// The probabilities of a scenario's faults.
#[must_use]
pub fn probabilities(faults: &Faults) -> Probabilities {
    faults.probabilities().into_iter().fold(Probabilities::default(), |all, (kind, p)| all.with(kind, p))
}
