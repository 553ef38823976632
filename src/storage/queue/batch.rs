//! The operations on several jobs that share a transaction: what becomes of each, and of all where the transaction
//! fails.

use crate::port::Injected;
use crate::storage::{EnqueueError, FinishError, RedriveError, StorageError};

/// What `count` operations get that shared a transaction: each its own answer, or all of them its error.
pub(super) fn answers<T, E: Shared>(count: usize, result: Result<Vec<Result<T, E>>, E>) -> Vec<Result<T, E>> {
    match result {
        Ok(answers) => answers,
        Err(error) => {
            let mut shared = error.shared();
            (0..count).map(|_| Err(shared())).collect()
        }
    }
}

/// The same, where no operation has an error of its own.
pub(super) fn all<T, E: Shared>(count: usize, result: Result<Vec<T>, E>) -> Vec<Result<T, E>> {
    answers(count, result.map(|values| values.into_iter().map(Ok).collect()))
}

/// An error of which several operations can each have one.
pub(super) trait Shared {
    /// Makes as many as are wanted.
    fn shared(self) -> Box<dyn FnMut() -> Self>;
}

/// What an injected error says; there is no copy of the object itself.
fn injected(error: &Injected) -> Injected {
    Injected(error.0.to_string().into())
}

fn storage<E: From<StorageError> + 'static>(error: StorageError) -> Box<dyn FnMut() -> E> {
    let mut shared = error.shared();
    Box::new(move || E::from(shared()))
}

impl Shared for EnqueueError {
    fn shared(self) -> Box<dyn FnMut() -> Self> {
        match self {
            Self::Storage(error) => storage(error),
            Self::Invalid(invalid) => Box::new(move || Self::Invalid(invalid.clone())),
            Self::Conflict { id, stored_qty, given } => {
                Box::new(move || Self::Conflict { id: id.clone(), stored_qty: stored_qty.clone(), given })
            }
        }
    }
}

impl Shared for FinishError {
    fn shared(self) -> Box<dyn FnMut() -> Self> {
        match self {
            Self::Storage(error) => storage(error),
            Self::Hook(error) => Box::new(move || Self::Hook(injected(&error))),
        }
    }
}

impl Shared for RedriveError {
    fn shared(self) -> Box<dyn FnMut() -> Self> {
        match self {
            Self::Storage(error) => storage(error),
            Self::Invalid(invalid) => Box::new(move || Self::Invalid(invalid.clone())),
            Self::Hook(error) => Box::new(move || Self::Hook(injected(&error))),
            Self::NoSuchJob { id } => Box::new(move || Self::NoSuchJob { id: id.clone() }),
            Self::NotDead { id, status } => Box::new(move || Self::NotDead { id: id.clone(), status }),
        }
    }
}
