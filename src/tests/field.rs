//! Faults that real systems had and that lie below or outside of what is simulated: real files, processes and
//! sockets. Each test is named after the kind of its fault; `sim/src/zoo/rows.rs` lists them by row.

#![expect(clippy::disallowed_methods, reason = "a test on real threads, clocks, processes and sockets")]

use std::fs;
use std::future::{Future, poll_fn};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::process::{Command, Stdio};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use ackward::adapter::{SystemClock, Threads, TokioNetwork};
use ackward::port::{Blocking, Lane, NoFault};
use ackward::rules::{Attempts, Event, LINE_BYTES_MAX, Lease, Limits, Millis, Name, Qty, Timeout};
use ackward::shell::{HttpSender, HttpSenderOptions, LineReader, Sender, Target};
use ackward::storage::{ClaimError, Durability, EnqueueError, Enqueued, LeaseQueue, OpenOptions, Queue};
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::io::{AsyncRead, ReadBuf};

/// Q023: `--lease 20` is twenty seconds, in the row and not only in the options.
#[test]
fn unit_mismatch_a_lease_of_20s_lasts_twenty_seconds() {
    let home = home();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/jobs", silent.local_addr().unwrap());
    let asked_ms = now_ms();
    let mut worker = start(ackward("work").arg("--queue").arg(queue_path(&home)).args([
        "--url",
        &url,
        "--slots",
        "1",
        "--lease",
        "20",
        "--timeout",
        "30",
    ]));
    let _held = accept(&silent);
    let (until_ms, answered_ms): (i64, i64) =
        (number(&home, "SELECT lease_until FROM jobs WHERE status = 'leased'"), now_ms());
    assert!((asked_ms + 20_000..=answered_ms + 20_000).contains(&until_ms), "{asked_ms} {until_ms}");
    assert_eq!(number(&home, "SELECT attempts FROM jobs"), 1);
    worker.0.kill().unwrap();
}

/// Q055: the same class of error wherever the lock is met, and the same operation succeeds once it is free.
#[test]
fn commit_busy_is_the_same_class_at_begin_at_a_statement_and_at_commit() {
    let home = home();
    let mut queue = open(&home);
    queue.connection().busy_timeout(Duration::from_millis(20)).unwrap();
    let peer = Connection::open(queue_path(&home)).unwrap();
    for (place, lock) in [
        ("BEGIN", "BEGIN IMMEDIATE"),
        ("a statement, while the schema is read", "BEGIN EXCLUSIVE"),
        ("COMMIT", "BEGIN; SELECT count(*) FROM jobs"),
    ] {
        peer.execute_batch(lock).unwrap();
        let Err(ClaimError::Storage(error)) = claim(&mut queue) else { panic!("no error at {place}") };
        assert!(error.is_busy(), "{place}: {error}");
        assert!(!error.to_string().contains("unknown"), "{place}: {error}");
        assert!(queue.connection().is_autocommit(), "{place}: a transaction is left open");
        let Err(EnqueueError::Storage(error)) = enqueue(&mut queue, "pie") else { panic!("no error") };
        assert!(error.is_busy(), "{place}: {error}");
        peer.execute_batch("ROLLBACK").unwrap();
    }
    assert_eq!(claim(&mut queue).unwrap().as_deref(), Some("cake"));
    assert_eq!(enqueue(&mut queue, "pie").unwrap(), Enqueued::New);
}

/// Q056: a claim whose future is dropped, before or after it was begun, leaves a connection that works and no lock.
#[test]
fn cancelled_begin_leaves_a_connection_that_works_and_no_lock() {
    let home = home();
    let path = queue_path(&home);
    let peer = Connection::open(&path).unwrap();
    block_on(async {
        let lane = Threads.open("open", move || Queue::open(&path, &options())).await.unwrap();
        for polls in 0..4 {
            peer.execute_batch("BEGIN IMMEDIATE").unwrap();
            {
                let mut begun = pin!(lane.call("claim", |queue: &mut Queue| claim(queue).map_err(drop)));
                for _ in 0..polls {
                    let polled = poll_fn(|cx| Poll::Ready(begun.as_mut().poll(cx))).await;
                    assert!(polled.is_pending());
                    thread::sleep(Duration::from_millis(5));
                }
            }
            peer.execute_batch("ROLLBACK").unwrap();
            // The same one connection again; whatever was dropped has ended before.
            let goes_on = lane.call("look", |queue: &mut Queue| queue.connection().is_autocommit()).await;
            assert!(goes_on, "dropped after {polls} polls");
            peer.execute_batch("BEGIN IMMEDIATE; UPDATE jobs SET status = 'pending', attempts = 0; COMMIT")
                .expect("no lock is left");
        }
        let claimed = lane.call("claim", |queue: &mut Queue| claim(queue).map_err(drop)).await;
        assert_eq!(claimed.unwrap().as_deref(), Some("cake"));
        lane.close().await;
    });
}

