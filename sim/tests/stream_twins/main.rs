//! Broken twins of the consumer: every mistake is found by plain fuzzing of a curated scenario, wherever the seeds
//! begin, and each finding replays from its seed and from its deviations alone. A twin without a mistake passes.

#[path = "../common/mod.rs"]
mod common;
mod consumer;
mod flaw;
mod reader;
mod store;

use ackward_sim::campaign;
use ackward_sim::scenario::Net;
use ackward_sim::scene;
use consumer::Twins;
use flaw::Flaw;

/// Seeds of each scenario for the twin without a mistake.
const SOUND_SEEDS: u64 = 100;

#[test]
fn every_mistake_is_found_and_replays() {
    let _alone = common::alone();
    let table = common::hunt::table::<Twins, _>("stream_twins", Flaw::ALL, flaw::make);
    common::assert_snapshot("broken-stream-twins", &table);
}

#[test]
fn mistakes_are_found_on_turmoil_too() {
    let _alone = common::alone();
    let table = common::hunt::table_on::<Twins, _>(Net::Turmoil, "stream_twins", Flaw::ALL, flaw::make);
    common::assert_snapshot("broken-stream-twins-turmoil", &table);
}

/// Tells the story of a finding, as the printed command says.
#[test]
fn replay() {
    let _alone = common::alone();
    common::hunt::replay::<Twins, _>("stream_twins", Flaw::ALL, flaw::make);
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
