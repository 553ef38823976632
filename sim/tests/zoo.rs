//! Every planted mistake is found by plain fuzzing of its scenario, wherever the seeds begin; each finding replays
//! from its seed and from its deviations alone, and the scoreboard is what is committed.

mod common;

use std::fmt::Write;
use std::rc::Rc;

use ackward_sim::scenario::{Flaw, Scenario};
use ackward_sim::scene::{Report, SceneChooser};
use ackward_sim::twin;
use ackward_sim::zoo::{self, COLUMNS, Exhibit, Score};

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
            assert_replays(&exhibit, &planted, report);
        }
        scores.push(Score::new(&exhibit, &planted, &found));
    }
    let survivors: Vec<_> =
        scores.iter().filter(|score| score.has_survived()).map(|score| &score.name).collect();
    assert!(survivors.is_empty(), "survivors: {survivors:?}");
    common::assert_snapshot("zoo", &board(&scores));
}

/// The same seed gives the same run, and so do its deviations without any randomness.
fn assert_replays(exhibit: &Exhibit, planted: &Rc<Scenario>, found: &Report) {
    let again = twin::run(planted, found.seed, true);
    assert_eq!((again.hash, &again.violations), (found.hash, &found.violations), "{}", exhibit.name);
    let chooser = SceneChooser::replay(planted, &found.deviations);
    let replayed = twin::run_choosing(planted, found.seed, false, chooser);
    assert_eq!(replayed.deviations, found.deviations, "{}", exhibit.name);
    assert_eq!((replayed.hash, &replayed.violations), (found.hash, &found.violations), "{}", exhibit.name);
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
