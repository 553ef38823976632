//! Plainer values: the default where that does, else a round number.

use toml::{Table, Value};

use super::Hunt;
use super::candidate::{Candidate, Place};

/// Round numbers, tried in the place of others.
const ROUND: &[i64] =
    &[0, 1, 2, 3, 4, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 60_000, 100_000];
/// Keys that say what a table is about.
const NAMES: &[&str] = &["about", "id", "name", "job", "system", "store"];

/// Leaves values out where their default does, and makes the others rounder.
pub(super) fn plainer(hunt: &mut Hunt<'_>) {
    for place in hunt.best.places() {
        let keys: Vec<String> =
            place.of(&hunt.best.table).map(|table| table.keys().cloned().collect()).unwrap_or_default();
        for key in keys {
            plainer_value(hunt, &place, &key);
        }
    }
}

fn plainer_value(hunt: &mut Hunt<'_>, place: &Place, key: &str) {
    let value = place.of(&hunt.best.table).and_then(|table| table.get(key)).cloned();
    let is_single = value.as_ref().is_some_and(|value| !value.is_table() && !value.is_array());
    if !is_single || NAMES.contains(&key) || hunt.accepts(without(&hunt.best, place, key)) {
        return;
    }
    let Some(Value::Integer(number)) = value else { return };
    for rounder in rounder(number) {
        if hunt.accepts(with_number(&hunt.best, place, key, rounder)) {
            return;
        }
    }
}

fn without(candidate: &Candidate, place: &Place, key: &str) -> Candidate {
    candidate.with(|table| change(table, place, |inner| drop(inner.remove(key))))
}

/// A copy where a key has another number.
pub(super) fn with_number(candidate: &Candidate, place: &Place, key: &str, number: i64) -> Candidate {
    candidate.with(|table| change(table, place, |inner| drop(inner.insert(key.to_owned(), number.into()))))
}

/// Changes the table of a place, if it is there.
pub(super) fn change(table: &mut Table, place: &Place, change: impl FnOnce(&mut Table)) {
    if let Some(inner) = place.of_mut(table) {
        change(inner);
    }
}

/// Numbers plainer than this one, the plainest first.
pub(super) fn rounder(number: i64) -> Vec<i64> {
    let sign = number.signum();
    let size = number.saturating_abs();
    let mut all: Vec<i64> = ROUND.to_vec();
    for digits in [1, 2] {
        let unit = unit(size, digits);
        all.extend([size / unit * unit, (size / unit).saturating_add(1).saturating_mul(unit)]);
    }
    all.retain(|other| weight(*other) < weight(size));
    all.sort_by_key(|other| weight(*other));
    all.dedup();
    all.into_iter().map(|other| other * sign).collect()
}

/// How many digits are not zeros at the end, then how large.
fn weight(size: i64) -> (u32, i64) {
    let mut digits = size;
    while digits != 0 && digits % 10 == 0 {
        digits /= 10;
    }
    (digits.checked_ilog10().map_or(0, |log| log + 1), size)
}

/// The place value of the last of the first `digits` digits.
fn unit(size: i64, digits: u32) -> i64 {
    let length = size.checked_ilog10().map_or(1, |log| log + 1);
    10_i64.pow(length.saturating_sub(digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounder_numbers_are_plainer_and_end() {
        assert_eq!(rounder(0), [] as [i64; 0]);
        assert_eq!(rounder(1), [0]);
        assert_eq!(rounder(400), [0, 1, 2, 3, 4, 5, 10, 20, 50, 100, 200]);
        assert!(rounder(1_173).starts_with(&[0, 1, 2, 3, 4, 5, 10]));
        assert!(rounder(1_173).ends_with(&[60_000, 100_000, 1_100, 1_200]));
        assert!(rounder(-487).contains(&-500));
        assert!(!rounder(i64::MIN).contains(&i64::MIN));
        // Each step makes it plainer, so that shrinking ends.
        for number in [7, 99, 1_234_567, i64::MAX] {
            assert!(rounder(number).iter().all(|other| weight(other.abs()) < weight(number)));
        }
    }
}
