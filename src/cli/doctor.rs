//! `ackward doctor`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ackward::adapter::SystemClock;
use ackward::port::Clock;
use ackward::rules::Millis;
use ackward::storage::{Finding, Queue, StorageError};
use clap::Args;
use rustix::fs::Access;

use super::exit::{Ended, Exit};
use super::files;
use super::output::{counted, printable, say};
use super::pieces::{now_ms, turn};
use super::queue_file::{Durable, QueueFile};
use super::stats::span;
use super::values::time;

/// Look for what is wrong with a queue file
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ackward doctor --queue jobs.db
  ackward doctor --queue jobs.db --fix
  ackward doctor --queue jobs.db --quick

It checks SQLite's integrity, journal mode and indexes, rows of jobs and audit that break a range (claim passes such \
jobs over) or cannot come about, leases without an end, tokens below what the audit has seen, the space left, whether the directory can be \
written, and the clock. --fix puts right only what needs no guess: it ends leases without an end, removes left-over \
owners, raises tokens, adds indexes.

SQLite's check of its pages is one long read that holds up who commits for as long as it takes, one or two seconds per \
million rows; --quick leaves it out. All else is read in pieces, between which others commit. Exit code 10: something was found, damaged pages \
included.")]
pub struct Doctor {
    #[command(flatten)]
    queue: QueueFile,
    /// Leave out SQLite's check of its pages, which holds up who commits
    #[arg(long)]
    quick: bool,
    /// Put right what needs no guess
    #[arg(long)]
    fix: bool,
    #[command(flatten)]
    durable: Durable,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Less room than this is reported, in bytes.
const FREE_BYTES_MIN: u64 = 64 * 1024 * 1024;
/// How far a job may have been done in the future before the clock is suspected, in ms.
const AHEAD_MS_MAX: i64 = 60_000;
/// How long one read waits for its lock: what was found before it would be lost with it.
const PATIENCE: Duration = Duration::from_secs(30);
/// 2024-01-01, in ms: no clock that is set shows an earlier time.
const YEAR_MS_MIN: i64 = 1_704_067_200_000;

/// What was looked at, and what came of it.
#[derive(Default)]
struct Examined {
    findings: Vec<Finding>,
    /// Rows that `--fix` has put right.
    mended: Option<usize>,
    /// Whether SQLite has looked at its pages.
    pages_checked: bool,
}

impl Doctor {
    pub fn run(self) -> Result<(), Ended> {
        let now = SystemClock.now()?;
        let mut examined = Examined::default();
        if self.fix {
            match self.mend(now)? {
                Ok(rows) => examined.mended = Some(rows),
                Err(error) => examined.findings.push(Finding::not_done("fix", &self.malformed(error)?)),
            }
        }
        self.examine(now, &mut examined)?;
        self.report(&examined)
    }

    /// Puts right what needs no guess; how many rows.
    fn mend(&self, now: Millis) -> Result<Result<usize, StorageError>, Ended> {
        // Opening it sets the journal mode and adds indexes.
        let queue = self.queue.try_open(self.durable)?;
        Ok(queue.and_then(|mut queue| super::patient(|| queue.mend(now), StorageError::is_busy)))
    }

    /// Looks at the file and around it.
    fn examine(&self, now: Millis, examined: &mut Examined) -> Result<(), Ended> {
        let Examined { findings, pages_checked, .. } = examined;
        let mut began_ms = now_ms();
        let mut rest = || rest(&mut began_ms);
        match self.queue.try_look()? {
            Ok(queue) => {
                let patience = queue.connection().busy_timeout(PATIENCE);
                patience.map_err(|error| self.queue.failed(&error.into()))?;
                let found =
                    queue.examine(self.quick, &mut rest).map_err(|error| self.queue.failed(&error))?;
                findings.extend(found);
                *pages_checked = !self.quick;
                findings.extend(surroundings(self.queue.path()));
                match clock(&queue, now.get(), &mut rest) {
                    Ok(found) => findings.extend(found),
                    Err(error) => findings.push(Finding::not_done("clock", &self.malformed(error)?)),
                }
            }
            // Not even the names of the tables can be read.
            Err(error) => {
                let error = self.malformed(error)?;
                findings.push(Finding::malformed(&error));
                findings.push(Finding::not_done("jobs", &error));
                findings.extend(surroundings(self.queue.path()));
            }
        }
        Ok(())
    }

