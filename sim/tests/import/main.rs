//! Incidents are imported from event logs: what the logs prove, and that they are found again.

#![expect(clippy::disallowed_methods, reason = "tests start processes")]

use std::path::Path;
use std::process::{Command, Output};
use std::rc::Rc;

use ackward_sim::import::{Line, Log, LogError, SearchOptions, Ticketed, draft, keep, search};
use ackward_sim::scenario::Scenario;
use ackward_sim::twin;
use serde_json::{Value, json};

/// Written by `ackward work`: worker-a was killed while the receiver stood still, worker-b took over.
const KILLED_A: &str = include_str!("logs/killed-a.jsonl");
const KILLED_B: &str = include_str!("logs/killed-b.jsonl");

#[test]
fn a_line_of_the_real_worker_reads_back_as_it_was() {
    for text in KILLED_A.lines().chain(KILLED_B.lines()) {
        let Ok(Ticketed::Yes(line)) = Line::parse(text) else { panic!("{text}") };
        let (ours, theirs): (Value, Value) =
            (serde_json::from_str(&line.to_json()).unwrap(), serde_json::from_str(text).unwrap());
        assert_eq!(ours, theirs);
    }
}

/// Q59: worker-a dies between claim and finish, worker-b reclaims when the lease has ended.
#[test]
fn processes_that_were_really_killed_are_found_again_and_the_same_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import/logs");
    let (a, b) = (logs.join("killed-a.jsonl"), logs.join("killed-b.jsonl"));
    let import =
        |out: &str| sim(folder.path(), &["import", a.to_str().unwrap(), b.to_str().unwrap(), "--out", out]);
    let output = import("one.toml");
    let text = text_of(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}{}", text_of(&output.stderr));
    assert!(text.contains("the contract was kept") && text.contains("found again: seed "), "{text}");
    let replay = text.lines().last().unwrap().strip_prefix("cargo sim ").unwrap();
    let told = sim(folder.path(), &replay.split(' ').collect::<Vec<_>>());
    let story = text_of(&told.stdout);
    assert_eq!(told.status.code(), Some(0), "{story}");
    assert!(told.stderr.is_empty(), "every deviation happens: {}", text_of(&told.stderr));
    assert!(
        story.contains("worker-a      is killed") && story.contains("claim: job-1, token 2, attempt 2"),
        "{story}"
    );
    import("two.toml");
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    assert_eq!(read("one.toml"), read("two.toml"));
    // On standard output there is the file alone, and what else is told is told beside it.
    let piped = import("-");
    assert_eq!(piped.status.code(), Some(0));
    assert_eq!(text_of(&piped.stdout).into_bytes(), read("one.toml"));
    assert!(text_of(&piped.stderr).contains("found again: seed "), "{}", text_of(&piped.stderr));
    // Whoever reads it may stop reading.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_ackward-sim"));
    let logs = [a, b];
    let closed = command.arg("import").args(logs).args(["--out", "-"]).stdout(writer).output().unwrap();
    assert_eq!(closed.status.code(), Some(0), "{}", text_of(&closed.stderr));
    assert!(text_of(&closed.stderr).contains("found again: seed "), "{}", text_of(&closed.stderr));
}

