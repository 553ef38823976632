//! A process is killed at every call of an operation, another one comes after it, and then the power goes: what
//! the heir was told must hold although the commit that it found was not its own (M9).

mod common;

use std::cell::RefCell;
use std::rc::Rc;

use ackward::storage::Durability;
use ackward_sim::choice::{Chooser, Decision, Kind, Offer, Point, Recorder};
use common::acts::{self, Answer};
use common::bench::{Bench, INHERIT, State, Then, place};
use common::cut::{Cut, changes_disk};

/// A process is killed; whoever comes next may find its half-made journal, and then loses power.
#[test]
fn m9_extra_never_takes_back_what_an_heir_of_a_killed_process_was_told() {
    let _alone = common::alone();
    let mut runs = 0;
    for act in acts::all().into_iter().filter(|act| ["claim", "finish-ok"].contains(&act.name)) {
        let bench = Bench::new(act, Durability::Extra);
        for (killed_at, _) in bench.points(Then::Idle) {
            for cut_at in points_of_the_heir(&bench, &killed_at) {
                for kept in [vec![], vec![true; 1_000], once_lost()] {
                    let chooser = KillThenCut {
                        kill: killed_at.key(),
                        cut: Cut { at: Some(cut_at.key()), kept, answers: Vec::new() },
                    };
                    let trial = bench.run(chooser, Then::Inherit, false);
                    let state = bench.state(&trial.rows);
                    let place = || {
                        format!(
                            "{}, killed at {}, cut at {}",
                            bench.act.name,
                            place(&killed_at),
                            place(&cut_at)
                        )
                    };
                    assert!(state.is_some(), "{}:\n{}", place(), trial.rows);
                    assert!(trial.heir.is_none(), "{}: the heir has returned", place());
                    runs += 1;
                }
            }
        }
    }
    assert!(runs > 1_000, "{runs}");
}

/// A producer is killed, and its successor is told that the job is there already: it must be there for good,
/// also where the killed one had unlinked its journal and not yet synced the directory.
#[test]
fn m9_q22_extra_never_takes_back_a_job_that_was_called_a_duplicate() {
    let _alone = common::alone();
    let enqueue = acts::all().into_iter().find(|act| act.name == "enqueue").expect("enqueue is swept");
    let bench = Bench::new(enqueue, Durability::Extra);
    for (killed_at, _) in bench.points(Then::Idle) {
        let cut = Cut { at: None, kept: Vec::new(), answers: Vec::new() };
        let trial = bench.run(KillThenCut { kill: killed_at.key(), cut }, Then::InheritAndCut, false);
        assert_eq!(trial.heir, Some(Answer::Done), "killed at {}", place(&killed_at));
        assert_eq!(bench.state(&trial.rows), Some(State::After), "killed at {}", place(&killed_at));
    }
}

/// Loses the first unsynced part, a directory entry if there is one, and keeps all others.
fn once_lost() -> Vec<bool> {
    (0..1_000).map(|part| part > 0).collect()
}

struct KillThenCut {
    kill: u64,
    cut: Cut,
}

impl Chooser for KillThenCut {
    fn choose(&mut self, point: &Point, offers: &[Offer]) -> Decision {
        if point.key() == self.kill {
            return Decision {
                kind: if offers.contains(&Offer::plain(Kind::Kill)) { Kind::Kill } else { Kind::HookKill },
                value: 0,
            };
        }
        self.cut.choose(point, offers)
    }
}

fn points_of_the_heir(bench: &Bench, killed_at: &Point) -> Vec<Point> {
    let nothing = Cut { at: None, kept: Vec::new(), answers: Vec::new() };
    let recorder = Rc::new(RefCell::new(Recorder::new(KillThenCut { kill: killed_at.key(), cut: nothing })));
    let trial = bench.run(Rc::clone(&recorder), Then::Inherit, false);
    assert_eq!(bench.state(&trial.rows), Some(State::After), "{:?}", trial.heir);
    let mut is_new = true;
    let met = recorder.borrow().met().to_vec();
    let own = met.into_iter().filter(|(point, offers)| {
        point.operation == INHERIT && offers.contains(&Offer::plain(Kind::PowerCut))
    });
    own.filter(|(point, _)| std::mem::replace(&mut is_new, changes_disk(point.role)))
        .map(|(point, _)| point)
        .collect()
}
