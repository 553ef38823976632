//! Every planted mistake is found by plain fuzzing of its scenario, wherever the seeds begin; each finding replays
//! from its seed and from its deviations alone, and the scoreboard is what is committed.

mod common;

use std::fmt::Write;
use std::rc::Rc;

use ackward_sim::scenario::{Flaw, Net, Scenario};
use ackward_sim::scene::{Report, SceneChooser};
use ackward_sim::twin;
use ackward_sim::zoo::{self, COLUMNS, Score};

const STARTS: u64 = 3;

#[test]
fn nothing_in_the_zoo_survives_and_every_finding_replays() {
    let _alone = common::alone();
    let mut scores = Vec::new();
    for exhibit in zoo::exhibits() {
        let planted = exhibit.planted(Scenario::clone(&common::scenario(&exhibit.scenario)));
        let found: Vec<_> =
            (0..STARTS).map(|at| zoo::hunt(&planted, zoo::start(at), zoo::SEEDS_MAX)).collect();
        for report in found.iter().flatten() {
            assert_reads_well(&exhibit.name, report);
            assert_replays(&exhibit.name, &planted, report);
        }
        scores.push(Score::new(&exhibit, &planted, &found, &|| true));
    }
    let survivors: Vec<_> =
        scores.iter().filter(|score| score.has_survived()).map(|score| &score.name).collect();
    assert!(survivors.is_empty(), "survivors: {survivors:?}");
    common::assert_snapshot("zoo", &board(&scores));
}

/// The same seed gives the same run, and so do its deviations without any randomness.
fn assert_replays(name: &str, planted: &Rc<Scenario>, found: &Report) {
    let again = twin::run(planted, found.seed, true);
    assert_eq!((again.hash, &again.violations), (found.hash, &found.violations), "{name}");
    let chooser = SceneChooser::replay(planted, &found.deviations);
    let replayed = twin::run_choosing(planted, found.seed, false, chooser);
    assert_eq!(replayed.deviations, found.deviations, "{name}");
    assert_eq!((replayed.hash, &replayed.violations), (found.hash, &found.violations), "{name}");
}

/// A violation is told in the words of the field, not as Rust writes its values.
fn assert_reads_well(name: &str, found: &Report) {
    for violation in &found.violations {
        let detail = &violation.detail;
        let rust = ["Some(", "None", " { ", "(\"", "::", "\\\"", "Claimed(", "Finished("];
        let found: Vec<_> = rust.iter().filter(|word| detail.contains(**word)).collect();
        assert!(found.is_empty(), "{name}: {found:?} in {detail}");
    }
}

fn board(scores: &[Score]) -> String {
    let header = COLUMNS.map(str::to_owned);
    let lines: Vec<_> = std::iter::once(header).chain(scores.iter().map(Score::cells)).collect();
    let widths: Vec<usize> = (0..COLUMNS.len())
        .map(|at| lines.iter().map(|line| line[at].len()).max().unwrap_or_default())
        .collect();
    let mut text = String::new();
    for line in lines {
        let cells: Vec<_> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    }
    text
}

#[test]
fn every_mistake_has_its_place() {
    let exhibits = zoo::exhibits();
    for (flaw, _) in Flaw::ALL {
        assert!(exhibits.iter().any(|exhibit| exhibit.flaw == *flaw), "{}", flaw.word());
    }
    let mut names: Vec<_> = exhibits.iter().map(|exhibit| exhibit.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), exhibits.len(), "names are unique");
}

/// The mistakes of the curated scenarios with turmoil as the net, all but one: it shows only where somebody is
/// preempted inside of SQLite, which turmoil cannot do.
#[test]
fn every_mistake_but_one_is_found_on_turmoil_too() {
    const STARTS: u64 = 2;
    let _alone = common::alone();
    let mut table = String::new();
    let is_findable = |(flaw, name): &&(Flaw, &str)| {
        !name.starts_with("field/") && *flaw != Flaw::SelectOutsideTheTransaction
    };
    for (flaw, name) in Flaw::ALL.iter().filter(is_findable) {
        let scenario = common::scenario_on(Net::Turmoil, name);
        let planted = Rc::new(Scenario { system: *flaw, ..Scenario::clone(&scenario) });
        let mut line = format!("{:<32} {name:<34}", flaw.word());
        for start in (0..STARTS).map(zoo::start) {
            let found = zoo::hunt(&planted, start, zoo::SEEDS_MAX);
            let found = found.unwrap_or_else(|| panic!("{} is not found from seed {start} on", flaw.word()));
            assert_replays(&flaw.word(), &planted, &found);
            let seeds = found.seed - start + 1;
            let _ = write!(line, " {seeds:>4} seeds: {:<24}", found.violations[0].property);
        }
        let _ = writeln!(table, "{}", line.trim_end());
    }
    common::assert_snapshot("zoo-on-turmoil", &table);
}