#[test]
fn each_kind_of_violation_is_found_with_its_line_and_clause() {
    // at_ms, owner, token, attempt, lease_until, what.
    let claimed = |at: i64, owner: &str, token: i64, attempt: i64| {
        line(at, owner, token, attempt, at + 1_000, json!({"what": "claimed"}))
    };
    let finished = |at: i64, token: i64, attempt: i64, until: i64, outcome: &str, word: &str| {
        line(
            at,
            "a",
            token,
            attempt,
            until,
            json!({"what": "finished", "outcome": outcome, "delay_ms": 0, "finished": word}),
        )
    };
    let first = claimed(1_000, "a", 1, 1);
    let retried = finished(1_100, 1, 1, 2_000, "retry", "pending");
    let cases: Vec<(&str, Vec<String>, usize, &str)> = vec![
        ("a token is issued twice", vec![first.clone(), claimed(9_000, "b", 1, 1)], 2, "Q11, Q34"),
        ("a token falls", vec![claimed(1_000, "a", 2, 2), claimed(9_000, "a", 1, 1)], 2, "Q11"),
        (
            "two owners",
            vec![first.clone(), line(1_100, "b", 1, 1, 2_000, json!({"what": "left-to-lease"}))],
            2,
            "Q34",
        ),
        ("two leases are live", vec![first.clone(), claimed(1_999, "b", 2, 2)], 2, "Q29, Q34"),
        ("an attempt is skipped", vec![first.clone(), claimed(9_000, "b", 2, 3)], 2, "Q31"),
        ("an attempt is made again", vec![claimed(1_000, "a", 2, 2), claimed(9_000, "b", 3, 2)], 2, "Q31"),
        ("an attempt beyond 16", vec![claimed(1_000, "a", 16, 17)], 1, "Q35"),
        ("token 0", vec![claimed(1_000, "a", 0, 1)], 1, "Q35"),
        (
            "finished after its lease",
            vec![first.clone(), finished(3_000, 1, 1, 2_000, "ok", "done")],
            2,
            "Q36",
        ),
        (
            "finished with an old ticket",
            vec![first.clone(), claimed(2_000, "b", 2, 2), finished(3_000, 1, 1, 2_500, "ok", "done")],
            3,
            "Q36",
        ),
        ("finished twice", vec![first.clone(), retried.clone(), retried.clone()], 3, "Q36"),
        (
            "done by a retry",
            vec![first.clone(), finished(1_100, 1, 1, 2_000, "retry", "done")],
            2,
            "Q37 to Q39",
        ),
        (
            "claimed after done",
            vec![first.clone(), finished(1_100, 1, 1, 2_000, "ok", "done"), claimed(9_000, "b", 2, 1)],
            3,
            "Q37, Q43",
        ),
        (
            "claimed after dead",
            vec![first.clone(), finished(1_100, 1, 1, 2_000, "permanent", "dead"), claimed(9_000, "b", 2, 2)],
            3,
            "Q45",
        ),
        (
            "another quantity",
            vec![
                first.clone(),
                claimed(9_000, "b", 2, 2)
                    .replace("\"qty\":1", "\"qty\":2")
                    .replace("\"token\":2", "\"token\":1"),
            ],
            2,
            "Q22, Q31",
        ),
    ];
    for (what, lines, number, clause) in cases {
        let log = read(&(lines.join("\n") + "\n")).unwrap();
        let found: Vec<_> = log.findings.iter().map(|finding| (finding.line, finding.clause)).collect();
        assert!(found.contains(&(number, clause)), "{what}: {found:?}");
    }
    // What is allowed.
    let fine: Vec<(&str, Vec<String>)> = vec![
        ("reclaimed as the lease ends", vec![first.clone(), claimed(2_000, "b", 2, 2)]),
        ("retried within the lease", vec![first.clone(), retried, claimed(1_200, "b", 2, 2)]),
        (
            "a redrive",
            vec![first.clone(), finished(1_100, 1, 1, 2_000, "permanent", "dead"), claimed(1_200, "b", 2, 1)],
        ),
        (
            "given back",
            vec![
                line(1_000, "a", 2, 2, 2_000, json!({"what": "released", "released": "pending"})),
                claimed(1_100, "b", 3, 2),
            ],
        ),
        (
            "died between the commit of a retry and its line",
            vec![
                first,
                line(
                    1_050,
                    "a",
                    1,
                    1,
                    2_000,
                    json!({"what": "answered", "answer": "retryable", "error": "timed out"}),
                ),
                claimed(1_100, "b", 2, 2),
            ],
        ),
    ];
    for (what, lines) in fine {
        assert_eq!(read(&(lines.join("\n") + "\n")).unwrap().findings, [], "{what}");
    }
}

