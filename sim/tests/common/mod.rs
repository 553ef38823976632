//! What the tests of the simulator share.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// SQLite's random numbers are one generator per OS process: one simulation at a time.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
