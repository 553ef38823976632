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

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::storage::{Inbox, Queue, Store};

    /// A14: a file is what its tables make it, an empty one and another program's are nothing of ours.
    #[test]
    fn a_file_is_told_by_its_tables() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let look = |name| FileKind::look(&path(name)).unwrap();
        let options = OpenOptions::new(Durability::Full);
        Queue::open(&path("queue"), &options).unwrap();
        Inbox::open(&path("inbox"), &options).unwrap();
        Store::open(&path("store"), &options).unwrap();
        assert_eq!(look("queue"), [FileKind::Queue]);
        assert_eq!(look("inbox"), [FileKind::Inbox]);
        assert_eq!(look("store"), [FileKind::Store]);
        Store::open(&path("queue"), &options).unwrap();
        assert_eq!(look("queue"), [FileKind::Queue, FileKind::Store]);
        std::fs::write(path("empty"), "").unwrap();
        Connection::open(path("other")).unwrap().execute_batch("CREATE TABLE jobs (x)").unwrap();
        assert_eq!((look("empty"), look("other")), (vec![], vec![]));
        assert!(FileKind::look(&path("missing")).is_err());
    }

    #[test]
    fn each_kind_has_a_name_for_people() {
        let names = FileKind::ALL.map(FileKind::name);
        assert_eq!(names, ["a queue file", "a receiver's inbox", "a consumer's store"]);
    }
}
