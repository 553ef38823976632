//! The chooser of the exhaustive search: answers by the position of a point in its run, which is exact as long as the
//! code is the same, and lists what could have been answered afterwards.

use serde::{Deserialize, Serialize};

use crate::choice::{Chooser, Decision, Kind, Offer, Point};
use crate::scenario::Scenario;
use crate::scene::SceneChooser;

/// One deviation by its place among all points of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Step {
    /// The place, from 0.
    pub position: u32,
    kind: u8,
    value: i64,
}

impl Step {
    pub(super) const fn new(position: u32, decision: Decision) -> Self {
        Self { position, kind: decision.kind as u8, value: decision.value }
    }

    /// What is answered there.
    #[must_use]
    pub fn decision(&self) -> Decision {
        let kind = Kind::ALL.get(usize::from(self.kind)).copied().unwrap_or(Kind::Go);
        Decision { kind, value: self.value }
    }
}

/// A point after the last deviation, with what is on offer there.
#[derive(Debug)]
pub struct Met {
    pub(super) position: u32,
    pub(super) point: Point,
    pub(super) offers: Vec<Offer>,
}

pub(super) struct Walker {
    /// What the scenario itself asks for, which is no deviation of the search.
    scripted: SceneChooser,
    steps: Vec<Step>,
    next: usize,
    position: u32,
    is_recording: bool,
    pub(super) met: Vec<Met>,
}

impl Walker {
    pub(super) fn new(scenario: &Scenario, path: &[Step]) -> Self {
        let scripted = SceneChooser::replay(scenario, &scenario.deviations);
        Self { scripted, steps: path.to_vec(), next: 0, position: 0, is_recording: false, met: Vec::new() }
    }

    pub(super) fn recording(scenario: &Scenario, path: &[Step]) -> Self {
        Self { is_recording: true, ..Self::new(scenario, path) }
    }
}

impl Chooser for Walker {
    fn choose(&mut self, point: &Point, offers: &[Offer]) -> Decision {
        let position = self.position;
        self.position += 1;
        let scripted = self.scripted.choose(point, offers);
        if !scripted.is_go() {
            return scripted;
        }
        match self.steps.get(self.next) {
            Some(step) if step.position == position => {
                self.next += 1;
                step.decision()
            }
            Some(_) => Decision::GO,
            None => {
                if self.is_recording {
                    self.met.push(Met { position, point: *point, offers: offers.to_vec() });
                }
                Decision::GO
            }
        }
    }

    fn is_armed(&self) -> bool {
        self.is_recording || self.next < self.steps.len() || self.scripted.is_armed()
    }
}

/// The quantities of an offer that are tried: the least and the greatest.
pub fn values(offer: &Offer) -> Vec<Decision> {
    let Offer { kind, low, high } = *offer;
    let mut values = vec![low, high];
    values.dedup();
    values.into_iter().map(|value| Decision { kind, value }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_range_are_tried() {
        let tried = |low, high| {
            let values = values(&Offer { kind: Kind::Stall, low, high });
            values.iter().map(|decision| decision.value).collect::<Vec<_>>()
        };
        assert_eq!(tried(5, 5), [5]);
        assert_eq!(tried(1, 2), [1, 2]);
        assert_eq!(tried(1, 3_201), [1, 3_201]);
        assert_eq!(tried(-2_000, 2_000), [-2_000, 2_000]);
    }
}
