//! Where in a run its failure becomes certain: the run is kept up to one of its deviations and drawn anew from there
//! on, many times, and the share of those that break the same property is a point of a curve.

use std::rc::Rc;

use crate::choice::{Chooser, Decision, Deviation, Offer, Point, stable_hash};
use crate::computer::Event;
use crate::scenario::Scenario;
use crate::scene::{Report, SceneChooser};
use crate::twin;

/// Most points of the curve.
const MARKS_MAX: usize = 24;

/// A point of the curve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// How many of the run's deviations are kept.
    pub kept: usize,
    /// The last of them; none at the beginning.
    pub last: Option<Deviation>,
    /// How many of the samples broke the same property.
    pub failed: u64,
    /// How many samples there are.
    pub samples: u64,
}

impl Mark {
    /// The share of the samples that failed, in thousandths.
    fn per_mille(&self) -> i64 {
        let share = (self.failed * 1_000).checked_div(self.samples).unwrap_or(0);
        i64::try_from(share).unwrap_or(i64::MAX)
    }
}

/// A run that passes and is the same as the failing one for as long as was found.
#[derive(Debug, Clone)]
pub struct Passing {
    /// Deviations that both have, up to where this one was drawn anew.
    pub kept: usize,
    /// Events that both tell.
    pub same_events: usize,
    /// What the failing one tells then.
    pub fails: Option<Event>,
    /// What the passing one tells then.
    pub passes: Option<Event>,
}

/// What made a run fail.
#[derive(Debug, Clone)]
pub struct Explained {
    /// The property that it breaks first.
    pub property: &'static str,
    /// How likely that is from each point on.
    pub curve: Vec<Mark>,
    /// How many points the whole curve has.
    pub points: usize,
    /// Whether every point is there with all its samples.
    pub is_whole: bool,
    /// The nearest run that passes, if any sample did.
    pub passing: Option<Passing>,
}

impl Explained {
    /// The first point of the curve from which on every sample failed.
    #[must_use]
    pub fn certain_from(&self) -> Option<&Mark> {
        let uncertain = self.curve.iter().rposition(|mark| mark.failed < mark.samples);
        self.curve.get(uncertain.map_or(0, |at| at + 1))
    }

    /// The point at which the share of samples that fail rises the most beyond that of every point before it, and the
    /// highest of those; none where it never does.
    #[must_use]
    pub fn greatest_step(&self) -> Option<(&Mark, &Mark)> {
        let (mut highest, rest) = self.curve.split_first()?;
        let mut greatest: Option<(&Mark, &Mark)> = None;
        let rise = |(one, other): (&Mark, &Mark)| other.per_mille() - one.per_mille();
        for mark in rest {
            let step = (highest, mark);
            if rise(step) > greatest.map_or(0, rise) {
                greatest = Some(step);
            }
            highest = if rise(step) > 0 { mark } else { highest };
        }
        greatest
    }
}

/// Explains a failing run of `scenario`, with so many samples at each point of the curve; `None` where it broke
/// nothing.
#[must_use]
pub fn explain(scenario: &Rc<Scenario>, report: &Report, samples: u64) -> Option<Explained> {
    explain_while(scenario, report, samples, &|_| true)
}

/// As [`explain`], but `goes_on` is told how many samples were taken, and says whether to go on; where not, the last
/// point of the curve has fewer of them, and there are no points after it.
#[must_use]
pub fn explain_while(
    scenario: &Rc<Scenario>,
    report: &Report,
    samples: u64,
    goes_on: &dyn Fn(u64) -> bool,
) -> Option<Explained> {
    let property = report.violations.first()?.property;
    let marks = marks(report.deviations.len());
    let points = marks.len();
    let mut curve = Vec::new();
    let mut nearest = None;
    let mut is_whole = true;
    for kept in marks {
        let (mut failed, mut taken) = (0, 0);
        for sample in 0..samples {
            if !goes_on(curve.len() as u64 * samples + taken) {
                break;
            }
            taken += 1;
            let other = resample(scenario, report, kept, sample, false);
            if other.violations.first().is_some_and(|first| first.property == property) {
                failed += 1;
            } else if other.has_passed() {
                nearest = Some((kept, sample));
            }
        }
        let last = kept.checked_sub(1).and_then(|at| report.deviations.get(at)).cloned();
        if taken > 0 {
            curve.push(Mark { kept, last, failed, samples: taken });
        }
        is_whole = taken == samples;
        if !is_whole {
            break;
        }
    }
    let passing = nearest.map(|(kept, sample)| passing(scenario, report, kept, sample));
    Some(Explained { property, curve, points, is_whole, passing })
}

