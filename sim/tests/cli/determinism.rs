//! Nothing around a run changes it: neither the process, nor its environment, nor how many run at a time.

use std::process::Command;

use serde_json::Value;

use super::{PLAIN, command, folder, sim, text_of, top};

/// Changes what surrounds a command.
type Change<'a> = dyn Fn(&mut Command) -> &mut Command + 'a;

const STORM: &str = "scenarios/storm.toml";

#[test]
fn the_same_seed_is_the_same_run_in_any_surroundings() {
    let file = top().join(STORM);
    let run = |change: &Change<'_>| {
        let mut command = command();
        command.arg("run").arg(&file).args(["--seed", "11", "--json"]);
        change(&mut command);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stderr));
        let mut run: Value = serde_json::from_slice(&output.stdout).unwrap();
        // The path is told as it is from the current directory.
        run.as_object_mut().unwrap().remove("file");
        run.to_string()
    };
    let elsewhere = tempfile::tempdir().unwrap();
    let first = run(&|command: &mut Command| command);
    assert!(first.contains("COMMIT"), "the run tells no story");
    let surroundings: [(&str, Box<Change<'_>>); 7] = [
        ("another process", Box::new(|command| command)),
        ("another directory", Box::new(|command| command.current_dir(elsewhere.path()))),
        ("another home", Box::new(|command| command.env("HOME", "/nowhere"))),
        ("another time zone", Box::new(|command| command.env("TZ", "Pacific/Chatham"))),
        (
            "another language",
            Box::new(|command| command.env("LANG", "tr_TR.UTF-8").env("LC_ALL", "tr_TR.UTF-8")),
        ),
        ("a huge environment", Box::new(|command| command.env("HUGE", "x".repeat(100_000)))),
        ("no environment", Box::new(|command| command.env_clear())),
    ];
    for (what, change) in surroundings {
        assert_eq!(run(&change), first, "{what}");
    }
}

#[test]
fn the_number_of_jobs_does_not_change_the_result() {
    let results = |jobs: &str| {
        let args =
            ["fuzz", STORM, "scenarios/two-workers-one-job.toml", "--seeds", "150", "--json", "--jobs", jobs];
        let output = sim(&args);
        assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stderr));
        without_timings(&output.stdout)
    };
    let one = results("1");
    assert!(one.contains("\"seeds\":150"), "{one}");
    assert_eq!(results("2"), one);
    assert_eq!(results("5"), one);
}

#[test]
fn nearly_every_seed_of_a_storm_is_another_run() {
    let output = sim(&["fuzz", STORM, "--seeds", "500", "--start", "1000000", "--json"]);
    let campaign: Value = serde_json::from_slice(&output.stdout).unwrap();
    let distinct = campaign["scenarios"][0]["distinct_runs"].as_u64().unwrap();
    assert!((495..=500).contains(&distinct), "{distinct}");
}

/// The first is warm after many others, the second cold.
#[test]
fn one_seed_is_the_same_alone_and_among_others() {
    let alone = sim(&["run", STORM, "--seed", "63", "--json"]);
    let alone: Value = serde_json::from_slice(&alone.stdout).unwrap();
    let (one, many) = (["--start", "63", "--seeds", "1"], ["--start", "1", "--seeds", "63"]);
    let simulated = |range: &[&str; 4]| {
        let output = sim(&[&["fuzz", STORM, "--json", "--jobs", "1"][..], range].concat());
        let campaign: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(campaign["scenarios"][0]["cold"], Value::Null);
        campaign["scenarios"][0]["simulated_us"].as_i64().unwrap()
    };
    assert_eq!(simulated(&one), alone["simulated_us"].as_i64().unwrap());
    assert!(simulated(&many) > simulated(&one));
}

#[test]
fn the_trace_lists_calls_and_leaves_the_hash() {
    let file = folder(&[("plain.toml", PLAIN)]);
    let file = file.path().join("plain.toml");
    let run = |more: &[&str]| {
        let output = sim(&[&["run", file.to_str().unwrap()], more].concat());
        assert_eq!(output.status.code(), Some(0));
        text_of(&output.stdout)
    };
    let (story, trace) = (run(&[]), run(&["--trace"]));
    let hash = |text: &str| text.lines().nth(1).unwrap().to_owned();
    assert_eq!(hash(&story), hash(&trace));
    assert!(story.starts_with("seed      1\nhash      "), "{story}");
    assert!(!story.contains("-- "), "{story}");
    assert!(trace.contains("-- w/1/claim#1/commit/journal.sync#1"), "{trace}");
    assert!(trace.lines().count() > story.lines().count() + 100);
}

pub(crate) fn without_timings(json: &[u8]) -> String {
    let mut value: Value = serde_json::from_slice(json).unwrap();
    assert!(value.as_object_mut().unwrap().remove("timings").is_some());
    value.to_string()
}
