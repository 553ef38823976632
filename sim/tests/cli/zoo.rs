//! `cargo sim zoo`: the board, its survivors, and the story of one mistake.

use std::process::{Command, Output};

use serde_json::Value;

use super::{command, text_of, top};

fn zoo(args: &[&str]) -> Output {
    command().current_dir(top()).arg("zoo").args(args).output().unwrap()
}

fn board(args: &[&str]) -> Value {
    let output = zoo(args);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_board_says_who_was_caught_how_soon_and_by_what() {
    let output = zoo(&["--only", "gap", "--only", "stale-finish", "--starts", "2"]);
    let text = text_of(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for part in ["| mistake ", "median ms", "| gap ", "Q074", "uniform", "commit-matches-model", "Q008"] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    assert!(text.ends_with("2 mistakes, each hunted from 2 seeds on. Survivors: none\n"), "{text}");
    assert_eq!(text_of(&output.stderr), "", "no progress on a pipe");
}

#[test]
fn the_same_board_comes_out_each_time_but_for_its_timings() {
    let once = || {
        let mut board = board(&["--only", "double-claim-two-updates", "--json", "--starts", "2"]);
        let timings = board.as_object_mut().unwrap().remove("timings").unwrap();
        assert_eq!(timings[0]["name"], "double-claim-two-updates");
        assert!(timings[0]["median_seconds"].is_number());
        board
    };
    let first = once();
    assert_eq!(first, once());
    assert_eq!(first["survivors"], Value::Array(Vec::new()));
    let exhibit = &first["exhibits"][0];
    assert_eq!(exhibit["rows"][0], "Q002");
    assert_eq!(exhibit["system"], "claim-in-two-statements");
    assert_eq!(exhibit["seeds"].as_array().unwrap().len(), 2);
}

#[test]
fn a_mistake_that_is_not_found_in_time_is_a_survivor_and_exits_1() {
    let output = zoo(&["--only", "repeat-unsynced", "--starts", "1", "--seeds", "3"]);
    let text = text_of(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("SURVIVED") && text.ends_with("Survivors: repeat-unsynced\n"), "{text}");
}

#[test]
fn a_mistake_is_told_as_a_story_that_ends_with_its_replay() {
    let output = zoo(&["run", "stale-finish"]);
    let text = text_of(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for part in [
        "verdict   caught by commit-matches-model",
        "COMMIT",
        "finish-by-id in scenarios/field/stale-finish.toml",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    let last = text.lines().last().unwrap();
    let replay = last.strip_prefix("cargo sim ").expect("a command");
    let again = Command::new(env!("CARGO_BIN_EXE_ackward-sim"))
        .current_dir(top())
        .args(replay.split(' '))
        .output()
        .unwrap();
    assert_eq!(text_of(&again.stdout), text);
}
