//! A scenario's chooser: its scripted deviations first, then its seed.

use std::collections::BTreeMap;

use crate::choice::{Chooser, Decision, Deviation, Kind, Offer, Point, Probabilities, Random};
use crate::scenario::{Faults, Scenario};

/// Applies a scenario's deviations by name; elsewhere draws by its probabilities.
#[derive(Debug)]
pub struct SceneChooser {
    scripted: BTreeMap<u64, Decision>,
    random: Option<Random>,
}

impl SceneChooser {
    /// The chooser of one seed.
    #[must_use]
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let probabilities = probabilities(&scenario.faults);
        let is_random = Kind::ALL.iter().any(|kind| probabilities.is_enabled(*kind));
        Self {
            scripted: scripted(scenario, &scenario.deviations),
            random: is_random.then(|| Random::new(seed, probabilities)),
        }
    }

    /// The chooser of deviations alone.
    #[must_use]
    pub fn replay(scenario: &Scenario, deviations: &[Deviation]) -> Self {
        Self { scripted: scripted(scenario, deviations), random: None }
    }
}

impl Chooser for SceneChooser {
    fn choose(&mut self, point: &Point, offers: &[Offer]) -> Decision {
        if !self.scripted.is_empty()
            && let Some(decision) = self.scripted.get(&point.key())
            && offers.iter().any(|offer| offer.allows(*decision))
        {
            return *decision;
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

/// Deviations by the keys of their points. Their texts were checked when the scenario was read.
fn scripted(scenario: &Scenario, deviations: &[Deviation]) -> BTreeMap<u64, Decision> {
    let names = scenario.process_names();
    let number = |name: &str| names.iter().position(|known| known == name);
    deviations
        .iter()
        .filter_map(|deviation| Some((deviation.at.key(), deviation.action.decision(number)?)))
        .collect()
}
