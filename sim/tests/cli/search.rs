//! The exhaustive search, strategies, explanations and the X-ray as a user meets them.

use ackward_sim::strategy::Strategy;

use super::{LATE, PLAIN, folder, sim, text_of};

/// Small enough for a search.
pub(super) const ONE_EVENT: &str = "about = \"One event.\"\nduration_ms = 3000\n[publisher]\nevents = 1\n\
                         [[consumer]]\nname = \"c\"\ntimeout_ms = 200\nrestart_after_ms = 10\n";

#[test]
fn a_search_ends_with_its_depth_and_does_not_depend_on_jobs() {
    let folder = folder(&[("one.toml", ONE_EVENT)]);
    let file = folder.path().join("one.toml");
    let explore = |more: &[&str]| {
        let args =
            [&["explore", file.to_str().unwrap(), "--kinds", "kill,switch", "--depth", "2"], more].concat();
        let output = sim(&args);
        assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stderr));
        text_of(&output.stdout)
    };
    let text = explore(&["--jobs", "1"]);
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("complete to depth 2: ") && last.ends_with(", 1 final state"), "{text}");
    assert!(text.contains("alternatives pruned"), "{text}");
    assert_eq!(explore(&["--jobs", "3"]), text);
    assert!(explore(&["--states"]).contains("# final state 1, of "));
}

/// The right value that a story states is that of the story without more deviations.
#[test]
fn a_search_does_not_judge_a_story_s_right_value() {
    let text = ONE_EVENT.to_owned() + "[[expect.consumer]]\nname = \"c\"\nconnections = 1\n";
    let folder = folder(&[("one.toml", &text)]);
    let file = folder.path().join("one.toml");
    let output = sim(&["explore", file.to_str().unwrap(), "--kinds", "kill"]);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stdout));
}

#[test]
fn a_search_stops_at_the_first_failure_and_shrinks_it() {
    let canary = super::top().join("scenarios/canaries/any-two-hundred-is-ok.toml");
    let text = std::fs::read_to_string(canary).unwrap().replace("fails = ", "# fails = ");
    let folder = folder(&[("broken.toml", &text)]);
    let file = folder.path().join("broken.toml");
    let explore = |jobs: &str| {
        let output = sim(&[
            "explore",
            file.to_str().unwrap(),
            "--depth",
            "2",
            "--kinds",
            "wrong-reply",
            "--jobs",
            jobs,
        ]);
        assert_eq!(output.status.code(), Some(1), "{}", text_of(&output.stdout));
        text_of(&output.stdout)
    };
    let text = explore("1");
    assert!(text.contains("a run with one deviation breaks effect-once"), "{text}");
    assert!(text.contains("depth 0: 1 run,") && !text.contains("depth 1: "), "{text}");
    assert_eq!(explore("3"), text);
    // The command that is printed searches what was searched, and prints itself again.
    let command = text.lines().last().unwrap();
    assert!(command.ends_with("--depth 1 --kinds wrong-reply --seed 1"), "{command}");
    let unpruned = sim(&["explore", file.to_str().unwrap(), "--kinds", "wrong-reply,kill", "--unpruned"]);
    let command = text_of(&unpruned.stdout).lines().last().unwrap().to_owned();
    assert!(command.ends_with("--depth 1 --kinds wrong-reply,kill --unpruned --seed 1"), "{command}");
    let small = folder.path().join("regressions/broken-effect-once-seed-1.toml");
    let again = sim(&["run", small.to_str().unwrap()]);
    assert!(text_of(&again.stdout).contains("verdict   caught at seed 1"), "{}", text_of(&again.stdout));
}

