//! Real processes: two that race (Q58), and ones killed with SIGKILL inside every hook (Q59, M10) or after
//! the receiver's commit (Q60).
//!
//! A child is this test binary again, told by the environment what to do; see [`child`].

#![expect(clippy::disallowed_methods, reason = "tests start processes and wait for them in real time")]

mod watchdog;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ackward::adapter::Threads;
use ackward::port::{Blocking, Clock, Fault, FaultPoint, Injected, Lane, NoFault};
use ackward::rules::{
    Attempt, Delay, Event, Invalid, Jitter, Lease, Limits, Millis, Name, Outcome, Qty, Ticket, Token,
};
use ackward::shell::{Delivery, Orders, SendError, Sender, run_once};
use ackward::storage::{Durability, Inbox, LeaseQueue, OpenOptions, Queue};
use rusqlite::Connection;
use rusqlite::types::Value;
use tempfile::TempDir;

use watchdog::Watchdog;

/// What a child is to do.
const ROLE: &str = "ACKWARD_TEST_ROLE";
/// The directory it does it in.
const DIR: &str = "ACKWARD_TEST_DIR";

#[test]
fn q59_killed_before_commit_leaves_the_state_from_before_and_after_commit_the_new_one() {
    for (operation, points) in OPERATIONS {
        let before = snapshot(&home());
        for point in *points {
            let home = home();
            kill_at_marker(&home, &format!("{operation}@{point}"));
            assert_eq!(snapshot(&home), before, "{operation} killed at {point}");
        }
        let killed = self::home();
        kill_at_marker(&killed, &format!("{operation}@after-commit"));
        let finished = self::home();
        operate(operation, &mut open(&finished), &mut NoFault);
        assert_eq!(snapshot(&killed), snapshot(&finished), "{operation} killed at after-commit");
        assert_ne!(snapshot(&killed), before, "{operation} changes something");
    }
}

#[test]
fn q59_a_hot_journal_is_rolled_back() {
    let home = home();
    let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
        INSERT INTO jobs (id, qty, status, attempts, max_attempts, token, available_at, deadline)
        SELECT 'late-' || i, 1, 'pending', 0, 3, 0, 0, 50 FROM n";
    Connection::open(queue_path(&home)).unwrap().execute_batch(rows).unwrap();
    let (before, bytes) = (snapshot(&home), fs::read(queue_path(&home)).unwrap());
    kill_at_marker(&home, "spilling-claim@after-claim");
    assert!(home.path().join("queue.db-journal").exists(), "the journal is hot");
    assert_ne!(fs::read(queue_path(&home)).unwrap(), bytes, "pages had already been written");
    assert_eq!(snapshot(&home), before);
    assert!(!home.path().join("queue.db-journal").exists());
}

#[test]
fn q58_of_two_processes_exactly_one_gets_the_only_job() {
    for _ in 0..5 {
        let home = home();
        Connection::open(queue_path(&home))
            .unwrap()
            .execute("DELETE FROM jobs WHERE id <> 'free'", [])
            .unwrap();
        let mut racers: Vec<_> =
            ["a", "b"].iter().map(|name| spawn(&home, &format!("race-{name}"))).collect();
        for name in ["a", "b"] {
            wait_for(&home.path().join(format!("ready-{name}")));
        }
        fs::write(home.path().join("go"), "").unwrap();
        for racer in &mut racers {
            let watchdog = Watchdog::new(racer, Duration::from_secs(120));
            assert!(racer.wait().unwrap().success());
            watchdog.has_slept("a racer");
        }
        let mut results: Vec<_> = ["a", "b"]
            .iter()
            .map(|name| fs::read_to_string(home.path().join(format!("got-{name}"))).unwrap())
            .collect();
        results.sort();
        assert_eq!(results, ["free token 1 attempt 1", "none"]);
        let jobs = "SELECT status, attempts, token FROM jobs";
        assert_eq!(rows(&Connection::open(queue_path(&home)).unwrap(), jobs), ["leased|1|1"]);
    }
}

#[test]
fn q60_killed_after_the_receivers_commit_is_sent_again_and_takes_effect_once() {
    let home = home();
    Connection::open(queue_path(&home)).unwrap().execute("DELETE FROM jobs WHERE id <> 'free'", []).unwrap();
    kill_at_marker(&home, "courier");
    assert_eq!(inbox(&home).totals().unwrap().count, 1, "the receiver has committed");
    let lease_until = 100 + 1_000;

    let mut receiver = Receiver { dir: home.path().to_owned(), hangs: false, received: Vec::new() };
    assert_eq!(courier(&home, lease_until - 1, &mut receiver), None, "the job is still leased");
    let delivery = courier(&home, lease_until, &mut receiver).unwrap();
    assert_eq!((delivery.id.as_str(), delivery.token.get()), ("free", 2));
    assert_eq!(receiver.received, [event("free", 5)]);

    let jobs = "SELECT status, attempts, token FROM jobs";
    assert_eq!(rows(&Connection::open(queue_path(&home)).unwrap(), jobs), ["done|2|2"]);
    let inbox = inbox(&home);
    assert_eq!(rows(inbox.connection(), "SELECT id, qty FROM inbox"), ["free|5"]);
    assert_eq!(rows(inbox.connection(), "SELECT id, qty FROM effects"), ["free|5"]);
    assert_eq!(rows(inbox.connection(), "SELECT count, qty FROM totals"), ["1|5"]);
}

