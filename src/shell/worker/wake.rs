//! Wakes a worker that waits for jobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Tells the idle slots of a worker in this process that there may be something to claim: call
/// [`wake`](Self::wake) after an enqueue. Other processes' jobs are found by polling. Clones are the same handle.
#[derive(Debug, Clone, Default)]
pub struct Wake(Arc<Calls>);

#[derive(Debug, Default)]
struct Calls {
    count: AtomicU64,
    notify: Notify,
}

impl Wake {
    /// Wakes every slot that waits, or is about to.
    pub fn wake(&self) {
        self.0.count.fetch_add(1, Ordering::SeqCst);
        self.0.notify.notify_waiters();
    }

    /// How often it was called.
    pub(super) fn count(&self) -> u64 {
        self.0.count.load(Ordering::SeqCst)
    }

    /// Waits for a call after the first `seen` ones.
    pub(super) async fn after(&self, seen: u64) {
        // From its making on, this hears of every call.
        let called = self.0.notify.notified();
        if self.count() == seen {
            called.await;
        }
    }
}
