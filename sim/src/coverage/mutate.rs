//! Changes a list of deviations a little: drops one, adds one at a point that was met, moves one to a neighbouring
//! point, does something else there, or goes on as another list does. And changes numbers within their ranges.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::RngCore;

use super::behaviour::Met;
use crate::choice::{Action, Decision, Deviation, Kind, Offer, Point};
use crate::scenario::{Values, Varied};

/// How far a deviation moves at most, in things that may happen.
const STEPS_MAX: usize = 40;
/// Changes made at once, at most.
const CHANGES_MAX: usize = 6;

/// Draws changes.
pub(super) struct Mutator {
    random: ChaCha8Rng,
}

impl Mutator {
    pub(super) const fn new(random: ChaCha8Rng) -> Self {
        Self { random }
    }

    /// A number below `count`; 0 where that is 0.
    pub(super) fn below(&mut self, count: usize) -> usize {
        let draw = self.random.next_u64();
        usize::try_from(draw % (count as u64).max(1)).unwrap_or(0)
    }

    /// A child of `list`, whose run met `met` with processes of these names, by number; `other` is a list to splice with.
    pub(super) fn child(
        &mut self,
        list: &[Deviation],
        other: &[Deviation],
        met: &[Met],
        names: &[String],
    ) -> Vec<Deviation> {
        let mut child = list.to_vec();
        for _ in 0..CHANGES_MAX {
            self.change(&mut child, other, met, names);
            // Mostly one change, now and then a few.
            if self.below(2) == 0 {
                break;
            }
        }
        child
    }

    /// Other values: mostly one is changed, now and then a few; what becomes plain is left out.
    pub(super) fn values(&mut self, values: &Values, varied: &[Varied]) -> Values {
        let mut values = values.clone();
        for _ in 0..CHANGES_MAX {
            let Some(one) = varied.get(self.below(varied.len())) else { break };
            let now = values.get(&one.path).copied().unwrap_or(one.plain);
            match self.number(one, now) {
                plain if plain == one.plain => drop(values.remove(&one.path)),
                other => drop(values.insert(one.path.clone(), other)),
            }
            if self.below(2) == 0 {
                break;
            }
        }
        values
    }

    /// An end of the range, something between, or what lies near: half or twice as much, one more or one less.
    fn number(&mut self, one: &Varied, now: i64) -> i64 {
        let (least, most) = (one.range.least(), one.range.most());
        let near = |number: i64| number.clamp(least, most);
        match self.below(8) {
            0 => least,
            1 => most,
            2 => near(now / 2),
            3 => near(now.saturating_mul(2)),
            4 => near(now.saturating_sub(1)),
            5 => near(now.saturating_add(1)),
            _ => {
                let width = most.abs_diff(least).saturating_add(1);
                least.saturating_add_unsigned(self.random.next_u64() % width).min(most)
            }
        }
    }

    fn change(&mut self, list: &mut Vec<Deviation>, other: &[Deviation], met: &[Met], names: &[String]) {
        match self.below(8) {
            0 | 1 if !list.is_empty() => {
                let at = self.below(list.len());
                list.remove(at);
            }
            2 if !list.is_empty() => self.move_one(list, met, names),
            3 if !list.is_empty() => self.do_something_else(list, met, names),
            4 if !other.is_empty() => self.splice(list, other),
            _ => self.add(list, met, names),
        }
    }

