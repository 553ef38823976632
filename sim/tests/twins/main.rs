//! Broken twins of the queue, the sender and the receiver's inbox: every mistake is found by plain fuzzing of a curated scenario, wherever the seeds
//! begin, and each finding replays from its seed and from its deviations alone. A twin without a mistake passes.

#[path = "../common/mod.rs"]
mod common;

use ackward_sim::campaign;
use ackward_sim::scenario::{Flaw, Net};
use ackward_sim::twin::{self, Twins};

#[test]
fn every_mistake_is_found_and_replays() {
    let _alone = common::alone();
    let table = common::hunt::table::<Twins, _>("twins", Flaw::ALL, twin::make);
    common::assert_snapshot("broken-twins", &table);
}

/// All but the one that shows only where somebody is preempted inside of SQLite, which turmoil cannot do.
#[test]
fn every_mistake_but_one_is_found_on_turmoil_too() {
    let _alone = common::alone();
    let is_findable = |(flaw, _): &&(Flaw, &str)| *flaw != Flaw::SelectOutsideTheTransaction;
    let mistakes: Vec<_> = Flaw::ALL.iter().filter(is_findable).copied().collect();
    let table = common::hunt::table_on::<Twins, _>(Net::Turmoil, "twins", &mistakes, twin::make);
    common::assert_snapshot("broken-twins-turmoil", &table);
}

/// Tells the story of a finding, as the printed command says.
#[test]
fn replay() {
    let _alone = common::alone();
    common::hunt::replay::<Twins, _>("twins", Flaw::ALL, twin::make);
}

#[test]
fn a_twin_without_a_mistake_passes_every_scenario() {
    let _alone = common::alone();
    twin::make(Flaw::None);
    for name in common::curated() {
        let tally = campaign::run_seeds::<Twins>(&common::scenario(&name), 1, 100);
        assert_eq!(tally.failed, 0, "{name}: {:#?}", tally.failures);
    }
}

/// Q36 has `now >= deadline` too. No run can tell `>` from `>=` there: claim and renew end every lease at the
/// deadline at the latest, so that the lease has always ended too. Only rows made by hand can tell.
#[test]
fn q36_the_deadline_decides_nothing_that_the_lease_does_not_decide_first() {
    for deadline in 0..20 {
        for lease_until in 0..=deadline {
            for now in 0..20 {
                let holds = now < lease_until && now < deadline;
                let flawed = now < lease_until && now <= deadline;
                assert_eq!(holds, flawed);
            }
        }
    }
}
