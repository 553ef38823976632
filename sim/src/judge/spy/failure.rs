//! What an operation of the queue came to, as the judges are told of it: an answer that the model knows, or why there is
//! none.

use ackward::storage::{
    ClaimError, EnqueueError, Enqueued, FinishError, Finished, RedriveError, Released, StorageError,
};
use rusqlite::ErrorCode;

use crate::model::QueueResult;

/// What the judges are told of an error.
pub(super) enum Failure {
    /// An answer that the model knows too, such as a conflict.
    Answer(QueueResult),
    Storage {
        unknown: bool,
        busy: bool,
        /// The text of an error that no file system and no lock can cause.
        blames_itself: Option<String>,
    },
    /// A hook failed, before or after the commit.
    Hook,
    /// The clock was out of range.
    Clock,
}

impl From<&StorageError> for Failure {
    fn from(error: &StorageError) -> Self {
        let unknown = matches!(error, StorageError::CommitUnknown(_));
        Self::Storage { unknown, busy: error.is_busy(), blames_itself: blames_itself(error) }
    }
}

/// The answers of operations that share a transaction, or why it failed for all of them.
pub(super) fn batch<T>(
    results: &[T],
    judged: impl Fn(&T) -> Result<QueueResult, Failure>,
) -> Result<QueueResult, Failure> {
    let answer = |result| match judged(result) {
        Err(Failure::Answer(answer)) => Ok(answer),
        judged => judged,
    };
    results.iter().map(answer).collect::<Result<_, _>>().map(QueueResult::Batch)
}

pub(super) fn enqueued(result: &Result<Enqueued, EnqueueError>) -> Result<QueueResult, Failure> {
    result.as_ref().map(|enqueued| QueueResult::Enqueued(*enqueued)).map_err(|error| match error {
        EnqueueError::Conflict { .. } => Failure::Answer(QueueResult::Conflict),
        EnqueueError::Invalid(_) => Failure::Clock,
        EnqueueError::Storage(error) => error.into(),
    })
}

pub(super) fn redriven(result: &Result<(), RedriveError>) -> Result<QueueResult, Failure> {
    result.as_ref().map(|()| QueueResult::Redriven).map_err(|error| match error {
        RedriveError::NoSuchJob { .. } => Failure::Answer(QueueResult::NoSuchJob),
        RedriveError::NotDead { status, .. } => Failure::Answer(QueueResult::NotDead(*status)),
        RedriveError::Invalid(_) => Failure::Clock,
        RedriveError::Hook(_) => Failure::Hook,
        RedriveError::Storage(error) => error.into(),
    })
}

pub(super) fn finished(result: &Result<Finished, FinishError>) -> Result<QueueResult, Failure> {
    result.as_ref().map(|finished| QueueResult::Finished(*finished)).map_err(finish_failure)
}

pub(super) fn released(result: &Result<Released, FinishError>) -> Result<QueueResult, Failure> {
    result.as_ref().map(|released| QueueResult::Released(*released)).map_err(finish_failure)
}

pub(super) fn claim_failure(error: &ClaimError) -> Failure {
    match error {
        ClaimError::Clock(_) => Failure::Clock,
        ClaimError::Hook(_) => Failure::Hook,
        ClaimError::Storage(error) => error.into(),
    }
}

pub(super) fn finish_failure(error: &FinishError) -> Failure {
    match error {
        FinishError::Hook(_) => Failure::Hook,
        FinishError::Storage(error) => error.into(),
    }
}

/// The text of an error of SQLite's that no file system and no lock can cause: what the statements themselves did
/// wrong, such as a ROLLBACK where no transaction is open, or a row that breaks a constraint.
pub(in crate::judge) fn blames_itself(error: &StorageError) -> Option<String> {
    let is_own = matches!(
        error.code()?,
        ErrorCode::Unknown
            | ErrorCode::ApiMisuse
            | ErrorCode::ConstraintViolation
            | ErrorCode::InternalMalfunction
            | ErrorCode::ParameterOutOfRange
            | ErrorCode::TypeMismatch
    );
    is_own.then(|| error.to_string())
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn q7_an_error_that_no_disk_and_no_lock_can_cause_hides_what_happened() {
        let is_own = |code| {
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            blames_itself(&StorageError::Sqlite(error)).is_some()
        };
        for code in [ffi::SQLITE_ERROR, ffi::SQLITE_MISUSE, ffi::SQLITE_CONSTRAINT, ffi::SQLITE_MISMATCH] {
            assert!(is_own(code), "{code}");
        }
        for code in [ffi::SQLITE_BUSY, ffi::SQLITE_FULL, ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_CANTOPEN] {
            assert!(!is_own(code), "{code}");
        }
        assert!(blames_itself(&StorageError::RolledBack).is_none());
    }
}