    /// Every kind is as likely as another, however often it is on offer.
    fn add(&mut self, list: &mut Vec<Deviation>, met: &[Met], names: &[String]) {
        let mut kinds: Vec<Kind> = met.iter().map(|(_, offer)| offer.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let Some(kind) = kinds.get(self.below(kinds.len())).copied() else { return };
        let count = met.iter().filter(|(_, offer)| offer.kind == kind).count();
        let at = self.below(count);
        if let Some((point, offer)) = met.iter().filter(|(_, offer)| offer.kind == kind).nth(at) {
            self.put(list, point, offer, names);
        }
    }

    fn move_one(&mut self, list: &mut Vec<Deviation>, met: &[Met], names: &[String]) {
        let at = self.below(list.len());
        let key = list[at].at.key();
        let Some(place) = met.iter().position(|(point, _)| point.key() == key) else { return };
        let kind = list[at].action.kind();
        let near = place.saturating_sub(STEPS_MAX)..met.len().min(place + STEPS_MAX);
        let is_other = |met: &&Met| met.1.kind == kind && met.0.key() != key;
        let neighbours: Vec<_> = met[near].iter().filter(is_other).collect();
        let Some((point, offer)) = neighbours.get(self.below(neighbours.len())) else { return };
        list.remove(at);
        self.put(list, point, offer, names);
    }

    fn do_something_else(&mut self, list: &mut Vec<Deviation>, met: &[Met], names: &[String]) {
        let at = self.below(list.len());
        let key = list[at].at.key();
        let offers: Vec<_> = met.iter().filter(|(point, _)| point.key() == key).collect();
        if let Some((point, offer)) = offers.get(self.below(offers.len())) {
            self.put(list, point, offer, names);
        }
    }

    fn splice(&mut self, list: &mut Vec<Deviation>, other: &[Deviation]) {
        let kept = self.below(list.len() + 1);
        list.truncate(kept);
        let from = self.below(other.len());
        for deviation in &other[from..] {
            if list.iter().all(|known| known.at != deviation.at) {
                list.push(deviation.clone());
            }
        }
    }

    /// One point, one deviation.
    fn put(&mut self, list: &mut Vec<Deviation>, point: &Point, offer: &Offer, names: &[String]) {
        let name = |process: usize| names.get(process).cloned().unwrap_or_default();
        let at = point.name(&name(point.process));
        let decision = Decision { kind: offer.kind, value: quantity(&mut self.random, offer) };
        let action = Action::from_decision(decision, name);
        list.retain(|known| known.at != at);
        list.push(Deviation { at, action });
    }
}

/// An end of the range in half of the cases.
fn quantity(random: &mut ChaCha8Rng, offer: &Offer) -> i64 {
    let draw = random.next_u64();
    match draw % 4 {
        0 => offer.low,
        1 => offer.high,
        _ => {
            let width = offer.high.abs_diff(offer.low).saturating_add(1).max(1);
            offer.low.saturating_add_unsigned((draw >> 2) % width).min(offer.high)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::{Phase, Role, stable_hash, stream};

    fn met() -> Vec<Met> {
        let point = |count| Point {
            process: 0,
            process_hash: stable_hash(b"w"),
            incarnation: 1,
            operation: "claim",
            ordinal: 1,
            phase: Phase::Write,
            role: Role::DbRead,
            count,
        };
        let stall = Offer { kind: Kind::Stall, low: 10, high: 20 };
        (1..=200)
            .flat_map(|count| [(point(count), Offer::plain(Kind::Kill)), (point(count), stall)])
            .collect()
    }

    fn mutator() -> Mutator {
        Mutator::new(stream(1, 2))
    }

    fn names() -> Vec<String> {
        vec!["w".to_owned()]
    }

    fn deviation(count: u32, action: &str) -> Deviation {
        let at = format!("w/1/claim#1/write/db.read#{count}").parse().unwrap();
        Deviation { at, action: Action::parse(action).unwrap() }
    }

    /// A child names met points only, each once, with what is on offer there.
    #[test]
    fn children_are_possible() {
        let (mut mutator, met) = (mutator(), met());
        let mut list = Vec::new();
        for _ in 0..2_000 {
            list = mutator.child(&list, &[deviation(7, "kill"), deviation(9, "stall:11ms")], &met, &names());
            for (at, deviation) in list.iter().enumerate() {
                assert!(list[..at].iter().all(|other| other.at != deviation.at));
                let decision = deviation.action.decision(|_| None).unwrap();
                let is_here =
                    |(point, offer): &Met| point.key() == deviation.at.key() && offer.allows(decision);
                assert!(met.iter().any(is_here), "{deviation}");
            }
        }
    }

    #[test]
    fn a_move_keeps_the_kind_and_stays_near() {
        let (mut mutator, met) = (mutator(), met());
        for _ in 0..200 {
            let mut list = vec![deviation(100, "kill")];
            mutator.move_one(&mut list, &met, &names());
            let [moved] = &list[..] else { panic!("{list:?}") };
            assert_eq!(moved.action, Action::Plain(Kind::Kill));
            assert!(moved.at.count != 100 && moved.at.count.abs_diff(100) <= 20, "{moved}");
        }
    }

    #[test]
    fn a_splice_begins_as_one_and_goes_on_as_the_other() {
        let mut mutator = mutator();
        let (one, other) =
            ([1, 2, 3].map(|n| deviation(n, "kill")), [3, 4, 5].map(|n| deviation(n, "stall:10ms")));
        let mut lengths = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let mut list = one.to_vec();
            mutator.splice(&mut list, &other);
            assert_eq!(list.last().map(|last| last.at.count), Some(5));
            lengths.insert(list.len());
        }
        assert_eq!(lengths, (1..=5).collect());
    }
    /// Every number stays in its range, and both ends and what lies between are tried.
    #[test]
    fn values_stay_in_their_ranges_and_plain_ones_are_left_out() {
        let scenario = "about = \"x\"\n[[job]]\nid = \"a\"\n[[worker]]\nname = \"w\"\n[vary]\n\
                        job.a.qty = [1, 3]\nworker.w.clock_skew_ms = [-600000, 600000]\n";
        let varied = crate::scenario::Scenario::parse("x.toml", scenario.as_bytes()).unwrap().varied();
        let (mut mutator, mut values) = (mutator(), Values::new());
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..2_000 {
            values = mutator.values(&values, &varied);
            for one in &varied {
                let value = values.get(&one.path).copied();
                assert!(value.is_none_or(|value| one.range.holds(value) && value != one.plain), "{values:?}");
                seen.insert((one.path.clone(), value));
            }
        }
        let qty = |value| seen.contains(&("job.a.qty".to_owned(), value));
        assert!(qty(None) && qty(Some(2)) && qty(Some(3)));
        let skew = |value| seen.contains(&("worker.w.clock_skew_ms".to_owned(), Some(value)));
        assert!(skew(-600_000) && skew(600_000) && seen.len() > 100);
    }
}
