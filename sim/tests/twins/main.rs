//! Broken twins of the queue, the sender and the receiver's inbox: every mistake is found by plain fuzzing of a curated scenario, wherever the seeds
//! begin, and each finding replays from its seed and from its deviations alone. A twin without a mistake passes.

#[path = "../common/mod.rs"]
mod common;
mod flaw;
mod inbox;
mod sender;
mod steps;
mod twin;

use std::fmt::Write;
use std::rc::Rc;

use ackward_sim::campaign;
use ackward_sim::scenario::Scenario;
use ackward_sim::scene::{self, Report, SceneChooser};
use flaw::Flaw;
use twin::Twins;

/// A mistake must be found within so many seeds.
const SEEDS_MAX: u64 = 2_000;
const STARTS: [u64; 2] = [1, 1_000_001];

/// The first failing run from `start` on.
fn hunt(scenario: &Rc<Scenario>, start: u64) -> Option<Report> {
    let reports = (start..start + SEEDS_MAX).map(|seed| scene::run_system::<Twins>(scenario, seed, false));
    reports.into_iter().find(|report| !report.has_passed())
}

/// The same seed gives the same run, and so do its deviations without any randomness.
fn assert_replays(scenario: &Rc<Scenario>, found: &Report) {
    let again = scene::run_system::<Twins>(scenario, found.seed, true);
    assert_eq!((again.hash, &again.violations), (found.hash, &found.violations));
    let chooser = SceneChooser::replay(scenario, &found.deviations);
    let replayed = scene::run_with::<Twins, _>(scenario, found.seed, false, chooser);
    assert_eq!(replayed.deviations, found.deviations);
    assert_eq!((replayed.hash, &replayed.violations), (found.hash, &found.violations));
}

#[test]
fn every_mistake_is_found_and_replays() {
    let _alone = common::alone();
    let mut table = String::new();
    for (flaw, name) in Flaw::ALL {
        twin::make(*flaw);
        let scenario = common::scenario(name);
        let mut line = format!("{:<28} {name:<34}", format!("{flaw:?}"));
        for start in STARTS {
            let found = hunt(&scenario, start);
            let found =
                found.unwrap_or_else(|| panic!("{flaw:?} is not found from seed {start} on in {name}"));
            assert_replays(&scenario, &found);
            let seeds = found.seed - start + 1;
            let _ = write!(line, " {seeds:>4} seeds: {:<24}", found.violations[0].property);
        }
        let _ = writeln!(table, "{}", line.trim_end());
    }
    common::assert_snapshot("broken-twins", &table);
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