/// Every operation with hooks, and its points before COMMIT.
const OPERATIONS: &[(&str, &[FaultPoint])] = &[
    ("claim", &[FaultPoint::AfterClaim]),
    ("finish", &[FaultPoint::AfterFinish]),
    ("redrive", &[FaultPoint::AfterAudit, FaultPoint::AfterRedrive]),
    ("renew", &[FaultPoint::AfterRenew]),
    ("release", &[FaultPoint::AfterRelease]),
];

fn operate(operation: &str, queue: &mut Queue, fault: &mut dyn Fault) {
    let held = held();
    match operation {
        "claim" => drop(queue.claim(&name("v"), at(100), Lease::DEFAULT, fault).unwrap()),
        "finish" => drop(queue.finish(&held, Outcome::Retry, at(100), Delay::NONE, fault).unwrap()),
        "redrive" => {
            queue
                .redrive(&name("dead"), at(100), Limits::CONTRACT.ttl(50).unwrap(), &name("n"), fault)
                .unwrap();
        }
        "renew" => drop(queue.renew(&held, &mut || Ok(at(100)), Lease::DEFAULT, fault).unwrap()),
        "release" => drop(queue.release(&held, at(100), fault).unwrap()),
        other => panic!("{other} is no operation"),
    }
}

/// Not a test of its own: what a child process does. Without a role it does nothing.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let dir = PathBuf::from(std::env::var(DIR).unwrap());
    if let Some(name) = role.strip_prefix("race-") {
        return race(&dir, name);
    }
    if role == "courier" {
        let mut receiver = Receiver { dir: dir.clone(), hangs: true, received: Vec::new() };
        courier_at(&dir, 100, &mut receiver);
        return;
    }
    let (operation, point) = role.split_once('@').unwrap();
    let mut queue = Queue::open(&dir.join("queue.db"), &full()).unwrap();
    let operation = match operation.strip_prefix("spilling-") {
        Some(operation) => {
            queue.connection().execute_batch("PRAGMA cache_size = 1").unwrap();
            operation
        }
        None => operation,
    };
    operate(operation, &mut queue, &mut HangAt { point: point.to_owned(), dir });
}

fn race(dir: &Path, racer: &str) {
    let mut queue = Queue::open(&dir.join("queue.db"), &full()).unwrap();
    fs::write(dir.join(format!("ready-{racer}")), "").unwrap();
    wait_for(&dir.join("go"));
    let ticket = queue.claim(&name(racer), at(100), Lease::DEFAULT, &mut NoFault).unwrap();
    let got = ticket.map_or("none".into(), |ticket| {
        format!("{} token {} attempt {}", ticket.id, ticket.token.get(), ticket.attempt.get())
    });
    fs::write(dir.join(format!("got-{racer}")), got).unwrap();
}

/// Leaves a marker at its point and hangs there until it is killed.
struct HangAt {
    point: String,
    dir: PathBuf,
}

impl Fault for HangAt {
    fn at(&mut self, point: FaultPoint) -> Result<(), Injected> {
        if point.as_str() == self.point {
            hang(&self.dir);
        }
        Ok(())
    }
}

/// The receiver: takes the event into its inbox, and answers unless it hangs.
struct Receiver {
    dir: PathBuf,
    hangs: bool,
    received: Vec<Event>,
}

impl Sender for Receiver {
    async fn send(&mut self, event: Event) -> Result<(), SendError> {
        let mut inbox =
            Inbox::open(&self.dir.join("inbox.db"), &OpenOptions::new(Durability::Extra)).unwrap();
        inbox.accept(&event, at(100), &mut NoFault).unwrap();
        self.received.push(event);
        if self.hangs {
            hang(&self.dir);
        }
        Ok(())
    }
}

/// A clock that stands still.
#[derive(Clone)]
struct Still(i64);

impl Clock for Still {
    fn now(&self) -> Result<Millis, Invalid> {
        Millis::new(self.0)
    }

    async fn sleep(&self, _duration: Duration) {}
}

fn courier(home: &TempDir, now: i64, receiver: &mut Receiver) -> Option<Delivery> {
    courier_at(home.path(), now, receiver)
}

