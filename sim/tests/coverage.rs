//! Coverage-guided fuzzing as a library: the same seed gives the same sequence of runs, a corpus that is read back
//! spares runs, and what is guided reaches more than what is drawn. And the table of strategies.

mod common;

use std::collections::BTreeSet;

use ackward_sim::choice::Deviation;
use ackward_sim::coverage::corpus::{self, Entry};
use ackward_sim::coverage::{Failed, Fuzzer, Step, Trial, smallest};
use ackward_sim::detection::{Comparison, Way};
use ackward_sim::scenario::{Flaw, Scenario};
use ackward_sim::shrink::shrink;
use ackward_sim::strategy::{Strategist, Strategy};
use std::rc::Rc;
use std::time::Duration;

const SCENARIO: &str = "lease-runs-out-during-a-slow-send";
/// One with ranges.
const VARIED: &str = "leases-of-any-length";

#[test]
fn the_same_seed_is_the_same_sequence_of_runs() {
    let _alone = common::alone();
    let kept = |start| search(start, 120).1;
    let first = kept(1);
    assert!(first.len() > 5, "{}", first.len());
    assert_eq!(kept(1), first);
    assert_ne!(kept(2), first);
}

/// What was reached once is reached at once from the corpus, whichever of two halves a list lies in.
#[test]
fn a_corpus_persists_merges_and_reaches_the_same_when_minimised() {
    let _alone = common::alone();
    let (before, lists) = search(1, 150);
    let folder = tempfile::tempdir().unwrap();
    let (left, right) = (folder.path().join("left"), folder.path().join("right"));
    for (at, list) in lists.iter().enumerate() {
        corpus::write(if at % 2 == 0 { &left } else { &right }, &Entry::new(list.clone())).unwrap();
    }
    let read = corpus::read(&[left.clone(), right.clone()]).unwrap();
    assert_eq!(read, corpus::read(&[right, left.clone()]).unwrap());
    let distinct: BTreeSet<_> = lists.iter().map(|list| Entry::new(list.clone()).name).collect();
    assert_eq!(read.iter().map(|entry| entry.name.clone()).collect::<BTreeSet<_>>(), distinct);

    let mut fuzzer = fuzzer(1);
    read.iter().for_each(|entry| drop(fuzzer.plant(&entry.trial)));
    assert_eq!(fuzzer.reached(), before.reached());

    let reached: Vec<_> =
        read.iter().map(|entry| (entry.trial.len(), fuzzer.replay(&entry.trial).1)).collect();
    let kept: Vec<_> = smallest(&reached).into_iter().map(|at| read[at].clone()).collect();
    assert!(kept.len() < read.len());
    corpus::replace(&left, &kept).unwrap();
    let mut minimised = self::fuzzer(1);
    corpus::read(&[left]).unwrap().iter().for_each(|entry| drop(minimised.plant(&entry.trial)));
    assert_eq!(minimised.reached(), before.reached());
}

#[test]
fn a_file_of_a_corpus_reads_back_and_a_wrong_one_says_what_is_allowed() {
    let (at, action) = ("w/1/claim#1/wait/resume#1".parse().unwrap(), "pick:worker-b");
    let action = ackward_sim::choice::Action::parse(action).unwrap();
    let values = [("duration_ms".to_owned(), 5), ("worker.w.clock_skew_ms".to_owned(), -7)].into();
    let list = vec![Deviation { at, action }];
    let trials = [Trial::default(), list.clone().into(), Trial { values, list: Vec::new() }];
    let both = Trial { values: trials[2].values.clone(), list };
    let mut names = BTreeSet::new();
    for trial in trials.into_iter().chain([both]) {
        let entry = Entry::new(trial);
        assert!(names.insert(entry.name.clone()), "{entry:?}");
        assert_eq!(Entry::parse("x.toml", entry.to_toml().as_bytes()).unwrap(), entry);
    }
    for wrong in [
        "[[deviation]]\nat = 5",
        "deviations = []",
        "[values]\nworker.w.lease_ms = \"50\"",
        "[values]\nworker.w.lease_ms = [50]",
        "\u{0}",
        "[[deviation]]\nat = \"w/1/claim#1/wait/resume#1\"",
    ] {
        let error = Entry::parse("x.toml", wrong.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("x.toml: ") && error.contains("allowed in a corpus"), "{error}");
    }
    assert!(Entry::parse("x.toml", b"\xff").unwrap_err().to_string().contains("allowed in a corpus"));
}

/// Guidance is worth its runs: with as many it reaches more than seeds do.
#[test]
fn guided_runs_reach_more_than_drawn_ones() {
    let _alone = common::alone();
    let (guided, _) = search(1, 400);
    let mut drawn = fuzzer(1);
    let strategist = strategist();
    for seed in 1..=guided.runs() {
        let deviations = strategist.run(seed, false).deviations;
        let _ = drawn.plant(&deviations.into());
    }
    assert!(guided.reached() > drawn.reached(), "{} against {}", guided.reached(), drawn.reached());
}

/// With its plain values the lease is never over before the finish, whatever the schedule: only other values tell of a
/// finish that ignores its end.
#[test]
fn what_only_other_values_reach_is_found_and_shrunk_without_ranges() {
    let _alone = common::alone();
    let scenario = Scenario::clone(&common::scenario(VARIED));
    let scenario = Rc::new(Scenario { system: Flaw::FinishIgnoresExpiry, ..scenario });
    let strategist = Strategist::new(Rc::clone(&scenario), Strategy::default());
    assert!((1..=200).all(|seed| strategist.run(seed, false).has_passed()));

    for start in [1, 1_000] {
        let failed = first_failure(&scenario, start, 400).expect("found through other values");
        assert!(!failed.values.is_empty());
        assert!(failed.scenario.vary.is_empty());
        let shrunk = shrink(&failed.scenario, &failed.report, 1_000).expect("its deviations break it");
        let text = shrunk.to_file("x.toml");
        assert!(!text.contains("vary"), "{text}");
        let again = Rc::new(Scenario::parse("x.toml", text.as_bytes()).unwrap());
        let report = Strategist::new(again, Strategy::default()).run(shrunk.seed, false);
        assert_eq!(report.violations[0].property, failed.report.violations[0].property);
    }
}

