//! Holds what the architecture says by absence: reads every Rust file of the workspace.

use std::path::{Path, PathBuf};

/// A file's path from the top, and its text without comments.
struct Source {
    path: String,
    text: String,
    code: String,
}

#[test]
fn every_file_says_first_what_it_owns() {
    for source in sources() {
        assert!(source.text.starts_with("//! "), "{} begins without //!", source.path);
    }
}

#[test]
fn nothing_below_the_adapters_knows_time_threads_or_sockets() {
    let banned = [
        "SystemTime",
        "Instant::now",
        "thread::spawn",
        "thread::Builder",
        "thread::sleep",
        "tokio::time",
        "tokio::net",
        "tokio::spawn",
        "std::net",
        "std::env",
        "std::process",
        "HashMap",
        "HashSet",
        "cfg(sim",
    ];
    absent(&banned, |path| is_core(path) || is_engine(path));
}

/// In the order of the storeys: each may import those before it, never those after it.
#[test]
fn imports_never_point_up() {
    let storeys = ["rules", "storage", "shell", "adapter"];
    for (at, storey) in storeys.iter().enumerate() {
        let above: Vec<_> = storeys[at + 1..].iter().map(|storey| format!("crate::{storey}")).collect();
        let above: Vec<_> = above.iter().map(String::as_str).collect();
        absent(&above, |path| !is_test(path) && path.starts_with(&format!("src/{storey}")));
    }
    absent(&["crate::storage", "crate::shell", "crate::adapter"], |path| path.starts_with("src/port"));
    absent(&["crate::storage", "crate::shell", "crate::port"], |path| path.starts_with("src/rules"));
}

/// The engine knows nothing of queues, judges and scenarios; the core knows nothing of the simulator.
#[test]
fn the_engine_and_the_core_stand_alone() {
    let above = [
        "crate::judge",
        "crate::model",
        "crate::scenario",
        "crate::scene",
        "crate::campaign",
        "crate::twin",
        "crate::explore",
        "crate::shrink",
        "crate::strategy",
    ];
    absent(&above, |path| path.starts_with("sim/src/computer") || path.starts_with("sim/src/choice"));
    absent(&["ackward_sim"], |path| is_core(path) || path.starts_with("src/adapter"));
}

#[test]
fn unsafe_code_is_in_one_file() {
    absent(&["unsafe {", "unsafe fn", "unsafe extern", "unsafe impl"], |path| {
        path != "sim/src/computer/ffi.rs"
    });
}

#[test]
fn nothing_is_left_undone() {
    absent(&["todo!(", "unimplemented!(", "#[ignore", "dbg!("], |_| true);
}

/// A command that is shown must work on the machine that shows it.
#[test]
fn no_path_of_the_building_machine_is_compiled_in() {
    absent(&["env!(\"CARGO_MANIFEST_DIR"], |path| path.contains("/src/") && !path.contains("/tests/"));
}

#[test]
fn snapshots_lie_in_one_folder() {
    let stray: Vec<_> = files("snap").into_iter().filter(|path| !path.starts_with("snapshots/")).collect();
    assert_eq!(stray, Vec::<String>::new());
}

/// No file that `is_meant` holds any of these words in its code.
fn absent(words: &[&str], is_meant: impl Fn(&str) -> bool) {
    let mut seen = 0;
    let is_looked_at = |path: &str| path != "sim/tests/tidy.rs" && is_meant(path);
    for source in sources().iter().filter(|source| is_looked_at(&source.path)) {
        seen += 1;
        for (number, line) in source.code.lines().enumerate() {
            let found = words.iter().find(|word| line.contains(*word));
            assert!(found.is_none(), "{}:{}: {line}", source.path, number + 1);
        }
    }
    assert!(seen > 0, "no file is looked at");
}

/// The storeys below the adapters, and the ports.
fn is_core(path: &str) -> bool {
    let storeys = ["src/rules", "src/storage", "src/shell", "src/port"];
    !is_test(path) && storeys.iter().any(|part| path.starts_with(part))
}

/// A file of tests, or of what only tests use.
fn is_test(path: &str) -> bool {
    path.ends_with("tests.rs") || path.contains("/tests/") || path == "src/shell/wire.rs"
}

/// Whatever takes part in a run.
fn is_engine(path: &str) -> bool {
    let parts = [
        "choice",
        "computer",
        "judge",
        "model",
        "scene",
        "sqlite_file",
        "campaign",
        "explain",
        "explore",
        "findability",
        "shrink",
        "strategy",
        "twin",
    ];
    parts.iter().any(|part| path.starts_with(&format!("sim/src/{part}")))
}

fn sources() -> Vec<Source> {
    let read = |path: String| {
        let text = std::fs::read_to_string(top().join(&path)).expect("a source file is text");
        let shipped = text.split("\n#[cfg(test)]\n").next().unwrap_or(&text);
        let code = shipped.lines().map(without_comment).collect::<Vec<_>>().join("\n");
        Source { path, text, code }
    };
    let sources: Vec<_> = files("rs").into_iter().map(read).collect();
    assert!(sources.len() > 50, "{}", sources.len());
    sources
}

fn without_comment(line: &str) -> &str {
    if line.trim_start().starts_with("//") { "" } else { line.split(" // ").next().unwrap_or(line) }
}

/// The paths of the files with this extension, from the top; what git ignores is left out.
fn files(extension: &str) -> Vec<String> {
    let mut found = Vec::new();
    collect(&top(), &mut found);
    let is_meant = |path: &PathBuf| path.extension().is_some_and(|found| found == extension);
    let relative = |path: PathBuf| path.strip_prefix(top()).ok().map(|path| path.display().to_string());
    let mut files: Vec<_> = found.into_iter().filter(is_meant).filter_map(relative).collect();
    files.sort();
    files
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the workspace") {
        let entry = entry.expect("an entry of a folder");
        let name = entry.file_name();
        let is_hidden = name.to_string_lossy().starts_with('.');
        if is_hidden || name == "target" {
            continue;
        }
        if entry.file_type().expect("a file's type").is_dir() {
            collect(&entry.path(), found);
        } else {
            found.push(entry.path());
        }
    }
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}
