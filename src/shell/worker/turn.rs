//! Whose turn it is to write: the slots of a worker one after the other, and the worker in fair alternation with
//! others on the same file.
//!
//! SQLite's own way of waiting for a lock tries ever more seldom, up to ten times a second, so a worker that comes
//! second hardly ever finds the file free while another one works off its queue. Here a waiting worker tries every
//! millisecond or two, and one that has met another lately leaves a gap after each of its transactions.

use std::cell::Cell;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::port::Clock;
use crate::rules::Jitter;

/// Tries before a locked file is reported: about a second.
const TRIES_MAX: u32 = 500;
/// The wait between two tries.
const BETWEEN_TRIES: Duration = Duration::from_micros(1_000);
/// The gap after a transaction, and the longest random part of either.
const GAP: Duration = Duration::from_micros(1_500);
const RANDOM_PART: Duration = Duration::from_micros(1_000);
/// Transactions that are followed by a gap since another worker was met.
const CROWDED: u32 = 64;

/// The turn of a worker's slots.
pub(super) struct Turn<'a, C> {
    clock: &'a C,
    jitter: &'a dyn Fn() -> Jitter,
    /// First come, first served.
    one: Semaphore,
    /// Gaps still to be left.
    crowded: Cell<u32>,
}

impl<'a, C: Clock> Turn<'a, C> {
    pub(super) const fn new(clock: &'a C, jitter: &'a dyn Fn() -> Jitter) -> Self {
        Self { clock, jitter, one: Semaphore::const_new(1), crowded: Cell::new(0) }
    }

    /// Runs a transaction when it is this slot's turn, again and again while the file is locked.
    pub(super) async fn take<T, E>(
        &self,
        mut transaction: impl AsyncFnMut() -> Result<T, E>,
        is_busy: impl Fn(&E) -> bool,
    ) -> Result<T, E> {
        // Never closed, so this is always a permit.
        let _permit = self.one.acquire().await;
        if let Some(left) = self.crowded.get().checked_sub(1) {
            self.crowded.set(left);
            self.pause(GAP).await;
        }
        for _ in 1..TRIES_MAX {
            match transaction().await {
                Err(error) if is_busy(&error) => self.crowded.set(CROWDED),
                result => return result,
            }
            self.pause(BETWEEN_TRIES).await;
        }
        transaction().await
    }

    async fn pause(&self, at_least: Duration) {
        self.clock.sleep(at_least + RANDOM_PART.mul_f64((self.jitter)().get())).await;
    }
}
