//! SIGINT, as by Ctrl-C: every command that takes a while says how far it came, ends with 130, and leaves neither a
//! process nor half a file behind.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::{CANARY, command, folder, sim, text_of, top};

const PATIENCE: Duration = Duration::from_secs(60);
/// How long a process may take to end; what it was doing would take it much longer.
const PROMPT: Duration = Duration::from_secs(20);

#[test]
fn a_search_says_how_far_it_came() {
    let output = interrupted(&["explore", "scenarios/storm.toml", "--depth", "3", "--jobs", "2"]);
    let text = text_of(&output.stdout);
    assert!(text.contains("not complete to depth 3: interrupted after "), "{text}");
    let output = interrupted(&["explore", "scenarios/storm.toml", "--depth", "3", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["interrupted"]["parts_left"].as_u64().unwrap() > 0, "{json}");
    assert!(json["complete_to_depth"].as_u64().is_none_or(|depth| depth < 3), "{json}");
}

#[test]
fn what_was_not_finished_is_not_called_finished() {
    let cases: &[(&[&str], &str)] = &[
        (&["explain", CANARY, "--samples", "10000"], "where it becomes certain is not known"),
        (&["verify", "scenarios/storm.toml", "--was", "1/1000000"], "not enough to believe the fix"),
        (&["zoo", "--starts", "100"], ", interrupted before "),
        (&["strategies"], "mistakes are measured, no table"),
        (&["bench", "--rounds", "1000"], "nothing is printed"),
        (&["fuzz", "scenarios/storm.toml", "--cover", "--seeds", "1000000"], "stopped: it was interrupted"),
    ];
    for (args, part) in cases {
        let output = interrupted(args);
        let text = text_of(&output.stdout) + &text_of(&output.stderr);
        assert!(text.contains(part), "{args:?}: {part:?} is not in {text}");
    }
}

/// A failure with so much around it that shrinking it takes most of a minute.
#[test]
fn a_failure_is_as_small_as_it_was_by_then_and_its_file_is_whole() {
    let storm = std::fs::read_to_string(top().join("scenarios/storm.toml")).unwrap();
    let storm = storm.replace("count = 5", "count = 40");
    let folder = folder(&[("big.toml", &format!("system = \"any-two-hundred-is-ok\"\n{storm}"))]);
    let file = folder.path().join("big.toml");
    let small = folder.path().join("regressions/big-effect-once-seed-1.toml");
    for args in [&["shrink", file.to_str().unwrap()][..], &["run", file.to_str().unwrap()]] {
        let output = interrupted(args);
        let text = text_of(&output.stdout);
        // The run's story is told before anything is shrunk, and shrinking may not have begun.
        assert!(text.contains("interrupted: it may get smaller still") || args[0] == "run", "{text}");
        if args[0] == "shrink" {
            let again = sim(&["run", small.to_str().unwrap()]);
            assert_eq!(again.status.code(), Some(0), "{}", text_of(&again.stderr));
            assert!(text_of(&again.stdout).contains("verdict   caught at seed 1"));
        }
    }
}

/// What a command comes to that is interrupted as soon as it listens, with all its children.
fn interrupted(args: &[&str]) -> Output {
    let mut command = command();
    command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    let process = std::os::unix::process::CommandExt::process_group(&mut command, 0).spawn().unwrap();
    let began = Instant::now();
    while !catches_sigint(process.id()) {
        assert!(began.elapsed() < PATIENCE, "{args:?}: nobody listens to SIGINT");
        std::thread::sleep(Duration::from_millis(2));
    }
    // Let it get on with its work; nothing below depends on how far.
    std::thread::sleep(Duration::from_millis(300));
    let (group, began) = (format!("-{}", process.id()), Instant::now());
    assert!(kill("INT", &group), "{args:?}: it has ended by itself");
    let output = process.wait_with_output().unwrap();
    let took = began.elapsed();
    let (text, errors) = (text_of(&output.stdout), text_of(&output.stderr));
    assert_eq!(output.status.code(), Some(130), "{args:?}: {text}{errors}");
    assert!(took < PROMPT, "{args:?} goes on for {took:?}");
    assert!(!kill("0", &group), "{args:?}: a child is left");
    output
}

fn kill(signal: &str, group: &str) -> bool {
    let mut kill = Command::new("kill");
    kill.args(["-s", signal, "--", group]).stderr(Stdio::null()).status().unwrap().success()
}

/// Whether a process no longer ends by SIGINT, signal 2, alone.
fn catches_sigint(process: u32) -> bool {
    let status = std::fs::read_to_string(Path::new("/proc").join(process.to_string()).join("status"));
    let status = status.unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 0b10 != 0)
}
