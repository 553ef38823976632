//! Real `ackward` processes: start, wait for, kill.

#![expect(clippy::disallowed_methods, reason = "a test on real threads, clocks and sockets")]

use std::fmt::Write;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tempfile::TempDir;

use super::watchdog::Watchdog;

/// A directory with a log of events and a store.
pub struct Site {
    dir: TempDir,
}

impl Site {
    pub fn new(events: i64) -> Self {
        let site = Self { dir: TempDir::new().unwrap() };
        let log = (0..events).fold(String::new(), |mut log, seq| {
            writeln!(log, "{seq} {}", delta(seq)).unwrap();
            log
        });
        std::fs::write(site.log(), log).unwrap();
        site
    }

    pub fn log(&self) -> PathBuf {
        self.dir.path().join("events.log")
    }

    pub fn store(&self) -> PathBuf {
        self.dir.path().join("store.db")
    }

    /// The store holds exactly the events up to `last`.
    #[track_caller]
    pub fn holds(&self, last: i64) {
        assert_eq!(self.read(), (last, (0..=last).map(delta).sum(), last + 1));
        let wrong = "SELECT count(*) FROM ledger WHERE delta != (seq * 37) % 2001 - 1000";
        assert_eq!(open(&self.store()).query_row(wrong, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    }

    /// Cursor, total, and the number of events in the ledger.
    fn read(&self) -> (i64, i64, i64) {
        let sql = "SELECT last, total, (SELECT count(*) FROM ledger) FROM checkpoint";
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        open(&self.store()).query_row(sql, [], row).unwrap()
    }

    pub fn wait_for(&self, last: i64) {
        let until = Instant::now() + Duration::from_secs(120);
        while !self.store().exists() || self.read_last() != Some(last) {
            assert!(Instant::now() < until, "event {last} is not applied in time");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn read_last(&self) -> Option<i64> {
        open(&self.store()).query_row("SELECT last FROM checkpoint", [], |row| row.get(0)).ok()
    }

    pub fn consumer(&self, address: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ackward"));
        command.args(["consume", "--address", address, "--store"]).arg(self.store());
        command.arg("--json").env("ACKWARD_TIMEOUT", "20");
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).env_remove("ACKWARD_FAULT");
        command
    }
}

/// How long a process may live; far more than any needs, also on a busy machine.
const LIFE_MAX: Duration = Duration::from_secs(300);

/// What event `seq` adds.
pub const fn delta(seq: i64) -> i64 {
    (seq * 37) % 2001 - 1000
}

fn open(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(5)).unwrap();
    connection
}

/// A process that is killed when it is dropped.
pub struct Process {
    child: Child,
    pub stdout: BufReader<ChildStdout>,
    pub stderr: BufReader<ChildStderr>,
    watchdog: Watchdog,
}

impl Process {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let watchdog = Watchdog::new(&child, LIFE_MAX);
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { child, stdout, stderr, watchdog }
    }

    /// Reads stderr up to a line that contains `text`.
    pub fn says(&mut self, text: &str) {
        let mut all = String::new();
        loop {
            let start = all.len();
            assert_ne!(self.stderr.read_line(&mut all).unwrap(), 0, "{text:?} is not said: {all}");
            if all[start..].contains(text) {
                return;
            }
        }
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, and how the process then ends.
    pub fn terminate(self) -> (Option<i32>, String) {
        self.ends_by("-TERM")
    }

    /// A signal, and how the process then ends.
    pub fn ends_by(self, signal: &str) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        self.ends()
    }

    pub fn ends(mut self) -> (Option<i32>, String) {
        let mut out = String::new();
        self.stdout.read_to_string(&mut out).unwrap();
        let code = self.child.wait().unwrap().code();
        self.watchdog.has_slept("the process");
        (code, out)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A publisher process and where it listens.
pub struct Publisher {
    pub process: Process,
    pub address: String,
}

impl Publisher {
    pub fn start(site: &Site, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ackward"));
        command.args(["publish", "--listen", "127.0.0.1:0", "--log-file"]).arg(site.log());
        command.env("ACKWARD_TIMEOUT", "20");
        let mut process = Process::start(command.args(arguments));
        let mut line = String::new();
        process.stdout.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").expect("an address").to_owned();
        Self { process, address }
    }

    /// The process' SIGKILL.
    pub fn kill(self) {
        self.process.kill();
    }
}

/// Runs to the end: exit code and stdout. What does not end is killed after a while, and the test fails.
#[track_caller]
pub fn run(command: &mut Command) -> (Option<i32>, String) {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let watchdog = Watchdog::new(&child, LIFE_MAX);
    let Output { status, stdout, .. } = child.wait_with_output().unwrap();
    watchdog.has_slept(&format!("{command:?}"));
    (status.code(), String::from_utf8(stdout).unwrap())
}
