//! The worker process: SIGTERM in each phase, what it outlives, its neighbours, and the commands around it.

use super::*;

/// Nothing to do: it ends at once, and says so.
#[test]
fn sigterm_while_idle() {
    let site = Site::new();
    site.enqueue("cake", 3);
    open(&site.queue()).execute("UPDATE jobs SET status = 'done'", []).unwrap();
    let mut worker = Process::start(&mut site.worker("127.0.0.1:1"));
    worker.says("working");
    let (code, out) = worker.stop();
    assert_eq!(code, Some(0));
    let none = r#"{"claimed":0,"cut":0,"dead":0,"done":0,"end":"stopped","released":0,"retried":0,"stale":0,"unknown":0}"#;
    assert_eq!(out, none);
}

/// M10: inside the claim: the claim is committed, then released; nothing is sent.
#[test]
fn m10_sigterm_while_claiming_releases_the_job() {
    let site = Site::new();
    let receiver = Receiver::start(&site, &[]);
    let proxy = Proxy::start(&receiver.address, []);
    site.enqueue("cake", 3);
    let mut command = site.worker(&proxy.address);
    let mut worker = Process::start(command.env("ACKWARD_FAULT", "after-claim:0=pause-700"));
    worker.says("held at after-claim");
    let (code, out) = worker.stop();
    assert_eq!(code, Some(0));
    assert!(out.contains("\"released\":1"), "{out}");
    assert_eq!((site.jobs(), proxy.connections()), (vec!["cake pending 0 1".to_owned()], 0));
}

/// While it sends: the reply is waited for and recorded.
#[test]
fn sigterm_while_sending_finishes_the_job() {
    let site = Site::new();
    let mut receiver = Receiver::with(&site, &[], "after-commit:0=pause-700");
    site.enqueue("cake", 3);
    site.enqueue("tea", 1);
    let worker = Process::start(&mut site.worker(&receiver.address));
    receiver.process.says("held at after-commit");
    let (code, out) = worker.stop();
    assert_eq!(code, Some(0));
    assert!(out.contains("\"done\":1"), "{out}");
    assert_eq!(site.jobs(), ["cake done 1 1", "tea pending 0 0"]);
}

/// While it records: the finish is in place.
#[test]
fn sigterm_while_finishing_finishes_the_job() {
    let site = Site::new();
    let receiver = Receiver::start(&site, &[]);
    site.enqueue("cake", 3);
    let mut command = site.worker(&receiver.address);
    let mut worker = Process::start(command.env("ACKWARD_FAULT", "after-finish:0=pause-300"));
    worker.says("held at after-finish");
    assert_eq!(worker.stop().0, Some(0));
    assert_eq!(site.jobs(), ["cake done 1 1"]);
}

/// A send that does not end: it ends at the grace time all the same, with a code of its own.
#[test]
fn sigterm_while_sending_takes_no_longer_than_the_grace_time() {
    let site = Site::new();
    let receiver = Receiver::start(&site, &[]);
    let proxy = Proxy::start(&receiver.address, [Manner::StallReply(0)]);
    site.enqueue("cake", 3);
    let worker = Process::start(site.worker(&proxy.address).args(["--grace", "0.3"]));
    proxy.wait_withheld(1);
    let started = Instant::now();
    let (code, out) = worker.stop();
    assert_eq!(code, Some(9));
    assert!(out.contains("\"cut\":1"), "{out}");
    assert!(started.elapsed() < Duration::from_secs(15));
    assert_eq!(site.jobs(), ["cake leased 1 1"]);
}

/// M10: a reply that takes longer than two leases; the job is sent once.
#[test]
fn m10_a_send_longer_than_the_lease_is_renewed() {
    let site = Site::new();
    let mut receiver = Receiver::with(&site, &[], "after-commit:0=pause-7000");
    let proxy = Proxy::start(&receiver.address, []);
    site.enqueue("cake", 3);
    let mut workers: Vec<_> = (0..2)
        .map(|nth| {
            let owner = format!("worker-{nth}");
            Process::start(site.worker(&proxy.address).args(["--lease", "3", "--owner", &owner]))
        })
        .collect();
    receiver.process.says("held at after-commit");
    site.wait_settled();
    for worker in workers.drain(..) {
        assert_eq!(worker.stop().0, Some(0));
    }
    assert_eq!((site.jobs(), proxy.posts()), (vec!["cake done 1 1".to_owned()], 1));
}

