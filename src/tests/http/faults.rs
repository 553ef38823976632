//! Real faults: a process that stands still past its lease, a full disk, a read-only file, SIGTERM in the middle of a renewal or a release.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use super::*;

/// M10, Q36: a worker that stands still past its lease loses the job to another; when it goes on, its outcome is
/// stale, and it says why.
#[test]
fn a_worker_stopped_past_its_lease_records_nothing() {
    let site = Site::new();
    let receiver = Receiver::start(&site, &[]);
    let proxy = Proxy::start(&receiver.address, [Manner::StallReply(0)]);
    site.enqueue("cake", 3);
    let mut first = Process::start(site.worker(&proxy.address).args(["--owner", "one", "--lease", "3"]));
    proxy.wait_withheld(1);
    first.signal("-STOP");
    let second = Process::start(site.worker(&receiver.address).args(["--owner", "two"]));
    site.wait_settled();
    assert_eq!(second.stop().0, Some(0));
    std::thread::sleep(Duration::from_millis(2_500));
    first.signal("-CONT");
    first.says("the lease was lost");
    first.says("the clock jumped, or the process stood still");
    let (code, out) = first.stop();
    assert_eq!(code, Some(0));
    assert!(out.contains("\"done\":0") && out.contains("\"stale\":1"), "{out}");
    assert_eq!(site.jobs(), ["cake done 2 2"]);
    assert_eq!(site.effects(), ["inbox cake 3", "effect cake 3", "total 1 3"]);
}

