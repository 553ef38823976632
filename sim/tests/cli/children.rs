//! The processes that `fuzz` starts: one that dies is a failure, and none outlives its parent.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{PLAIN, command, folder, text_of};

const PATIENCE: Duration = Duration::from_secs(30);
/// How long a child may live on without its parent.
const PROMPT: Duration = Duration::from_secs(4);

#[test]
fn a_child_that_dies_is_a_failure_that_names_its_seeds() {
    let parent = start(&["fuzz", "scenarios/storm.toml", "--seeds", "2000", "--jobs", "1"]);
    let child = wait_for_child(&parent);
    // It has a chunk to work on now: there are many, and it does nothing else.
    std::thread::sleep(Duration::from_millis(200));
    signal("KILL", child);
    let output = parent.wait_with_output().unwrap();
    let text = text_of(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let lines: Vec<_> = text.lines().collect();
    let [.., what, detail, command] = lines[..] else { panic!("{text}") };
    assert!(what.starts_with("scenarios/storm.toml: seeds ") && what.ends_with(" did not end"), "{what}");
    assert!(detail.contains("died (signal: 9"), "{detail}");
    assert!(command.starts_with("cargo sim fuzz scenarios/storm.toml --start "), "{command}");
    // The others were run all the same.
    assert!(text.contains("1,936") || text.contains("1,984"), "{text}");
}

#[test]
fn children_end_with_their_parent_however_it_ends() {
    // 64 seeds of it, one chunk, take far longer than the child is given to end.
    let long = PLAIN.replace("id = \"cake\"", "id = \"cake\"\ncount = 3000\nttl_ms = 60000");
    let folder = folder(&[("long.toml", &long)]);
    for name in ["INT", "TERM", "KILL"] {
        let file = folder.path().join("long.toml");
        let mut parent = start(&["fuzz", file.to_str().unwrap(), "--seeds", "64", "--jobs", "1"]);
        let child = wait_for_child(&parent);
        std::thread::sleep(Duration::from_millis(200));
        signal(name, parent.id());
        assert!(!parent.wait().unwrap().success());
        let began = Instant::now();
        while is_running(child) {
            assert!(began.elapsed() < PROMPT, "the child outlives its parent after SIG{name}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn start(args: &[&str]) -> Child {
    command().args(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// The number of a process that `parent` has started.
fn wait_for_child(parent: &Child) -> u32 {
    let began = Instant::now();
    loop {
        if let Some(child) = children_of(parent.id()).into_iter().next() {
            return child;
        }
        assert!(began.elapsed() < PATIENCE, "no child was started");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The running processes whose parent this is, of `/proc/N/stat`: number, (name), state, parent.
fn children_of(parent: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap();
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter(|number| state_of(*number).is_some_and(|(_, of)| of == parent)).collect()
}

fn is_running(process: u32) -> bool {
    state_of(process).is_some_and(|(state, _)| state != 'Z')
}

fn state_of(process: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn signal(name: &str, process: u32) {
    assert!(Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap().success());
}