/// Another program holds the write lock for longer than any timeout, at claim and at finish.
#[test]
fn a_busy_file_is_outlived() {
    let site = Site::new();
    let mut receiver = Receiver::with(&site, &[], "after-commit:0=pause-500");
    site.enqueue("cake", 3);
    let locker = open(&site.queue());
    locker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut worker = Process::start(&mut site.worker(&receiver.address));
    worker.says("nothing could be claimed");
    locker.execute_batch("COMMIT").unwrap();
    receiver.process.says("held at after-commit");
    locker.execute_batch("BEGIN IMMEDIATE").unwrap();
    worker.says("the outcome could not be recorded");
    locker.execute_batch("COMMIT").unwrap();
    site.wait_settled();
    assert_eq!(worker.stop().0, Some(0));
    assert_eq!(site.jobs(), ["cake done 1 1"]);
}

/// Two workers on one file: the slower one gets at least 30 % while both work.
#[test]
fn two_workers_share_a_file_fairly() {
    let site = Site::new();
    let receiver = Receiver::start(&site, &[]);
    let lines: String = (0..600).map(|nth| format!("{{\"id\":\"job-{nth}\",\"qty\":1}}\n")).collect();
    enqueue_lines(&site, &lines);
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let mut worker = Process::start(site.worker(&receiver.address).args(["--slots", "2"]));
            worker.says("working");
            worker
        })
        .collect();
    site.wait_settled();
    let done: Vec<i64> = workers
        .into_iter()
        .map(|worker| {
            let (code, out) = worker.stop();
            assert_eq!(code, Some(0));
            serde_json::from_str::<serde_json::Value>(&out).unwrap()["done"].as_i64().unwrap()
        })
        .collect();
    assert_eq!(done.iter().sum::<i64>(), 600);
    assert!(done.iter().all(|done| *done >= 180), "{done:?}");
}

fn enqueue_lines(site: &Site, lines: &str) {
    let path = site.write("jobs.jsonl", lines);
    let mut command = ackward("enqueue");
    command.arg("--queue").arg(site.queue()).arg("--json-lines").arg(path);
    let said = if site.queue().exists() { String::new() } else { made(&site.queue()) };
    let (code, out, err) = run(&mut command);
    assert_eq!((code, err), (Some(0), said));
    assert_eq!(out, format!("{} new, 0 duplicates, 0 refused\n", lines.lines().count()));
}

/// Q22, Q23, M2 on the command line, with its exit codes.
#[test]
fn enqueue_reports_new_duplicate_conflict_and_bad_input() {
    let site = Site::new();
    let enqueue = |arguments: &[&str]| {
        let mut command = ackward("enqueue");
        run(command.arg("--queue").arg(site.queue()).args(arguments))
    };
    site.enqueue("cake", 3);
    let (code, out, _) = enqueue(&["--id", "cake", "--qty", "3", "--json"]);
    assert_eq!((code, out.as_str()), (Some(0), "{\"enqueued\":\"duplicate\",\"id\":\"cake\",\"qty\":3}\n"));
    let (code, _, err) = enqueue(&["--id", "cake", "--qty", "4"]);
    assert_eq!((code, err.as_str()), (Some(4), "ackward: job cake exists with qty 3, not 4\n"));
    for bad in [
        &["--id", "cake"][..],
        &["--id", "a/b", "--qty", "1"],
        &["--id", "a", "--qty", "0"],
        &["--id", "a", "--qty", "1.0"],
        &["--id", "a", "--qty", "1", "--ttl", "0"],
        &["--id", "a", "--qty", "1", "--ttl", "2592001"],
        &["--id", "a", "--qty", "1", "--max-attempts", "17"],
        &[],
    ] {
        assert_eq!(enqueue(bad).0, Some(2), "{bad:?}");
    }
    let lines = site.write(
        "lines",
        "{\"id\":\"a\",\"qty\":1}\n\n{\"id\":\"b\",\"qty\":true}\n{\"id\":\"c\",\"qty\":1}\n",
    );
    let (code, out, err) = enqueue(&["--json-lines", lines.to_str().unwrap()]);
    assert_eq!((code, out.as_str()), (Some(2), "2 new, 0 duplicates, 1 refused\n"));
    assert!(err.contains("line 3: qty is true, allowed: a whole number from 1 to 1000"), "{err}");
    assert_eq!(site.jobs(), ["cake pending 0 0", "a pending 0 0", "c pending 0 0"]);
}