fn courier_at(dir: &Path, now: i64, receiver: &mut Receiver) -> Option<Delivery> {
    let path = dir.join("queue.db");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let lane = Threads.open("open", move || Queue::open(&path, &full())).await.unwrap();
        let orders = Orders::new(name("w"), Lease::DEFAULT, Jitter::NONE);
        let delivery = run_once(&lane, orders, &Still(now), receiver, NoFault).await.unwrap();
        lane.close().await;
        delivery
    })
}

fn hang(dir: &Path) -> ! {
    fs::write(dir.join("marker"), "").unwrap();
    loop {
        thread::sleep(Duration::from_secs(1));
    }
}

/// Starts a child, waits until it hangs and kills it there.
fn kill_at_marker(home: &TempDir, role: &str) {
    let mut child = spawn(home, role);
    wait_for(&home.path().join("marker"));
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{role}");
    fs::remove_file(home.path().join("marker")).unwrap();
}

fn spawn(home: &TempDir, role: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--test-threads=1"])
        .env(ROLE, role)
        .env(DIR, home.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn wait_for(path: &Path) {
    let started = Instant::now();
    while !path.exists() {
        assert!(started.elapsed() < Duration::from_secs(60), "{} never came", path.display());
        thread::sleep(Duration::from_millis(1));
    }
}

/// A directory with a queue of one held, one dead and one free job.
fn home() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let queue = open(&home);
    let jobs = "INSERT INTO jobs (id, qty, status, attempts, max_attempts, token, available_at, deadline, owner, \
        lease_until, reason) VALUES \
        ('held', 5, 'leased', 2, 3, 7, 3, 500, 'w', 110, NULL), \
        ('dead', 5, 'dead', 3, 3, 7, 90, 100, NULL, NULL, 'exhausted'), \
        ('free', 5, 'pending', 0, 3, 0, 0, 60000, NULL, NULL, NULL)";
    queue.connection().execute(jobs, []).unwrap();
    home
}

fn held() -> Ticket {
    let (token, attempt) = (Token::new(7).unwrap(), Attempt::new(2).unwrap());
    Ticket::new(event("held", 5), name("w"), token, attempt, 110).unwrap()
}

/// Everything in the queue file after reopening it, and proof that it is whole.
fn snapshot(home: &TempDir) -> Vec<String> {
    let queue = open(home);
    assert_eq!(rows(queue.connection(), "PRAGMA integrity_check"), ["ok"]);
    let tables = ["jobs", "redrives", "sqlite_sequence"];
    let all = tables.iter().flat_map(|table| rows(queue.connection(), &format!("SELECT * FROM {table}")));
    let all: Vec<_> = all.collect();
    drop(queue);
    check_with_another_sqlite(&queue_path(home), all.len());
    all
}

/// M7: another build of SQLite reads the file as well.
fn check_with_another_sqlite(path: &Path, expected_rows: usize) {
    let sql = "PRAGMA integrity_check; SELECT (SELECT count(*) FROM jobs) + (SELECT count(*) FROM redrives) \
        + (SELECT count(*) FROM sqlite_sequence)";
    match Command::new("sqlite3").arg(path).arg(sql).output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            assert_eq!(text, format!("ok\n{expected_rows}\n"), "{}", String::from_utf8_lossy(&output.stderr));
        }
        Err(error) => {
            eprintln!("SKIPPED: the file is not read by another SQLite, for there is no sqlite3: {error}")
        }
    }
}

fn rows(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).unwrap();
    let columns = statement.column_count();
    let line = |row: &rusqlite::Row<'_>| {
        let values: rusqlite::Result<Vec<Value>> = (0..columns).map(|column| row.get(column)).collect();
        values.map(|values| values.iter().map(text).collect::<Vec<_>>().join("|"))
    };
    statement.query_map([], line).unwrap().map(Result::unwrap).collect()
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::Integer(value) => value.to_string(),
        Value::Text(value) => value.clone(),
        other => format!("{other:?}"),
    }
}

fn open(home: &TempDir) -> Queue {
    Queue::open(&queue_path(home), &full()).unwrap()
}

fn inbox(home: &TempDir) -> Inbox {
    Inbox::open(&home.path().join("inbox.db"), &OpenOptions::new(Durability::Extra)).unwrap()
}

fn queue_path(home: &TempDir) -> PathBuf {
    home.path().join("queue.db")
}

fn full() -> OpenOptions {
    OpenOptions::new(Durability::Full)
}

fn event(id: &str, qty: i64) -> Event {
    Event { id: name(id), qty: Qty::new(qty).unwrap() }
}

fn name(text: &str) -> Name {
    Name::new("name", text).unwrap()
}

fn at(now_ms: i64) -> Millis {
    Millis::new(now_ms).unwrap()
}
