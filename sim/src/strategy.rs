//! How a seed becomes answers: uniformly at random, by priorities (PCT), with each fault as often as its seed
//! draws (swarm), or a mix of them. Which of them a mixed seed uses depends on the seed alone, so that seed and strategy replay a run.

mod pct;
mod scripted;
mod swarm;

use std::cell::{OnceCell, RefCell};
use std::fmt;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::choice::{Chooser, Kind, stable_hash};
use crate::scenario::Scenario;
use crate::scene::{Report, RunOptions, SceneChooser};
use crate::twin;

use pct::{Counter, Measured, Pct};
use swarm::Swarm;

pub(crate) use scripted::Scripted;

/// A way to answer at the points of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Strategy {
    /// Each fault strikes with its probability, at each opportunity.
    Uniform,
    /// Processes have priorities, which change at a few points: a randomized scheduler with a probabilistic guarantee
    /// of finding bugs (Burckhardt, Kothari, Musuvathi, Nagarakatti 2010). Other faults strike as by `Uniform`.
    Pct,
    /// Each seed draws for each kind of fault how many times as often as the scenario says it strikes, from never to
    /// eight times (after swarm testing, where kinds are on or off; Groce, Zhang, Eide, Chen, Regehr 2012).
    Swarm,
    /// A quarter of the seeds `Uniform`, five in eight `Swarm`, one in eight `Pct`.
    #[default]
    Mix,
}

impl Strategy {
    /// Every strategy.
    pub const ALL: &'static [Self] = &[Self::Uniform, Self::Pct, Self::Swarm, Self::Mix];

    /// The word on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Pct => "pct",
            Self::Swarm => "swarm",
            Self::Mix => "mix",
        }
    }

    /// Reads the word.
    ///
    /// # Errors
    /// What is allowed.
    pub fn parse(word: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().copied().find(|strategy| strategy.as_str() == word);
        found.ok_or_else(|| "allowed: one of uniform, pct, swarm, mix".to_owned())
    }

    /// What a seed uses: never `Mix`.
    #[must_use]
    pub fn of_seed(self, seed: u64) -> Self {
        match self {
            Self::Mix => match stable_hash(&[&seed.to_le_bytes()[..], b"mix"].concat()) % 8 {
                0 | 1 => Self::Uniform,
                2 => Self::Pct,
                _ => Self::Swarm,
            },
            other => other,
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Runs a scenario's seeds by a strategy, on the system that the scenario names.
pub struct Strategist {
    scenario: Rc<Scenario>,
    strategy: Strategy,
    measured: OnceCell<Measured>,
}

impl Strategist {
    /// A strategy for one scenario.
    #[must_use]
    pub const fn new(scenario: Rc<Scenario>, strategy: Strategy) -> Self {
        Self { scenario, strategy, measured: OnceCell::new() }
    }

    /// The scenario.
    #[must_use]
    pub const fn scenario(&self) -> &Rc<Scenario> {
        &self.scenario
    }

    /// The strategy.
    #[must_use]
    pub const fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// Runs one seed.
    #[must_use]
    pub fn run(&self, seed: u64, options: impl Into<RunOptions>) -> Report {
        match self.of_seed(seed) {
            Strategy::Pct => self.play(seed, options, Pct::new(&self.scenario, seed, self.measured())),
            Strategy::Swarm => self.play(seed, options, Swarm::new(&self.scenario, seed)),
            Strategy::Uniform | Strategy::Mix => twin::run(&self.scenario, seed, options),
        }
    }

    /// How one seed answers, the scenario's own deviations first.
    #[must_use]
    pub fn chooser(&self, seed: u64) -> Box<dyn Chooser> {
        match self.of_seed(seed) {
            Strategy::Pct => {
                Box::new(Scripted::new(&self.scenario, Pct::new(&self.scenario, seed, self.measured())))
            }
            Strategy::Swarm => Box::new(Scripted::new(&self.scenario, Swarm::new(&self.scenario, seed))),
            Strategy::Uniform | Strategy::Mix => Box::new(SceneChooser::new(&self.scenario, seed)),
        }
    }

    /// The strategy of a seed in words, with what it promises.
    #[must_use]
    pub fn about(&self, seed: u64) -> String {
        match self.of_seed(seed) {
            Strategy::Pct => Pct::new(&self.scenario, seed, self.measured()).to_string(),
            Strategy::Swarm => Swarm::new(&self.scenario, seed).to_string(),
            other => other.to_string(),
        }
    }

    /// Without anything left to chance, or without preemption where that is what counts, all strategies are one.
    fn of_seed(&self, seed: u64) -> Strategy {
        let faults = self.scenario.faults.probabilities();
        let has = |kinds: &[Kind]| faults.iter().any(|(kind, p)| *p > 0.0 && kinds.contains(kind));
        match self.strategy.of_seed(seed) {
            Strategy::Pct if has(&[Kind::Switch, Kind::Pick]) => Strategy::Pct,
            Strategy::Swarm if has(Kind::ALL) => Strategy::Swarm,
            _ => Strategy::Uniform,
        }
    }

    /// How many processes and scheduling points a run has where nothing happens.
    fn measured(&self) -> Measured {
        *self.measured.get_or_init(|| {
            let counter = Rc::new(RefCell::new(Scripted::new(&self.scenario, Counter::new(&self.scenario))));
            let _ = twin::run_choosing(&self.scenario, 1, false, Rc::clone(&counter));
            counter.borrow().rest.measured()
        })
    }

    fn play<C: Chooser + 'static>(&self, seed: u64, options: impl Into<RunOptions>, rest: C) -> Report {
        let chooser = Rc::new(RefCell::new(Scripted::new(&self.scenario, rest)));
        let mut report = twin::run_choosing(&self.scenario, seed, options, Rc::clone(&chooser));
        report.unmet = chooser.borrow().unmet();
        report
    }
}

/// The chooser of a scenario's own deviations.
fn own(scenario: &Scenario) -> SceneChooser {
    SceneChooser::replay(scenario, &scenario.deviations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_a_function_of_the_seed_and_holds_all_three() {
        let count = |wanted| (0..1_000).filter(|seed| Strategy::Mix.of_seed(*seed) == wanted).count();
        assert!((200..300).contains(&count(Strategy::Uniform)));
        assert!((80..170).contains(&count(Strategy::Pct)));
        assert!((570..680).contains(&count(Strategy::Swarm)));
        assert_eq!(count(Strategy::Mix), 0);
    }

    #[test]
    fn words_read_back() {
        for strategy in Strategy::ALL {
            assert_eq!(Strategy::parse(strategy.as_str()), Ok(*strategy));
        }
        assert!(Strategy::parse("random").unwrap_err().contains("uniform, pct, swarm, mix"));
    }
}
