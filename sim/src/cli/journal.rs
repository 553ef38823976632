//! The journal of a campaign, `--resume FILE`: a line of JSON for each finished chunk, appended as it finishes, with a tab
//! and a hash of itself at its end. A process that is killed leaves at most its last line torn, which the next one cuts off
//! and whose seeds it runs again.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Mutex;

use ackward_sim::choice::stable_hash;
use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::folder::Entry;
use super::lock;
use super::pool::Chunk;
use super::text;

/// The version of this format.
const VERSION: u32 = 2;

/// What the first line says: a journal fits a campaign only where all of it is the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Header {
    /// The version of this format.
    journal: u32,
    /// A hash of the program: another build may give other runs.
    build: String,
    /// Arguments that decide which seeds are run and what is kept of them.
    arguments: BTreeMap<String, String>,
    /// Each scenario with its net and strategy, and a hash of its text.
    scenarios: Vec<(String, String)>,
}

/// Each further line.
#[derive(Serialize, Deserialize)]
enum Line {
    /// A chunk of the scenario of this number.
    Chunk(usize, Box<Chunk>),
    /// The scenario of this number has had enough.
    Finished(usize),
}

/// An open journal. It is locked: no other process appends to it.
pub(crate) struct Journal {
    file: Mutex<File>,
    shown: String,
}

/// What an earlier process has done of a scenario.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) chunks: Vec<Chunk>,
    /// Whether nothing is left to be run.
    pub(crate) is_finished: bool,
}

impl Journal {
    /// Opens or begins the journal of a campaign; with what is done already, by scenario.
    pub(crate) fn open(
        path: &Path,
        entries: &[Entry],
        arguments: BTreeMap<String, String>,
    ) -> anyhow::Result<(Self, Vec<Known>)> {
        let shown = path.display().to_string();
        let header = Header { journal: VERSION, build: build()?, arguments, scenarios: scenarios(entries) };
        let reading = || format!("the journal {shown}");
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        let mut file = options.open(path).with_context(reading)?;
        if !file.metadata().with_context(reading)?.is_file() {
            bail!("the journal {shown} is no regular file, allowed: a regular file, or a name that is free");
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                bail!("the journal {shown} is in use by another process, allowed: one at a time");
            }
            // A file system without locks: then it is up to whoever starts them that there is one.
            Err(TryLockError::Error(_)) => {}
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).with_context(reading)?;
        let mut known: Vec<_> = entries.iter().map(|_| Known::default()).collect();
        let kept = read(&bytes, &header, &mut known).map_err(|why| {
            anyhow::anyhow!(
                "the journal {shown} {why}; with another --resume FILE, or without it, all is run anew"
            )
        })?;
        let Kept { bytes: kept, dropped } = kept;
        file.set_len(kept as u64).with_context(reading)?;
        if let Some((line, count)) = dropped {
            // The results do not change, so nothing is left to be done where this cannot be written.
            let _ = writeln!(
                io::stderr(),
                "warning: the journal {shown} is damaged: line {line} cannot be read; from there on {} dropped \
                 and run again",
                text::count(count as u64, "line")
            );
        }
        let journal = Self { file: Mutex::new(file), shown };
        if kept == 0 {
            journal.append(serde_json::to_string(&header)?)?;
        }
        Ok((journal, known))
    }

    /// Keeps a chunk of a scenario.
    pub(crate) fn keep(&self, scenario: usize, chunk: &Chunk) -> anyhow::Result<()> {
        self.append(summed(&Line::Chunk(scenario, Box::new(chunk.clone())))?)
    }

    /// Notes that a scenario has had enough.
    pub(crate) fn finish(&self, scenario: usize) -> anyhow::Result<()> {
        self.append(summed(&Line::Finished(scenario))?)
    }

    fn append(&self, mut line: String) -> anyhow::Result<()> {
        line.push('\n');
        let mut file = lock(&self.file);
        file.write_all(line.as_bytes()).with_context(|| format!("appending to the journal {}", self.shown))
    }
}

/// A line with its hash: what is damaged inside a number would be believed without.
fn summed(line: &Line) -> serde_json::Result<String> {
    let json = serde_json::to_string(line)?;
    let sum = stable_hash(json.as_bytes());
    Ok(format!("{json}\t{sum:016x}"))
}

/// A line that is as it was written.
fn sound(line: &[u8]) -> Option<Line> {
    let (json, sum) = std::str::from_utf8(line).ok()?.rsplit_once('\t')?;
    if sum != format!("{:016x}", stable_hash(json.as_bytes())) {
        return None;
    }
    serde_json::from_str(json).ok()
}

/// What of a journal is kept.
#[derive(Debug, Default, PartialEq, Eq)]
struct Kept {
    /// How many bytes from its beginning on.
    bytes: usize,
    /// The first whole line that cannot be read, counted from 1, and how many whole lines there are from there on. A
    /// last line without an end was torn as its process was killed, and is not meant.
    dropped: Option<(usize, usize)>,
}

/// Reads what is whole; what is kept of it, or why the journal does not fit.
fn read(bytes: &[u8], header: &Header, known: &mut [Known]) -> Result<Kept, String> {
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let Some(first) = lines.next() else { return Ok(Kept::default()) };
    if !first.ends_with(b"\n") && first.starts_with(b"{\"journal\":") {
        // Killed before its first line was whole.
        return Ok(Kept::default());
    }
    let there: Header = serde_json::from_slice(first).map_err(|_| "is not one that --resume has written")?;
    fits(&there, header)?;
    let mut kept = Kept { bytes: first.len(), dropped: None };
    let whole: Vec<_> = lines.filter_map(|line| line.strip_suffix(b"\n")).collect();
    for (at, line) in whole.iter().enumerate() {
        match sound(line) {
            Some(Line::Chunk(at, chunk)) => {
                known.get_mut(at).ok_or("names a scenario that is not there")?.chunks.push(*chunk)
            }
            Some(Line::Finished(at)) => {
                known.get_mut(at).ok_or("names a scenario that is not there")?.is_finished = true
            }
            // What follows is run again.
            None => {
                kept.dropped = Some((at + 2, whole.len() - at));
                break;
            }
        }
        kept.bytes += line.len() + 1;
    }
    Ok(kept)
}

