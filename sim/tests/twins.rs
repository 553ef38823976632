//! The twins of the queue, the worker, the sender, the receiver's inbox and the consumer without a mistake: they
//! pass every curated scenario, so that what is found in them comes from their mistakes. The hunts for those are in
//! `zoo.rs`.

mod common;

use ackward_sim::campaign;
use ackward_sim::scenario::Flaw;
use ackward_sim::scene;
use ackward_sim::twin::{self, Twins};

#[test]
fn a_twin_without_a_mistake_passes_every_scenario() {
    let _alone = common::alone();
    twin::make(Flaw::None);
    for name in common::curated() {
        let tally = campaign::run_seeds::<Twins>(&common::scenario(&name), 1, 100);
        assert_eq!(tally.failed, 0, "{name}: {:#?}", tally.failures);
        assert!(tally.nondeterministic.is_empty(), "{name}: {:?}", tally.nondeterministic);
    }
}

/// M9: what a consumer vouches for by an ACK must be durable, whoever committed it.
#[test]
fn the_story_of_the_repeat_fails_with_its_mistake_and_holds_without() {
    let _alone = common::alone();
    let scenario = common::scenario("regressions/stream-repeat-durable");
    twin::make(Flaw::RepeatUnsynced);
    let broken = scene::run_system::<Twins>(&scenario, 1, false);
    assert_eq!(broken.violations.first().map(|first| first.property), Some("durable-after-power-cut"));
    twin::make(Flaw::None);
    let sound = scene::run_system::<Twins>(&scenario, 1, false);
    let real = scene::run(&scenario, 1, false);
    for report in [sound, real] {
        assert_eq!(report.violations, []);
        assert_eq!(*report.deviations, *scenario.deviations);
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