/// How many points the curve of a run has.
#[must_use]
pub fn points(report: &Report) -> u64 {
    marks(report.deviations.len()).len() as u64
}

/// Which numbers of deviations are kept: all of them where they are few, the first and the last among them.
fn marks(deviations: usize) -> Vec<usize> {
    let steps = deviations.min(MARKS_MAX - 1);
    let mut marks: Vec<_> =
        (0..=steps).map(|step| (deviations * step).checked_div(steps).unwrap_or(0)).collect();
    marks.dedup();
    marks
}

fn passing(scenario: &Rc<Scenario>, report: &Report, kept: usize, sample: u64) -> Passing {
    let failing = SceneChooser::replay(scenario, &report.deviations);
    let failing = twin::run_choosing(scenario, report.seed, true, failing).events;
    let passing = resample(scenario, report, kept, sample, true).events;
    let same = failing.iter().zip(&passing).take_while(|(one, other)| one == other).count();
    let (fails, passes) = (failing.get(same).cloned(), passing.get(same).cloned());
    Passing { kept, same_events: same, fails, passes }
}

fn resample(scenario: &Rc<Scenario>, report: &Report, kept: usize, sample: u64, tells: bool) -> Report {
    let name = [report.seed, kept as u64, sample].map(u64::to_le_bytes).concat();
    let kept = &report.deviations[..kept];
    let chooser = Resampled {
        kept: SceneChooser::replay(scenario, kept),
        until: kept.last().map(|last| last.at.key()),
        rest: SceneChooser::new(scenario, stable_hash(&name)),
    };
    twin::run_choosing(scenario, report.seed, tells, chooser)
}

/// Some deviations up to the last of them, and a new seed from there on.
struct Resampled {
    kept: SceneChooser,
    /// The point of the last one, until it was met.
    until: Option<u64>,
    rest: SceneChooser,
}

impl Chooser for Resampled {
    fn choose(&mut self, point: &Point, offers: &[Offer]) -> Decision {
        let Some(until) = self.until else { return self.rest.choose(point, offers) };
        let decision = self.kept.choose(point, offers);
        if point.key() == until && !decision.is_go() {
            self.until = None;
        }
        decision
    }

    fn is_armed(&self) -> bool {
        self.until.is_some() || self.rest.is_armed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_reach_from_none_to_all() {
        assert_eq!(marks(0), [0]);
        assert_eq!(marks(3), [0, 1, 2, 3]);
        let many = marks(1_000);
        assert_eq!((many.len(), many.first(), many.last()), (MARKS_MAX, Some(&0), Some(&1_000)));
    }

    #[test]
    fn the_greatest_step_is_where_more_fail_than_at_any_point_before() {
        let step = |failed: &[u64]| {
            let mark =
                |(kept, failed): (usize, &u64)| Mark { kept, last: None, failed: *failed, samples: 40 };
            let curve = failed.iter().enumerate().map(mark).collect();
            let explained = Explained { property: "x", curve, points: 0, is_whole: true, passing: None };
            explained.greatest_step().map(|(one, other)| (one.kept, other.kept))
        };
        assert_eq!(step(&[20, 9, 27, 16, 38, 40]), Some((2, 4)), "not from 16 up");
        assert_eq!(step(&[1, 2, 3]), Some((0, 1)), "the first one of equals");
        assert_eq!((step(&[5, 5, 3]), step(&[40]), step(&[])), (None, None, None));
    }
}
