//! Deviations that are given first, such as a scenario's own, then another chooser.

use crate::choice::{Chooser, Decision, Deviation, Offer, Point};
use crate::scenario::Scenario;
use crate::scene::SceneChooser;

pub(crate) struct Scripted<C> {
    own: SceneChooser,
    pub(super) rest: C,
}

impl<C> Scripted<C> {
    pub(super) fn new(scenario: &Scenario, rest: C) -> Self {
        Self::by(super::own(scenario), rest)
    }

    /// As `own` answers, and where that has nothing to say as `rest`.
    pub(crate) fn by(own: SceneChooser, rest: C) -> Self {
        Self { own, rest }
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

    fn is_armed(&self) -> bool {
        self.own.is_armed() || self.rest.is_armed()
    }
}
