//! Draws runs, changes the lists that reached something new, and keeps what does so again. Half of the changed lists
//! are all that happens in their run, half have the rest of it drawn. Where the scenario lets numbers vary, they are
//! changed as the lists are.

use std::cell::RefCell;
use std::rc::Rc;

use super::behaviour::{Behaviours, Met, Watcher};
use super::mutate::Mutator;
use super::trial::{Trial, World};
use crate::choice::{Chooser, Deviation, Kind, stable_hash, stream};
use crate::explore;
use crate::scenario::{Scenario, Values, Varied};
use crate::scene::{Report, SceneChooser};
use crate::strategy::{Scripted, Strategist};
use crate::twin;

/// The seed of jitter and SQLite's random numbers in every run: a list of deviations says all the rest.
pub const SCENE_SEED: u64 = 1;
/// One run in so many is drawn by the strategy.
const DRAWN_EVERY: u64 = 4;
/// Children of a list before another one is picked.
const CHILDREN: u64 = 16;
/// Values are drawn so often before the old ones are kept, where the scenario refuses them.
const TRIES: usize = 4;

/// What came of one run.
#[derive(Debug)]
pub enum Step {
    /// It did nothing that was not known.
    Known,
    /// It did something new, and is in the corpus now.
    New(Trial),
    /// It broke a property.
    Failed(Box<Failed>),
}

/// A run that broke a property.
#[derive(Debug)]
pub struct Failed {
    /// The run.
    pub report: Report,
    /// What was run: the scenario with the values in their places, without ranges.
    pub scenario: Rc<Scenario>,
    /// The values that were not the plain ones.
    pub values: Values,
}

