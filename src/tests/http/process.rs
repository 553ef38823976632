//! Real `ackward` processes: start, wait for, stop, kill.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver as Lines, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::{Site, ackward};

/// A process that is killed when it is dropped. Its stderr is read all the time, so that it never stands still for it.
pub struct Process {
    child: Child,
    pub stdout: BufReader<ChildStdout>,
    stderr: Lines<String>,
}

impl Process {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (lines, stderr) = channel();
        let reading = BufReader::new(child.stderr.take().unwrap());
        thread::spawn(move || {
            for line in reading.lines().map_while(Result::ok) {
                let _ = lines.send(line);
            }
        });
        Self { child, stdout, stderr }
    }

    /// Waits for a line on stderr that contains `text`.
    #[track_caller]
    pub fn says(&mut self, text: &str) {
        self.says_both(text, "");
    }

    /// The same for a line that contains two texts.
    #[track_caller]
    pub fn says_both(&mut self, text: &str, and: &str) {
        let mut all = String::new();
        loop {
            let line = self.stderr.recv_timeout(Duration::from_secs(120));
            let Ok(line) = line else { panic!("{text:?} and {and:?} are not said: {all}") };
            if line.contains(text) && line.contains(and) {
                return;
            }
            all.push_str(&line);
            all.push('\n');
        }
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
    pub fn ends(mut self) -> (Option<i32>, String) {
        let mut out = String::new();
        self.stdout.read_to_string(&mut out).unwrap();
        (self.child.wait().unwrap().code(), out.lines().last().unwrap_or_default().to_owned())
    }

    /// SIGTERM, and how it ends.
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
        let mut line = String::new();
        process.stdout.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").expect("an address").to_owned();
        Self { process, address }
    }
}

/// Runs to the end: exit code, stdout and stderr.
pub fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// As [`run`], for what might wait for ever: after 20 s it is killed, and the test fails.
#[track_caller]
pub fn run_in_time(command: &mut Command) -> (Option<i32>, String, String) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            child.kill().unwrap();
            panic!("it does not end: {command:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}
