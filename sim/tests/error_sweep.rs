//! A call into the operating system fails: an I/O error, a failed fsync or a full disk, at every call of every
//! operation. The caller is told, the rows are what it was told, nothing is held afterwards, and the same
//! connection goes on (Q5, Q7, M8).

mod common;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::rc::Rc;

use ackward::storage::Durability;
use ackward_sim::choice::{Decision, Kind, Offer, Point, Recorder, Replay, stream};
use common::acts::{self, Answer};
use common::bench::{Bench, State, Then, Trial, place};
use rand_chacha::rand_core::RngCore;

const KINDS: [Kind; 3] = [Kind::IoError, Kind::FsyncError, Kind::DiskFull];
/// Second faults tried for each first one.
const SECOND_FAULTS: usize = 6;

/// The faults that the operation can meet where these points were met.
fn faults(met: &[(Point, Vec<Offer>)], label: &str) -> Vec<(Point, Kind)> {
    let own = met.iter().filter(|(point, _)| point.process == 0 && point.operation == label);
    own.flat_map(|(point, offers)| {
        let kinds = KINDS.into_iter().filter(|kind| offers.contains(&Offer::plain(*kind)));
        kinds.map(|kind| (*point, kind)).collect::<Vec<_>>()
    })
    .collect()
}

fn replay(faults: &[(Point, Kind)]) -> Replay {
    Replay::new(faults.iter().map(|(point, kind)| (point.key(), Decision { kind: *kind, value: 0 })))
}

fn told(faults: &[(Point, Kind)]) -> String {
    let faults = faults.iter().map(|(point, kind)| format!("{} = {}", place(point), kind.as_str()));
    faults.collect::<Vec<_>>().join(", ")
}

/// The caller knows what the rows are, nothing is held, and the connection goes on. Returns what the caller was
/// told, and what the rows turned out to be.
fn judge(bench: &Bench, faults: &[(Point, Kind)], trial: &Trial) -> (Answer, State) {
    let place = || format!("{} with {}: {trial:#?}", bench.act.name, told(faults));
    let answer = trial.answer.clone().unwrap_or_else(|| panic!("no answer: {}", place()));
    let state = bench.state(&trial.rows);
    let state = state.unwrap_or_else(|| panic!("neither before nor after: {}", place()));
    match &answer {
        Answer::Done => assert_eq!(state, State::After, "{}", place()),
        Answer::Failed(code) => {
            assert_eq!(state, State::Before, "{}", place());
            assert!(["SystemIoFailure", "DiskFull", "CannotOpen"].contains(&code.as_str()), "{}", place());
        }
        // Either state, as long as everybody sees the same one.
        Answer::Unknown(_) => {}
        Answer::Hook | Answer::Odd(_) => panic!("{}", place()),
    }
    assert!(trial.left.is_empty(), "something is left behind: {}", place());
    assert_eq!(trial.own_look.as_ref(), Some(&trial.rows), "two views of one file: {}", place());
    assert_eq!(trial.goes_on, Some(Ok(())), "the connection is of no more use: {}", place());
    (answer, state)
}

#[derive(Default)]
struct Counts {
    done: usize,
    failed: BTreeMap<String, usize>,
    unknown: BTreeMap<String, usize>,
    /// Those of the unknown whose change turned out to be in place.
    in_place: usize,
}

impl Counts {
    fn add(&mut self, (answer, state): (Answer, State)) {
        let unknown = matches!(answer, Answer::Unknown(_));
        self.in_place += usize::from(unknown && state == State::After);
        match answer {
            Answer::Failed(code) => *self.failed.entry(code).or_default() += 1,
            Answer::Unknown(code) => *self.unknown.entry(code).or_default() += 1,
            _ => self.done += 1,
        }
    }

    fn line(&self) -> String {
        let list = |counts: &BTreeMap<String, usize>| {
            let list: Vec<_> = counts.iter().map(|(code, count)| format!("{count} {code}")).collect();
            if list.is_empty() { "0".to_owned() } else { list.join(" + ") }
        };
        let (failed, unknown) = (list(&self.failed), list(&self.unknown));
        format!("ok {}, failed {failed}, unknown {unknown} ({} in place)", self.done, self.in_place)
    }
}

#[test]
fn q7_m8_an_error_of_any_call_is_told_and_the_rows_are_what_was_told() {
    let _alone = common::alone();
    let mut table = String::new();
    for durability in [Durability::Full, Durability::Extra] {
        for act in acts::all() {
            let bench = Bench::new(act, durability);
            let mut counts: BTreeMap<Kind, Counts> = BTreeMap::new();
            for fault in faults(&bench.points(Then::GoOn), bench.act.name) {
                let trial = bench.run(replay(&[fault]), Then::GoOn, false);
                assert_eq!(trial.end.deviations.len(), 1, "{}", told(&[fault]));
                counts.entry(fault.1).or_default().add(judge(&bench, &[fault], &trial));
            }
            for (kind, counts) in &counts {
                let durability = format!("{durability:?}").to_lowercase();
                let _ = writeln!(
                    table,
                    "{durability:<5} {:<16} {:<11} {}",
                    bench.act.name,
                    kind.as_str(),
                    counts.line()
                );
            }
        }
    }
    common::assert_snapshot("errors", &table);
}

#[test]
fn q7_m8_a_second_error_on_the_way_out_changes_nothing_of_that() {
    let _alone = common::alone();
    let mut counts = Counts::default();
    let mut random = stream(1, 0);
    for act in acts::all().into_iter().filter(|act| ["claim", "reclaim"].contains(&act.name)) {
        let bench = Bench::new(act, Durability::Full);
        for first in faults(&bench.points(Then::GoOn), bench.act.name) {
            let recorder = Rc::new(RefCell::new(Recorder::new(replay(&[first]))));
            let _ = bench.run(Rc::clone(&recorder), Then::GoOn, false);
            let met = recorder.borrow().met().to_vec();
            let at = met.iter().position(|(point, _)| point.key() == first.0.key()).unwrap_or(0);
            let mut later = faults(&met[at + 1..], bench.act.name);
            for _ in 0..SECOND_FAULTS.min(later.len()) {
                let second = later.swap_remove(random.next_u32() as usize % later.len());
                let both = [first, second];
                let trial = bench.run(replay(&both), Then::GoOn, false);
                assert_eq!(trial.end.deviations.len(), 2, "{}", told(&both));
                counts.add(judge(&bench, &both, &trial));
            }
        }
    }
    common::assert_snapshot("errors-in-pairs", &counts.line());
}
