//! A process is killed at every single call into the operating system, and at every hook, of every operation:
//! whoever opens the file next finds the rows of before or of after, never anything else (Q59, Q7, Q8, M9).

mod common;

use std::fmt::Write;

use ackward::storage::Durability;
use ackward_sim::choice::{Decision, Kind, Offer, Phase, Point, Replay};
use common::acts::{self, Answer};
use common::bench::{Bench, State, Then, Trial, place};

/// Runs the operation with one deviation, which must find its point.
fn strike(bench: &Bench, point: &Point, kind: Kind) -> Trial {
    let chooser = Replay::new([(point.key(), Decision { kind, value: 0 })]);
    let trial = bench.run(chooser, Then::Idle, false);
    let struck = trial.end.deviations.len();
    assert_eq!(struck, 1, "{} at {} must strike once", kind.as_str(), place(point));
    trial
}

fn points_with(bench: &Bench, kind: Kind) -> Vec<Point> {
    let points = bench.points(Then::Idle);
    points
        .into_iter()
        .filter(|(_, offers)| offers.contains(&Offer::plain(kind)))
        .map(|(point, _)| point)
        .collect()
}

/// Kills at each point; returns the state found after each.
fn sweep(bench: &Bench, kind: Kind) -> Vec<(Point, State)> {
    let mut found = Vec::new();
    for point in points_with(bench, kind) {
        let trial = strike(bench, &point, kind);
        let state = bench.state(&trial.rows);
        let state = state
            .unwrap_or_else(|| panic!("{}, killed at {}:\n{}", bench.act.name, place(&point), trial.rows));
        assert_eq!(trial.answer, None, "{}, killed at {}, has returned", bench.act.name, place(&point));
        found.push((point, state));
    }
    found
}

#[test]
fn q59_a_kill_at_any_call_leaves_the_state_of_before_or_of_after() {
    let _alone = common::alone();
    let mut table = String::new();
    for act in acts::all() {
        let bench = Bench::new(act, Durability::Full);
        let found = sweep(&bench, Kind::Kill);
        // Retiring the journal is the commit: a kill before that call takes all back, one after it nothing.
        for (point, state) in &found {
            let wanted = if point.phase == Phase::End { State::After } else { State::Before };
            assert_eq!(*state, wanted, "{}", place(point));
        }
        let last_before = found.iter().rfind(|(_, state)| *state == State::Before).expect("a point before");
        let before = found.iter().filter(|(_, state)| *state == State::Before).count();
        let _ = writeln!(
            table,
            "## {}\n{} points: {before} leave before (the last is {}), {} leave after",
            bench.act.name,
            found.len(),
            place(&last_before.0),
            found.len() - before
        );
        let _ = writeln!(table, "before\n{}after\n{}", indent(&bench.before), indent(&bench.after));
        for (point, _) in &found {
            let _ = writeln!(table, "  {}", place(point));
        }
    }
    common::assert_snapshot("crash-sweep", &table);
}

#[test]
fn q59_a_kill_at_a_hook_before_commit_leaves_nothing_and_after_commit_everything() {
    let _alone = common::alone();
    let mut table = String::new();
    for act in acts::all() {
        let bench = Bench::new(act, Durability::Full);
        for (point, state) in sweep(&bench, Kind::HookKill) {
            let _ = writeln!(table, "{:<17} {:<22} {state:?}", bench.act.name, point.role.as_str());
        }
    }
    common::assert_snapshot("hook-kills", &table);
}

#[test]
fn q7_q8_an_error_of_a_hook_before_commit_rolls_back_and_after_commit_does_not() {
    let _alone = common::alone();
    for act in acts::all() {
        let bench = Bench::new(act, Durability::Full);
        for point in points_with(&bench, Kind::HookError) {
            let trial = strike(&bench, &point, Kind::HookError);
            let wanted = if point.phase == Phase::End { State::After } else { State::Before };
            assert_eq!(trial.answer, Some(Answer::Hook), "{}", place(&point));
            assert_eq!(bench.state(&trial.rows), Some(wanted), "{}", place(&point));
            assert!(trial.left.is_empty(), "{}: {:?}", place(&point), trial.left);
        }
    }
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}
