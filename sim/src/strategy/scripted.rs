//! A scenario's own deviations first, then another chooser.

use crate::choice::{Chooser, Decision, Deviation, Offer, Point};
use crate::scenario::Scenario;
use crate::scene::SceneChooser;

pub(super) struct Scripted<C> {
    own: SceneChooser,
    pub(super) rest: C,
}

impl<C> Scripted<C> {
    pub(super) fn new(scenario: &Scenario, rest: C) -> Self {
        Self { own: super::own(scenario), rest }
    }

    /// The scenario's deviations that did not happen.
    pub(super) fn unmet(&self) -> Vec<Deviation> {
        self.own.unmet()
    }
}

impl<C: Chooser> Chooser for Scripted<C> {
    fn choose(&mut self, point: &Point, offers: &[Offer]) -> Decision {
        let own = self.own.choose(point, offers);
        if own.is_go() { self.rest.choose(point, offers) } else { own }
    }
}
