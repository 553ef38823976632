//! Broken twins of the consumer: every mistake is found by plain fuzzing of a curated scenario, wherever the seeds
//! begin, and each finding replays from its seed and from its deviations alone. A twin without a mistake passes.

#[path = "../common/mod.rs"]
mod common;
mod consumer;
mod flaw;
mod reader;
mod store;

use std::fmt::Write;
use std::rc::Rc;

use ackward_sim::campaign;
use ackward_sim::scenario::Scenario;
use ackward_sim::scene::{self, Report, SceneChooser};
use consumer::Twins;
use flaw::Flaw;

/// A mistake must be found within so many seeds.
const SEEDS_MAX: u64 = 2_000;
const STARTS: [u64; 2] = [1, 1_000_001];
/// Seeds of each scenario for the twin without a mistake.
const SOUND_SEEDS: u64 = 100;

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
        flaw::make(*flaw);
        let scenario = common::scenario(name);
        let mut line = format!("{:<26} {name:<24}", format!("{flaw:?}"));
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
    common::assert_snapshot("broken-stream-twins", &table);
}

/// M9: what a consumer vouches for by an ACK must be durable, whoever committed it.
#[test]
fn the_story_of_the_repeat_fails_with_its_mistake_and_holds_without() {
    let _alone = common::alone();
    let scenario = common::scenario("regressions/stream-repeat-durable");
    flaw::make(Flaw::RepeatUnsynced);
    let broken = scene::run_system::<Twins>(&scenario, 1, false);
    assert_eq!(broken.violations.first().map(|first| first.property), Some("durable-after-power-cut"));
    flaw::make(Flaw::None);
    let twin = scene::run_system::<Twins>(&scenario, 1, false);
    let real = scene::run(&scenario, 1, false);
    for report in [twin, real] {
        assert_eq!(report.violations, []);
        assert_eq!(report.deviations, scenario.deviations);
    }
}

#[test]
fn a_twin_without_a_mistake_passes_every_scenario() {
    let _alone = common::alone();
    flaw::make(Flaw::None);
    for name in common::curated().into_iter().filter(|name| name.starts_with("stream-")) {
        let tally = campaign::run_seeds::<Twins>(&common::scenario(&name), 1, SOUND_SEEDS);
        assert_eq!(tally.failed, 0, "{name}: {:#?}", tally.failures);
        assert!(tally.nondeterministic.is_empty(), "{name}: {:?}", tally.nondeterministic);
    }
}