/// The defaults of M11: a day, ten attempts; and what list shows.
#[test]
fn list_shows_jobs_and_redrive_revives_the_dead() {
    let site = Site::new();
    site.enqueue("cake", 3);
    site.enqueue("tea", 1);
    let list = |arguments: &[&str]| {
        let mut command = ackward("list");
        let (code, out, err) = run(command.arg("--queue").arg(site.queue()).args(arguments));
        assert_eq!((code, err.as_str()), (Some(0), ""));
        out
    };
    let redrive = |id: &str| {
        let mut command = ackward("redrive");
        run(command.arg("--queue").arg(site.queue()).args(["--id", id, "--note", "mended", "--json"]))
    };
    let all = list(&["--json"]);
    let first: serde_json::Value = serde_json::from_str(all.lines().next().unwrap()).unwrap();
    let span = first["deadline"].as_i64().unwrap() - first["available_at"].as_i64().unwrap();
    assert_eq!(
        (span, &first["max_attempts"], &first["owner"]),
        (86_400_000, &10.into(), &serde_json::Value::Null)
    );
    assert_eq!(redrive("cake").0, Some(8), "not dead");
    assert_eq!(redrive("none").0, Some(8), "no such job");
    open(&site.queue())
        .execute("UPDATE jobs SET status = 'dead', reason = 'permanent' WHERE id = 'cake'", [])
        .unwrap();
    let dead = list(&["--status", "dead"]);
    assert!(dead.starts_with("seq 1  id cake  qty 3  status dead  attempts 0"), "{dead}");
    assert_eq!(dead.lines().count(), 1);
    assert_eq!(redrive("cake"), (Some(0), "{\"id\":\"cake\",\"redriven\":true}\n".into(), String::new()));
    assert_eq!(list(&["--status", "dead"]), "");
    assert_eq!(list(&["--after", "1"]).lines().count(), 1);
    assert_eq!(list(&["--limit", "1"]).lines().count(), 1);
    assert_eq!(strings(&site.queue(), "SELECT id || ' ' || note FROM redrives"), ["cake mended"]);
}

/// Q56: only a file that exists, and only a regular one; created ones belong to their owner alone.
#[test]
fn files_are_regular_and_private() {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::new();
    let code = |command: &str, path: &std::path::Path, rest: &[&str]| {
        run(ackward(command).arg("--queue").arg(path).args(rest)).0
    };
    let work = ["--url", "http://127.0.0.1:1/"];
    assert_eq!(code("work", &site.queue(), &work), Some(5));
    assert_eq!(code("list", &site.queue(), &[]), Some(5));
    assert!(!site.queue().exists());
    assert_eq!(code("enqueue", site.dir.path(), &["--id", "a", "--qty", "1"]), Some(5));
    let fifo = site.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    assert_eq!(code("enqueue", &fifo, &["--id", "a", "--qty", "1"]), Some(5));
    assert_eq!(code("work", &fifo, &work), Some(5));
    let other = site.write("other", "this is no database, but long enough to look like something at all");
    assert_eq!(code("work", &other, &work), Some(5));
    site.enqueue("cake", 3);
    Receiver::start(&site, &[]).process.stop();
    for path in [site.queue(), site.inbox()] {
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