/// Q061: a process that is started in the middle of a transaction inherits neither the file nor its lock, and what
/// it does with the file by itself does not break the lock of the one that holds it.
#[test]
fn fork_corruption_no_child_inherits_the_file_and_it_stays_intact() {
    let home = home();
    let mut queue = open(&home);
    let begin = "BEGIN IMMEDIATE; UPDATE jobs SET available_at = available_at + 1";
    queue.connection().execute_batch(begin).unwrap();
    let listing = Command::new("ls").args(["-l", "/proc/self/fd"]).output();
    match listing {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(!text.contains("queue.db"), "a child has the queue's descriptors: {text}");
        }
        _ => eprintln!("SKIPPED: a child's descriptors, for there is no /proc"),
    }
    let child = ackward("enqueue")
        .arg("--queue")
        .arg(queue_path(&home))
        .args(["--id", "pie", "--qty", "1"])
        .output()
        .unwrap();
    assert_eq!(child.status.code(), Some(5), "{}", String::from_utf8_lossy(&child.stderr));
    let other = Connection::open(queue_path(&home)).unwrap();
    assert!(other.execute_batch("BEGIN IMMEDIATE").is_err(), "the lock is still held");
    queue.connection().execute_batch("COMMIT").unwrap();
    assert_eq!(claim(&mut queue).unwrap().as_deref(), Some("cake"));
    assert_intact(&home);
}

/// Q062: two workers are killed while one of them writes more than a thousand pages: the file stays whole, its transaction is
/// there as a whole or not at all, and each job that was acknowledged as enqueued is there.
#[test]
fn wal_crash_two_processes_killed_at_any_moment_leave_an_intact_file() {
    const DUE: i64 = 50_000;
    let home = home();
    let mut queue = open(&home);
    for round in 0..5 {
        assert_eq!(enqueue(&mut queue, &format!("job-{round}")).unwrap(), Enqueued::New);
        let due = format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {DUE})
             INSERT INTO jobs (id, qty, status, attempts, max_attempts, token, available_at, deadline)
             SELECT 'due-{round}-' || i, 1, 'pending', 0, 3, 0, 0, 50 FROM n"
        );
        queue.connection().execute_batch(&due).unwrap();
        let before = fs::metadata(queue_path(&home)).unwrap().modified().unwrap();
        let mut workers: Vec<Running> = (0..2)
            .map(|_| {
                let mut command = ackward("work");
                command.arg("--queue").arg(queue_path(&home)).args(["--url", "http://127.0.0.1:1/jobs"]);
                // Pages are on the disk by then that belong to nothing committed.
                let fault = if round == 0 { "after-claim:0=hold" } else { "after-claim:0=pause-15" };
                command.env("ACKWARD_FAULT", fault);
                start(command.args(["--slots", "1", "--retry-base-ms", "1", "--retry-cap-ms", "2"]))
            })
            .collect();
        let until = Instant::now() + Duration::from_secs(20);
        while fs::metadata(queue_path(&home)).unwrap().modified().unwrap() == before {
            assert!(Instant::now() < until, "no worker has written anything");
        }
        thread::sleep(Duration::from_millis(6 * round));
        workers.iter_mut().for_each(|worker| worker.0.kill().unwrap());
        drop(workers);
        assert_intact(&home);
        let dead = format!("SELECT count(*) FROM jobs WHERE id LIKE 'due-{round}-%' AND status = 'dead'");
        assert!([0, DUE].contains(&number(&home, &dead)), "round {round}: half of a transaction is there");
        let jobs = number(&home, "SELECT count(*) FROM jobs WHERE id LIKE 'job-%'");
        assert_eq!(jobs, i64::try_from(round).unwrap() + 1, "round {round}: an acknowledged job is lost");
    }
}

/// Q085: a line of three times the limit in four pieces, then a short line: one error, and no more is read than the
/// buffer holds.
#[test]
fn oversize_line_is_one_error_and_little_memory() {
    const BUFFER: usize = 16 * LINE_BYTES_MAX;
    let long = [b'E'; 3 * LINE_BYTES_MAX];
    let mut pieces: Vec<Vec<u8>> = long.chunks(long.len() / 4).map(<[u8]>::to_vec).collect();
    pieces.push(b"\nEVENT 0 1\n".to_vec());
    let mut stream = Pieces { pieces, read: 0 };
    let mut endless = Pieces { pieces: vec![b"E".repeat(64); 10_000], read: 0 };
    block_on(async {
        let refused = LineReader::default().next(&mut stream).await.expect_err("the line is too long");
        assert!(refused.to_string().contains("64"), "{refused}");
        assert!(stream.read <= LINE_BYTES_MAX + long.len() / 4, "{} bytes were read", stream.read);
        assert!(LineReader::default().next(&mut endless).await.is_err());
        assert!(endless.read <= BUFFER, "{} bytes were read", endless.read);
    });
    assert!(size_of::<LineReader>() <= 64, "the buffer is one of a fixed size");
}