/// A log that cannot be written is no reason to stop: neither the worker nor the receiver, with stderr on a full disk.
#[test]
fn a_full_stderr_stops_nobody() {
    for format in ["text", "json"] {
        let site = Site::new();
        let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = ackward("receive");
        command.args(["--listen", "127.0.0.1:0", "--log-format", format, "--inbox"]).arg(site.inbox());
        let mut receiver = command.stdout(Stdio::piped()).stderr(full()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(receiver.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        // Each refusal is logged.
        let refused =
            receiver::asked(&address, "POST /elsewhere HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n");
        assert!(refused.starts_with("HTTP/1.1 404 "), "{refused}");
        site.enqueue("cake", 3);
        let mut command = site.worker(&address);
        let mut worker =
            command.args(["--log-format", format]).stdout(Stdio::null()).stderr(full()).spawn().unwrap();
        site.wait_settled();
        assert_eq!(site.jobs(), ["cake done 1 1"]);
        for child in [&mut worker, &mut receiver] {
            assert_eq!(child.try_wait().unwrap(), None, "it still runs");
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

/// M10: SIGTERM while a renewal's transaction is open: the renewal is committed, the reply is waited for and recorded.
#[test]
fn m10_sigterm_during_a_renewal_ends_cleanly() {
    let site = Site::new();
    let mut receiver = Receiver::with(&site, &[], "after-accept:0=pause-2000");
    site.enqueue("cake", 3);
    let mut command = site.worker(&receiver.address);
    let mut worker =
        Process::start(command.args(["--lease", "3"]).env("ACKWARD_FAULT", "after-renew:0=pause-500"));
    receiver.process.says("held at after-accept");
    worker.says("held at after-renew");
    let (code, out) = worker.stop();
    assert_eq!(code, Some(0));
    assert!(out.contains("\"done\":1"), "{out}");
    assert_eq!(site.jobs(), ["cake done 1 1"]);
}

/// M10: a job that was claimed and not sent is given back after SIGTERM, and SIGHUP changes nothing about it. A second
/// SIGTERM meanwhile ends the worker at once: what was not committed is rolled back, and the lease brings the job back.
#[test]
fn m10_sigterm_during_a_release_ends_cleanly_and_a_second_one_at_once() {
    for (batch, second, ends, left) in [
        ("1", "-HUP", 0, "cake pending 0 1"),
        ("4", "-HUP", 0, "cake pending 0 1"),
        ("1", "-TERM", 143, "cake leased 1 1"),
        ("4", "-TERM", 143, "cake leased 1 1"),
    ] {
        let site = Site::new();
        let receiver = Receiver::start(&site, &[]);
        site.enqueue("cake", 3);
        let mut command = site.worker(&receiver.address);
        command.args(["--batch", batch]).env("ACKWARD_FAULT", "after-release:0=pause-500");
        // Held in the claim by a lock, so that SIGTERM comes before it is sent.
        let peer = open(&site.queue());
        peer.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut worker = Process::start(&mut command);
        worker.says("working");
        std::thread::sleep(Duration::from_millis(400));
        worker.terminate();
        std::thread::sleep(Duration::from_millis(100));
        peer.execute_batch("COMMIT").unwrap();
        worker.says("held at after-release");
        worker.signal(second);
        let (code, out) = worker.ends();
        assert_eq!(code, Some(ends), "batch {batch} {second}");
        let is_told = out.contains("\"released\":1") && out.contains("\"done\":0");
        assert_eq!(is_told, ends == 0, "batch {batch} {second}: {out}");
        assert_eq!(site.jobs(), [left], "batch {batch} {second}");
    }
}

/// A file that may only be read can be looked at, and is refused for work with a reason.
#[test]
fn a_read_only_file_can_be_looked_at() {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::new();
    site.enqueue("cake", 3);
    std::fs::set_permissions(site.queue(), std::fs::Permissions::from_mode(0o444)).unwrap();
    if std::fs::OpenOptions::new().write(true).open(site.queue()).is_ok() {
        return eprintln!("skipped: this user may write to read-only files");
    }
    let stats = run(ackward("stats").arg("--queue").arg(site.queue()));
    assert_eq!(stats.0, Some(0), "{stats:?}");
    let (code, _, err) =
        run(ackward("enqueue").arg("--queue").arg(site.queue()).args(["--id", "tea", "--qty", "1"]));
    assert_eq!(code, Some(5));
    assert!(err.contains("check the permissions"), "{err}");
}

/// A full disk: what does not fit is refused with its reason and leaves the file whole; with room again the same run
/// goes through, and adds nothing twice.
#[test]
fn a_full_disk_is_reported_and_outlived() {
    let site = Site::new();
    let Some(disk) = SmallDisk::new(&site) else { return };
    let queue = disk.path("queue.db");
    let lines: String = (0..400).map(|nth| format!("{{\"id\":\"job-{nth}\",\"qty\":1}}\n")).collect();
    let path = site.write("jobs.jsonl", &lines);
    let enqueue = || {
        run(ackward("enqueue")
            .arg("--queue")
            .arg(&queue)
            .arg("--json-lines")
            .arg(&path)
            .args(["--batch", "50"]))
    };
    assert_eq!(run(ackward("init").arg("--queue").arg(&queue)).0, Some(0));
    // All the room there is, but for a little.
    std::fs::write(disk.path("ballast"), vec![0; 400 * 1024]).unwrap();
    let (code, _, err) = enqueue();
    assert_eq!(code, Some(5), "{err}");
    assert!(err.contains("full"), "{err}");
    disk.clear();
    assert_eq!(
        run(ackward("doctor").arg("--queue").arg(&queue).arg("--json")).1.matches("integrity").count(),
        0
    );
    let (code, out, _) = enqueue();
    assert_eq!(code, Some(0), "{out}");
    assert_eq!(number(&queue, "SELECT count(*) FROM jobs"), 400);
}

/// An event log on a disk that is full for a while says how much is missing, and jobs go on meanwhile.
#[test]
fn an_event_log_on_a_full_disk_says_what_is_lost() {
    let site = Site::new();
    let Some(disk) = SmallDisk::new(&site) else { return };
    let receiver = Receiver::start(&site, &[]);
    let log = disk.path("events.jsonl");
    std::fs::write(&log, "").unwrap();
    disk.fill();
    site.enqueue("cake", 1);
    let mut worker = Process::start(site.worker(&receiver.address).arg("--events").arg(&log));
    site.wait_settled();
    worker.says("the event log cannot be written");
    disk.clear();
    site.enqueue("tea", 1);
    worker.says_both("the event log can be written again", "lost=");
    site.wait_settled();
    assert_eq!(worker.stop().0, Some(0));
    let text = std::fs::read_to_string(&log).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty());
    let lines: Vec<serde_json::Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let lost = lines.iter().find(|line| line["what"] == "lost").unwrap();
    let told = |id: &str| lines.iter().filter(|line| line["ticket"]["id"] == id).count();
    let count = lost["count"].as_u64().unwrap();
    assert!(count >= 3 && told("cake") == 0 && told("tea") == 3, "claimed, answered, finished: {text}");
    assert!(lost["since_ms"].as_i64().unwrap() <= lost["at_ms"].as_i64().unwrap(), "{text}");
}

/// A worker whose claims meet a full disk is not ready and says why, logs it now and then and not each time, and works on
/// by itself once there is room.
#[test]
fn a_worker_on_a_full_disk_is_not_ready() {
    let site = Site::new();
    let Some(disk) = SmallDisk::new(&site) else { return };
    let receiver = Receiver::start(&site, &[]);
    let queue = disk.path("queue.db");
    let enqueue = |id| run(ackward("enqueue").arg("--queue").arg(&queue).args(["--id", id, "--qty", "1"]));
    assert_eq!(enqueue("cake").0, Some(0));
    disk.fill();
    let mut command = ackward("work");
    command.arg("--queue").arg(&queue).args(["--url", &format!("http://{}/jobs", receiver.address)]);
    let (mut worker, page) = status::serve(&mut command);
    wait("it is not ready", || {
        let reply = status::get(&page, "/readyz");
        reply.starts_with("HTTP/1.1 503 ")
            && reply.contains("not ready: claim failed: database or disk is full")
    });
    assert!(status::get(&page, "/status.json").contains("claim failed: database or disk is full"));
    let failures = || {
        let metrics = status::get(&page, "/metrics");
        let count = metrics
            .lines()
            .find_map(|line| line.strip_prefix("ackward_queue_failures_total{operation=\"claim\"} "));
        count.and_then(|count| count.parse::<usize>().ok()).unwrap_or(0)
    };
    wait("claims fail again and again", || failures() >= 40);
    let failed = failures();
    disk.clear();
    let before = worker.says_after("the queue can be worked on again", "operation=\"claim\"");
    let lines = before.iter().filter(|line| line.contains("nothing could be claimed")).count();
    assert!(lines >= 1 && lines * 10 <= failed, "{lines} lines for {failed} failures: {before:?}");
    wait("it is ready", || status::get(&page, "/readyz").starts_with("HTTP/1.1 200 "));
    wait("the job is done", || number(&queue, "SELECT count(*) FROM jobs WHERE status = 'done'") == 1);
    assert_eq!(worker.stop().0, Some(0));
}

/// The same for a receiver whose commits fail.
#[test]
fn a_receiver_on_a_full_disk_is_not_ready() {
    let site = Site::new();
    let Some(disk) = SmallDisk::new(&site) else { return };
    let mut command = ackward("receive");
    command.args(["--listen", "127.0.0.1:0", "--inbox"]).arg(disk.path("inbox.db"));
    let (mut process, page) = status::serve(&mut command);
    let address = process.address();
    let send = |id: &str| {
        let body = format!("{{\"id\":\"{id}\",\"qty\":1}}");
        let head = format!(
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nIdempotency-Key: \"{id}\"\r\n\
             Connection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        status::exchange(&address, (head + &body).as_bytes())
    };
    assert!(send("cake").starts_with("HTTP/1.1 200 "));
    wait("it is ready", || status::get(&page, "/readyz").starts_with("HTTP/1.1 200 "));
    disk.fill();
    for nth in 0..30 {
        let reply = send(&format!("tea-{nth}"));
        assert!(reply.starts_with("HTTP/1.1 503 ") && reply.contains("database or disk is full"), "{reply}");
    }
    let reply = status::get(&page, "/readyz");
    assert!(reply.contains("not ready: accept failed: database or disk is full"), "{reply}");
    disk.clear();
    assert!(send("tea").starts_with("HTTP/1.1 200 "));
    assert!(status::get(&page, "/readyz").starts_with("HTTP/1.1 200 "));
    let before = process.says_after("events are accepted again", "failures=30");
    let lines = before.iter().filter(|line| line.contains("nothing was accepted")).count();
    assert!((1..=10).contains(&lines), "{before:?}");
    assert_eq!(process.stop().0, Some(0));
}

/// A limit on the size of files (`ulimit -f`) is to a worker what a full disk is: it says what it cannot write, and
/// goes on. First the event log is at its limit, then the queue.
#[test]
fn a_limit_on_the_size_of_files_is_outlived() {
    let site = Site::new();
    let receiver = Receiver::start(&site, &[]);
    let limited = |kibibytes: u32, command: &Command| {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("ulimit -f {}; exec \"$0\" \"$@\"", kibibytes * 2));
        shell.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        shell
    };
    // sh counts in blocks of 512 bytes.
    let events = site.write("events", &"\n".repeat(100 * 1024));
    site.enqueue("cake", 3);
    let mut command = site.worker(&receiver.address);
    command.arg("--events").arg(&events);
    let mut worker = Process::start(&mut limited(100, &command));
    worker.says_both("the event log cannot be written", "File too large");
    site.wait_settled();
    assert_eq!(worker.stop().0, Some(0));
    assert_eq!(site.jobs(), ["cake done 1 1"]);

    site.enqueue("tea", 1);
    let mut worker = Process::start(&mut limited(4, &site.worker(&receiver.address)));
    worker.says("nothing could be claimed");
    assert_eq!(worker.stop().0, Some(0));
    assert_eq!(site.jobs(), ["cake done 1 1", "tea pending 0 0"], "nothing is half written");

    let mut enqueue = ackward("enqueue");
    enqueue.arg("--queue").arg(site.queue()).args(["--id", "scone", "--qty", "1"]);
    let (code, _, err) = run(&mut limited(4, &enqueue));
    assert_eq!(code, Some(5), "{err}");
    assert!(err.contains("disk I/O error") && err.contains("whether the file may grow (ulimit -f"), "{err}");
}

/// A file system of its own with room for half a mebibyte.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` where none may be mounted here.
    fn new(site: &Site) -> Option<Self> {
        let mount = site.path("small");
        std::fs::create_dir(&mount).unwrap();
        let mut command = Command::new("mount");
        let tmpfs = command.args(["-t", "tmpfs", "-o", "size=512k", "tmpfs"]).arg(&mount).output();
        if !tmpfs.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: a small tmpfs may not be mounted here");
            return None;
        }
        Some(Self(mount))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Leaves no room at all.
    fn fill(&self) {
        let mut ballast = std::fs::File::create(self.path("ballast")).unwrap();
        let full = (0..1_024).map(|_| ballast.write_all(&[0; 1_024])).find_map(Result::err);
        assert_eq!(full.expect("it is full").kind(), std::io::ErrorKind::StorageFull);
    }

    /// Makes room again.
    fn clear(&self) {
        std::fs::remove_file(self.path("ballast")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}
