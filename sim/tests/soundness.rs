//! The real queue passes every curated scenario, with many seeds, and each scenario shows what it is for.
//! `ACKWARD_SEEDS` and `ACKWARD_START` choose others.

mod common;

use ackward_sim::campaign::{self, Tally};
use ackward_sim::scenario::Scenario;
use ackward_sim::scene::{self, Real};

const SEEDS: u64 = 300;

fn problems(scenario: &Scenario, tally: &Tally) -> Vec<String> {
    let mut problems: Vec<String> = tally.failures.iter().map(|failure| format!("{failure:#?}")).collect();
    if tally.failed > 0 {
        problems.push(format!("{} seeds of {} failed", tally.failed, tally.seeds));
    }
    if !tally.nondeterministic.is_empty() {
        problems.push(format!("seeds {:?} differed when run again", tally.nondeterministic));
    }
    let missing = tally.missing(scenario);
    if !missing.is_empty() {
        problems.push(format!("never reached: {}", missing.join(", ")));
    }
    let inert = tally.inert(scenario);
    if !inert.is_empty() {
        problems.push(format!("faults that never had an effect: {}", inert.join(", ")));
    }
    problems
}

#[test]
fn every_curated_scenario_holds_and_shows_what_it_is_for() {
    let _alone = common::alone();
    let mut problems_of_all = Vec::new();
    for name in common::curated() {
        let scenario = common::scenario(&name);
        let seeds =
            common::number("ACKWARD_SEEDS").unwrap_or(SEEDS.max(scenario.expect.seeds.unsigned_abs()));
        let tally =
            campaign::run_seeds::<Real>(&scenario, common::number("ACKWARD_START").unwrap_or(1), seeds);
        println!("{name}: {seeds} seeds, {} different, {} failed", tally.hashes.len(), tally.failed);
        problems_of_all
            .extend(problems(&scenario, &tally).into_iter().map(|problem| format!("{name}: {problem}")));
    }
    assert!(problems_of_all.is_empty(), "{}", problems_of_all.join("\n"));
}

#[test]
fn what_a_scenario_expects_is_reached_from_any_seed_on() {
    let _alone = common::alone();
    for name in common::curated() {
        let scenario = common::scenario(&name);
        for start in [1_000_000, 2_000_000] {
            let tally = campaign::run_seeds::<Real>(&scenario, start, scenario.expect.seeds.unsigned_abs());
            let missing = tally.missing(&scenario);
            assert!(missing.is_empty(), "{name} from seed {start} on: {}", missing.join(", "));
        }
    }
}

#[test]
fn every_scripted_deviation_finds_its_point() {
    let _alone = common::alone();
    for name in common::curated() {
        let scenario = common::scenario(&name);
        let report = scene::run(&scenario, 1, false);
        for scripted in &scenario.deviations {
            assert!(report.deviations.contains(scripted), "{name}: {scripted} was not met");
        }
    }
}
