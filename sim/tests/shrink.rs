//! Every mistake's failure shrinks to a few deviations, keeps its property, and what is left replays by name from the
//! file alone.

mod common;

use std::fmt::Write;
use std::rc::Rc;

use ackward_sim::scenario::{Flaw, Scenario};
use ackward_sim::scene::Report;
use ackward_sim::shrink::{self, Freedom, RUNS_MAX, Shrunk};
use ackward_sim::twin;

/// Most deviations of a shrunk failure, in nearly all cases.
const FEW: usize = 4;

#[test]
fn every_mistake_shrinks_to_a_few_deviations_and_replays_from_its_file() {
    let _alone = common::alone();
    let mut table = String::new();
    let (mut total, mut few) = (0, 0);
    // Those of the field are shrunk by the zoo.
    for (flaw, name) in Flaw::ALL.iter().filter(|(_, name)| !name.starts_with("field/")) {
        for start in [1, 1_000] {
            let (report, shrunk) = shrunk(*flaw, name, start);
            let scenario = &shrunk.scenario;
            let (before, after) = shrunk.deviations;
            let processes = scenario.process_names().len();
            let _ = writeln!(
                table,
                "{:<31} seed {:<5} {:<22} deviations {before:>4} -> {after}, jobs {}, processes {processes}, runs {}",
                flaw.word(),
                report.seed,
                shrunk.property,
                scenario.jobs.len(),
                shrunk.runs
            );
            assert!(after <= before, "{}", flaw.word());
            total += 1;
            few += usize::from(after <= FEW);
            assert_replays(&shrunk);
        }
    }
    let _ = writeln!(table, "\nat most {FEW} deviations: {few} of {total}");
    common::assert_snapshot("shrunk-twins", &table);
}

/// The text alone breaks the same property, on the mistaken system only.
fn assert_replays(shrunk: &Shrunk) {
    let text = shrunk.to_file("a test");
    let read =
        Rc::new(Scenario::parse("shrunk.toml", text.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{text}")));
    let again = twin::run(&read, shrunk.seed, false);
    assert_eq!(
        again.violations.first().map(|first| first.property),
        Some(shrunk.property.as_str()),
        "{text}"
    );
    assert_eq!(again.unmet, [], "{text}");
    assert_eq!(read.expect.fails.as_deref(), Some(shrunk.property.as_str()));
    let fixed = Rc::new(Scenario { system: Flaw::None, ..Scenario::clone(&read) });
    let fixed = twin::run(&fixed, shrunk.seed, false);
    assert_eq!(fixed.violations, [], "{text}");
}

#[test]
fn a_shrunk_file_reads_as_a_story() {
    let _alone = common::alone();
    let cases = [
        (Flaw::FinishIgnoresExpiry, "lease-runs-out-during-a-slow-send"),
        (Flaw::SelectOutsideTheTransaction, "two-workers-one-job"),
        (Flaw::RetryAtTheDeadline, "every-millisecond-counts"),
        (Flaw::EffectApart, "http-receiver-killed-after-its-commit"),
    ];
    for (flaw, name) in cases {
        let (report, shrunk) = shrunk(flaw, name, 1);
        let text = shrunk.to_file(&format!("scenarios/{name}.toml, seed {}", report.seed));
        common::assert_snapshot(&format!("shrunk-{}", flaw.word()), &text);
    }
}

#[test]
fn the_same_failure_shrinks_to_the_same_file() {
    let _alone = common::alone();
    let text = || shrunk(Flaw::TimeoutIsPermanent, "http-timeout-beside-the-reply", 1).1.to_file("a test");
    assert_eq!(text(), text());
}

#[test]
fn a_failure_that_needs_no_deviation_shrinks_too() {
    let _alone = common::alone();
    let text = "about = \"The workers live in the past.\"\n[[job]]\nid = \"cake\"\nqty = 7\ncount = 5\nevery_ms = 13\n\
                [[worker]]\nname = \"w\"\ncount = 3\nclock_skew_ms = -599999\n";
    let scenario = Rc::new(Scenario::parse("late.toml", text.as_bytes()).unwrap());
    let report = twin::run(&scenario, 5, false);
    let shrunk = shrink::shrink(&scenario, &report, RUNS_MAX).expect("it does not settle");
    assert_eq!((shrunk.property.as_str(), shrunk.seed), ("settles", 1));
    assert_eq!((shrunk.scenario.jobs.len(), shrunk.scenario.workers.len()), (1, 1));
    assert_eq!((shrunk.scenario.jobs[0].qty.get(), shrunk.scenario.jobs[0].at_ms), (1, 0));
    assert!(shrunk.scenario.workers[0].clock_skew_ms > -599_999);
    assert!(shrunk.freedom.free.contains(&"the seed".to_owned()), "{:?}", shrunk.freedom);
}

#[test]
fn a_run_that_broke_nothing_does_not_shrink() {
    let _alone = common::alone();
    let scenario = common::scenario("two-workers-one-job");
    let report = twin::run(&scenario, 1, false);
    assert!(shrink::shrink(&scenario, &report, RUNS_MAX).is_none());
}

#[test]
fn runs_are_limited_and_what_was_reached_by_then_is_kept() {
    let _alone = common::alone();
    let scenario = named(Flaw::FinishIgnoresExpiry, "lease-runs-out-during-a-slow-send");
    let report = first_failure(&scenario, 1);
    let shrunk = shrink::shrink(&scenario, &report, 10).expect("it fails");
    assert!(!shrunk.is_done);
    assert_replays(&shrunk);
    assert_eq!(shrunk.freedom, Freedom::default(), "what was not tried is not known");
    // The search for the millisecond that matters, and what could be anything, count too.
    let scenario = named(Flaw::RetryAtTheDeadline, "every-millisecond-counts");
    let report = first_failure(&scenario, 1);
    for runs_max in [6, 100, 1_000, 3_500] {
        let shrunk = shrink::shrink(&scenario, &report, runs_max).expect("it fails");
        assert!(shrunk.runs <= runs_max, "{} of {runs_max} runs", shrunk.runs);
    }
}

fn shrunk(flaw: Flaw, name: &str, start: u64) -> (Report, Shrunk) {
    let scenario = named(flaw, name);
    let report = first_failure(&scenario, start);
    let shrunk = shrink::shrink(&scenario, &report, RUNS_MAX);
    let shrunk =
        shrunk.unwrap_or_else(|| panic!("{} does not shrink from seed {}", flaw.word(), report.seed));
    assert_eq!(shrunk.property, report.violations[0].property);
    (report, shrunk)
}

fn named(flaw: Flaw, name: &str) -> Rc<Scenario> {
    Rc::new(Scenario { system: flaw, ..Scenario::clone(&common::scenario(name)) })
}

fn first_failure(scenario: &Rc<Scenario>, start: u64) -> Report {
    let mut reports = (start..start + 2_000).map(|seed| twin::run(scenario, seed, false));
    reports.find(|report| !report.has_passed()).expect("the mistake is found")
}
