//! A recorded failure survives changes of the code that have nothing to do with it: points have names, not positions.
//! Each failure is shrunk on a broken twin and replayed on variants of that twin: with an index more, with a statement
//! more before each transaction, and with a query of its own whose columns have other aliases.

#[path = "../common/mod.rs"]
mod common;
mod variant;

use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;

use ackward_sim::choice::Phase;
use ackward_sim::scenario::{Flaw, Scenario};
use ackward_sim::scene::{Report, SceneChooser, run_with};
use ackward_sim::shrink::{self, RUNS_MAX};
use ackward_sim::twin;

use variant::{Index, Plain, Renamed, Statement, Varied};

/// Mistakes whose smallest failures need deviations, with what finds them.
const RECORDED: &[(Flaw, u64)] = &[
    (Flaw::SelectOutsideTheTransaction, 1),
    (Flaw::QuarantineRolledBack, 1),
    (Flaw::RedriveResetsTheToken, 1),
    (Flaw::AuditApart, 1),
    (Flaw::RenewalIgnoresTheToken, 1_000),
    (Flaw::ResendsByItself, 1),
    (Flaw::AnyTwoHundredIsOk, 1),
    (Flaw::AnswersDespiteTheCommit, 1),
];

#[test]
fn a_recorded_failure_survives_an_index_a_statement_and_an_alias() {
    let _alone = common::alone();
    let mut table = String::new();
    for (flaw, start) in RECORDED {
        let scenario = shrunk(*flaw, *start);
        let deviations = &scenario.deviations;
        assert!(!deviations.is_empty(), "{}: nothing is recorded that could be lost", flaw.word());
        let runs = [
            ("unchanged", replay::<Plain>(&scenario)),
            ("index", replay::<Index>(&scenario)),
            ("statement", replay::<Statement>(&scenario)),
            ("alias", replay::<Renamed>(&scenario)),
        ];
        let property = scenario.expect.fails.as_deref();
        for (change, (report, unmet)) in &runs {
            let broken = report.violations.first().map(|first| first.property);
            assert_eq!(broken, property, "{} with {change}: unmet {unmet:?}", flaw.word());
            assert!(unmet.is_empty(), "{} with {change}: {unmet:?}", flaw.word());
        }
        let at: Vec<_> = deviations.iter().map(ToString::to_string).collect();
        let _ = writeln!(table, "{}: {}\n  {}", flaw.word(), property.unwrap_or_default(), at.join("\n  "));
    }
    common::assert_snapshot("regressions-survive", &table);
}

/// What no name can help: this failure needs its stall between the reading of the clock and the lock. The name says
/// `begin`, and a statement put before the clock is read begins there now. An index and an alias move nothing.
#[test]
fn a_statement_at_the_very_place_of_a_deviation_takes_it_over() {
    let _alone = common::alone();
    let scenario = shrunk(Flaw::RenewalReadsTheClockFirst, 1);
    let broken = |report: &Report| report.violations.first().map(|first| first.property);
    assert_eq!(broken(&replay::<Index>(&scenario).0), Some("clock-under-lock"));
    assert_eq!(broken(&replay::<Renamed>(&scenario).0), Some("clock-under-lock"));
    let at = &scenario.deviations[0].at;
    assert_eq!((at.operation.as_str(), at.phase), ("renew", Phase::Begin), "{at}");
    assert_eq!(broken(&replay::<Statement>(&scenario).0), None);
}

/// Otherwise the first test would show nothing: the changes reach the file and the calls of SQLite.
#[test]
fn the_changes_are_changes() {
    let _alone = common::alone();
    let scenario = shrunk(Flaw::RedriveResetsTheToken, 1);
    let calls = |report: &Report| report.vfs_calls;
    let plain = replay::<Plain>(&scenario).0;
    let (index, statement) = (replay::<Index>(&scenario).0, replay::<Statement>(&scenario).0);
    assert_ne!(calls(&index), calls(&plain));
    assert!(calls(&statement) > calls(&plain));
}

/// Names do lose their points where the changed place itself is meant, and that is said, not ignored.
#[test]
fn a_deviation_that_finds_no_point_is_reported() {
    let _alone = common::alone();
    let mut scenario = Scenario::clone(&shrunk(Flaw::AuditApart, 1));
    scenario.deviations[0].at.operation = "claym".to_owned();
    let (_, unmet) = replay::<Index>(&Rc::new(scenario.clone()));
    assert_eq!(unmet, [scenario.deviations[0].to_string()]);
}

fn replay<V: Varied>(scenario: &Rc<Scenario>) -> (Report, Vec<String>) {
    twin::make(scenario.system);
    let chooser = Rc::new(RefCell::new(SceneChooser::replay(scenario, &scenario.deviations)));
    let report = run_with::<variant::Variant<V>, _>(scenario, 1, false, Rc::clone(&chooser));
    let unmet = chooser.borrow().unmet().iter().map(ToString::to_string).collect();
    (report, unmet)
}

/// The first failure from `start` on, made small, and read from its file.
fn shrunk(flaw: Flaw, start: u64) -> Rc<Scenario> {
    let (_, name) = Flaw::ALL.iter().find(|(known, _)| *known == flaw).expect("a mistake has a scenario");
    let scenario = Rc::new(Scenario { system: flaw, ..Scenario::clone(&common::scenario(name)) });
    let mut reports = (start..start + 2_000).map(|seed| twin::run(&scenario, seed, false));
    let report = reports.find(|report| !report.has_passed()).expect("the mistake is found");
    let shrunk = shrink::shrink(&scenario, &report, RUNS_MAX).expect("it shrinks");
    assert_eq!(shrunk.seed, 1);
    let text = shrunk.to_file("a test");
    Rc::new(Scenario::parse("shrunk.toml", text.as_bytes()).expect("it reads back"))
}