#[test]
fn a_line_that_is_cut_short_is_told_and_any_other_one_refused_with_its_place() {
    let whole = line(1_000, "a", 1, 1, 2_000, json!({"what": "claimed"}));
    let log = read(&format!("{whole}\n{}", &whole[..40])).unwrap();
    assert_eq!((log.lines.len(), log.torn), (1, vec!["x.jsonl:2".to_owned()]));
    // A full disk that empties again leaves one in the middle.
    let log = read(&format!("{whole}\n{}\n{whole}\n", &whole[..40])).unwrap();
    assert_eq!((log.lines.len(), log.torn), (2, vec!["x.jsonl:2".to_owned()]));
    for (text, number, part) in [
        (format!("{whole}\n{}\n{whole}\n", &whole[40..]), 2, "allowed: a JSON object"),
        (whole.replace(":1000,", ":-9223372036854775808,") + "\n", 1, "at_ms"),
        (whole.replace("claimed", "clamed") + "\n", 1, "allowed: one of claimed, answered"),
        (whole.replace("claimed", "released") + "\n", 1, "allowed: one of pending, stale"),
        (r#"{"at_ms":1,"what":"claimed"}"#.to_owned() + "\n", 1, "`ticket` is missing"),
    ] {
        let Err(LogError::Line { line, what, .. }) = read(&text) else { panic!("{text}") };
        assert!(line == number && what.contains(part), "{line}: {what}");
    }
    assert_eq!(read("\n").unwrap_err(), LogError::Empty);
}

/// What a worker could not write is missing, and proves nothing: no kill, no second lease, and no job's story is told
/// beyond it.
#[test]
fn a_gap_is_told_and_is_no_kill() {
    let at = |at: i64, id: &str, token: i64, what: &str| {
        let mut line: Value =
            serde_json::from_str(&line(at, "a", token, token, 9_000, json!({ "what": what }))).unwrap();
        line["ticket"]["id"] = id.into();
        match what {
            "answered" => line["answer"] = if id == "left" { "bad-ack" } else { "ok" }.into(),
            "finished" => (line["outcome"], line["finished"]) = ("ok".into(), "done".into()),
            _ => {}
        }
        line.to_string()
    };
    let lost = json!({"at_ms": 5_000, "what": "lost", "count": 4, "since_ms": 1_300}).to_string();
    let lines = [
        at(1_000, "over", 1, "claimed"),
        at(1_050, "over", 1, "answered"),
        at(1_100, "over", 1, "finished"),
        at(1_110, "left", 1, "claimed"),
        at(1_140, "left", 1, "answered"),
        at(1_150, "left", 1, "left-to-lease"),
        at(1_200, "open", 1, "claimed"),
        lost,
        at(5_000, "open", 2, "claimed"),
        at(5_010, "open", 2, "finished"),
        at(5_100, "headless", 1, "finished"),
        at(5_200, "left", 3, "claimed"),
        at(5_300, "new", 1, "claimed"),
        at(5_350, "new", 1, "answered"),
        at(5_400, "new", 1, "finished"),
    ];
    let log = read(&(lines.join("\n") + "\n")).unwrap();
    assert_eq!(log.findings, [], "a lease that seems to be live may have been given back in the gap");
    let gap = &log.gaps[0];
    assert_eq!((gap.number, gap.lost.count, gap.lost.since_ms, gap.lost.until_ms), (8, 4, 1_300, 5_000));
    assert_eq!(gap.jobs, ["headless", "left", "open"]);
    let known: Vec<_> = log.known().map(|placed| placed.number).collect();
    assert_eq!(known, [1, 2, 3, 4, 5, 6, 7, 13, 14, 15]);
    let draft = draft(&log).unwrap();
    assert!(!draft.notes.iter().any(|note| note.contains("killed")), "{:?}", draft.notes);
    let found = search(&log, &draft, SearchOptions { start: 1, seeds: 20 }, |_| true).unwrap();
    assert!(found.likeness.is_exact, "{found:?}");
    let kills = found.scenario.deviations.iter().filter(|deviation| deviation.to_string().contains("kill"));
    assert_eq!(kills.count(), 0);
    // Without the line that tells of it, it would be one.
    let untold: Vec<_> = lines.iter().filter(|line| !line.contains("lost")).cloned().collect();
    let log = read(&(untold.join("\n") + "\n")).unwrap();
    assert!(log.findings.iter().any(|finding| finding.clause == "Q29, Q34"), "{:?}", log.findings);

    // A worker that was killed before, and whose job another one took over before, was killed all the same.
    let took_over = at(1_250, "open", 2, "claimed").replace("\"owner\":\"a\"", "\"owner\":\"b\"");
    let mut lines = lines[..8].to_vec();
    lines[6] = lines[6].replace("9000", "1250");
    let files = [("a".to_owned(), lines.join("\n") + "\n"), ("b".to_owned(), took_over + "\n")];
    let log = Log::read(&files.map(|(name, text)| (name, text.into_bytes()))).unwrap();
    assert_eq!((&log.gaps[0].jobs, log.known().count()), (&Vec::new(), 8));

    for (bad, part) in [
        (json!({"at_ms": 5_000, "what": "lost", "count": 0, "since_ms": 1}), "`count` is missing or 0"),
        (json!({"at_ms": 5_000, "what": "lost", "count": 1}), "since_ms is missing"),
    ] {
        let Err(LogError::Line { what, .. }) = read(&format!("{bad}\n")) else { panic!("{bad}") };
        assert!(what.contains(part), "{what}");
    }
}

/// The command says how many events are missing, where, and whose story is cut.
#[test]
fn a_gap_is_told_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let claimed = line(1_000, "a", 1, 1, 2_000, json!({"what": "claimed"}));
    let lost = json!({"at_ms": 1_500, "what": "lost", "count": 3, "since_ms": 1_200});
    std::fs::write(folder.path().join("gap.jsonl"), format!("{claimed}\n{lost}\n")).unwrap();
    let output = sim(folder.path(), &["import", "gap.jsonl", "--seeds", "4", "--out", "gap.toml"]);
    let text = text_of(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}{}", text_of(&output.stderr));
    let told =
        "gap.jsonl:2: 3 events could not be written, from 1200 to 1500 ms: job cake is unknown from there on";
    assert!(text.contains(told) && !text.contains("killed"), "{text}");
    let output = sim(folder.path(), &["import", "gap.jsonl", "--seeds", "4", "--json", "--out", "gap2.toml"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["gaps"][0]["lost"], &json["gaps"][0]["unknown_jobs"]), (&json!(3), &json!(["cake"])));
}

