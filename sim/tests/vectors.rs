//! The scripts of `vectors/`, made by an independent implementation, line by line through `exec`
//! (contract, part X).

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Operations that `exec` does not have yet; their lines are skipped.
const SKIPPED: &[&str] = &["parse_line", "apply_event", "consume_line", "replay", "state"];
/// Tables of a dump that `exec` does not have yet; they are not compared.
const TABLES_SKIPPED: &[&str] = &["checkpoint", "ledger"];

#[test]
fn every_script_gives_the_expected_lines() {
    let scripts = scripts();
    assert_eq!(scripts.len(), 24, "scripts in {}", folder().display());
    let compared: usize = scripts.iter().map(|script| compare(script)).sum();
    assert!(compared > 4_000, "only {compared} lines were compared");
}

/// Runs one script and returns how many lines were compared.
fn compare(script: &Path) -> usize {
    let ops = fs::read_to_string(script).unwrap();
    let want = fs::read_to_string(script.to_str().unwrap().replace(".ops.", ".want.")).unwrap();
    let mut output = Vec::new();
    ackward_sim::exec::run(None, ops.as_bytes(), &mut output).unwrap();
    let output = String::from_utf8(output).unwrap();
    assert_eq!(output.lines().count(), want.lines().count(), "{}: number of lines", script.display());

    let mut compared = 0;
    for (number, ((op, want), got)) in ops.lines().zip(want.lines()).zip(output.lines()).enumerate() {
        if is_skipped(op) {
            continue;
        }
        let (want, got) = (without_skipped_tables(want), without_skipped_tables(got));
        assert_eq!(got, want, "{}:{}: {op}", script.display(), number + 1);
        compared += 1;
    }
    compared
}

fn is_skipped(op: &str) -> bool {
    let op: Value = serde_json::from_str(op).unwrap();
    op["op"].as_str().is_some_and(|op| SKIPPED.contains(&op))
}

/// The line as it is, unless it is a dump that holds such a table.
fn without_skipped_tables(line: &str) -> String {
    let mut reply: Value = serde_json::from_str(line).unwrap();
    let Some(tables) = reply.get_mut("ok").and_then(Value::as_object_mut) else {
        return line.into();
    };
    let before = tables.len();
    tables.retain(|name, _| !TABLES_SKIPPED.contains(&name.as_str()));
    if tables.len() == before { line.into() } else { reply.to_string() }
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
