//! What came of the hunts for one mistake. Nothing here depends on how long they took.

use std::rc::Rc;

use serde::Serialize;

use super::{Exhibit, median, shrunk, start};
use crate::scenario::Scenario;
use crate::scene::Report;

/// The only strategy that a hunt knows so far: every fault by its scenario's probability.
pub const UNIFORM: &str = "uniform";

/// The columns of [`Score::cells`].
pub const COLUMNS: [&str; 7] =
    ["mistake", "kind", "rows", "found by", "median seeds", "shrunk to", "caught by"];

/// What came of the hunts for one mistake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Score {
    /// The exhibit's name.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
    /// The rows that tell of it.
    pub rows: Vec<&'static str>,
    /// The mistake's word, as a scenario names it.
    pub system: String,
    /// The scenario's file, from the folder of scenarios, without the ending.
    pub scenario: String,
    /// How it was hunted.
    pub strategy: &'static str,
    /// Seeds that each hunt took, in the order of their beginnings; none for one that found nothing.
    pub seeds: Vec<Option<u64>>,
    /// The median of those that found it.
    pub median_seeds: Option<u64>,
    /// What the first finding broke first.
    pub property: Option<String>,
    /// Deviations of that run.
    pub deviations: Option<usize>,
    /// What is left of them once it is shrunk.
    pub shrunk_deviations: Option<usize>,
}

impl Score {
    /// The score of a mistake, from what each of its hunts has found, in the order of their beginnings. The first
    /// finding is made small for as long as that is to go on.
    #[must_use]
    pub fn new(
        exhibit: &Exhibit,
        planted: &Rc<Scenario>,
        found: &[Option<Report>],
        goes_on: &dyn Fn() -> bool,
    ) -> Self {
        let first = found.iter().flatten().next();
        let property = first.and_then(|report| report.violations.first());
        let seeds: Vec<Option<u64>> = (0..)
            .zip(found)
            .map(|(at, report)| report.as_ref().map(|report| report.seed - start(at) + 1))
            .collect();
        Self {
            name: exhibit.name.clone(),
            kind: exhibit.kind,
            rows: exhibit.rows.clone(),
            system: exhibit.flaw.word(),
            scenario: exhibit.scenario.clone(),
            strategy: UNIFORM,
            median_seeds: median(seeds.iter().copied().flatten().collect()),
            seeds,
            property: property.map(|violation| violation.property.to_owned()),
            deviations: first.map(|report| report.deviations.len()),
            shrunk_deviations: first
                .and_then(|report| shrunk(planted, report, goes_on))
                .map(|shrunk| shrunk.deviations.1),
        }
    }

    /// Whether a hunt found nothing.
    #[must_use]
    pub fn has_survived(&self) -> bool {
        self.seeds.iter().any(Option::is_none)
    }

    /// The score as a row of a table, see [`COLUMNS`].
    #[must_use]
    pub fn cells(&self) -> [String; COLUMNS.len()] {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let rows = (!self.rows.is_empty()).then(|| self.rows.join(", "));
        let caught = if self.has_survived() { "SURVIVED".to_owned() } else { or_dash(self.property.clone()) };
        [
            self.name.clone(),
            self.kind.to_owned(),
            or_dash(rows),
            self.strategy.to_owned(),
            or_dash(self.median_seeds.map(|seeds| seeds.to_string())),
            or_dash(self.shrunk_deviations.map(|count| count.to_string())),
            caught,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoo::exhibits;

    #[test]
    fn a_hunt_that_found_nothing_is_a_survivor() {
        let exhibit = exhibits().remove(0);
        let text = "about = \"x\"\n[[job]]\nid = \"a\"\n[[worker]]\nname = \"w\"\n";
        let scenario = Scenario::parse("x.toml", text.as_bytes()).unwrap();
        let planted = exhibit.planted(scenario);
        let score = Score::new(&exhibit, &planted, &[None, None], &|| true);
        assert!(score.has_survived());
        assert_eq!((score.seeds.as_slice(), score.median_seeds), ([None, None].as_slice(), None));
        assert_eq!(score.cells()[4..], ["-", "-", "SURVIVED"]);
    }

    #[test]
    fn the_median_is_the_lower_one_of_two() {
        assert_eq!(median(vec![5, 1, 9]), Some(5));
        assert_eq!(median(vec![9, 1]), Some(1));
        assert_eq!(median::<u64>(Vec::new()), None);
    }
}
