//! The command line as a user meets it: what it prints, how it ends, and that nothing around it changes a run.

#![expect(clippy::disallowed_methods, reason = "tests start processes and wait for them in real time")]

mod children;
mod ci;
mod cover;
mod determinism;
mod interrupt;
mod outside;
mod search;
mod surface;
mod terminal;
mod verdicts;
mod zoo;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A scenario that holds, without any fault.
const PLAIN: &str = "about = \"One job, one worker.\"\n[[job]]\nid = \"cake\"\n[[worker]]\nname = \"w\"\n";

const CANARY: &str = "scenarios/canaries/finish-ignores-expiry.toml";

/// The worker's clock is so far behind that the job's time never comes: it does not settle.
const LATE: &str = "about = \"A worker that lives in the past.\"\n[[job]]\nid = \"cake\"\n[[worker]]\nname = \"w\"\n\
                    clock_skew_ms = -600000\n";

#[test]
fn malformed_scenarios_exit_2_with_file_line_key_and_what_is_allowed() {
    let cases: &[(&str, &[u8], &[&str])] = &[
        (
            "unknown key",
            b"about = \"x\"\nworkerz = 1",
            &["bad.toml:2:1", "`workerz`", "did you mean worker?"],
        ),
        ("wrong type", b"about = 5", &["bad.toml:1:9", "about is 5", "allowed: a sentence"]),
        (
            "probability above 1",
            b"about = \"x\"\n[faults]\nkill = 1.5",
            &["bad.toml:3:8", "faults.kill is 1.5", "allowed: a probability from 0 to 1"],
        ),
        (
            "no value",
            b"about = \"x\"\n[faults]\nkill = ",
            &["bad.toml:3:8", "faults.kill has no value, allowed: a number, true or false"],
        ),
        (
            "a word without quotes",
            b"about = \"x\"\n[faults]\nkill = often",
            &["bad.toml:3:8", "faults.kill is often, allowed: a number, true or false"],
        ),
        (
            "a date",
            b"about = \"x\"\n[faults]\nkill = 2000-01-01",
            &["bad.toml:3:8", "faults.kill is 2000-01-01, allowed: a probability from 0 to 1"],
        ),
        (
            "unknown point",
            b"about = \"x\"\n[[deviation]]\nat = \"w/1/claim#1/commit/db.wirte#1\"\ndo = \"kill\"",
            &["bad.toml:3:6", "deviation[0].at", "db.wirte", "did you mean db.write?"],
        ),
        ("not UTF-8", b"about = \"x\xff\"", &["bad.toml:1:11", "0xff", "allowed: text in UTF-8"]),
        ("empty", b"", &["bad.toml:1:1", "`about`", "required"]),
    ];
    for (what, text, parts) in cases {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bad.toml");
        std::fs::write(&file, text).unwrap();
        let (file, folder) = (file.to_str().unwrap(), folder.path().to_str().unwrap());
        for args in
            [&["run", file][..], &["fuzz", file], &["--scenarios", folder], &["fuzz", "--scenarios", folder]]
        {
            let output = sim(args);
            let errors = text_of(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{what}: {errors}");
            assert!(output.stdout.is_empty(), "{what}: {}", text_of(&output.stdout));
            for part in *parts {
                assert!(errors.contains(part), "{what}, {args:?}: {part:?} is not in {errors}");
            }
        }
    }
}

#[test]
fn all_files_that_are_wrong_are_named_at_once() {
    let folder = folder(&[("a.toml", ""), ("b.toml", PLAIN), ("c.toml", "about = 5")]);
    let output = sim(&["--scenarios", folder.path().to_str().unwrap()]);
    let errors = text_of(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors.contains("a.toml:1:1") && errors.contains("c.toml:1:9"), "{errors}");
}

#[test]
fn wrong_arguments_exit_2_and_say_what_is_allowed() {
    let empty = tempfile::tempdir().unwrap();
    let empty = empty.path().to_str().unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["run"], "<FILE>"),
        (&["run", "no/such.toml"], "no/such.toml: cannot be read"),
        (&["run", "x.toml", "--seed", "-1"], "a whole number from 0 to 9223372036854775807"),
        (&["run", "x.toml", "--seed", "9223372036854775808"], "a whole number from 0 to 9223372036854775807"),
        (&["fuzz", "--seeds", "0"], "a whole number from 1 to 1000000000"),
        (&["fuzz", "--time", "60"], "such as 500ms, 60s or 5m"),
        (&["fuzz", "--time", "5s", "--seeds", "3"], "cannot be used with"),
        (&["fuzz", "--corpus", "x"], "--cover"),
        (&["fuzz", CANARY, "--cover", "--minimise"], "--corpus"),
        (&["fuzz", "x.toml", "--minimise", "--corpus", "x"], "--cover"),
        (
            &["fuzz", CANARY, "--cover", "--minimise", "--time", "3s"],
            "with --time, allowed: --minimise alone",
        ),
        (
            &["fuzz", CANARY, "--cover", "--minimise", "--corpus", "x", "--seeds", "3", "--plateau", "4"],
            "with --seeds, allowed: --minimise alone: it runs each list of the corpus once, however long that takes; \
             leave out --seeds and --plateau",
        ),
        (&["fuzz", "x.toml", "--cover", "--plateau", "0"], "a whole number from 1 to 1000000000"),
        (&["fuzz", "x.toml", "--cover", "--jobs", "2"], "cannot be used with"),
        (&["fuzz", "x.toml", "--cover", "--junit", "x.xml"], "cannot be used with '--junit"),
        (&["fuzz", "x.toml", "--cover", "--report", "x.json"], "cannot be used with '--report"),
        (&["fuzz", "x.toml", "--cover", "--seed-from", "x"], "cannot be used with '--seed-from"),
        (&["fuzz", "x.toml", "--cover", "--shard", "1/2"], "cannot be used with '--shard"),
        (&["fuzz", "x.toml", "--cover", "--resume", "x"], "cannot be used with '--resume"),
        (&["fuzz", "x.toml", "--cover", "--bundles", "x"], "cannot be used with '--bundles"),
        (&["fuzz", "x.toml", "--cover", "--max-failures", "1"], "cannot be used with '--max-failures"),
        (&["fuzz", "x.toml", "--cover", "--details"], "cannot be used with '--details"),
        (&["fuzz", "x.toml", "y.toml", "--cover"], "allowed: exactly one"),
        (&["fuzz", "--cover"], "0 scenario files, allowed: exactly one"),
        (&["strategies", "--only", "x"], "allowed: one of select-outside-the-transaction"),
        (&["strategies", "--ways", "x"], "allowed: one of uniform, pct, swarm, mix, cover"),
        (&["strategies", "--ways", "mix,pct", "--strict"], "--ways must have both, or be left out"),
        (&["fuzz", "--jobs", "0"], "a whole number from 1 to 256"),
        (&["run", "x.toml", "--net", "turmol"], "possible values: built-in, turmoil"),
        (&["fuzz", "--net", ""], "possible values: built-in, turmoil"),
        (&["fuzz", "no/such.toml"], "no/such.toml: cannot be read"),
        (&["--scenarios", "no/such"], "no/such"),
        (&["--scenarios", empty], "no *.toml file, allowed: at least one"),
        (&["fuzz", "--shard", "4/3"], "i/n with i from 1 to n"),
        (&["fuzz", "--shard", "auto"], "--shard auto finds none of JOB_COMPLETION_INDEX"),
        (&["fuzz", "--seed-from", "x", "--start", "3"], "cannot be used with"),
        (&["fuzz", "--shard", "2/2", "--start", "9223372036854775807"], "shard 2/2 begins above seed"),
        (&["merge"], "<FILE>"),
        (&["merge", "no/such.json"], "no/such.json: cannot be read"),
        (&["schema", "x"], "possible values: scenario, results"),
        (&["completions", "cmd"], "possible values: bash"),
        (&["frobnicate"], "frobnicate"),
        (&["zoo", "--starts", "0"], "a whole number from 1 to 100"),
        (&["zoo", "--only", "stale-finnish"], "did you mean stale-finish?"),
        (&["zoo", "run", "gapp"], "there is no mistake \"gapp\", allowed: one that `cargo sim zoo` lists"),
    ];
    for (args, part) in cases {
        let output = sim(args);
        let errors = text_of(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {errors}");
        assert!(errors.contains(part), "{args:?}: {part:?} is not in {errors}");
    }
}

