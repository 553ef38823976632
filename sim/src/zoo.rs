//! The zoo: every planted mistake with the scenario that is to find it, the hunt for it, and what it takes to be
//! caught. A mistake that gets away is a hole in what judges a run.

mod field;
mod rows;
mod score;

use std::rc::Rc;

use crate::scenario::{Flaw, Scenario};
use crate::scene::Report;
use crate::shrink::{self, Shrunk};
use crate::strategy::{Strategist, Strategy};

pub use field::FIELD;
pub use rows::{ROWS, Row};
pub use score::{COLUMNS, Score, UNIFORM};

/// A mistake must be found within so many seeds where nothing else is said.
pub const SEEDS_MAX: u64 = 2_000;
/// How far apart the seeds are with which two hunts begin.
const STARTS_APART: u64 = 1_000_000;
/// The kind of a mistake that no row tells of: it comes from reading the contract.
const OF_THE_CONTRACT: &str = "contract";

/// A mistake and where it is to be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exhibit {
    /// Its name: that of its field scenario, or its own word.
    pub name: String,
    /// What kind of fault it is.
    pub kind: &'static str,
    /// The rows that tell of it.
    pub rows: Vec<&'static str>,
    /// The mistake.
    pub flaw: Flaw,
    /// The scenario's file, from the folder of scenarios, without the ending.
    pub scenario: String,
}

impl Exhibit {
    /// The scenario, run on the twin that makes the mistake.
    #[must_use]
    pub fn planted(&self, scenario: Scenario) -> Rc<Scenario> {
        Rc::new(Scenario { system: self.flaw, ..scenario })
    }
}

/// Everything that is there: the field's first, in the order of its rows, then what only the contract tells of.
#[must_use]
pub fn exhibits() -> Vec<Exhibit> {
    let field = FIELD.iter().map(|(name, flaw)| {
        let rows: Vec<&Row> = ROWS.iter().filter(|row| row.scenarios.contains(name)).collect();
        Exhibit {
            name: (*name).to_owned(),
            kind: rows.first().map_or(OF_THE_CONTRACT, |row| row.kind),
            rows: rows.iter().map(|row| row.id).collect(),
            flaw: *flaw,
            scenario: format!("field/{name}"),
        }
    });
    let is_elsewhere = |flaw: &Flaw| FIELD.iter().any(|(_, known)| known == flaw);
    let others = Flaw::ALL.iter().filter(|(flaw, _)| !is_elsewhere(flaw)).map(|(flaw, scenario)| Exhibit {
        name: flaw.word(),
        kind: OF_THE_CONTRACT,
        rows: Vec::new(),
        flaw: *flaw,
        scenario: (*scenario).to_owned(),
    });
    field.chain(others).collect()
}

/// The seed with which hunt number `at` begins, counted from 0.
#[must_use]
pub const fn start(at: u64) -> u64 {
    1 + at * STARTS_APART
}

/// The first failing run from `start` on, within `seeds` seeds.
#[must_use]
pub fn hunt(planted: &Rc<Scenario>, start: u64, seeds: u64) -> Option<Report> {
    hunt_while(planted, start, seeds, &|| true)
}

/// As [`hunt`], but before each seed it is asked whether to go on; where not, nothing is found.
#[must_use]
pub fn hunt_while(
    planted: &Rc<Scenario>,
    start: u64,
    seeds: u64,
    goes_on: &dyn Fn() -> bool,
) -> Option<Report> {
    hunt_by(&Strategist::new(Rc::clone(planted), Strategy::Uniform), start, seeds, goes_on)
}

/// As [`hunt_while`], by any strategy.
#[must_use]
pub fn hunt_by(
    strategist: &Strategist,
    start: u64,
    seeds: u64,
    goes_on: &dyn Fn() -> bool,
) -> Option<Report> {
    let seeds = (start..start.saturating_add(seeds)).take_while(|_| goes_on());
    seeds.map(|seed| strategist.run(seed, false)).find(|report| !report.has_passed())
}

/// What was found, made small; where it is not to go on, as small as it is by then.
#[must_use]
pub fn shrunk(planted: &Rc<Scenario>, found: &Report, goes_on: &dyn Fn() -> bool) -> Option<Shrunk> {
    shrink::shrink_while(planted, found, shrink::RUNS_MAX, &|_| goes_on())
}

/// The median of some numbers, the lower one of two; none of none.
#[must_use]
pub fn median<T: PartialOrd + Copy>(mut numbers: Vec<T>) -> Option<T> {
    numbers.sort_by(|one, other| one.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal));
    numbers.get(numbers.len().saturating_sub(1) / 2).copied()
}
