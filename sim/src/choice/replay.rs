//! Choosers that apply or collect a list of deviations.

use std::collections::BTreeMap;

use super::{Chooser, Decision, Offer, Point};

/// Applies recorded deviations by name; everything else is the default.
#[derive(Debug, Default)]
pub struct Replay {
    wanted: BTreeMap<u64, Wanted>,
}

#[derive(Debug)]
struct Wanted {
    decision: Decision,
    met: bool,
}

impl Replay {
    /// A chooser for deviations given by the points' keys.
    #[must_use]
    pub fn new(deviations: impl IntoIterator<Item = (u64, Decision)>) -> Self {
        let wanted = deviations.into_iter().map(|(key, decision)| (key, Wanted { decision, met: false }));
        Self { wanted: wanted.collect() }
    }

    /// The keys whose point was never met, or where the action was not on offer.
    pub fn unmet(&self) -> impl Iterator<Item = u64> {
        self.wanted.iter().filter(|(_, wanted)| !wanted.met).map(|(key, _)| *key)
    }
}

impl Chooser for Replay {
    fn choose(&mut self, point: &Point, offers: &[Offer]) -> Decision {
        if self.wanted.is_empty() {
            return Decision::GO;
        }
        let Some(wanted) = self.wanted.get_mut(&point.key()) else {
            return Decision::GO;
        };
        if !offers.iter().any(|offer| offer.allows(wanted.decision)) {
            return Decision::GO;
        }
        wanted.met = true;
        wanted.decision
    }

    fn is_armed(&self) -> bool {
        !self.wanted.is_empty()
    }
}

/// Lists every point that a run meets, with what was on offer there, and answers as another chooser does.
#[derive(Debug)]
pub struct Recorder<C> {
    inner: C,
    met: Vec<(Point, Vec<Offer>)>,
}

impl<C: Chooser> Recorder<C> {
    /// Wraps a chooser.
    pub const fn new(inner: C) -> Self {
        Self { inner, met: Vec::new() }
    }

    /// What was met, in order.
    pub fn met(&self) -> &[(Point, Vec<Offer>)] {
        &self.met
    }
}

impl<C: Chooser> Chooser for Recorder<C> {
    fn choose(&mut self, point: &Point, offers: &[Offer]) -> Decision {
        self.met.push((*point, offers.to_vec()));
        self.inner.choose(point, offers)
    }
}
