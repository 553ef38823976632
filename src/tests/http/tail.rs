//! `ackward tail`: what other processes do is told as it was, and it ends when it should.

use super::*;

fn tail(site: &Site, arguments: &[&str]) -> Command {
    let mut tail = ackward("tail");
    tail.arg("--queue").arg(site.queue()).args(["--json", "--poll-interval", "1ms"]).args(arguments);
    tail
}

/// Nobody ever finishes a job here, so each is told once, as enqueued, however its commit falls between two reads: the
/// producer waits without a pause, and so commits whenever a read has ended.
#[test]
fn what_is_enqueued_while_it_looks_is_not_told_as_something_else() {
    const JOBS: usize = 200;
    let site = Site::new();
    site.enqueue("cake", 1);
    let producer = open(&site.queue());
    producer.busy_timeout(Duration::ZERO).unwrap();
    let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) \
        INSERT INTO jobs SELECT i + 1, 'old-' || i, 1, 'pending', 0, 3, 0, 0, 900000000000000, NULL, NULL, NULL FROM n";
    producer.execute_batch(&format!("PRAGMA synchronous = OFF; {fill}")).unwrap();
    let mut tail = Process::start(&mut tail(&site, &["--count", &JOBS.to_string()]));
    tail.says("following");
    for nth in 0..JOBS {
        let sql = "INSERT INTO jobs (id, qty, status, attempts, max_attempts, token, available_at, deadline) \
            VALUES (?1, 1, 'pending', 0, 3, 0, 0, 900000000000000)";
        wait_busily("the job is enqueued", || producer.execute(sql, [format!("job-{nth}")]).is_ok());
    }
    let mut text = String::new();
    std::io::Read::read_to_string(&mut tail.stdout, &mut text).unwrap();
    let mut told = std::collections::BTreeSet::new();
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["what"], "enqueued", "{line}");
        assert!(told.insert(line["job"]["seq"].as_i64().unwrap()), "told twice: {line}");
    }
    assert_eq!(told.len(), JOBS);
}

#[track_caller]
fn wait_busily(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < until, "not in time: {what}");
    }
}

/// What is done to another file in its place is not what it was asked to tell; and until it has ended, SQLite takes the
/// journal of a new file at that path for its own.
#[test]
fn it_ends_when_the_file_is_replaced() {
    let site = Site::new();
    site.enqueue("cake", 1);
    let mut process = Process::start(&mut tail(&site, &[]));
    process.says("following");
    std::fs::rename(site.queue(), site.path("old.db")).unwrap();
    process.says("was moved, removed or replaced");
    assert_eq!(process.ends().0, Some(5));
}

/// `tail | head -1`: nothing happens in the file any more, so no write shows that nobody reads.
#[test]
fn it_ends_when_nobody_reads() {
    let site = Site::new();
    site.enqueue("cake", 1);
    let (reader, writer) = std::io::pipe().unwrap();
    let mut child = tail(&site, &[]).stdout(writer).stderr(std::process::Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(child.try_wait().unwrap(), None, "somebody reads still");
    drop(reader);
    let until = Instant::now() + Duration::from_secs(20);
    let ended = loop {
        match child.try_wait().unwrap() {
            Some(ended) => break Some(ended),
            None if Instant::now() > until => break None,
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    child.kill().unwrap();
    assert_eq!(ended.and_then(|ended| ended.code()), Some(0));
}

/// A lock that stays is no reason not to hear SIGTERM; one that goes, none to miss anything.
#[test]
fn it_hears_a_signal_while_the_file_is_locked() {
    let site = Site::new();
    site.enqueue("cake", 1);
    let mut process = Process::start(&mut tail(&site, &[]));
    process.says("following");
    let peer = open(&site.queue());
    peer.execute_batch("BEGIN EXCLUSIVE; UPDATE jobs SET reason = 'retry'").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    peer.execute_batch("COMMIT").unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut process.stdout, &mut line).unwrap();
    assert!(line.contains("\"what\":\"retry\""), "{line}");
    peer.execute_batch("BEGIN EXCLUSIVE").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let asked = Instant::now();
    assert_eq!(process.stop().0, Some(0));
    assert!(asked.elapsed() < Duration::from_secs(15), "after {:?}", asked.elapsed());
    peer.execute_batch("ROLLBACK").unwrap();
}
