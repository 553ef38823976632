//! What can go wrong between us and SQLite.

use std::sync::Arc;

use rusqlite::ErrorCode;

use super::{AcceptError, ClaimError, EnqueueError, FinishError, RedriveError};
use crate::rules::Invalid;

/// SQLite refused or failed; unless said otherwise nothing has changed and no transaction is open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// SQLite's own error. Nothing was committed; the operation can be tried again.
    #[error("{0}")]
    Sqlite(#[from] rusqlite::Error),
    /// COMMIT failed after the journal may have been retired (M8): the change may or may not be in place.
    /// The next read settles it; until then treat the operation as neither done nor undone.
    #[error("COMMIT failed and its outcome is unknown: {0}")]
    CommitUnknown(#[source] rusqlite::Error),
    /// SQLite rolled the transaction back by itself; nothing was committed.
    #[error("SQLite rolled the transaction back")]
    RolledBack,
    /// Another program holds the file open in WAL mode, so it cannot be switched back to the rollback
    /// journal (Q18). Close that program, or let it leave WAL mode, and open again.
    #[error(
        "another program holds the file open in WAL mode, so it cannot be switched to the rollback journal: {0}"
    )]
    WalInUse(#[source] rusqlite::Error),
    /// The file was to be an existing one, and is empty (A14).
    #[error("the file is empty")]
    Empty,
    /// The file could not be set up as the contract demands (Q18, A5).
    #[error("{what} is {found}, expected {expected}")]
    Setting {
        /// Which setting.
        what: &'static str,
        /// What SQLite answered.
        found: String,
        /// What was asked for.
        expected: &'static str,
    },
    /// The file was to be read only, and is no file of this kind yet: its tables are missing.
    #[error("the tables {tables} are missing: it is no file of this kind, or not set up yet")]
    NoTables {
        /// Their names.
        tables: &'static str,
    },
    /// The transaction that this operation shared with others failed; each of them gets this.
    #[error(transparent)]
    Shared(Arc<StorageError>),
    /// A stored row breaks a range or is missing: another program wrote it. Nothing was changed.
    #[error("stored row: {0}")]
    Row(Invalid),
}

impl StorageError {
    /// SQLite's primary code, where there is one.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Sqlite(error) | Self::CommitUnknown(error) | Self::WalInUse(error) => {
                error.sqlite_error_code()
            }
            Self::Shared(error) => error.code(),
            Self::RolledBack | Self::Empty | Self::Setting { .. } | Self::NoTables { .. } | Self::Row(_) => {
                None
            }
        }
    }

    /// Whether another connection held a lock for longer than the busy timeout: waiting and trying again
    /// is the right answer, whether BEGIN, a statement or COMMIT met it.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self.code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    /// As many copies of this error as are wanted: for operations that shared a transaction.
    pub(super) fn shared(self) -> impl FnMut() -> Self {
        let shared = Arc::new(self);
        move || Self::Shared(Arc::clone(&shared))
    }

    /// Whether the system refused to write, other than for want of room on the disk: where the file is as large as the
    /// process or the file system allows (EFBIG), or where the disk is out of order. SQLite does not tell which.
    #[must_use]
    pub fn is_failed_write(&self) -> bool {
        match self {
            Self::Sqlite(error) | Self::CommitUnknown(error) | Self::WalInUse(error) => error
                .sqlite_error()
                .is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_WRITE),
            Self::Shared(error) => error.is_failed_write(),
            _ => false,
        }
    }

    /// Whether SQLite found pages of the file that cannot be: it was cut, or overwritten. Trying again does not help.
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        self.code() == Some(ErrorCode::DatabaseCorrupt)
    }

    /// Whether the disk is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.code() == Some(ErrorCode::DiskFull)
    }
}

/// An answer for each of several operations.
pub type Answers<T, E> = Vec<Result<T, E>>;

/// An error that may mean no more than that the file was locked.
pub trait MayBeBusy {
    /// Whether it was: nothing has changed, and trying again is the right answer.
    fn is_busy(&self) -> bool;
}

/// The answers of operations that shared a transaction: as an error where the file was locked, so that whoever has
/// patience tries again.
///
/// # Errors
/// The answers themselves, of which at least one is busy.
pub fn all_or_busy<T, E: MayBeBusy>(answers: Answers<T, E>) -> Result<Answers<T, E>, Answers<T, E>> {
    let is_busy = answers.iter().any(|answer| answer.as_ref().is_err_and(E::is_busy));
    if is_busy { Err(answers) } else { Ok(answers) }
}

macro_rules! may_be_busy {
    ($($error:ty),+) => {
        $(impl MayBeBusy for $error {
            fn is_busy(&self) -> bool {
                matches!(self, Self::Storage(error) if error.is_busy())
            }
        })+
    };
}

may_be_busy!(AcceptError, EnqueueError, ClaimError, FinishError, RedriveError);

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn sqlite(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    /// Q6, M8: a lock and a full disk are told apart, whichever statement met them and whoever shares the error.
    #[test]
    fn an_error_says_whether_it_is_a_lock_or_a_full_disk() {
        for (code, is_busy, is_full) in [
            (ffi::SQLITE_BUSY, true, false),
            (ffi::SQLITE_LOCKED, true, false),
            (ffi::SQLITE_FULL, false, true),
            (ffi::SQLITE_IOERR, false, false),
        ] {
            let errors = [
                StorageError::Sqlite(sqlite(code)),
                StorageError::CommitUnknown(sqlite(code)),
                StorageError::Sqlite(sqlite(code)).shared()(),
            ];
            for error in errors {
                assert_eq!((error.is_busy(), error.is_full()), (is_busy, is_full), "{error:?}");
            }
        }
        assert_eq!(StorageError::Empty.code(), None);
        assert!(!StorageError::Empty.is_busy() && !StorageError::Empty.is_full());
    }

    /// Q6: one operation that met the lock is enough for all to be tried again; another error is not.
    #[test]
    fn answers_are_busy_where_one_of_them_is() {
        let busy = || Err(FinishError::Storage(sqlite(ffi::SQLITE_BUSY).into()));
        let broken = || Err(FinishError::Storage(sqlite(ffi::SQLITE_IOERR).into()));
        assert_eq!(all_or_busy(vec![Ok(1), busy(), Ok(2)]).unwrap_err().len(), 3);
        assert_eq!(all_or_busy(vec![Ok(1), broken()]).unwrap().len(), 2);
        assert_eq!(all_or_busy::<u8, FinishError>(vec![]).unwrap().len(), 0);
    }
}
