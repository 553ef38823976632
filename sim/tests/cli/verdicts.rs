//! Exit codes and last lines.

use std::process::Output;

use super::{CANARY, LATE, PLAIN, folder, sim, text_of};

#[test]
fn what_holds_exits_0() {
    let output = fuzz(PLAIN, "5");
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stdout));
    let text = text_of(&output.stdout);
    assert!(text.contains("held    |\n1 scenario held, 5 seeds, "), "{text}");
}

#[test]
fn the_last_line_tells_what_held_by_being_caught() {
    let folder = folder(&[("a.toml", PLAIN)]);
    let plain = folder.path().join("a.toml");
    let args = ["fuzz", plain.to_str().unwrap(), CANARY, "--seeds", "40"];
    let text = text_of(&sim(&args).stdout);
    assert!(text.contains("caught at seed "), "{text}");
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("2 scenarios held, 1 of them caught as it must be, 80 seeds, "), "{last}");
}

#[test]
fn a_broken_property_exits_1_and_ends_with_a_command_that_shows_it_again() {
    for start in ["fuzz", "run"] {
        let folder = folder(&[("it is late.toml", LATE)]);
        let file = folder.path().join("it is late.toml");
        let output =
            sim(&[start, file.to_str().unwrap()].iter().chain(more(start)).copied().collect::<Vec<_>>());
        let text = text_of(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{text}");
        let lines: Vec<_> = text.lines().collect();
        let at = lines.iter().position(|line| line.ends_with("seed 3 breaks settles"));
        let [detail, .., command] = lines[at.expect("it says what is broken") + 1..] else {
            panic!("{text}")
        };
        assert!(detail.contains("cake is pending"), "{detail}");
        assert!(text.contains("  hit rate ") && text.contains(" for 99 %"), "{text}");
        assert!(text.contains("regressions/it is late-settles-seed-3.toml"), "{text}");
        let shrunk = folder.path().join("regressions/it is late-settles-seed-3.toml");
        let again = sim(&["run", shrunk.to_str().unwrap()]);
        assert!(text_of(&again.stdout).contains("breaks settles"), "{}", text_of(&again.stdout));
        // The shell understands it.
        let command = command.replace("cargo sim", env!("CARGO_BIN_EXE_ackward-sim"));
        let again =
            std::process::Command::new("sh").args(["-c", &command]).current_dir(super::top()).output();
        let again = again.unwrap();
        assert_eq!(again.status.code(), Some(1), "{}", text_of(&again.stderr));
        assert!(text_of(&again.stdout).starts_with("seed      3\n"));
    }
}

fn more(command: &str) -> &'static [&'static str] {
    if command == "run" { &["--seed", "3"] } else { &["--start", "3", "--seeds", "4"] }
}

