//! A limit on the life of a process under test: whoever waits for it, or reads what it writes, comes to an end although
//! it does not.

use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// Kills a process that lives too long. Drop it before the process's number can be another's.
pub struct Watchdog {
    has_bitten: Arc<AtomicBool>,
    _over: Sender<()>,
}

impl Watchdog {
    /// Of a child that has not been waited for.
    pub fn new(child: &Child, limit: Duration) -> Self {
        let (over, is_over) = channel();
        let has_bitten = Arc::new(AtomicBool::new(false));
        let (pid, bites) = (child.id().to_string(), Arc::clone(&has_bitten));
        thread::spawn(move || {
            if is_over.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                bites.store(true, Ordering::SeqCst);
                let _ = Command::new("kill").args(["-KILL", &pid]).status();
            }
        });
        Self { has_bitten, _over: over }
    }

    /// The test fails where the process had to be killed.
    #[track_caller]
    pub fn has_slept(&self, what: &str) {
        assert!(!self.has_bitten.load(Ordering::SeqCst), "it does not end: {what}");
    }
}
