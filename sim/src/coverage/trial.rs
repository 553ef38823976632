//! What a search runs: a scenario with some of its varied numbers changed, and a list of deviations.

use std::rc::Rc;

use crate::choice::Deviation;
use crate::scenario::{Scenario, Values, Varied};
use crate::scene::Deviations;
use crate::strategy::Strategist;

/// A list of deviations, and the numbers that are not the plain ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trial {
    /// Of those that the scenario lets vary, by path.
    pub values: Values,
    /// What happens beyond the scenario's own deviations.
    pub list: Vec<Deviation>,
}

impl Trial {
    /// How much there is to read: values and deviations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len() + self.list.len()
    }

    /// Whether it is the plain story.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Deviations> for Trial {
    fn from(list: Deviations) -> Self {
        list.into_vec().into()
    }
}

impl From<Vec<Deviation>> for Trial {
    fn from(list: Vec<Deviation>) -> Self {
        Self { values: Values::new(), list }
    }
}

/// A scenario with some values, and who runs it.
pub(super) struct World {
    pub(super) values: Values,
    pub(super) strategist: Strategist,
    /// The names of its processes, by number.
    pub(super) names: Vec<String>,
}

impl World {
    /// The plain one.
    pub(super) fn plain(strategist: Strategist) -> Self {
        let names = strategist.scenario().process_names();
        Self { values: Values::new(), strategist, names }
    }

    /// With these values; none where they make no valid scenario. What cannot vary, or not so far, stays as it is.
    pub(super) fn with(&self, varied: &[Varied], values: &Values) -> Option<Self> {
        let is_possible = |one: &&Varied| {
            values.get(&one.path).is_some_and(|value| *value != one.plain && one.range.holds(*value))
        };
        let possible = varied.iter().filter(is_possible);
        let values: Values = possible.map(|one| (one.path.clone(), values[&one.path])).collect();
        let scenario = Rc::new(self.scenario().with_values(&values)?);
        let names = scenario.process_names();
        Some(Self { values, strategist: Strategist::new(scenario, self.strategist.strategy()), names })
    }

    pub(super) fn scenario(&self) -> &Rc<Scenario> {
        self.strategist.scenario()
    }
}
