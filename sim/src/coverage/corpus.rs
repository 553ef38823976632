//! A corpus on disk: a folder with one small file per trial (values and deviations), named by what it holds. Folders are
//! merged by copying their files together; the same trial has the same name everywhere.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::Trial;
use crate::choice::{Deviation, stable_hash};
use crate::outside::{self, OutsideError};
use crate::scenario::{Values, nested};

/// Largest file, in bytes: that of a scenario with as many deviations.
const LEN_MAX: u64 = 1 << 20;

/// A trial with its file's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The file's name, without its folder.
    pub name: String,
    /// What the file holds.
    pub trial: Trial,
}

/// Why a corpus cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CorpusError {
    /// The folder or one of its files: make it accessible, or name another one.
    #[error("{path}: {error}; a corpus is a folder that can be read and written")]
    Access {
        /// Which.
        path: String,
        /// What the operating system says.
        error: OutsideError,
    },
    /// A file holds something else: correct it, or take it out of the folder.
    #[error(
        "{path}: {error}\nallowed in a corpus: [[deviation]] tables with `at` and `do`, as a scenario has them, and \
         [values] such as `worker.worker-a.lease_ms = 50`; correct the file or take it out of the folder"
    )]
    Format {
        /// Which.
        path: String,
        /// Line, column and what is wrong there.
        error: String,
    },
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    values: Table,
    #[serde(default)]
    deviation: Vec<Deviation>,
}

impl Entry {
    /// Names a trial.
    #[must_use]
    pub fn new(trial: Trial) -> Self {
        let values = trial.values.iter().map(|(path, value)| format!("{path} = {value}\n"));
        let text: String =
            values.chain(trial.list.iter().map(|deviation| format!("{deviation}\n"))).collect();
        Self { name: format!("{:016x}.toml", stable_hash(text.as_bytes())), trial }
    }

    /// Reads a file's text; its name is that of what it holds. `path` is for the error only.
    ///
    /// # Errors
    /// [`CorpusError::Format`].
    pub fn parse(path: &str, bytes: &[u8]) -> Result<Self, CorpusError> {
        let wrong = |error: String| CorpusError::Format { path: path.to_owned(), error };
        let text = str::from_utf8(bytes).map_err(|error| wrong(error.to_string()))?;
        let file: File = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let mut values = Values::new();
        flatten(&file.values, "", &mut values).map_err(wrong)?;
        Ok(Self::new(Trial { values, list: file.deviation }))
    }

    /// The file's text.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        let Trial { values, list } = &self.trial;
        if !values.is_empty() {
            let values = nested(values.iter().map(|(path, value)| (path, (*value).into())));
            // Tables of whole numbers can always be written.
            text = toml::to_string(&Table::from_iter([("values".to_owned(), Value::Table(values))]))
                .unwrap_or_default();
            text.push('\n');
        }
        for Deviation { at, action } in list {
            // Points and actions hold nothing that must be escaped: names of processes are plain words.
            let (at, action) = (quoted(&at.to_string()), quoted(&action.to_string()));
            // Writing to a String cannot fail.
            let _ = writeln!(text, "[[deviation]]\nat = {at}\ndo = {action}\n");
        }
        if text.is_empty() { "deviation = []\n".to_owned() } else { text }
    }
}

/// The values by their paths.
fn flatten(table: &Table, path: &str, values: &mut Values) -> Result<(), String> {
    for (key, value) in table {
        let own = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match value {
            Value::Table(inner) => flatten(inner, &own, values)?,
            Value::Integer(number) => drop(values.insert(own, *number)),
            other => return Err(format!("values.{own} is {other}, allowed: a whole number")),
        }
    }
    Ok(())
}

/// All trials of some folders, by name, each once. A folder that is not there is an empty one.
///
/// # Errors
/// [`CorpusError`]: the first file that is none of a corpus.
pub fn read(folders: &[PathBuf]) -> Result<Vec<Entry>, CorpusError> {
    let mut entries = Vec::new();
    for path in folders.iter().map(|folder| files(folder)).collect::<Result<Vec<_>, _>>()?.concat() {
        let bytes = outside::read(&path, LEN_MAX).map_err(|error| access(&path, error))?;
        entries.push(Entry::parse(&path.display().to_string(), &bytes)?);
    }
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    entries.dedup();
    Ok(entries)
}

/// Writes a trial into a folder, which is made where it is not there. Whoever reads meanwhile, or after this was killed,
/// finds the whole trial or none.
///
/// # Errors
/// [`CorpusError::Access`].
pub fn write(folder: &Path, entry: &Entry) -> Result<(), CorpusError> {
    std::fs::create_dir_all(folder).map_err(|error| access(folder, error))?;
    let path = folder.join(&entry.name);
    // No other process writes the same name: who shares a folder writes to one of their own and merges.
    let new = folder.join(format!("{}.tmp", entry.name));
    let written = std::fs::write(&new, entry.to_toml()).and_then(|()| std::fs::rename(&new, &path));
    written.map_err(|error| access(&path, error))
}

/// Makes a folder hold these trials and no other `*.toml` file. What is new is written before anything is removed.
///
/// # Errors
/// [`CorpusError::Access`].
pub fn replace(folder: &Path, entries: &[Entry]) -> Result<(), CorpusError> {
    let old = files(folder)?;
    entries.iter().try_for_each(|entry| write(folder, entry))?;
    let is_kept =
        |path: &Path| entries.iter().any(|entry| path.file_name().is_some_and(|name| name == &*entry.name));
    old.iter()
        .filter(|path| !is_kept(path))
        .try_for_each(|path| std::fs::remove_file(path).map_err(|error| access(path, error)))
}

/// The folder's `*.toml` files, by name.
fn files(folder: &Path) -> Result<Vec<PathBuf>, CorpusError> {
    let found = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found.map_err(|error| access(folder, error))?,
    };
    let paths = found.map(|entry| Ok(entry.map_err(|error| access(folder, error))?.path()));
    let mut paths = paths.collect::<Result<Vec<_>, CorpusError>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    Ok(paths)
}

fn access(path: &Path, error: impl Into<OutsideError>) -> CorpusError {
    CorpusError::Access { path: path.display().to_string(), error: error.into() }
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that is there is replaced as a whole: whoever has it open reads on in the old one.
    #[test]
    fn a_trial_is_never_written_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let entry = Entry::new(Trial::default());
        let (path, other) = (folder.path().join(&entry.name), folder.path().join("other"));
        std::fs::write(&path, "old").unwrap();
        std::fs::hard_link(&path, &other).unwrap();
        write(folder.path(), &entry).unwrap();
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "old");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), entry.to_toml());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "something is left behind");
    }
}
