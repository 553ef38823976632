//! The scripts of `vectors/`, made by an independent implementation, line by line through `exec`
//! (contract, part X).

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

#[test]
fn every_script_gives_the_expected_lines() {
    let scripts = scripts();
    assert_eq!(scripts.len(), 24, "scripts in {}", folder().display());
    // Each script waits for the disk most of the time.
    let compared: usize = thread::scope(|scope| {
        let running: Vec<_> = scripts.iter().map(|script| scope.spawn(|| compare(script))).collect();
        running.into_iter().map(|script| script.join().unwrap()).sum()
    });
    assert_eq!(compared, 6_000, "lines compared");
}

/// Runs one script and returns how many lines were compared: all.
fn compare(script: &Path) -> usize {
    let ops = fs::read_to_string(script).unwrap();
    let want = fs::read_to_string(script.to_str().unwrap().replace(".ops.", ".want.")).unwrap();
    let mut output = Vec::new();
    ackward_sim::exec::run(None, ops.as_bytes(), &mut output).unwrap();
    let output = String::from_utf8(output).unwrap();
    for (number, ((op, want), got)) in ops.lines().zip(want.lines()).zip(output.lines()).enumerate() {
        assert_eq!(got, want, "{}:{}: {op}", script.display(), number + 1);
    }
    assert_eq!(output, want, "{}: number or ends of lines", script.display());
    want.lines().count()
}

fn scripts() -> Vec<PathBuf> {
    let entries = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut scripts: Vec<_> = entries.filter(|path| path.to_str().unwrap().ends_with(".ops.jsonl")).collect();
    scripts.sort();
    scripts
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")
}