/// What is different, where anything is.
fn fits(there: &Header, here: &Header) -> Result<(), String> {
    if there.journal != here.journal {
        return Err("is of another version".to_owned());
    }
    let none = "nothing".to_owned();
    for key in there.arguments.keys().chain(here.arguments.keys()) {
        let (was, is) = (there.arguments.get(key).unwrap_or(&none), here.arguments.get(key).unwrap_or(&none));
        if was != is {
            return Err(format!("belongs to other arguments: {key} was {was} there and is {is} here"));
        }
    }
    let names = |header: &Header| header.scenarios.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    if names(there) != names(here) {
        return Err("belongs to other scenarios, or to another net or strategy".to_owned());
    }
    let mut pairs = there.scenarios.iter().zip(&here.scenarios);
    if let Some(((name, _), _)) = pairs.find(|(was, is)| was != is) {
        return Err(format!("belongs to another text of {name}: the file was edited since"));
    }
    if there.build != here.build {
        return Err("belongs to another build of this program".to_owned());
    }
    Ok(())
}

fn scenarios(entries: &[Entry]) -> Vec<(String, String)> {
    let of = |entry: &Entry| {
        let name = format!("{} ({}, {})", entry.path, entry.scenario.net.as_str(), entry.strategy);
        (name, format!("{:016x}", stable_hash(entry.text.as_bytes())))
    };
    entries.iter().map(of).collect()
}

/// A hash of this program's file.
fn build() -> anyhow::Result<String> {
    let read = || -> io::Result<Vec<u8>> { std::fs::read(std::env::current_exe()?) };
    let bytes = read().context("this program's own file")?;
    Ok(format!("{:016x}", stable_hash(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        let arguments = [("--seeds".to_owned(), "5".to_owned())].into();
        Header {
            journal: VERSION,
            build: "b".to_owned(),
            arguments,
            scenarios: vec![("x".to_owned(), "1".to_owned())],
        }
    }

    fn lines(lines: &[&str]) -> Vec<u8> {
        let head = serde_json::to_string(&header()).unwrap();
        std::iter::once(head.as_str())
            .chain(lines.iter().copied())
            .collect::<Vec<_>>()
            .join("\n")
            .into_bytes()
    }

    fn finished(scenario: usize) -> String {
        summed(&Line::Finished(scenario)).unwrap()
    }

    #[test]
    fn a_torn_line_is_cut_off_and_what_is_whole_is_kept() {
        let mut known = [Known::default()];
        let torn = lines(&[&finished(0), "{\"Chunk\":[0,{\"sta"]);
        let whole = lines(&[&finished(0), ""]);
        assert_eq!(read(&torn, &header(), &mut known), Ok(Kept { bytes: whole.len(), dropped: None }));
        assert!(known[0].is_finished);
        assert_eq!(read(b"{\"journal\":2,\"bui", &header(), &mut known), Ok(Kept::default()));
        assert_eq!(read(b"", &header(), &mut known), Ok(Kept::default()));
    }

    #[test]
    fn a_whole_line_that_cannot_be_read_is_told_from_a_torn_one() {
        // A digit that changed is as bad as a word: it would be another scenario, or so many seeds more.
        for wrong in
            [finished(0).replace("Finished", "Finisled"), finished(1).replace('1', "0"), "{}".to_owned()]
        {
            let damaged = lines(&[&finished(0), &wrong, &finished(0), "{\"Fin"]);
            let whole = lines(&[&finished(0), ""]);
            let kept = Kept { bytes: whole.len(), dropped: Some((3, 2)) };
            let mut known = [Known::default(), Known::default()];
            assert_eq!(read(&damaged, &header(), &mut known), Ok(kept), "{wrong}");
            assert!(!known[1].is_finished);
        }
    }

    #[test]
    fn what_is_no_journal_is_not_touched() {
        for wrong in [&b"about = 1\n"[..], b"{}\n", b"\0\0\0", b"{\"journal\":1}\n"] {
            assert!(read(wrong, &header(), &mut []).unwrap_err().contains("not one that"), "{wrong:?}");
        }
        let unknown = lines(&[&finished(7), ""]);
        assert!(read(&unknown, &header(), &mut [Known::default()]).is_err());
    }

    #[test]
    fn what_differs_is_named() {
        let check = |change: &dyn Fn(&mut Header), part: &str| {
            let mut other = header();
            change(&mut other);
            let why = fits(&other, &header()).unwrap_err();
            assert!(why.contains(part), "{why}");
        };
        check(
            &|h| h.arguments.values_mut().for_each(|v| *v = "6".to_owned()),
            "--seeds was 6 there and is 5 here",
        );
        check(&|h| drop(h.arguments.insert("--time".to_owned(), "1s".to_owned())), "--time was 1s");
        check(&|h| h.scenarios[0].1.push('2'), "another text of x");
        check(&|h| h.scenarios[0].0.push('y'), "other scenarios");
        check(&|h| h.build.push('c'), "another build");
        assert_eq!(fits(&header(), &header()), Ok(()));
    }
}