#[test]
fn a_pipe_gets_neither_progress_nor_colour() {
    let folder = folder(&[("plain.toml", PLAIN), ("late.toml", LATE)]);
    let output =
        command().args(["--scenarios", folder.path().to_str().unwrap(), "fuzz", "--time", "2s"]).output();
    let output = output.unwrap();
    assert_eq!(text_of(&output.stderr), "");
    let text = text_of(&output.stdout);
    assert!(!text.contains('\x1b') && !text.contains('\r') && text.is_ascii(), "{text}");
    assert!(text.starts_with("| scenario"), "{text}");
}

#[test]
fn the_scenario_folder_is_that_of_the_workspace_where_there_is_none_here() {
    let top = folder(&[("sim/Cargo.toml", ""), ("scenarios/plain.toml", PLAIN), ("elsewhere/x", "")]);
    let run = |manifest: Option<&str>| {
        let mut command = command();
        command.current_dir(top.path().join("elsewhere")).args(["fuzz", "--seeds", "1", "--json"]);
        manifest.map(|manifest| command.env("CARGO_MANIFEST_DIR", top.path().join(manifest)));
        command.output().unwrap()
    };
    let output = run(Some("sim"));
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stderr));
    assert!(text_of(&output.stdout).contains("\"file\": \"../scenarios/plain.toml\""));
    let output = run(None);
    assert_eq!(output.status.code(), Some(2));
    assert!(text_of(&output.stderr).contains("--scenarios DIR"));
}