/// What a search kept has the values that it was kept for: the corpus reaches the same, and less without them.
#[test]
fn a_corpus_keeps_values() {
    let _alone = common::alone();
    let scenario = common::scenario(VARIED);
    let mut fuzzer = of(&scenario, 1);
    let mut kept = Vec::new();
    while fuzzer.runs() < 200 {
        match fuzzer.step() {
            Step::New(trial) => kept.push(trial),
            Step::Known => {}
            Step::Failed(failed) => panic!("{:?} {:?}", failed.values, failed.report.violations),
        }
    }
    assert!(kept.iter().any(|trial| !trial.values.is_empty()));
    let reached = |with_values: bool| {
        let mut other = of(&scenario, 1);
        for trial in &kept {
            let entry = Entry::new(trial.clone());
            let Trial { values, list } = Entry::parse(&entry.name, entry.to_toml().as_bytes()).unwrap().trial;
            let values = if with_values { values } else { Default::default() };
            let _ = other.plant(&Trial { values, list });
        }
        other.reached()
    };
    assert_eq!(reached(true), fuzzer.reached());
    assert!(reached(false) < fuzzer.reached());
}

/// A job that comes after the end is refused where it is written, and not tried where it is varied.
#[test]
fn what_the_checks_refuse_is_not_run() {
    let _alone = common::alone();
    let text = "about = \"x\"\nduration_ms = 30000\n[[job]]\nid = \"a\"\nat_ms = 5000\n[[worker]]\nname = \"w\"\n\
                [faults]\npick = 0.1\n[vary]\nduration_ms = [1000, 30000]\njob.a.at_ms = [0, 30000]\n";
    let scenario = Rc::new(Scenario::parse("x.toml", text.as_bytes()).unwrap());
    let mut fuzzer = of(&scenario, 1);
    let mut durations = BTreeSet::new();
    while fuzzer.runs() < 150 {
        let Step::New(Trial { values, .. }) = fuzzer.step() else { continue };
        let value = |path: &str, plain| values.get(path).copied().unwrap_or(plain);
        let duration_ms = value("duration_ms", 30_000);
        assert!(value("job.a.at_ms", 5_000) <= duration_ms, "{values:?}");
        durations.insert(duration_ms);
    }
    assert!(durations.len() > 2, "{durations:?}");
}

/// Values that a scenario lets vary no more, or not so far, are passed over.
#[test]
fn values_of_another_scenario_are_plain() {
    let _alone = common::alone();
    let mut fuzzer = of(&common::scenario(VARIED), 1);
    let plain = fuzzer.replay(&Trial::default()).0;
    let values = [("worker.worker-a.lease_ms".to_owned(), 5), ("job.tea.qty".to_owned(), 7)].into();
    assert_eq!(fuzzer.replay(&Trial { values, list: Vec::new() }).0.hash, plain.hash);
    let values = [("receiver.service_ms".to_owned(), 100)].into();
    assert_ne!(fuzzer.replay(&Trial { values, list: Vec::new() }).0.hash, plain.hash);
}

/// Fewer campaigns, fewer runs and fewer mistakes than `cargo sim strategies` has; the same numbers everywhere.
#[test]
fn the_table_of_strategies() {
    let _alone = common::alone();
    let mut table = Comparison::new(Way::ALL.to_vec(), 3, 60);
    let hard = [Flaw::FinishAtTheLeasesEnd, Flaw::RenewalIgnoresTheToken];
    let easy = [Flaw::DeferredBegin, Flaw::LateExpiry, Flaw::RedriveResetsTheToken, Flaw::ResendsByItself];
    for flaw in hard.into_iter().chain(easy) {
        let (_, name) = Flaw::ALL.iter().find(|(known, _)| *known == flaw).unwrap();
        let scenario = Scenario { system: flaw, ..Scenario::clone(&common::scenario(name)) };
        table.measure(&flaw.word(), &Rc::new(scenario), Duration::default);
    }
    common::assert_snapshot("strategies", &table.to_string());
    assert!(table.is_default_no_slower(), "{table}");
}

fn strategist() -> Strategist {
    Strategist::new(common::scenario(SCENARIO), Strategy::default())
}

fn fuzzer(start: u64) -> Fuzzer {
    Fuzzer::new(strategist(), start)
}

fn of(scenario: &Rc<Scenario>, start: u64) -> Fuzzer {
    Fuzzer::new(Strategist::new(Rc::clone(scenario), Strategy::default()), start)
}

fn first_failure(scenario: &Rc<Scenario>, start: u64, runs: u64) -> Option<Failed> {
    let mut fuzzer = of(scenario, start);
    while fuzzer.runs() < runs {
        if let Step::Failed(failed) = fuzzer.step() {
            return Some(*failed);
        }
    }
    None
}

/// A search of about `runs` runs, and what it kept.
fn search(start: u64, runs: u64) -> (Fuzzer, Vec<Trial>) {
    let mut fuzzer = fuzzer(start);
    let mut kept = Vec::new();
    while fuzzer.runs() < runs {
        match fuzzer.step() {
            Step::New(list) => kept.push(list),
            Step::Known => {}
            Step::Failed(failed) => panic!("{:?}", failed.report.violations),
        }
    }
    (fuzzer, kept)
}
