//! The event logs of an incident, put together by time.

use std::collections::BTreeMap;

use super::gap::{Gap, Known};
use super::{Finding, Line, Ticketed};
use super::{check, gap};

/// Largest log, in bytes: an incident, not a year.
pub(super) const LEN_MAX: usize = 64 << 20;

/// Why logs cannot be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// A line is none of an event log. Cut it out, or import another file.
    #[error("{file}:{line}: {what}")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong and what is allowed.
        what: String,
    },
    /// Nothing to import.
    #[error("no line tells of a job, allowed: at least one, as `ackward work --events FILE` writes it")]
    Empty,
    /// A file is too large. Cut the incident out of it.
    #[error("{0}: larger than 64 MiB, allowed: up to 64 MiB; cut the incident out of it")]
    Large(String),
}

/// A line with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The file, by its place in [`Log::files`].
    pub file: usize,
    /// The line, from 1.
    pub number: usize,
    /// What it tells.
    pub line: Line,
}

/// Logs that were read.
#[derive(Debug, Clone, Default)]
pub struct Log {
    /// The files' names.
    pub files: Vec<String>,
    /// The lines that tell of jobs, by time.
    pub lines: Vec<Placed>,
    /// Where the contract was not kept, by file and line.
    pub findings: Vec<Finding>,
    /// Lines that are cut short, as `FILE:LINE`: by a kill or a power cut at the end of a file, by a full disk anywhere.
    pub torn: Vec<String>,
    /// Where lines could not be written, in the order of files and lines.
    pub gaps: Vec<Gap>,
    /// Up to where jobs are known whose story goes through a gap.
    pub(super) known: BTreeMap<String, Known>,
}

impl Log {
    /// Reads logs, each with its name and bytes, and holds them against the contract.
    ///
    /// # Errors
    /// [`LogError`] where a file is no event log.
    pub fn read(files: &[(String, Vec<u8>)]) -> Result<Self, LogError> {
        let mut log = Self::default();
        for (name, bytes) in files {
            log.add(name, bytes)?;
        }
        if log.lines.is_empty() && log.findings.is_empty() {
            return Err(LogError::Empty);
        }
        // Stable: lines of one moment stay in the order of their file.
        log.lines.sort_by_key(|placed| placed.line.at_ms);
        log.known = gap::known(&mut log);
        let findings = check::check(&log);
        log.findings.extend(findings);
        log.findings.sort();
        Ok(log)
    }

    /// The lines of each claim, by job and token, each in the order of its file.
    #[must_use]
    pub fn claims(&self) -> BTreeMap<(&str, i64), Vec<&Placed>> {
        by_claim(self.lines.iter())
    }

    /// The lines that tell of jobs, without those behind a gap in their job's story.
    pub fn known(&self) -> impl Iterator<Item = &Placed> {
        self.lines
            .iter()
            .filter(|placed| self.known.get(placed.line.job()).is_none_or(|known| known.contains(placed)))
    }

    fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), LogError> {
        if bytes.len() > LEN_MAX {
            return Err(LogError::Large(name.to_owned()));
        }
        let file = self.files.len();
        self.files.push(name.to_owned());
        for (at, piece) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let number = at + 1;
            let text = String::from_utf8_lossy(piece);
            if text.trim().is_empty() {
                continue;
            }
            match Line::parse(text.trim_end()) {
                Ok(Ticketed::Yes(line)) => self.lines.push(Placed { file, number, line }),
                Ok(Ticketed::No) => {}
                Ok(Ticketed::Lost(lost)) => self.gaps.push(Gap { file, number, lost, jobs: Vec::new() }),
                Ok(Ticketed::Invalid(why)) => {
                    self.findings.push(Finding {
                        file: name.to_owned(),
                        line: number,
                        clause: "Q35",
                        what: why,
                    });
                }
                Err(_) if !piece.ends_with(b"\n") || is_cut_short(&text) => {
                    self.torn.push(format!("{name}:{number}"));
                }
                Err(what) => return Err(LogError::Line { file: name.to_owned(), line: number, what }),
            }
        }
        Ok(())
    }
}

/// Lines by job and token.
pub(super) fn by_claim<'l>(
    lines: impl Iterator<Item = &'l Placed>,
) -> BTreeMap<(&'l str, i64), Vec<&'l Placed>> {
    let mut claims: BTreeMap<_, Vec<&Placed>> = BTreeMap::new();
    for placed in lines {
        claims.entry((placed.line.job(), placed.line.token())).or_default().push(placed);
    }
    claims
}

/// Whether more characters could make an object of this line.
fn is_cut_short(text: &str) -> bool {
    let text = text.trim();
    let parsed = serde_json::from_str::<serde::de::IgnoredAny>(text);
    text.starts_with('{') && parsed.is_err_and(|error| error.is_eof())
}