#[test]
fn every_command_has_help_with_an_example() {
    let mut shown = String::new();
    for command in [
        "",
        "run",
        "fuzz",
        "merge",
        "schema",
        "explore",
        "shrink",
        "explain",
        "verify",
        "import",
        "exec",
        "bench",
        "strategies",
        "completions",
    ] {
        let args: Vec<_> = command.split_whitespace().chain(["--help"]).collect();
        let output = sim(&args);
        let text = text_of(&output.stdout);
        assert_eq!(output.status.code(), Some(0));
        assert!(text.contains("Example"), "{command}");
        shown.push_str(&format!("$ cargo sim {}\n{text}\n", args.join(" ")));
    }
    snapshot("cli_help", &shown);
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = sim(&["completions", shell]);
        let text = text_of(&output.stdout);
        assert_eq!(output.status.code(), Some(0));
        assert!(text.contains("ackward-sim") && text.contains("fuzz"), "{shell}");
    }
}

#[test]
fn bench_prints_every_measurement_beside_its_aim() {
    let output = sim(&["bench", "--rounds", "1"]);
    let text = text_of(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stderr));
    for aim in ["aim 4,000", "aim 1,500", "aim 20x", "aim 5,000", "aim 20,000x", "SQLite's share"] {
        assert!(text.contains(aim), "{text}");
    }
    let share = text.lines().find(|line| line.starts_with("SQLite's share")).unwrap();
    let percent: u32 = share.split_whitespace().rev().nth(1).unwrap().parse().unwrap();
    assert!((5..=95).contains(&percent), "{share}");
}

/// What `exec` printed before the other commands came, it still prints (part X).
#[test]
fn exec_answers_line_by_line() {
    let script = "echo '{\"op\":\"enqueue\",\"id\":\"a\",\"qty\":1,\"now_ms\":0,\"ttl_ms\":5}' | \"$0\" exec";
    let output = Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_ackward-sim")]).output().unwrap();
    assert_eq!(text_of(&output.stdout), "{\"ok\":true}\n");
}

fn sim(args: &[&str]) -> Output {
    command().args(args).output().unwrap()
}

/// What says the shard: the tests may run in CI themselves.
const SHARDS: &[&str] = &["JOB_COMPLETION_INDEX", "CI_NODE_INDEX", "CI_NODE_TOTAL", "SLURM_ARRAY_TASK_ID"];

/// The program at the top of the workspace, with an environment that says nothing to it.
fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ackward-sim"));
    for variable in ["CARGO_MANIFEST_DIR", "NO_COLOR", "COLUMNS", "RUST_BACKTRACE"].iter().chain(SHARDS) {
        command.env_remove(variable);
    }
    command.current_dir(top());
    command
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A temporary folder with these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// All snapshots of the workspace lie in one folder at its top.
fn snapshot(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}
