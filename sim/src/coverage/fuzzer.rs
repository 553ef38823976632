//! Draws runs, changes the lists that reached something new, and keeps what does so again. Half of the changed lists
//! are all that happens in their run, half have the rest of it drawn.

use std::cell::RefCell;
use std::rc::Rc;

use super::behaviour::{Behaviours, Met, Watcher};
use super::mutate::Mutator;
use crate::choice::{Chooser, Deviation, Kind, stable_hash, stream};
use crate::explore;
use crate::scenario::Scenario;
use crate::scene::{Report, SceneChooser};
use crate::strategy::{Scripted, Strategist};
use crate::twin;

/// The seed of jitter and SQLite's random numbers in every run: a list of deviations says all the rest.
pub const SCENE_SEED: u64 = 1;
/// One run in so many is drawn by the strategy.
const DRAWN_EVERY: u64 = 4;
/// Children of a list before another one is picked.
const CHILDREN: u64 = 16;

/// What came of one run.
#[derive(Debug)]
pub enum Step {
    /// It did nothing that was not known.
    Known,
    /// It did something new, and its deviations are in the corpus now.
    New(Vec<Deviation>),
    /// It broke a property.
    Failed(Box<Report>),
}

/// The search through one scenario.
pub struct Fuzzer {
    strategist: Strategist,
    start: u64,
    kinds: Vec<Kind>,
    mutator: Mutator,
    corpus: Vec<Listed>,
    reached: Behaviours,
    runs: u64,
    drawn: u64,
    parent: Option<Parent>,
}

struct Listed {
    list: Vec<Deviation>,
    /// How often it was picked.
    picked: u64,
}

/// A list whose children are tried, and what its run met.
struct Parent {
    at: usize,
    met: Vec<Met>,
    children: u64,
}

impl Fuzzer {
    /// A search that begins with seed `start`. What it makes happen are the kinds that the scenario switches on, and
    /// where it switches nothing on those of [`explore::KINDS`].
    #[must_use]
    pub fn new(strategist: Strategist, start: u64) -> Self {
        let faults = strategist.scenario().faults.probabilities();
        let on = faults.into_iter().filter(|(_, probability)| *probability > 0.0);
        let mut kinds: Vec<Kind> = on.map(|(kind, _)| kind).collect();
        if kinds.is_empty() {
            kinds = explore::KINDS.to_vec();
        }
        let names = strategist.scenario().process_names();
        let mutator = Mutator::new(stream(start, stable_hash(b"coverage")), names);
        Self {
            strategist,
            start,
            kinds,
            mutator,
            corpus: Vec::new(),
            reached: Behaviours::new(),
            runs: 0,
            drawn: 0,
            parent: None,
        }
    }

    /// How many runs there were, those that only look at a list included.
    #[must_use]
    pub const fn runs(&self) -> u64 {
        self.runs
    }

    /// How many behaviours were reached.
    #[must_use]
    pub fn reached(&self) -> usize {
        self.reached.len()
    }

    /// Runs a list of an earlier search; it joins the corpus if it still reaches something new.
    pub fn plant(&mut self, list: &[Deviation]) -> Step {
        let (report, behaviours) = self.replay(list);
        self.judge(report, behaviours)
    }

    /// What a list reaches, and the run that does.
    pub fn replay(&mut self, list: &[Deviation]) -> (Report, Behaviours) {
        self.runs += 1;
        let (report, watcher) = self.run(Watcher::new(self.chooser(list)));
        (report, watcher.borrow().behaviours())
    }

    /// The next run.
    pub fn step(&mut self) -> Step {
        let has_chance = self.scenario().faults.is_random();
        let is_drawn = self.runs.is_multiple_of(DRAWN_EVERY) && has_chance;
        // A child costs a run now and then: none is made where it would not be used.
        let child = if is_drawn { None } else { self.child() };
        let (report, behaviours) = match child {
            Some(list) if has_chance && self.mutator.below(2) == 0 => self.draw(&list),
            Some(list) => self.replay(&list),
            None => self.draw(&[]),
        };
        self.judge(report, behaviours)
    }

    fn scenario(&self) -> &Rc<Scenario> {
        self.strategist.scenario()
    }

    /// A run by the strategy, where the list says nothing: with the seeds in order, beginning with the first.
    fn draw(&mut self, list: &[Deviation]) -> (Report, Behaviours) {
        let seed = self.start.saturating_add(self.drawn);
        self.drawn += 1;
        self.runs += 1;
        let (report, watcher) =
            self.run(Watcher::new(Scripted::by(self.chooser(list), self.strategist.chooser(seed))));
        (report, watcher.borrow().behaviours())
    }

    /// A list that is nearly one of the corpus; none where that is empty.
    fn child(&mut self) -> Option<Vec<Deviation>> {
        if self.parent.as_ref().is_none_or(|parent| parent.children >= CHILDREN) {
            self.parent = self.pick();
        }
        let other = self.mutator.below(self.corpus.len());
        let parent = self.parent.as_mut()?;
        parent.children += 1;
        let (list, other) = (&self.corpus.get(parent.at)?.list, &self.corpus.get(other)?.list);
        Some(self.mutator.child(list, other, &parent.met))
    }

    /// Of two lists the one that was picked less often. It is run once more to see what may happen where.
    fn pick(&mut self) -> Option<Parent> {
        let pair = [(); 2].map(|()| self.mutator.below(self.corpus.len()));
        let at = pair.into_iter().min_by_key(|at| self.corpus.get(*at).map(|listed| listed.picked))?;
        let listed = self.corpus.get_mut(at)?;
        listed.picked += 1;
        let list = listed.list.clone();
        self.runs += 1;
        let (_, watcher) = self.run(Watcher::listing(self.chooser(&list), self.kinds.clone()));
        let met = watcher.borrow_mut().met();
        Some(Parent { at, met, children: 0 })
    }

    fn judge(&mut self, report: Report, behaviours: Behaviours) -> Step {
        if !report.has_passed() {
            return Step::Failed(Box::new(report));
        }
        if behaviours.is_subset(&self.reached) {
            return Step::Known;
        }
        self.reached.extend(behaviours);
        let own = &self.strategist.scenario().deviations;
        let list: Vec<_> =
            report.deviations.into_iter().filter(|deviation| !own.contains(deviation)).collect();
        self.corpus.push(Listed { list: list.clone(), picked: 0 });
        Step::New(list)
    }

    /// The scenario's own deviations, and these.
    fn chooser(&self, list: &[Deviation]) -> SceneChooser {
        let own = &self.scenario().deviations;
        SceneChooser::replay(self.scenario(), &[own, list].concat())
    }

    fn run<C: Chooser + 'static>(&self, watcher: Watcher<C>) -> (Report, Rc<RefCell<Watcher<C>>>) {
        let watcher = Rc::new(RefCell::new(watcher));
        (twin::run_choosing(self.scenario(), SCENE_SEED, false, Rc::clone(&watcher)), watcher)
    }
}
