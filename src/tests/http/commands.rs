//! The commands that set up, count, mend and prune a queue file, their exit codes, and where settings come from.

use super::process::watchdog::Watchdog;
use super::*;

fn call(site: &Site, command: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    run(ackward(command).arg("--queue").arg(site.queue()).args(arguments))
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// init makes the file once, and never touches what is in it.
#[test]
fn init_sets_up_once() {
    let site = Site::new();
    assert_eq!(call(&site, "init", &["--json"]).0, Some(0));
    site.enqueue("cake", 3);
    let (code, out, _) = call(&site, "init", &["--json"]);
    assert_eq!((code, &json(&out)["created"]), (Some(0), &false.into()));
    assert_eq!(site.jobs(), ["cake pending 0 0"]);
}

/// Q22, Q23, M2: a large file goes in by batches; every refused line is told by its number; a second run adds nothing.
#[test]
fn enqueue_takes_a_thousand_lines_in_batches() {
    let site = Site::new();
    site.enqueue("job-5", 2);
    let mut lines: String = (0..1_000).map(|nth| format!("{{\"id\":\"job-{nth}\",\"qty\":1}}\n")).collect();
    lines.push_str("{\"id\":\"a b\",\"qty\":1}\n");
    let path = site.write("jobs.jsonl", &lines);
    let enqueue = || call(&site, "enqueue", &["--json-lines", path.to_str().unwrap(), "--batch", "64"]);
    let (code, out, err) = enqueue();
    assert_eq!((code, out.as_str()), (Some(2), "999 new, 0 duplicates, 2 refused\n"));
    assert!(err.contains("jobs.jsonl, line 6: job job-5 exists with qty 2, not 1"), "{err}");
    assert!(err.contains("jobs.jsonl, line 1001: id is \"a b\""), "{err}");
    assert_eq!(enqueue().1, "0 new, 999 duplicates, 2 refused\n");
    assert_eq!(number(&site.queue(), "SELECT max(seq) FROM jobs"), 1_000);

    let path = site.write("conflict", "{\"id\":\"job-5\",\"qty\":1}\n");
    let (code, out, _) =
        call(&site, "enqueue", &["--json-lines", path.to_str().unwrap(), "--json", "--each"]);
    assert_eq!(code, Some(4), "only conflicts");
    let lines: Vec<_> = out.lines().map(json).collect();
    assert_eq!((&lines[0]["line"], &lines[1]["conflicts"]), (&1.into(), &1.into()));
}

/// What counts, shows and looks leaves the file as it is, to the byte.
#[test]
fn looking_changes_nothing() {
    let site = Site::new();
    site.enqueue("cake", 3);
    let before = std::fs::read(site.queue()).unwrap();
    let (code, out, _) = call(&site, "stats", &["--json"]);
    assert_eq!((code, &json(&out)["pending"], &json(&out)["ready"]), (Some(0), &1.into(), &1.into()));
    let (code, out, _) = call(&site, "show", &["--id", "cake", "--json"]);
    assert_eq!((code, &json(&out)["job"]["qty"]), (Some(0), &3.into()));
    assert_eq!(call(&site, "show", &["--id", "tea"]).0, Some(8));
    assert_eq!(call(&site, "doctor", &[]).0, Some(0));
    assert_eq!(call(&site, "prune", &["--older-than", "1d", "--dry-run"]).1, "0 jobs would be removed\n");
    assert_eq!(std::fs::read(site.queue()).unwrap(), before);

    let other = site.write("other", "this is no database, but long enough to look like something at all");
    for command in ["list", "stats", "doctor"] {
        let (code, _, err) = run(ackward(command).arg("--queue").arg(&other));
        assert_eq!(code, Some(5), "{command}");
        assert!(err.contains("other: file is not a database"), "{command}: {err}");
    }
}

/// Q43, Q44: all dead jobs of a kind, or as many as are wanted; a dry run says which and does nothing.
#[test]
fn redrive_takes_all_dead_jobs_of_a_kind() {
    let site = Site::new();
    let lines: String = (0..500).map(|nth| format!("{{\"id\":\"job-{nth}\",\"qty\":1}}\n")).collect();
    let path = site.write("jobs.jsonl", &lines);
    assert_eq!(call(&site, "enqueue", &["--json-lines", path.to_str().unwrap()]).0, Some(0));
    open(&site.queue())
        .execute_batch(
            "UPDATE jobs SET status = 'dead', reason = iif(seq % 2, 'exhausted', 'permanent') WHERE seq <= 420",
        )
        .unwrap();
    let redrive =
        |arguments: &[&str]| call(&site, "redrive", &[&["--note", "mended", "--json"], arguments].concat());
    let summary = |out: &str| json(out.lines().last().unwrap())["redriven"].as_i64().unwrap();
    let (code, out, _) = call(&site, "redrive", &["--all-dead", "--dry-run", "--json"]);
    assert_eq!((code, out.lines().count()), (Some(0), 421), "a dry run needs no note");
    assert_eq!(out.lines().next(), Some("{\"id\":\"job-0\",\"would_redrive\":true}"));
    assert_eq!(out.lines().last(), Some("{\"dry_run\":true,\"skipped\":0,\"would_redrive\":420}"));
    assert_eq!(redrive(&["--all-dead", "--dry-run"]).1, out, "and a note changes nothing");
    let one = |more: &[&str]| call(&site, "redrive", &[&["--id", "job-0", "--json"], more].concat());
    assert_eq!(one(&["--dry-run"]).1, "{\"id\":\"job-0\",\"would_redrive\":true}\n");
    assert_eq!(one(&[]).0, Some(2), "a note is required");
    assert_eq!(number(&site.queue(), "SELECT count(*) FROM redrives"), 0);
    assert_eq!(summary(&redrive(&["--all-dead", "--reason", "permanent", "--limit", "205"]).1), 205);
    let (_, out, _) = redrive(&["--all-dead", "--id-prefix", "job-41"]);
    assert_eq!(summary(&out), 10, "410 to 419; 41 lives again");
    let told: Vec<_> = out.lines().take(10).map(json).collect();
    let expected: Vec<_> =
        (410..420).map(|nth| serde_json::json!({ "id": format!("job-{nth}"), "redriven": true })).collect();
    assert_eq!(told, expected);
    assert_eq!(summary(&redrive(&["--all-dead"]).1), 420 - 205 - 10);
    assert_eq!(number(&site.queue(), "SELECT count(*) FROM redrives"), 420);
    assert_eq!(number(&site.queue(), "SELECT count(*) FROM jobs WHERE status = 'pending'"), 500);
    let no_note = call(&site, "redrive", &["--all-dead"]);
    assert_eq!(no_note.0, Some(2), "a note is required");
    let (_, _, err) = redrive(&["--id", "a b"]);
    assert!(err.contains("id is \"a b\""), "{err}");
}

/// Part Y: only what is old and finished goes.
#[test]
fn prune_removes_what_finished_long_ago() {
    let site = Site::new();
    for id in ["old", "new", "waits"] {
        site.enqueue(id, 1);
    }
    open(&site.queue())
        .execute_batch(
            "UPDATE jobs SET status = 'done' WHERE id <> 'waits'; UPDATE jobs SET available_at = 5 WHERE id <> 'new'",
        )
        .unwrap();
    assert_eq!(call(&site, "prune", &["--older-than", "1h"]).1, "1 job removed\n");
    assert_eq!(site.jobs(), ["new done 0 0", "waits pending 0 0"]);
    assert_eq!(call(&site, "prune", &[]).0, Some(2), "an age is required");
    // M12: what another program wrote out of range stays as it is, and is told.
    open(&site.queue())
        .execute("UPDATE jobs SET available_at = 5, qty = iif(id = 'new', 0, qty)", [])
        .unwrap();
    for (more, out) in [
        (&["--dry-run"][..], "0 jobs would be removed, 1 passed over\n"),
        (&[], "0 jobs removed, 1 passed over\n"),
    ] {
        let (code, said, err) = call(&site, "prune", &[&["--older-than", "1h"], more].concat());
        assert_eq!((code, said.as_str()), (Some(0), out));
        assert!(
            err.contains(
                "seq 2 is passed over, another program wrote it: qty is 0, allowed: a whole number from 1"
            ),
            "{err}"
        );
    }
    assert_eq!(json(&call(&site, "prune", &["--older-than", "1h", "--json"]).1)["passed_over"], 1);
    assert_eq!(site.jobs(), ["new done 0 0", "waits pending 0 0"]);
}

/// Whoever names no job hears how jobs are named.
#[test]
fn a_command_without_jobs_says_how_to_name_them() {
    let site = Site::new();
    for (command, arguments, said) in [
        ("redrive", &[][..], "<--id <ID>|--all-dead>"),
        ("redrive", &["--note", "n"], "<--id <ID>|--all-dead>"),
        ("redrive", &["--note", "n", "--id", "a", "--all-dead"], "cannot be used with '--all-dead'"),
        ("enqueue", &[], "<--id <ID>|--json-lines <FILE>>"),
        ("enqueue", &["--json-lines", "x", "--id", "a", "--qty", "1"], "cannot be used with"),
        ("enqueue", &["--json-lines", "x", "--qty", "1"], "cannot be used with"),
        ("enqueue", &["--id", "a"], "--qty <QTY>"),
        ("enqueue", &["--qty", "1"], "--id <ID>"),
    ] {
        let (code, _, err) = call(&site, command, arguments);
        assert!(code == Some(2) && err.contains(said), "{command} {arguments:?}: {code:?} {err}");
    }
}

/// Among JSON lines on stderr there is no other one, whatever the level: the last one says why the command failed.
#[test]
fn json_logs_end_with_json() {
    let site = Site::new();
    let lines = site.write("jobs.jsonl", "{\"id\":\"a\",\"qty\":1}\nnonsense\n");
    let mut enqueue = ackward("enqueue");
    enqueue.args(["--log-format", "json", "--log", "off", "--queue"]).arg(site.queue());
    let (code, _, err) = run(enqueue.arg("--json-lines").arg(&lines));
    assert_eq!(code, Some(2));
    let told: Vec<_> = err.lines().map(json).collect();
    let message = |nth: usize| told[nth]["fields"]["message"].as_str().unwrap().to_owned();
    assert!(message(0).starts_with("made a new queue "), "{err}");
    assert!(message(1).contains("jobs.jsonl, line 2: the line is no JSON"), "{err}");
    assert!(message(2).ends_with("jobs.jsonl: 1 line was refused"), "{err}");
    assert_eq!((&told[2]["level"], &told[2]["fields"]["exit"]), (&"ERROR".into(), &"usage".into()));
    assert_eq!((&told[2]["fields"]["exit_code"], told.len()), (&2.into(), 3));
    assert!(told[2]["timestamp"].as_str().unwrap().ends_with('Z'), "{err}");
    let (code, _, err) =
        run(ackward("stats").env("ACKWARD_LOG_FORMAT", "json").args(["--queue", "/nowhere/q.db"]));
    assert_eq!((code, &json(err.trim())["fields"]["exit_code"]), (Some(5), &5.into()), "{err}");
}

/// The same where the settings file or the arguments are refused: flag and environment are known by then.
#[test]
fn refused_settings_and_arguments_are_json_among_json_logs() {
    let site = Site::new();
    let unknown = site.write("unknown.toml", "slotz = 4\n");
    let wrong = site.write("wrong.toml", "queue = 'q.db'\n[prune]\nolder-than = 'x'\n");
    let (unknown, wrong) = (unknown.to_str().unwrap(), wrong.to_str().unwrap());
    for (arguments, exit, said) in [
        (&["stats", "--config", "/nowhere/a.toml"][..], 5, "/nowhere/a.toml: No such file"),
        (&["stats", "--config", unknown], 2, "unknown.toml, line 1: there is no slotz"),
        (&["prune", "--config", wrong], 2, "wrong.toml, line 3: there is no older-than"),
        (&["stats", "--queue", "q.db", "--nonsense"], 2, "unexpected argument '--nonsense'"),
        (&["stats"], 2, "the following required arguments were not provided"),
        (&["list", "--queue", "q.db", "--limit", "x"], 2, "invalid value 'x' for '--limit <N>'"),
    ] {
        let ways = [
            ackward("--log-format=json").args(arguments),
            ackward(arguments[0]).args(&arguments[1..]).args(["--log-format", "json"]),
            ackward(arguments[0]).args(&arguments[1..]).env("ACKWARD_LOG_FORMAT", "json"),
        ]
        .map(run);
        for (code, _, err) in ways {
            assert_eq!((code, err.lines().count()), (Some(exit), 1), "{arguments:?}: {err}");
            let fields = &json(err.trim())["fields"];
            assert_eq!(fields["exit_code"], exit, "{err}");
            assert!(fields["message"].as_str().unwrap().contains(said), "{err}");
        }
        let (code, _, err) = run(ackward(arguments[0]).args(&arguments[1..]));
        assert_eq!((code, err.contains(said)), (Some(exit), true), "{err}");
        assert!(serde_json::from_str::<serde_json::Value>(&err).is_err(), "for people: {err}");
    }
    let (code, out, err) = run(ackward("--log-format=json").arg("--help"));
    assert!(code == Some(0) && out.contains("Usage") && err.is_empty(), "help is no failure: {err}");
}

/// M12: alone it is an error, among others it is passed over.
#[test]
fn redrive_leaves_a_row_alone_that_no_claim_would_take() {
    let site = Site::new();
    site.enqueue("cake", 1);
    site.enqueue("tea", 1);
    open(&site.queue())
        .execute_batch(
            "UPDATE jobs SET status = 'dead', reason = 'permanent', attempts = 1, token = iif(id = 'cake', -5, 1)",
        )
        .unwrap();
    let (code, _, err) = call(&site, "redrive", &["--id", "cake", "--note", "n"]);
    assert_eq!(code, Some(5), "{err}");
    assert!(
        err.contains("token is -5, allowed: a whole number from 0") && err.contains("`ackward doctor`"),
        "{err}"
    );
    let said = err;
    let (code, _, err) = call(&site, "redrive", &["--id", "cake", "--note", "n", "--dry-run"]);
    assert_eq!((code, &err), (Some(5), &said), "a dry run says the same");
    let all = |more: &[&str]| call(&site, "redrive", &[&["--all-dead", "--note", "n"], more].concat());
    let (code, out, told) = all(&["--dry-run"]);
    let would = "tea: would be redriven\n1 job would be redriven, 1 passed over\n";
    assert_eq!((code, out.as_str()), (Some(0), would), "{told}");
    let (code, out, err) = all(&[]);
    assert_eq!((code, out.as_str()), (Some(0), "1 job redriven, 1 passed over\n"), "{err}");
    assert!(err.contains("job cake is passed over, no claim would take it: token is -5"), "{err}");
    assert_eq!(told, err, "a dry run says the same");
    assert_eq!(site.jobs(), ["cake dead 1 -5", "tea pending 0 1"]);
    // No such job, and one that is not dead.
    for id in ["scone", "tea"] {
        let one = |more: &[&str]| call(&site, "redrive", &[&["--id", id, "--note", "n"], more].concat());
        assert_eq!(one(&["--dry-run"]), one(&[]), "{id}");
    }
}

/// M12: found with a code of its own, mended, and then nothing is found.
#[test]
fn doctor_finds_and_mends() {
    let site = Site::new();
    site.enqueue("cake", 1);
    open(&site.queue())
        .execute_batch(
            "UPDATE jobs SET status = 'leased', attempts = 1, token = 1, owner = 'w'; DROP INDEX ackward_jobs_live",
        )
        .unwrap();
    let (code, out, _) = call(&site, "doctor", &["--json"]);
    assert_eq!(code, Some(10));
    let checks: Vec<_> =
        out.lines().map(|line| json(line)["check"].as_str().unwrap_or("-").to_owned()).collect();
    assert_eq!(checks, ["indexes", "range", "null-lease", "-"]);
    let summary = |out: &str| json(out.lines().last().unwrap());
    assert_eq!(summary(&out)["pages_checked"], true);
    let (code, quick, err) = call(&site, "doctor", &["--json", "--quick"]);
    assert_eq!((code, err.as_str()), (Some(10), "ackward: 3 findings\n"));
    assert_eq!(summary(&quick)["pages_checked"], false);
    let found = |out: &str| out.lines().take(3).map(json).collect::<Vec<_>>();
    assert_eq!(found(&quick), found(&out));
    let (code, out, _) = call(&site, "doctor", &["--fix"]);
    assert_eq!(code, Some(0), "{out}");
    assert!(out.starts_with("1 row mended\n") && out.ends_with("queue.db: nothing wrong\n"), "{out}");
    let (code, out, _) = call(&site, "doctor", &["--quick"]);
    assert_eq!(
        (code, out.ends_with("queue.db: nothing wrong (pages not checked)\n")),
        (Some(0), true),
        "{out}"
    );
    open(&site.queue())
        .execute("UPDATE jobs SET status = 'done', available_at = 9e14, lease_until = NULL, owner = NULL", [])
        .unwrap();
    let (_, out, _) = call(&site, "doctor", &[]);
    assert!(out.contains("clock: a job was done"), "{out}");
    open(&site.queue())
        .execute_batch("PRAGMA writable_schema = 1; UPDATE sqlite_schema SET rootpage = 99")
        .unwrap();
    let (code, out, err) = call(&site, "doctor", &[]);
    assert_eq!(
        (code, out.starts_with("integrity: malformed database schema")),
        (Some(10), true),
        "{out}{err}"
    );
}

const MALFORMED: &str = "integrity: database disk image is malformed: restore a backup";

/// M12: damaged pages are a finding like others, wherever they are: what can still be looked at is, what cannot is named,
/// and nobody is sent to the doctor by the doctor.
#[test]
fn doctor_finds_damaged_pages() {
    let site = Site::new();
    let lines: String = (0..2_000).map(|nth| format!("{{\"id\":\"job-{nth}\",\"qty\":1}}\n")).collect();
    let path = site.write("jobs.jsonl", &lines);
    assert_eq!(call(&site, "enqueue", &["--json-lines", path.to_str().unwrap()]).0, Some(0));
    let whole = std::fs::read(site.queue()).unwrap();
    let pages = whole.len() / 4096;
    let overwritten = |page: usize| {
        let mut bytes = whole.clone();
        bytes[page * 4096..][..64].fill(0xa5);
        bytes
    };
    let cut = |bytes: usize| whole[..bytes].to_vec();
    let mut damaged: Vec<_> = (1..pages).map(|page| (format!("page {page}"), overwritten(page))).collect();
    damaged.extend([4096, 20_000, 90_000, 90_112].map(|bytes| (format!("cut at {bytes}"), cut(bytes))));
    let mut not_done = std::collections::BTreeSet::new();
    for (place, bytes) in damaged {
        std::fs::write(site.queue(), bytes).unwrap();
        let (code, out, err) = call(&site, "doctor", &[]);
        assert_eq!((code, out.contains("integrity: ")), (Some(10), true), "{place}: {out}{err}");
        assert!(!format!("{out}{err}").contains("ackward doctor"), "{place}: {out}{err}");
        let stopped = out.lines().filter(|line| line.contains("not done")).map(|line| line.split(':').next());
        let stopped: Vec<_> = stopped.flatten().map(str::to_owned).collect();
        assert!(stopped.is_empty() || out.starts_with(MALFORMED), "{place}: {out}");
        not_done.extend(stopped);
        let (code, lines, _) = call(&site, "doctor", &["--json"]);
        let findings: Vec<_> = lines.lines().map(json).collect();
        assert_eq!((code, &findings[0]["check"]), (Some(10), &"integrity".into()), "{place}: {lines}");
        assert_eq!(findings.len(), out.lines().count() + 1, "{place}: {lines}");
        for more in ["--quick", "--fix"] {
            let (code, out, err) = call(&site, "doctor", &[more]);
            assert!(matches!(code, Some(0 | 10)), "{more}, {place}: {out}{err}");
        }
    }
    let not_done: Vec<_> = not_done.iter().map(String::as_str).collect();
    assert_eq!(
        not_done,
        ["audit-range", "clock", "jobs", "least-seq", "sequence", "sequence-used-up", "token-below-audit"]
    );
}

/// Flags before environment before file before default; what does not belong there is refused with its line.
#[test]
fn settings_come_from_flags_then_environment_then_file() {
    let site = Site::new();
    let config = site.write("ackward.toml", &format!("queue = {:?}\nmax-attempts = 3\n", site.queue()));
    let budget = |id: &str, environment: &str, flag: &[&str]| {
        let mut command = ackward("enqueue");
        command.arg("--config").arg(&config).args(["--id", id, "--qty", "1"]).args(flag);
        if !environment.is_empty() {
            command.env("ACKWARD_MAX_ATTEMPTS", environment);
        }
        assert_eq!(run(&mut command).0, Some(0));
        number(&site.queue(), &format!("SELECT max_attempts FROM jobs WHERE id = '{id}'"))
    };
    assert_eq!(budget("a", "", &[]), 3);
    assert_eq!(budget("b", "4", &[]), 4);
    assert_eq!(budget("c", "4", &["--max-attempts", "5"]), 5);
    let bad = site.write("bad.toml", "[work]\nurl = 'http://127.0.0.1:1/'\nslotz = 4\n");
    let (code, _, err) = run(ackward("stats").arg("--config").arg(bad));
    assert_eq!(code, Some(2));
    assert!(err.contains("bad.toml, line 3: there is no slotz, allowed: allow-network-fs, batch"), "{err}");
}

/// What cannot be written to stdout is a failure, help included; a reader that has gone is none.
#[test]
fn a_full_stdout_is_a_failure() {
    let site = Site::new();
    site.enqueue("cake", 3);
    let queue = site.queue();
    let queue = queue.to_str().unwrap();
    let code = |command: &mut Command| {
        let mut child = command.spawn().unwrap();
        let watchdog = Watchdog::new(&child, Duration::from_secs(120));
        let code = child.wait().unwrap().code();
        watchdog.has_slept(&format!("{command:?}"));
        code
    };
    for arguments in [&["--help"][..], &["list", "--queue", queue], &["man"], &["completions", "bash"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let Ok(full) = full else { return eprintln!("skipped: no /dev/full") };
        let mut command = Command::new(env!("CARGO_BIN_EXE_ackward"));
        assert_eq!(code(command.args(arguments).stdout(full)), Some(1), "{arguments:?}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_ackward"));
        assert_eq!(code(command.args(arguments).stdout(writer)), Some(0), "{arguments:?}");
    }
}

/// tail tells what other processes do.
#[test]
fn tail_tells_a_jobs_life() {
    let site = Site::new();
    site.enqueue("cake", 1);
    let mut tail = Process::start(ackward("tail").arg("--queue").arg(site.queue()).args([
        "--json",
        "--poll-interval",
        "20ms",
        "--count",
        "5",
    ]));
    tail.says("following");
    let change = |sql: &str| {
        open(&site.queue()).execute_batch(sql).unwrap();
        std::thread::sleep(Duration::from_millis(300));
    };
    site.enqueue("tea", 1);
    std::thread::sleep(Duration::from_millis(300));
    change(
        "UPDATE jobs SET status = 'leased', attempts = 1, token = 1, owner = 'w', lease_until = 5 WHERE seq = 1",
    );
    change("UPDATE jobs SET lease_until = 9 WHERE seq = 1");
    change(
        "UPDATE jobs SET status = 'dead', reason = 'permanent', owner = NULL, lease_until = NULL WHERE seq = 1",
    );
    change("UPDATE jobs SET status = 'pending', reason = NULL, attempts = 0 WHERE seq = 1");
    let mut text = String::new();
    std::io::Read::read_to_string(&mut tail.stdout, &mut text).unwrap();
    let told: Vec<_> = text
        .lines()
        .map(json)
        .map(|line| format!("{} {}", line["what"].as_str().unwrap(), line["job"]["id"].as_str().unwrap()))
        .collect();
    assert_eq!(told, ["enqueued tea", "claimed cake", "renewed cake", "dead cake", "redriven cake"]);
}

/// M12: whatever stands in the file, what looks at it does not panic, and shows times as times.
#[test]
fn hand_made_times_are_no_reason_to_fail() {
    let site = Site::new();
    site.enqueue("cake", 1);
    let times = ["-9223372036854775808", "9223372036854775807", "1.5", "'soon'", "9e14"];
    for (time, status) in times.iter().flat_map(|time| [(time, "pending"), (time, "done"), (time, "leased")])
    {
        let sql = format!(
            "UPDATE jobs SET status = '{status}', available_at = {time}, deadline = {time}, lease_until = {time}"
        );
        open(&site.queue()).execute(&sql, []).unwrap();
        for (command, arguments) in
            [("stats", &[][..]), ("stats", &["--json"]), ("list", &[]), ("show", &["--id", "cake"])]
        {
            let (code, _, err) = call(&site, command, arguments);
            assert_eq!((code, err.as_str()), (Some(0), ""), "{command} {arguments:?}: {sql}");
        }
        assert_eq!(call(&site, "doctor", &[]).0, Some(10), "{sql}");
    }
    let (_, out, _) = call(&site, "list", &[]);
    assert!(out.contains("  deadline 900000000000000 ms") || out.contains("  deadline 30489-"), "{out}");
}

/// A value that is refused says what is allowed, wherever it comes from.
#[test]
fn a_refused_number_says_what_is_allowed() {
    let site = Site::new();
    let cases: &[(&str, &[&str], &str)] = &[
        (
            "enqueue",
            &["--id", "a", "--qty", "-1"],
            "'-1' for '--qty <QTY>': qty is -1, allowed: a whole number from 1 to 1000",
        ),
        ("enqueue", &["--id", "a", "--qty", "x"], "allowed: a whole number from 1 to 1000"),
        ("enqueue", &["--id", "a", "--qty", "1", "--batch", "0"], "allowed: a whole number from 1 to 10000"),
        (
            "enqueue",
            &["--id", "a", "--qty", "1", "--ttl", "-5"],
            "allowed: a number of seconds greater than 0",
        ),
        ("prune", &["--older-than", "0s"], "allowed: a number of seconds greater than 0"),
        ("list", &["--limit", "-1"], "allowed: a whole number from 0 to"),
        ("tail", &["--count", "0"], "allowed: a whole number from 1 to"),
    ];
    for (command, arguments, said) in cases {
        let (code, _, err) = call(&site, command, arguments);
        assert_eq!(code, Some(2), "{command} {arguments:?}");
        assert!(err.contains(said) && !err.contains("timeout"), "{command} {arguments:?}: {err}");
    }
    let consume = ["--address", "127.0.0.1:1", "--store", "/nowhere/store.db", "--retry-cap-ms", "50"];
    for more in [&[][..], &["--once"], &["--failures-max", "3"]] {
        let (code, _, err) = run(ackward("consume").args(consume).args(more));
        let said =
            "--retry-cap-ms is 50, allowed: a whole number from 100, which is --retry-base-ms, to 86400000";
        assert_eq!((code, err.contains(said)), (Some(2), true), "{more:?}: {err}");
    }
    let mut work = ackward("work");
    work.arg("--queue").arg(site.queue()).args(["--url", "http://127.0.0.1:1/"]).env("ACKWARD_SLOTS", "abc");
    let (code, _, err) = run(&mut work);
    assert_eq!(code, Some(2));
    assert!(err.contains("'abc' for '--slots <N>': allowed: a whole number from 1 to 256"), "{err}");
    assert!(!site.queue().exists());
}

/// A list that is read in pieces has every job once, in order, up to its limit, and goes on where it is told to.
#[test]
fn a_long_list_has_every_job_once() {
    let site = Site::new();
    let lines: String = (0..2_500).map(|nth| format!("{{\"id\":\"job-{nth}\",\"qty\":1}}\n")).collect();
    let mut enqueue = ackward("enqueue");
    enqueue.arg("--queue").arg(site.queue()).args(["--durability", "process", "--json-lines"]);
    assert_eq!(run(enqueue.arg(site.write("jobs.jsonl", &lines))).0, Some(0));
    let seqs = |arguments: &[&str]| -> Vec<i64> {
        let (code, out, err) =
            run(ackward("list").arg("--queue").arg(site.queue()).arg("--json").args(arguments));
        assert_eq!(code, Some(0), "{err}");
        out.lines().map(|line| json(line)["seq"].as_i64().unwrap()).collect()
    };
    assert_eq!(seqs(&["--limit", "5000"]), (1..=2_500).collect::<Vec<_>>());
    assert_eq!(seqs(&["--limit", "2200"]), (1..=2_200).collect::<Vec<_>>());
    assert_eq!(seqs(&["--limit", "1001", "--after", "1400"]), (1_401..=2_401).collect::<Vec<_>>());
    assert!(seqs(&["--limit", "0"]).is_empty());
}
