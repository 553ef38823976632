//! The edges of the command line: schemas, closed outputs, pipes for files, the width of what is printed.

use std::process::{Command, Stdio};

use boon::{Compiler, Schemas};
use serde_json::Value;

use super::{LATE, PLAIN, command, folder, sim, text_of, top};

/// Checks values against a published schema; the error of each that does not fit.
fn check(of: &str, values: &[Value]) -> Vec<Option<String>> {
    let output = sim(&["schema", of]);
    assert_eq!(output.status.code(), Some(0));
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource("schema.json", serde_json::from_slice(&output.stdout).unwrap()).unwrap();
    let schema = compiler.compile("schema.json", &mut schemas).unwrap();
    values
        .iter()
        .map(|value| schemas.validate(value, schema).err().map(|error| format!("{error:#}")))
        .collect()
}

fn json_of(toml: &str) -> Value {
    serde_json::to_value(toml::from_str::<toml::Table>(toml).unwrap()).unwrap()
}

#[test]
fn committed_scenarios_fit_the_published_schema() {
    let mut files = Vec::new();
    let mut folders = vec![top().join("scenarios")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    assert!(files.len() >= 38, "{}", files.len());
    let values: Vec<_> = files.iter().map(|file| json_of(&std::fs::read_to_string(file).unwrap())).collect();
    for (file, error) in files.iter().zip(check("scenario", &values)) {
        assert_eq!(error, None, "{}", file.display());
    }
}

/// What reading a file refuses for a single value, the schema refuses, too.
#[test]
fn wrong_values_do_not_fit_the_published_schema() {
    let wrong = [
        "about = \"x\"\nworkerz = 1",
        "duration_ms = 5",
        "about = \"x\"\nduration_ms = 0",
        "about = \"x\"\nduration_ms = 3600001",
        "about = \"x\"\nnet = \"tubes\"",
        "about = \"x\"\nsystem = \"flawless\"",
        "about = \"x\"\n[[job]]\nid = \"a b\"",
        "about = \"x\"\n[[job]]\nid = \"a\"\nqty = 1001",
        "about = \"x\"\n[[worker]]\nname = \"a\"\nclock_skew_ms = -600001",
        "about = \"x\"\n[faults]\nkill = 1.5",
        "about = \"x\"\n[faults]\nstall_ms = [1]",
        "about = \"x\"\n[vary]\nworker.w.lease_ms = [0, 5]",
        "about = \"x\"\n[vary]\nworker.w.lease_ms = [5]",
        "about = \"x\"\n[vary]\nworker.w.lease = [1, 5]",
        "about = \"x\"\n[vary]\njobs.a.qty = [1, 5]",
        "about = \"x\"\n[vary]\nduration_ms = [1, 3600001]",
        "about = \"x\"\n[[deviation]]\nat = \"w/1/claim#1/commit/db.wirte#1\"\ndo = \"kill\"",
        "about = \"x\"\n[[deviation]]\nat = \"w/1/claim#1/commit/db.write#1\"\ndo = \"kil\"",
        "about = \"x\"\n[expect]\nsometimes = [\"never\"]",
        "about = \"x\"\n[expect]\nfails = \"everything\"",
        "about = \"x\"\n[[expect.job]]\nid = \"a\"\nstatus = \"leased\"",
        "about = \"x\"\n[[expect.job]]\nid = \"a\"\nposts = [1, 2, 3]",
    ];
    let values: Vec<_> = wrong.iter().map(|text| json_of(text)).collect();
    for (text, error) in wrong.iter().zip(check("scenario", &values)) {
        assert!(error.is_some(), "the schema takes {text}");
    }
}

#[test]
fn results_fit_the_published_schema() {
    let folder = folder(&[("late.toml", LATE), ("plain.toml", PLAIN)]);
    let report = folder.path().join("report.json");
    let args = ["--scenarios", folder.path().to_str().unwrap(), "fuzz", "--seeds", "3", "--json", "--report"];
    let output = sim(&[&args[..], &[report.to_str().unwrap()]].concat());
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let written: Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    let mut other = printed.clone();
    other["scenarios"][0].as_object_mut().unwrap().remove("ranges");
    let errors = check("results", &[printed, written, other]);
    assert_eq!(errors[..2], [None, None]);
    assert!(errors[2].is_some());
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_an_error() {
    for args in [&["--help"][..], &["--version"], &["fuzz", "--help"], &["schema", "scenario"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command().args(args).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
        let output = output.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text_of(&output.stderr).starts_with("error: "), "{args:?}");
    }
}

/// A named pipe could block for ever; one of the shell has somebody who writes.
#[cfg(unix)]
#[test]
fn a_named_pipe_is_refused_and_a_pipe_of_the_shell_is_read() {
    let folder = folder(&[("plain.toml", PLAIN)]);
    let pipe = folder.path().join("pipe.toml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for args in [&["run", pipe.to_str().unwrap()][..], &["--scenarios", folder.path().to_str().unwrap()]] {
        let output = sim(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text_of(&output.stderr).contains("pipe.toml:1:1: the file is a named pipe"), "{args:?}");
    }
    let script = "\"$0\" run <(cat \"$1\")";
    let mut bash = Command::new("bash");
    bash.args(["-c", script, env!("CARGO_BIN_EXE_ackward-sim")]).arg(folder.path().join("plain.toml"));
    let output = bash.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stderr));
}

/// Lines that people wrote fit a terminal of 80 columns, so that nobody wraps them a second time.
#[test]
fn no_line_of_a_help_epilogue_is_too_long() {
    for name in
        ["", "run", "fuzz", "merge", "schema", "explore", "shrink", "explain", "verify", "exec", "bench"]
    {
        let args: Vec<_> = name.split_whitespace().chain(["--help"]).collect();
        let help = text_of(&sim(&args).stdout);
        let end = ["\nExit codes:", "\nOperations and", "\nExample"]
            .iter()
            .filter_map(|head| help.find(head))
            .min();
        for line in help[end.expect("an epilogue")..].lines() {
            assert!(line.chars().count() <= 80, "{name}: {line}");
        }
    }
}

#[test]
fn explore_tells_why_its_first_line_depends_on_the_depth() {
    let help = text_of(&sim(&["explore", "--help"]).stdout).replace('\n', " ");
    for part in
        ["with --depth 2 the line of depth 1 has more runs and fewer pruned", "stands for fewer others"]
    {
        assert!(help.contains(part), "{part:?} is not in {help}");
    }
}

#[test]
fn the_table_is_narrow_and_the_last_line_sums_up() {
    let folder = folder(&[("a.toml", PLAIN), ("b.toml", PLAIN)]);
    let args = ["--scenarios", folder.path().to_str().unwrap(), "fuzz", "--seeds", "3"];
    let text = text_of(&sim(&args).stdout);
    let header = text.lines().next().unwrap();
    let columns: Vec<_> = header.split('|').map(str::trim).filter(|column| !column.is_empty()).collect();
    assert_eq!(columns, ["scenario", "seeds", "seeds/s", "verdict"]);
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("2 scenarios held, 6 seeds, ") && last.ends_with(" s"), "{last}");
    let details = text_of(&sim(&[&args[..], &["--details"]].concat()).stdout);
    assert!(details.contains("faults with effect") && details.contains("done"), "{details}");
}