/// The findings hold no false alarm: what the real queue did under every fault is what the contract allows. And what
/// was simulated is found again from its log alone.
#[test]
fn simulated_incidents_keep_the_contract_and_are_found_again() {
    let text = r#"
about = "An incident."
[[job]]
id = "cake"
count = 3
every_ms = 40
[[worker]]
name = "worker"
count = 2
[faults]
kill = 0.002
stall = 0.002
refused = 0.1
request_lost = 0.1
wrong_reply = 0.1
reset = 0.05
terminate = 0.002
"#;
    let scenario = Rc::new(Scenario::parse("incident", text.as_bytes()).unwrap());
    let (mut again, mut missed) = (0, Vec::new());
    for seed in 1..=48 {
        let (_, lines) = keep(|| twin::run(&scenario, seed, false));
        let text: String = lines.iter().map(|line| line.to_json() + "\n").collect();
        let log = read(&text).unwrap();
        assert_eq!(log.findings, [], "seed {seed}: {text}");
        let draft = draft(&log).unwrap();
        let found = search(&log, &draft, SearchOptions { start: 1, seeds: 20 }, |_| true).unwrap();
        assert_eq!(found.broken, Vec::<String>::new(), "seed {seed}");
        // As an interrupt ends it: with the best so far.
        let stopped = search(&log, &draft, SearchOptions { start: 1, seeds: 20 }, |_| false).unwrap();
        assert_eq!(stopped.seeds, 1, "seed {seed}");
        if found.likeness.is_exact { again += 1 } else { missed.push((seed, found.likeness)) }
    }
    assert!(again >= 24, "{again} of 48 were found again; missed: {missed:#?}");
}

#[test]
fn exit_codes_tell_a_broken_contract_from_an_incident_that_is_not_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, lines: &[String]| {
        std::fs::write(folder.path().join(name), lines.join("\n") + "\n").unwrap()
    };
    let claimed = line(1_000, "a", 1, 1, 2_000, json!({"what": "claimed"}));
    write("twice.jsonl", &[claimed.clone(), claimed.clone()]);
    // The simulated receiver refuses nothing for good.
    let refused =
        json!({"what": "answered", "answer": "permanent", "error": "the receiver answered 404 Not Found"});
    write("refused.jsonl", &[claimed, line(1_010, "a", 1, 1, 2_000, refused)]);
    write("bad.jsonl", &["{}".to_owned()]);
    for (args, code, part) in [
        (
            &["import", "twice.jsonl", "--seeds", "2"][..],
            1,
            "twice.jsonl:2: job cake is claimed with token 1 a second time",
        ),
        (
            &["import", "refused.jsonl", "--seeds", "2"],
            4,
            "not found again in 2 seeds; the nearest, seed 1, does 1 of 2 steps",
        ),
        (
            &["import", "refused.jsonl", "--seeds", "2"],
            2,
            "refused.toml: is there already; --out PATH names another file",
        ),
        (
            &["import", "refused.jsonl", "--seeds", "2", "--json", "--out", "other.toml"],
            4,
            "\"is_exact\": false",
        ),
        (&["import", "bad.jsonl"], 2, "bad.jsonl:1: missing field `what`"),
        (&["import", "none.jsonl"], 2, "none.jsonl: cannot be read, allowed: an event log"),
        (&["import", "twice.jsonl", "--out", "x.txt"], 2, "allowed: a file *.toml, or -"),
    ] {
        let output = sim(folder.path(), args);
        let text = text_of(&output.stdout) + &text_of(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
        assert!(text.contains(part), "{args:?}: {part:?} is not in {text}");
    }
}

fn read(text: &str) -> Result<Log, LogError> {
    Log::read(&[("x.jsonl".to_owned(), text.as_bytes().to_vec())])
}

/// A line about the job cake.
fn line(at_ms: i64, owner: &str, token: i64, attempt: i64, lease_until: i64, more: Value) -> String {
    let mut line = json!({
        "at_ms": at_ms,
        "ticket": {"id": "cake", "qty": 1, "owner": owner, "token": token, "attempt": attempt, "lease_until": lease_until},
    });
    line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    line.to_string()
}

fn sim(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ackward-sim")).args(args).current_dir(folder).output().unwrap()
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