#[test]
fn wrong_arguments_of_a_search_say_what_is_allowed() {
    let output = sim(&["explore", "x.toml", "--kinds", "kil"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text_of(&output.stderr).contains("allowed: one of switch, pick"), "{}", text_of(&output.stderr));
    let output = sim(&["fuzz", "x.toml", "--strategy", "random"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text_of(&output.stderr).contains("uniform, pct, swarm, mix"), "{}", text_of(&output.stderr));
}

/// Something that outlives a run is seen in the same process and told by its first event.
#[test]
fn the_x_ray_names_the_first_event_that_differs() {
    let leaky = PLAIN.replacen('\n', "\nsystem = \"leaks-between-runs\"\n", 1);
    let folder = folder(&[("leaky.toml", &leaky)]);
    let file = folder.path().join("leaky.toml");
    let output = sim(&["fuzz", file.to_str().unwrap(), "--seeds", "3", "--xray", "1"]);
    let text = text_of(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("in a fresh process: 0.000 ms producer opens queue 0 of"), "{text}");
    assert!(text.contains("likely leak: state that outlives a run"), "{text}");
}

/// Also where no seed is run twice in one process: the first one of a fresh process differs from the last one here.
#[test]
fn a_leak_is_seen_between_processes_too() {
    let leaky = PLAIN.replacen('\n', "\nsystem = \"leaks-between-runs\"\n", 1);
    let folder = folder(&[("leaky.toml", &leaky)]);
    let file = folder.path().join("leaky.toml");
    let output = sim(&["fuzz", file.to_str().unwrap(), "--seeds", "1", "--xray", "0"]);
    assert_eq!(output.status.code(), Some(0), "one cold run is like another");
    let output = sim(&["fuzz", file.to_str().unwrap(), "--seeds", "130", "--jobs", "1", "--xray", "0"]);
    assert_eq!(output.status.code(), Some(3), "{}", text_of(&output.stdout));
}

#[test]
fn strict_fails_where_a_fault_never_had_an_effect() {
    let inert = format!("{PLAIN}[faults]\nbad_line = 0.5\n");
    let folder = folder(&[("inert.toml", &inert)]);
    let file = folder.path().join("inert.toml");
    let fuzz = |more: &[&str]| sim(&[&["fuzz", file.to_str().unwrap(), "--seeds", "5"], more].concat());
    assert_eq!(fuzz(&[]).status.code(), Some(0));
    let strict = fuzz(&["--strict"]);
    assert_eq!(strict.status.code(), Some(1));
    assert!(text_of(&strict.stdout).contains("without any effect: bad-line"), "{}", text_of(&strict.stdout));
}

#[test]
fn a_seed_replays_by_its_strategy() {
    let storm = super::top().join("scenarios/storm.toml");
    let seed = (1..).find(|seed| Strategy::Mix.of_seed(*seed) == Strategy::Pct).unwrap().to_string();
    let hash = |more: &[&str]| {
        let output = sim(&[&["run", storm.to_str().unwrap(), "--seed", &seed], more].concat());
        let text = text_of(&output.stdout);
        let line = |word: &str| text.lines().find(|line| line.starts_with(word)).unwrap().to_owned();
        (line("hash"), line("strategy"))
    };
    let mixed = hash(&[]);
    assert!(mixed.1.contains("pct, n = ") && mixed.1.contains("at least 1/"), "{}", mixed.1);
    assert_eq!(mixed, hash(&["--strategy", "pct"]));
    let all: std::collections::BTreeSet<_> =
        ["uniform", "pct", "swarm"].iter().map(|word| hash(&["--strategy", word]).0).collect();
    assert_eq!(all.len(), 3);
}

#[test]
fn an_explanation_shows_the_curve_and_the_nearest_run_that_passes() {
    let canary = super::top().join("scenarios/canaries/finish-ignores-expiry.toml");
    let explain = || sim(&["explain", canary.to_str().unwrap(), "--seed", "1", "--samples", "10"]);
    let text = text_of(&explain().stdout);
    assert!(text.contains("seed 1 breaks commit-matches-model"), "{text}");
    assert!(text.contains(" the beginning\n") && text.contains("the passing run: "), "{text}");
    // What was tried, and how many of how many failed from which point on.
    assert!(text.contains("It has 10 deviations. How many of 10 runs break the same"), "{text}");
    let step = text
        .lines()
        .find(|line| line.starts_with("The greatest step beyond all points before, from "))
        .expect("a step");
    assert!(
        step.contains(" of 10 to ") && text.contains("never quite certain: with every deviation"),
        "{text}"
    );
    assert_eq!(text_of(&explain().stdout), text);
    let folder = folder(&[("plain.toml", PLAIN), ("late.toml", LATE)]);
    let late = sim(&["explain", folder.path().join("late.toml").to_str().unwrap(), "--samples", "2"]);
    assert_eq!(late.status.code(), Some(1));
    assert!(
        text_of(&late.stdout).contains("Certain from the beginning: 2 of 2 fail, whatever"),
        "{}",
        text_of(&late.stdout)
    );
    let plain = sim(&["explain", folder.path().join("plain.toml").to_str().unwrap()]);
    assert_eq!(plain.status.code(), Some(0));
    // What prints JSON prints nothing else.
    let plain = sim(&["explain", folder.path().join("plain.toml").to_str().unwrap(), "--json"]);
    assert_eq!(plain.status.code(), Some(0));
    let json: serde_json::Value = serde_json::from_slice(&plain.stdout).unwrap();
    assert_eq!((&json["seed"], &json["property"]), (&1.into(), &serde_json::Value::Null));
    assert_eq!(json["curve"], serde_json::json!([]));
}
