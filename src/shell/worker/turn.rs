//! Whose turn it is to write: the slots of a worker one after the other, and the worker in fair alternation with
//! others on the same file.
//!
//! SQLite's own way of waiting for a lock tries ever more seldom, up to ten times a second, so a worker that comes
//! second hardly ever finds the file free while another one works off its queue. Here a waiting worker tries every
//! millisecond or two, and one that has met another lately leaves a gap after every few of its transactions.

use std::cell::Cell;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::{Happening, Observer};
use crate::port::Clock;
use crate::rules::Jitter;

/// Tries before a locked file is reported, and the time after which no other one is made.
const TRIES_MAX: u32 = 500;
const PATIENCE_MS: i64 = 1_000;
/// The wait between two tries.
const BETWEEN_TRIES: Duration = Duration::from_micros(1_000);
/// The gap after a transaction, and the longest random part of either.
const GAP: Duration = Duration::from_micros(1_500);
const RANDOM_PART: Duration = Duration::from_micros(1_000);
/// Gaps that are left since another worker was last met.
const CROWDED: u32 = 16;
/// What is done between two gaps: so many transactions, or so much time, whichever ends first.
const BURST: u32 = 8;
const BURST_MS: i64 = 10;

/// The turn of a worker's slots.
pub(super) struct Turn<'a, C> {
    clock: &'a C,
    jitter: &'a dyn Fn() -> Jitter,
    observer: &'a dyn Observer,
    /// First come, first served.
    one: Semaphore,
    /// Gaps still to be left.
    crowded: Cell<u32>,
    /// When the last transaction was asked for, in ms.
    began_ms: Cell<i64>,
    /// Transactions since the last gap, and when the first of them began, in ms.
    burst: Cell<(u32, i64)>,
}

impl<'a, C: Clock> Turn<'a, C> {
    pub(super) const fn new(
        clock: &'a C,
        jitter: &'a dyn Fn() -> Jitter,
        observer: &'a dyn Observer,
    ) -> Self {
        Self {
            clock,
            jitter,
            observer,
            one: Semaphore::const_new(1),
            crowded: Cell::new(0),
            began_ms: Cell::new(0),
            burst: Cell::new((0, 0)),
        }
    }

    /// Runs a transaction when it is this slot's turn, again and again while the file is locked.
    pub(super) async fn take<T, E>(
        &self,
        mut transaction: impl AsyncFnMut() -> Result<T, E>,
        is_busy: impl Fn(&E) -> bool,
    ) -> Result<T, E> {
        // Never closed, so this is always a permit.
        let _permit = self.one.acquire().await;
        self.leave_gap().await;
        let started_ms = self.now_ms();
        self.began_ms.set(started_ms);
        let (mut tries, mut waited_ms) = (1, 0);
        loop {
            let result = transaction().await;
            let is_busy = result.as_ref().is_err_and(&is_busy);
            if is_busy {
                self.crowded.set(CROWDED);
                if tries < TRIES_MAX {
                    waited_ms = self.now_ms() - started_ms;
                }
            }
            if !is_busy || tries == TRIES_MAX || waited_ms >= PATIENCE_MS {
                if tries > 1 {
                    self.observer.saw(&Happening::LockWait { waited_ms, tries });
                }
                return result;
            }
            tries += 1;
            self.pause(BETWEEN_TRIES).await;
        }
    }

    /// When the last transaction began, in ms: a time for who needs none more exact, without reading the clock again.
    pub(super) const fn began_ms(&self) -> i64 {
        self.began_ms.get()
    }

    /// Leaves a gap for another worker, where one has been met lately and enough was done since the last.
    async fn leave_gap(&self) {
        let (done, since_ms) = self.burst.get();
        if done == 0 || self.crowded.get() == 0 {
            return self.burst.set((1, self.now_ms()));
        }
        if done < BURST && self.now_ms() - since_ms < BURST_MS {
            return self.burst.set((done + 1, since_ms));
        }
        self.crowded.set(self.crowded.get() - 1);
        self.pause(GAP).await;
        self.burst.set((1, self.now_ms()));
    }

    /// For patience and bursts only: a clock that fails or jumps makes it no longer than the tries.
    fn now_ms(&self) -> i64 {
        self.clock.now().map_or(0, |now| now.get())
    }

    async fn pause(&self, at_least: Duration) {
        self.clock.sleep(at_least + RANDOM_PART.mul_f64((self.jitter)().get())).await;
    }
}