    /// Damaged pages are a finding; another error ends the command.
    fn malformed(&self, error: StorageError) -> Result<StorageError, Ended> {
        if error.is_malformed() { Ok(error) } else { Err(self.queue.failed(&error)) }
    }

    fn report(&self, examined: &Examined) -> Result<(), Ended> {
        let Examined { findings, mended, pages_checked } = examined;
        for Finding { check, seq, what, mendable } in findings {
            if self.json {
                say(serde_json::json!({ "check": check, "seq": seq, "what": what, "mendable": mendable }));
            } else {
                let place = seq.map_or(String::new(), |seq| format!("seq {seq}: "));
                let hint = if *mendable { " [--fix mends it]" } else { "" };
                say(format_args!("{check}: {place}{}{hint}", printable(what)));
            }
        }
        if self.json {
            say(serde_json::json!({
                "findings": findings.len(), "rows_mended": mended, "pages_checked": pages_checked
            }));
        } else {
            if let Some(rows) = mended {
                say(format_args!("{} mended", counted(rows, "row")));
            }
            if findings.is_empty() {
                let unless = if *pages_checked { "" } else { " (pages not checked)" };
                say(format_args!("{}: nothing wrong{unless}", self.queue.path().display()));
            }
        }
        match findings.len() {
            0 => Ok(()),
            found => Err(Ended::new(Exit::Findings, counted(found, "finding"))),
        }
    }
}

/// Gives others their turn after a read that began then; the next one begins when it returns.
#[expect(clippy::disallowed_methods, reason = "a command that only looks has nothing else to do meanwhile")]
fn rest(began_ms: &mut i64) {
    std::thread::sleep(turn(*began_ms));
    *began_ms = now_ms();
}

/// What is wrong around the file.
fn surroundings(path: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |check, what: String| findings.push(Finding { check, seq: None, what, mendable: false });
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let directory = real.parent().map_or_else(|| PathBuf::from("."), Path::to_owned);
    if let Ok(found) = rustix::fs::statvfs(&directory) {
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        if free < FREE_BYTES_MIN {
            find("space", format!("{} MiB are free, a commit needs room for its journal", free >> 20));
        }
    }
    let writable = |path: &Path| rustix::fs::access(path, Access::WRITE_OK).is_ok();
    if !writable(&directory) {
        find("directory", format!("{} cannot be written, the journal is made there", directory.display()));
    }
    if !writable(&real) {
        find("file", "the file cannot be written".to_owned());
    }
    if let Some(mode) = fs::metadata(&real).ok().map(|metadata| metadata.permissions().mode() & 0o777)
        && mode & 0o022 != 0
    {
        find(
            "mode",
            format!("the file's mode is {mode:o}: others may write it; chmod 600 if they should not"),
        );
    }
    if let Some(name) = files::network_file_system(&real) {
        find("file-system", format!("the file lies on {name}, whose locks may not hold between hosts"));
    }
    findings
}

/// Whether the clock can be right.
fn clock(queue: &Queue, now_ms: i64, rest: &mut dyn FnMut()) -> Result<Option<Finding>, StorageError> {
    let ahead_ms = queue.latest_ms(rest)?.map_or(0, |latest_ms| latest_ms.saturating_sub(now_ms));
    let what = if now_ms < YEAR_MS_MIN {
        format!("the clock shows {}: it is not set", time(now_ms))
    } else if ahead_ms > AHEAD_MS_MAX {
        format!(
            "a job was done {} in the future: this clock, or that of another host, is wrong",
            span(ahead_ms)
        )
    } else {
        return Ok(None);
    };
    Ok(Some(Finding { check: "clock", seq: None, what, mendable: false }))
}
