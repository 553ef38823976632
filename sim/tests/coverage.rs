//! Coverage-guided fuzzing as a library: the same seed gives the same sequence of runs, a corpus that is read back
//! spares runs, and what is guided reaches more than what is drawn. And the table of strategies.

mod common;

use std::collections::BTreeSet;

use ackward_sim::choice::Deviation;
use ackward_sim::coverage::corpus::{self, Entry};
use ackward_sim::coverage::{Fuzzer, Step, smallest};
use ackward_sim::detection::{Comparison, Way};
use ackward_sim::scenario::{Flaw, Scenario};
use ackward_sim::strategy::{Strategist, Strategy};
use std::rc::Rc;

const SCENARIO: &str = "lease-runs-out-during-a-slow-send";

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
    read.iter().for_each(|entry| drop(fuzzer.plant(&entry.list)));
    assert_eq!(fuzzer.reached(), before.reached());

    let reached: Vec<_> = read.iter().map(|entry| (entry.list.len(), fuzzer.replay(&entry.list).1)).collect();
    let kept: Vec<_> = smallest(&reached).into_iter().map(|at| read[at].clone()).collect();
    assert!(kept.len() < read.len());
    corpus::replace(&left, &kept).unwrap();
    let mut minimised = self::fuzzer(1);
    corpus::read(&[left]).unwrap().iter().for_each(|entry| drop(minimised.plant(&entry.list)));
    assert_eq!(minimised.reached(), before.reached());
}

#[test]
fn a_file_of_a_corpus_reads_back_and_a_wrong_one_says_what_is_allowed() {
    let (at, action) = ("w/1/claim#1/wait/resume#1".parse().unwrap(), "pick:worker-b");
    let action = ackward_sim::choice::Action::parse(action).unwrap();
    for list in [vec![], vec![Deviation { at, action }]] {
        let entry = Entry::new(list);
        assert_eq!(Entry::parse("x.toml", entry.to_toml().as_bytes()).unwrap(), entry);
    }
    for wrong in [
        "[[deviation]]\nat = 5",
        "deviations = []",
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
        let _ = drawn.plant(&deviations);
    }
    assert!(guided.reached() > drawn.reached(), "{} against {}", guided.reached(), drawn.reached());
}

/// Fewer campaigns, fewer runs and fewer mistakes than `cargo sim strategies` has; the same numbers everywhere.
#[test]
fn the_table_of_strategies() {
    let _alone = common::alone();
    let mut table = Comparison::new(3, 60);
    let hard = [Flaw::FinishAtTheLeasesEnd, Flaw::RenewalIgnoresTheToken];
    let easy = [Flaw::DeferredBegin, Flaw::LateExpiry, Flaw::RedriveResetsTheToken, Flaw::ResendsByItself];
    for flaw in hard.into_iter().chain(easy) {
        let (_, name) = Flaw::ALL.iter().find(|(known, _)| *known == flaw).unwrap();
        let scenario = Scenario { system: flaw, ..Scenario::clone(&common::scenario(name)) };
        table.measure(&flaw.word(), &Rc::new(scenario));
    }
    let text = table.to_string();
    common::assert_snapshot("strategies", &text);
    assert!(table.total(Way::Seeds(Strategy::Mix)) <= table.total(Way::Seeds(Strategy::Uniform)), "{text}");
}

fn strategist() -> Strategist {
    Strategist::new(common::scenario(SCENARIO), Strategy::default())
}

fn fuzzer(start: u64) -> Fuzzer {
    Fuzzer::new(strategist(), start)
}

/// A search of about `runs` runs, and what it kept.
fn search(start: u64, runs: u64) -> (Fuzzer, Vec<Vec<Deviation>>) {
    let mut fuzzer = fuzzer(start);
    let mut kept = Vec::new();
    while fuzzer.runs() < runs {
        match fuzzer.step() {
            Step::New(list) => kept.push(list),
            Step::Known => {}
            Step::Failed(report) => panic!("{:?}", report.violations),
        }
    }
    (fuzzer, kept)
}
