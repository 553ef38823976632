//! Which of our kinds of file a SQLite file is, told by its tables: so that a command that is given the wrong path says
//! so, instead of adding its own tables there (a file with neither gets them: A14).

use std::collections::BTreeSet;
use std::path::Path;

use super::{Durability, OpenOptions, StorageError};

const TABLES: &str = "SELECT lower(name) FROM sqlite_schema WHERE type = 'table'";

/// A kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A lease queue.
    Queue,
    /// A receiver's inbox.
    Inbox,
    /// A consumer's store.
    Store,
}

impl FileKind {
    const ALL: [Self; 3] = [Self::Queue, Self::Inbox, Self::Store];

    /// The kinds whose tables are all in the file at `path`: none for an empty file and for one of another program,
    /// several where somebody put them together. Nothing is changed.
    ///
    /// # Errors
    /// [`StorageError`]: missing, not a database, locked for over a second.
    pub fn look(path: &Path) -> Result<Vec<Self>, StorageError> {
        let connection = match OpenOptions::new(Durability::Full).read_only().open(path) {
            Err(StorageError::Empty) => return Ok(Vec::new()),
            opened => opened?,
        };
        let mut statement = connection.prepare(TABLES)?;
        let there: BTreeSet<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        let is_there = |kind: &Self| kind.tables().iter().all(|table| there.contains(*table));
        Ok(Self::ALL.into_iter().filter(is_there).collect())
    }

    /// The names of its tables.
    #[must_use]
    pub const fn tables(self) -> &'static [&'static str] {
        match self {
            Self::Queue => &["jobs", "redrives"],
            Self::Inbox => &["inbox", "effects", "totals"],
            Self::Store => &["checkpoint", "ledger"],
        }
    }

    /// What it is called, with its article.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "a queue file",
            Self::Inbox => "a receiver's inbox",
            Self::Store => "a consumer's store",
        }
    }
}
