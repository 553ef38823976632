//! Real `ackward` processes: start, wait for, stop, kill.

#[path = "../watchdog.rs"]
pub mod watchdog;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver as Lines, channel};
use std::thread;
use std::time::Duration;

use super::{Site, ackward};
use watchdog::Watchdog;

/// A process that is killed when it is dropped. Its stderr is read all the time, so that it never stands still for it.
pub struct Process {
    child: Child,
    pub stdout: BufReader<ChildStdout>,
    stderr: Lines<String>,
    watchdog: Watchdog,
}

impl Process {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let watchdog = Watchdog::new(&child, LIFE_MAX);
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (lines, stderr) = channel();
        let reading = BufReader::new(child.stderr.take().unwrap());
        thread::spawn(move || {
            for line in reading.lines().map_while(Result::ok) {
                let _ = lines.send(line);
            }
        });
        Self { child, stdout, stderr, watchdog }
    }

    /// Waits for a line on stderr that contains `text`.
    #[track_caller]
    pub fn says(&mut self, text: &str) {
        self.says_both(text, "");
    }

    /// The same for a line that contains two texts.
    #[track_caller]
    pub fn says_both(&mut self, text: &str, and: &str) {
        self.says_after(text, and);
    }

    /// The same; returns the lines before it.
    #[track_caller]
    pub fn says_after(&mut self, text: &str, and: &str) -> Vec<String> {
        let mut before = Vec::new();
        loop {
            let line = self.stderr.recv_timeout(Duration::from_secs(120));
            let Ok(line) = line else {
                panic!("{text:?} and {and:?} are not said: {}", before.join("\n"));
            };
            if line.contains(text) && line.contains(and) {
                return before;
            }
            before.push(line);
        }
    }

    /// All the lines on stderr that are left, once it has ended.
    pub fn says_to_its_end(&self) -> Vec<String> {
        let next = || self.stderr.recv_timeout(Duration::from_secs(120)).ok();
        std::iter::from_fn(next).collect()
    }

    /// Where a receiver says that it listens.
    pub fn address(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim().strip_prefix("listening on ").expect("an address").to_owned()
    }

    /// Whether one of its threads has this name.
    pub fn has_thread(&self, name: &str) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let name_of = |thread: std::io::Result<std::fs::DirEntry>| {
            std::fs::read_to_string(thread.ok()?.path().join("comm")).ok()
        };
        threads.filter_map(name_of).any(|found| found.trim() == name)
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM; returns at once.
    pub fn terminate(&self) {
        self.signal("-TERM");
    }

    /// SIGHUP; returns at once.
    pub fn hang_up(&self) {
        self.signal("-HUP");
    }

    /// Sends a signal, such as `-STOP`.
    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// How it ends: exit code and the last line of stdout.
    #[track_caller]
    pub fn ends(mut self) -> (Option<i32>, String) {
        // From now on it is a command like any other.
        self.watchdog = Watchdog::new(&self.child, RUN_MAX);
        let mut out = String::new();
        self.stdout.read_to_string(&mut out).unwrap();
        let code = self.child.wait().unwrap().code();
        self.watchdog.has_slept("after it was told to");
        (code, out.lines().last().unwrap_or_default().to_owned())
    }

    /// SIGTERM, and how it ends.
    #[track_caller]
    pub fn stop(self) -> (Option<i32>, String) {
        self.terminate();
        self.ends()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A receiver process and where it listens.
pub struct Receiver {
    pub process: Process,
    pub address: String,
}

impl Receiver {
    pub fn start(site: &Site, arguments: &[&str]) -> Self {
        Self::with(site, arguments, "")
    }

    /// With a value for `ACKWARD_FAULT`, unless it is empty.
    pub fn with(site: &Site, arguments: &[&str], fault: &str) -> Self {
        let mut command = ackward("receive");
        command.args(["--listen", "127.0.0.1:0", "--inbox"]).arg(site.inbox()).args(arguments);
        if !fault.is_empty() {
            command.env("ACKWARD_FAULT", fault);
        }
        let mut process = Process::start(&mut command);
        let address = process.address();
        Self { process, address }
    }
}

/// Runs to the end: exit code, stdout and stderr. What does not end is killed after a while, and the test fails.
#[track_caller]
pub fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let watchdog = Watchdog::new(&child, RUN_MAX);
    let output = child.wait_with_output().unwrap();
    watchdog.has_slept(&format!("{command:?}"));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// How long a command may take, and how long a process may live; far more than either needs, also on a busy machine.
const RUN_MAX: Duration = Duration::from_secs(120);
const LIFE_MAX: Duration = Duration::from_secs(900);