/// Q089: ten sends are given up while they wait; each connection is closed, and the eleventh succeeds.
#[test]
fn leak_on_cancel_ten_sends_given_up_and_the_eleventh_succeeds() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = Target::parse(&format!("http://{}/jobs", listener.local_addr().unwrap())).unwrap();
    let peer = thread::spawn(move || {
        for _ in 0..10 {
            let mut stream = accept(&listener);
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            // The end of the stream: whoever gave up has closed it.
            stream.read_to_end(&mut Vec::new()).map(drop).or_else(reset).unwrap();
        }
        let mut stream = accept(&listener);
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut request = [0; 4096];
        assert!(stream.read(&mut request).unwrap() > 0);
        let reply =
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n{\"ok\":true}";
        stream.write_all(reply).unwrap();
    });
    let timeout = Timeout::from_seconds(20.0).unwrap();
    let options = HttpSenderOptions { target, timeout, secrets: None };
    let mut sender = HttpSender::new(TokioNetwork, SystemClock, options);
    block_on(async {
        for at in 0..10 {
            let given_up = tokio::time::timeout(Duration::from_millis(20 + at), sender.send(event("cake")));
            assert!(given_up.await.is_err(), "nobody answers");
        }
        sender.send(event("cake")).await.expect("the eleventh is answered");
    });
    peer.join().unwrap();
}

/// A reset is an end, too.
fn reset(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::ConnectionReset { Ok(()) } else { Err(error) }
}

/// A stream that hands out its pieces one by one, and counts.
struct Pieces {
    pieces: Vec<Vec<u8>>,
    read: usize,
}

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(mut piece) = (!self.pieces.is_empty()).then(|| self.pieces.remove(0)) else {
            return Poll::Ready(Ok(()));
        };
        let rest = piece.split_off(piece.len().min(buffer.remaining()));
        buffer.put_slice(&piece);
        self.read += piece.len();
        if !rest.is_empty() {
            self.pieces.insert(0, rest);
        }
        Poll::Ready(Ok(()))
    }
}

/// The next connection, which must come.
fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).unwrap();
                return stream;
            }
            Err(error) => assert!(Instant::now() < until, "nobody connects: {error}"),
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// A process that does not outlive its test.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(command: &mut Command) -> Running {
    Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

/// The binary, with nothing of the caller's settings.
fn ackward(command: &str) -> Command {
    let mut ackward = Command::new(env!("CARGO_BIN_EXE_ackward"));
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in names.filter(|name| name.starts_with("ACKWARD_")) {
        ackward.env_remove(name);
    }
    ackward.arg(command);
    ackward
}

/// A directory with a queue that holds one job.
fn home() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(enqueue(&mut open(&home), "cake").unwrap(), Enqueued::New);
    home
}

fn queue_path(home: &TempDir) -> PathBuf {
    home.path().join("queue.db")
}

fn options() -> OpenOptions {
    OpenOptions::new(Durability::Full)
}

fn open(home: &TempDir) -> Queue {
    Queue::open(&queue_path(home), &options()).unwrap()
}

fn enqueue(queue: &mut Queue, id: &str) -> Result<Enqueued, EnqueueError> {
    let now = Millis::new(now_ms()).unwrap();
    queue.enqueue(&event(id), now, Limits::CONTRACT.ttl(60_000).unwrap(), Attempts::DEFAULT)
}

/// The id of the job that was claimed.
fn claim(queue: &mut Queue) -> Result<Option<String>, ClaimError> {
    let (owner, now) = (Name::new("owner", "w").unwrap(), Millis::new(now_ms()).unwrap());
    let ticket = queue.claim(&owner, now, Lease::DEFAULT, &mut NoFault)?;
    Ok(ticket.map(|ticket| ticket.id.to_string()))
}

fn event(id: &str) -> Event {
    Event { id: Name::new("id", id).unwrap(), qty: Qty::new(1).unwrap() }
}

fn assert_intact(home: &TempDir) {
    let answer: String =
        look(&queue_path(home)).query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(answer, "ok");
}

fn number(home: &TempDir, sql: &str) -> i64 {
    look(&queue_path(home)).query_row(sql, [], |row| row.get(0)).unwrap()
}

fn look(path: &Path) -> Connection {
    assert!(fs::exists(path).unwrap());
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(10)).unwrap();
    connection
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