/// The search through one scenario.
pub struct Fuzzer {
    plain: Rc<World>,
    varied: Vec<Varied>,
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
    world: Rc<World>,
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
        let varied = strategist.scenario().varied();
        let mutator = Mutator::new(stream(start, stable_hash(b"coverage")));
        Self {
            plain: Rc::new(World::plain(strategist)),
            varied,
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

    /// Runs what an earlier search kept; it joins the corpus if it still reaches something new. Values that the scenario
    /// lets vary no more, or not so far, are the plain ones.
    pub fn plant(&mut self, trial: &Trial) -> Step {
        let world = self.world(&trial.values);
        let (report, behaviours) = self.replay_in(&world, &trial.list);
        self.judge(world, report, behaviours)
    }

    /// What a trial reaches, and the run that does.
    pub fn replay(&mut self, trial: &Trial) -> (Report, Behaviours) {
        let world = self.world(&trial.values);
        self.replay_in(&world, &trial.list)
    }

    /// The next run, and now and then one before it that only looks at a list.
    pub fn step(&mut self) -> Step {
        self.next(true)
    }

    /// One run and no other.
    pub fn last_step(&mut self) -> Step {
        self.next(false)
    }

    fn next(&mut self, may_look: bool) -> Step {
        let has_chance = self.plain.scenario().faults.is_random();
        let is_drawn = self.runs.is_multiple_of(DRAWN_EVERY) && has_chance;
        // A child costs a run now and then: none is made where it would not be used.
        let child = if is_drawn { None } else { self.child(may_look) };
        let (world, list) = child.unwrap_or_else(|| (Rc::clone(&self.plain), Vec::new()));
        let world = self.changed(world);
        let (report, behaviours) = if is_drawn || (has_chance && self.mutator.below(2) == 0) {
            self.draw(&world, &list)
        } else {
            self.replay_in(&world, &list)
        };
        self.judge(world, report, behaviours)
    }

    fn replay_in(&mut self, world: &World, list: &[Deviation]) -> (Report, Behaviours) {
        self.runs += 1;
        let (report, watcher) = run(world, Watcher::new(chooser(world, list)));
        (report, watcher.borrow().behaviours())
    }

    /// A run by the strategy, where the list says nothing: with the seeds in order, beginning with the first.
    fn draw(&mut self, world: &World, list: &[Deviation]) -> (Report, Behaviours) {
        let seed = self.start.saturating_add(self.drawn);
        self.drawn += 1;
        self.runs += 1;
        let drawn = world.strategist.chooser(seed);
        let (report, watcher) = run(world, Watcher::new(Scripted::by(chooser(world, list), drawn)));
        (report, watcher.borrow().behaviours())
    }

    /// A list that is nearly one of the corpus, and where that one was run; none where the corpus is empty, or nothing
    /// of it was looked at so far and may be now.
    fn child(&mut self, may_look: bool) -> Option<(Rc<World>, Vec<Deviation>)> {
        if may_look && self.parent.as_ref().is_none_or(|parent| parent.children >= CHILDREN) {
            self.parent = self.pick();
        }
        let other = self.mutator.below(self.corpus.len());
        let parent = self.parent.as_mut()?;
        parent.children += 1;
        let (listed, other) = (self.corpus.get(parent.at)?, &self.corpus.get(other)?.list);
        let list = self.mutator.child(&listed.list, other, &parent.met, &listed.world.names);
        Some((Rc::clone(&listed.world), list))
    }

    /// Of two lists the one that was picked less often. It is run once more to see what may happen where.
    fn pick(&mut self) -> Option<Parent> {
        let pair = [(); 2].map(|()| self.mutator.below(self.corpus.len()));
        let at = pair.into_iter().min_by_key(|at| self.corpus.get(*at).map(|listed| listed.picked))?;
        let listed = self.corpus.get_mut(at)?;
        listed.picked += 1;
        self.runs += 1;
        let watcher = Watcher::listing(chooser(&listed.world, &listed.list), self.kinds.clone());
        let (_, watcher) = run(&listed.world, watcher);
        let met = watcher.borrow_mut().met();
        Some(Parent { at, met, children: 0 })
    }

    /// In one case of two the same with other values, where there are any.
    fn changed(&mut self, world: Rc<World>) -> Rc<World> {
        if self.varied.is_empty() || self.mutator.below(2) == 0 {
            return world;
        }
        for _ in 0..TRIES {
            let values = self.mutator.values(&world.values, &self.varied);
            if let Some(changed) = self.plain.with(&self.varied, &values) {
                return Rc::new(changed);
            }
        }
        world
    }

    /// The scenario with these values, or the plain one where it refuses them.
    fn world(&self, values: &Values) -> Rc<World> {
        let plain = || Rc::clone(&self.plain);
        if values.is_empty() {
            return plain();
        }
        self.plain.with(&self.varied, values).map_or_else(plain, Rc::new)
    }

    fn judge(&mut self, world: Rc<World>, report: Report, behaviours: Behaviours) -> Step {
        if !report.has_passed() {
            let (scenario, values) = (Rc::clone(world.scenario()), world.values.clone());
            return Step::Failed(Box::new(Failed { report, scenario, values }));
        }
        if behaviours.is_subset(&self.reached) {
            return Step::Known;
        }
        self.reached.extend(behaviours);
        let own = &world.scenario().deviations;
        let list: Vec<_> =
            report.deviations.into_vec().into_iter().filter(|deviation| !own.contains(deviation)).collect();
        let values = world.values.clone();
        self.corpus.push(Listed { world, list: list.clone(), picked: 0 });
        Step::New(Trial { values, list })
    }
}

/// The scenario's own deviations, and these.
fn chooser(world: &World, list: &[Deviation]) -> SceneChooser {
    let own = &world.scenario().deviations;
    SceneChooser::replay(world.scenario(), &[own, list].concat())
}

fn run<C: Chooser + 'static>(world: &World, watcher: Watcher<C>) -> (Report, Rc<RefCell<Watcher<C>>>) {
    let watcher = Rc::new(RefCell::new(watcher));
    (twin::run_choosing(world.scenario(), SCENE_SEED, false, Rc::clone(&watcher)), watcher)
}