/// On another net than its own a scenario's failure ends with a command that names the net, and is that failure again.
#[test]
fn a_failure_on_turmoil_is_shown_again_by_its_command() {
    let folder = folder(&[("late.toml", LATE)]);
    let file = folder.path().join("late.toml");
    let output = sim(&["fuzz", file.to_str().unwrap(), "--net", "turmoil", "--start", "3", "--seeds", "1"]);
    let text = text_of(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let command = text.lines().last().unwrap();
    assert!(command.ends_with("--seed 3 --net turmoil"), "{command}");
    let args: Vec<_> = command.split(' ').skip(2).collect();
    let again = sim(&args);
    assert_eq!(again.status.code(), Some(1), "{}", text_of(&again.stderr));
    assert_eq!(text_of(&again.stdout).lines().last(), Some(command));
    assert!(text_of(&again.stdout).contains("seed 3 breaks settles"));
}

/// `net = "turmoil"` in a file is what `--net turmoil` says for any file; there, its expectations are judged.
#[test]
fn a_scenario_can_have_turmoil_as_its_own_net() {
    let own = format!("net = \"turmoil\"\n{PLAIN}[expect]\nsometimes = [\"dead-permanent\"]\nseeds = 3\n");
    let other = own.replace("net = \"turmoil\"\n", "");
    let folder = folder(&[("own.toml", &own), ("other.toml", &other)]);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let hash = |args: &[&str]| {
        let run: serde_json::Value = serde_json::from_slice(&sim(args).stdout).unwrap();
        run["hash"].as_str().unwrap().to_owned()
    };
    let there = hash(&["run", &path("own.toml"), "--json"]);
    assert_eq!(hash(&["run", &path("other.toml"), "--net", "turmoil", "--json"]), there);
    assert_ne!(hash(&["run", &path("other.toml"), "--json"]), there);
    assert_ne!(hash(&["run", &path("own.toml"), "--net", "built-in", "--json"]), there);
    let judged = sim(&["fuzz", &path("own.toml"), "--seeds", "3"]);
    assert_eq!(judged.status.code(), Some(1), "{}", text_of(&judged.stdout));
    let unjudged = sim(&["fuzz", &path("other.toml"), "--net", "turmoil", "--seeds", "3"]);
    assert_eq!(unjudged.status.code(), Some(0), "{}", text_of(&unjudged.stdout));
}

/// What runs without any argument gives turmoil its share, and a failure there is a failure.
#[test]
fn the_default_campaign_runs_every_scenario_on_turmoil_too() {
    let folder = folder(&[("plain.toml", PLAIN)]);
    let output = sim(&["--scenarios", folder.path().to_str().unwrap()]);
    let text = text_of(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let line = text.lines().find(|line| line.starts_with("with turmoil as the net")).unwrap_or_default();
    assert!(
        line.starts_with("with turmoil as the net: 1 scenario, ") && line.ends_with("all held"),
        "{line}"
    );
    // It fails on any net, so the last line is a command of either.
    let folder = super::folder(&[("late.toml", LATE)]);
    let output = sim(&["--scenarios", folder.path().to_str().unwrap()]);
    let text = text_of(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("with turmoil as the net: 1 scenario, ") && text.contains("1 did not hold"),
        "{text}"
    );
    assert!(text.lines().last().unwrap().ends_with("--seed 1 --net turmoil"), "{text}");
}

#[test]
fn what_is_never_reached_exits_1_once_enough_seeds_were_run() {
    let text = format!("{PLAIN}[expect]\nsometimes = [\"done\", \"dead-permanent\"]\nseeds = 5\n");
    let output = fuzz(&text, "4");
    assert_eq!(output.status.code(), Some(0));
    assert!(text_of(&output.stdout).contains("held so far"));
    let output = fuzz(&text, "5");
    let text = text_of(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("never reached: dead-permanent"), "{text}");
    assert!(text.lines().last().unwrap().ends_with("--start 1 --seeds 5"), "{text}");
}

#[test]
fn a_canary_must_fail_as_it_says() {
    let expect = "[expect]\nfails = \"settles\"\nseeds = 5\n";
    let caught = fuzz(&LATE.replace("[[job]]", &format!("{expect}[[job]]")), "5");
    assert_eq!(caught.status.code(), Some(0), "{}", text_of(&caught.stdout));
    assert!(text_of(&caught.stdout).contains("caught at seed 1"));
    let alive = fuzz(&format!("{PLAIN}{expect}"), "5");
    assert_eq!(alive.status.code(), Some(1));
    assert!(text_of(&alive.stdout).contains("no seed breaks settles"));
    let other =
        fuzz(&LATE.replace("[[job]]", &format!("{}[[job]]", expect.replace("settles", "no-panic"))), "5");
    assert_eq!(other.status.code(), Some(1));
    assert!(text_of(&other.stdout).contains("seed 1 breaks settles"));
}

#[test]
fn the_verdict_of_a_campaign_is_that_of_its_worst_scenario() {
    let folder = folder(&[("a.toml", PLAIN), ("b.toml", LATE), ("c.toml", PLAIN)]);
    let args = ["--scenarios", folder.path().to_str().unwrap(), "fuzz", "--seeds", "2", "--json"];
    let output = sim(&args);
    assert_eq!(output.status.code(), Some(1));
    let campaign: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let verdicts: Vec<_> =
        campaign["scenarios"].as_array().unwrap().iter().map(|s| s["verdict"].clone()).collect();
    assert_eq!(verdicts, ["held", "broke settles", "held"]);
}

#[test]
fn a_scripted_deviation_that_does_not_happen_is_reported() {
    let at = |claim: u32| format!("w/1/claim#{claim}/commit/journal.sync#1");
    let text = format!(
        "{PLAIN}[[deviation]]\nat = \"{}\"\ndo = \"kill\"\n[[deviation]]\nat = \"{}\"\ndo = \"kill\"\n",
        at(1),
        at(77)
    );
    let folder = folder(&[("x.toml", &text)]);
    let output = sim(&["run", folder.path().join("x.toml").to_str().unwrap()]);
    let (story, errors) = (text_of(&output.stdout), text_of(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{story}");
    assert!(story.contains(&format!("!! kill at {}", at(1))), "{story}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.starts_with("warning: ") && errors.contains(&format!("{} = kill", at(77))), "{errors}");
}

fn fuzz(text: &str, seeds: &str) -> Output {
    let folder = folder(&[("x.toml", text)]);
    sim(&["fuzz", folder.path().join("x.toml").to_str().unwrap(), "--seeds", seeds])
}

/// Whoever reads may stop reading: what was found stands all the same.
#[test]
fn a_closed_pipe_does_not_change_the_verdict() {
    let folder = folder(&[("late.toml", LATE)]);
    let file = folder.path().join("late.toml");
    let file = file.to_str().unwrap();
    let cover = ["fuzz", file, "--no-shrink", "--seeds", "2", "--cover", "--json"];
    let elsewhere = ["zoo", "run", "stale-finish", "--seed", "1"];
    let missed = sim(&elsewhere);
    assert_eq!(missed.status.code(), Some(1), "another seed is needed: {}", text_of(&missed.stdout));
    for args in [&["run", "--seed", "3", file][..], &["fuzz", "--seeds", "2", file], &cover, &elsewhere] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let child = super::command().args(args).stdout(writer).stderr(std::process::Stdio::piped()).spawn();
        let output = child.unwrap().wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", text_of(&output.stderr));
    }
}

/// A process that is started again after ten minutes has those ten minutes to settle.
#[test]
fn a_run_has_the_time_to_settle_that_its_own_numbers_ask_for() {
    let slow = PLAIN.replace("name = \"w\"", "name = \"w\"\nrestarts = 3\nrestart_after_ms = 600000");
    assert_ne!(slow, PLAIN);
    let output = fuzz(&format!("{slow}[faults]\nkill = 0.3\n"), "5");
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stdout));
}

#[test]
fn a_rogue_publisher_has_its_whole_log() {
    let text =
        "about = \"x\"\n[publisher]\nevents = 3\nfirst = 7\nrogue = true\n[[consumer]]\nname = \"c\"\n";
    let output = fuzz(text, "1");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text_of(&output.stderr).contains("publisher.first is above 0, allowed: 0"),
        "{}",
        text_of(&output.stderr)
    );
}

#[test]
fn a_twin_that_a_scenario_names_is_shrunk_to_a_file_that_is_caught() {
    let file = super::top().join("scenarios/canaries/finish-ignores-expiry.toml");
    let out = tempfile::tempdir().unwrap();
    let small = out.path().join("small.toml");
    let output = sim(&["shrink", file.to_str().unwrap(), "--seed", "1", "--out", small.to_str().unwrap()]);
    let text = text_of(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("# Could be anything: the seed"), "{text}");
    let again = sim(&["run", small.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(0), "{}", text_of(&again.stdout));
    let text = text_of(&again.stdout);
    assert!(text.contains("verdict   caught at seed 1"), "{text}");
    assert!(text.contains(": seed 1 breaks ") && text.contains(", as it must\n  "), "{text}");
    let same = sim(&["shrink", file.to_str().unwrap(), "--out", "-"]);
    assert_eq!(text_of(&same.stdout), std::fs::read_to_string(&small).unwrap());
}

#[test]
fn a_seed_that_holds_is_not_shrunk() {
    let folder = folder(&[("plain.toml", PLAIN)]);
    let output = sim(&["shrink", folder.path().join("plain.toml").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text_of(&output.stdout).contains("there is nothing to shrink"));
    assert!(!folder.path().join("regressions").exists());
}

#[test]
fn verify_runs_what_the_rule_asks_for() {
    let folder = folder(&[("plain.toml", PLAIN), ("late.toml", LATE)]);
    let verify = |name: &str| {
        let file = folder.path().join(name);
        sim(&["verify", file.to_str().unwrap(), "--was", "1/10", "--confidence", "95"])
    };
    let clean = verify("plain.toml");
    assert_eq!(clean.status.code(), Some(0));
    // ln 0.05 / ln 0.9 = 28.4.
    assert!(text_of(&clean.stdout).contains("29 seeds are clean"), "{}", text_of(&clean.stdout));
    assert_eq!(verify("late.toml").status.code(), Some(1));
    let wrong = sim(&["verify", "x.toml", "--was", "0"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text_of(&wrong.stderr).contains("3/1000"), "{}", text_of(&wrong.stderr));
}
