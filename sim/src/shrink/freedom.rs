//! Which parts of a shrunk failure could be anything: each is given other values, and where every one of them breaks
//! the same property, it does not matter.

use toml::{Table, Value};

use super::Hunt;
use super::candidate::{Candidate, Place};
use super::deviations::replaced;
use super::values::with_number;
use crate::choice::{Action, Deviation, Kind};

/// Runs kept for this even where shrinking used all of its own, at most.
pub(super) const RUNS: u64 = 400;
/// Other seeds that are tried.
const SEEDS: std::ops::RangeInclusive<u64> = 101..=106;

/// What could be anything without changing the outcome, and what could not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Freedom {
    /// Other values were tried, and all broke the same property.
    pub free: Vec<String>,
    /// Some other value did not break it.
    pub bound: Vec<String>,
}

/// Tries what could be anything, until `most` runs were made in all. What is not tried by then is neither free nor bound.
pub(super) fn measure(hunt: &mut Hunt<'_>, most: u64) -> Freedom {
    hunt.runs_max = (hunt.runs + RUNS).min(most);
    let best = hunt.best.clone();
    let mut freedom = Freedom::default();
    let seeds_fail = SEEDS.clone().all(|seed| hunt.run(&best, seed).is_some());
    freedom.tell(hunt, seeds_fail, "the seed".to_owned());
    for (at, deviation) in best.deviations.iter().enumerate() {
        of_deviation(hunt, &best, at, deviation, &mut freedom);
    }
    for place in best.places() {
        of_table(hunt, &best, &place, &mut freedom);
    }
    freedom
}

fn of_deviation(
    hunt: &mut Hunt<'_>,
    best: &Candidate,
    at: usize,
    deviation: &Deviation,
    freedom: &mut Freedom,
) {
    let Action::Amount(kind, amount) = deviation.action else { return };
    let others = match kind {
        Kind::Refused => vec![429, 500],
        _ => vec![amount.saturating_mul(2).saturating_add(1), amount / 2 + 1, amount.saturating_add(7)],
    };
    let others: Vec<i64> = others.into_iter().filter(|other| *other != amount).collect();
    let fails = others.iter().all(|other| {
        let action = Action::Amount(kind, *other);
        hunt.run(&replaced(best, at, Deviation { at: deviation.at.clone(), action }), hunt.seed).is_some()
    });
    freedom.tell(hunt, fails, format!("the number in {} at {}", deviation.action, deviation.at));
}

/// The numbers of one table, those that are left out included.
fn of_table(hunt: &mut Hunt<'_>, best: &Candidate, place: &Place, freedom: &mut Freedom) {
    let Some(full) = best.scenario().and_then(|scenario| Table::try_from(scenario).ok()) else { return };
    let Some(table) = place.of(&full) else { return };
    for (key, value) in table {
        let Value::Integer(number) = value else { continue };
        if matches!(key.as_str(), "count" | "every_ms" | "duration_ms") {
            continue;
        }
        let others = [number.saturating_mul(2).saturating_add(1), number / 2, number.saturating_add(3)];
        let others = others.into_iter().filter(|other| other != number);
        let candidates: Vec<_> = others
            .map(|other| with_number(best, place, key, other))
            .filter(|candidate| candidate.scenario().is_some())
            .collect();
        if candidates.is_empty() {
            continue;
        }
        let fails = candidates.iter().all(|candidate| hunt.run(candidate, hunt.seed).is_some());
        freedom.tell(hunt, fails, format!("{key} of {}", title(place, table)));
    }
}

impl Freedom {
    /// Nothing is known where the runs were used up.
    fn tell(&mut self, hunt: &Hunt<'_>, is_free: bool, what: String) {
        match is_free {
            _ if hunt.is_spent() => {}
            true => self.free.push(what),
            false => self.bound.push(what),
        }
    }
}

/// What a table is called: by its name where it has one.
fn title(place: &Place, table: &Table) -> String {
    let name = ["id", "name", "job"].iter().find_map(|key| table.get(*key)?.as_str());
    match name {
        Some(name) if place.key == "redrive" => format!("the redrive of {name}"),
        Some(name) => name.to_owned(),
        None if place.key.is_empty() => "the scenario".to_owned(),
        None => format!("the {}", place.key),
    }
}
