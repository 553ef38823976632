//! How a file is opened: journal mode, durability, busy timeout (Q18, R10, M9).

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::StorageError;

/// How long a lock is waited for (Q6, Q18).
const BUSY_TIMEOUT: Duration = Duration::from_secs(1);
/// Prepared statements kept per connection; no connection of ours has more.
const STATEMENTS_MAX: usize = 64;

/// What a power cut can take (M9). A killed process loses nothing under either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Durability {
    /// `synchronous=FULL`: a power cut can take back the last commit, since the directory is not synced
    /// after the journal is deleted. The contract's setting for the queue (Q18).
    Full,
    /// `synchronous=EXTRA`: nothing that was committed is lost. One sync more a commit.
    Extra,
}

impl Durability {
    const fn pragma(self) -> &'static str {
        match self {
            Self::Full => "PRAGMA synchronous=FULL",
            Self::Extra => "PRAGMA synchronous=EXTRA",
        }
    }
}

/// How to open a database file.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    durability: Durability,
    vfs: Option<String>,
    create: bool,
    read_only: bool,
    busy_timeout: Duration,
}

impl OpenOptions {
    /// Creates the file where it is missing, on SQLite's default VFS.
    #[must_use]
    pub const fn new(durability: Durability) -> Self {
        Self { durability, vfs: None, create: true, read_only: false, busy_timeout: BUSY_TIMEOUT }
    }

    /// Opens through the SQLite VFS of this name, as registered in this process.
    #[must_use]
    pub fn vfs(mut self, name: impl Into<String>) -> Self {
        self.vfs = Some(name.into());
        self
    }

    /// Whether a missing or empty file is made into a new one (the default) or an error.
    #[must_use]
    pub const fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Opens an existing file to look at it: nothing in it is added, switched or written, whatever it lacks. What
    /// another process left half done is still rolled back where the file may be written.
    #[must_use]
    pub const fn read_only(mut self) -> Self {
        self.read_only = true;
        self.create = false;
        self
    }

    /// How long SQLite itself waits for a lock, once the file is open: the contract's 1 s where nothing is said
    /// (Q18). A caller that waits by itself, as the worker loop does, sets less.
    #[must_use]
    pub const fn busy_timeout(mut self, busy_timeout: Duration) -> Self {
        self.busy_timeout = busy_timeout;
        self
    }

    /// What [`busy_timeout`](Self::busy_timeout) says, put in place once the file has all it needs.
    pub(super) fn settle(&self, connection: &Connection) -> Result<(), StorageError> {
        if self.busy_timeout != BUSY_TIMEOUT {
            connection.busy_timeout(self.busy_timeout)?;
        }
        Ok(())
    }

    /// What a power cut may take.
    pub(super) const fn durability(&self) -> Durability {
        self.durability
    }

    /// Whether the file is only looked at.
    pub(super) const fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Whether the file is looked for on SQLite's default VFS, that is in the real file system.
    pub(crate) const fn is_default_vfs(&self) -> bool {
        self.vfs.is_none()
    }

    /// Opens `path` and sets it up: rollback journal in DELETE mode, the durability, a busy timeout of 1 s.
    pub(super) fn open(&self, path: &Path) -> Result<Connection, StorageError> {
        if path.as_os_str().is_empty() {
            // SQLite would quietly make a private temporary database (A5).
            return Err(StorageError::Setting {
                what: "path",
                found: "empty".into(),
                expected: "the name of a local file",
            });
        }
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        if self.create {
            flags |= OpenFlags::SQLITE_OPEN_CREATE;
        }
        let connection = match &self.vfs {
            Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs.as_str())?,
            None => Connection::open_with_flags(path, flags)?,
        };
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        // A plan depends on the statement alone. Otherwise SQLite plans anew at each execution where the value of a
        // parameter could matter, as in `LIMIT ?`.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.execute_batch(self.durability.pragma())?;
        if self.read_only {
            // Opened for writing, so that a journal left behind can be rolled back (Q59), and barred from it here.
            connection.execute_batch("PRAGMA query_only = 1")?;
        }
        if !self.create && is_empty(&connection)? {
            return Err(StorageError::Empty);
        }
        if !self.read_only {
            set_journal_mode(&connection)?;
        }
        Ok(connection)
    }
}

fn is_empty(connection: &Connection) -> Result<bool, StorageError> {
    Ok(connection.query_row("PRAGMA page_count", [], |row| row.get::<_, i64>(0))? == 0)
}

/// Switches to the rollback journal, also where another program left the file in WAL mode.
fn set_journal_mode(connection: &Connection) -> Result<(), StorageError> {
    let found: String = match connection.query_row("PRAGMA journal_mode=DELETE", [], |row| row.get(0)) {
        Ok(found) => found,
        Err(error) => return Err(explain(connection, error)),
    };
    if found == "delete" {
        return Ok(());
    }
    Err(StorageError::Setting { what: "journal_mode", found, expected: "delete" })
}

/// Tells a file that a peer keeps in WAL mode from one that is merely locked.
fn explain(connection: &Connection, error: rusqlite::Error) -> StorageError {
    let busy = error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy);
    let mode = || connection.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0));
    if busy && mode().is_ok_and(|mode| mode == "wal") {
        return StorageError::WalInUse(error);
    }
    error.into()
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    /// Q18: WAL mode is named as the cause where the file is locked and in it, and nowhere else.
    #[test]
    fn q18_only_a_lock_on_a_file_in_wal_mode_is_explained_by_it() {
        let dir = tempfile::tempdir().unwrap();
        let connection = Connection::open(dir.path().join("file.db")).unwrap();
        let is_explained = |mode: &str, code| {
            connection.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(())).unwrap();
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            matches!(explain(&connection, error), StorageError::WalInUse(_))
        };
        assert!(is_explained("WAL", ffi::SQLITE_BUSY));
        assert!(!is_explained("WAL", ffi::SQLITE_IOERR));
        assert!(!is_explained("DELETE", ffi::SQLITE_BUSY));
    }
}
