//! The HTTP path with real processes, files and loopback sockets: part W, part Y, M10 and Q60.

#![expect(clippy::disallowed_methods, reason = "a test on real threads, clocks and sockets")]

mod browser;
mod commands;
mod crash;
mod faults;
mod impatience;
mod interop;
mod load;
mod outside;
mod peers;
mod process;
mod proxy;
mod receiver;
mod reload;
mod status;
mod tail;
mod traces;
mod worker;

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use process::{Process, Receiver, run};
use proxy::{Manner, Proxy};
use rusqlite::Connection;
use tempfile::TempDir;

/// The binary, with nothing of the caller's settings.
fn ackward(command: &str) -> Command {
    let mut ackward = Command::new(env!("CARGO_BIN_EXE_ackward"));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("ACKWARD_") || name.starts_with("OTEL_")) {
            ackward.env_remove(name);
        }
    }
    ackward.arg(command);
    ackward
}

/// A directory with a queue and an inbox.
struct Site {
    dir: TempDir,
}

impl Site {
    fn new() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn queue(&self) -> PathBuf {
        self.path("queue.db")
    }

    fn inbox(&self) -> PathBuf {
        self.path("inbox.db")
    }

    fn enqueue(&self, id: &str, qty: i64) {
        let mut command = ackward("enqueue");
        command.arg("--queue").arg(self.queue()).args(["--id", id, "--qty", &qty.to_string()]);
        let is_new_file = !self.queue().exists();
        let said = if is_new_file { made(&self.queue()) } else { String::new() };
        assert_eq!(run(&mut command), (Some(0), format!("{id}: new\n"), said));
    }

    /// A worker with short waits.
    fn worker(&self, address: &str) -> Command {
        let mut command = ackward("work");
        command.arg("--queue").arg(self.queue()).args(["--url", &format!("http://{address}/jobs")]);
        command.args(["--json", "--retry-base-ms", "20", "--retry-cap-ms", "100"]);
        command.args(["--poll-min", "0.005", "--poll-max", "0.05"]).env("ACKWARD_SLOTS", "1");
        command
    }

    /// `status attempts token` of each job, by seq.
    fn jobs(&self) -> Vec<String> {
        strings(
            &self.queue(),
            "SELECT id || ' ' || status || ' ' || attempts || ' ' || token FROM jobs ORDER BY seq",
        )
    }

    /// Everything in the inbox but times.
    fn effects(&self) -> Vec<String> {
        strings(
            &self.inbox(),
            "SELECT 'inbox ' || id || ' ' || qty FROM inbox \
             UNION ALL SELECT 'effect ' || id || ' ' || qty FROM effects \
             UNION ALL SELECT 'total ' || count || ' ' || qty FROM totals",
        )
    }

    /// Waits until no job is pending or leased.
    fn wait_settled(&self) {
        wait("every job is settled", || {
            number(&self.queue(), "SELECT count(*) FROM jobs WHERE status IN ('pending', 'leased')") == 0
        });
    }

    /// Writes a file that only this test knows.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
        path
    }
}

/// What is said of a queue file that was not there before.
fn made(queue: &std::path::Path) -> String {
    format!("ackward: made a new queue {}\n", queue.display())
}

fn open(path: &std::path::Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    // Whoever only looks can wait long where many workers commit all the time.
    connection.busy_timeout(Duration::from_secs(60)).unwrap();
    connection
}

fn strings(path: &std::path::Path, sql: &str) -> Vec<String> {
    let connection = open(path);
    let mut statement = connection.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

fn number(path: &std::path::Path, sql: &str) -> i64 {
    open(path).query_row(sql, [], |row| row.get(0)).unwrap()
}

#[track_caller]
fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < until, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
