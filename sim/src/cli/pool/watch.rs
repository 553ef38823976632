//! Ends children whose seed takes much longer than there is time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::super::child::{Child, Killer};
use super::super::interrupt::Interrupt;
use super::super::lock;

/// How long a seed may run on when a time that somebody gave is up.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// How long it may where nobody gave a time: a slow machine is no reason to call a scenario one that does not end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How often it is looked whether that is so.
const LOOK: Duration = Duration::from_millis(20);

/// The children that work, by their place.
pub(crate) struct Watch {
    busy: Mutex<Vec<Option<Killer>>>,
    is_over: AtomicBool,
}

impl Watch {
    pub(crate) fn new(places: usize) -> Self {
        Self { busy: Mutex::new((0..places).map(|_| None).collect()), is_over: AtomicBool::new(false) }
    }

    /// How many places there are, 1 at least.
    pub(crate) fn places(&self) -> usize {
        self.busy().len().max(1)
    }

    /// Whether children were ended.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Lets a child work, unless it is too late.
    pub(crate) fn during<T>(
        &self,
        place: usize,
        child: &mut Child,
        work: impl FnOnce(&mut Child) -> Result<T, String>,
    ) -> Result<T, String> {
        self.set(place, Some(child.killer()));
        // Asked after it is known to the watch, so that one of both sees the other.
        let result = if self.is_over() { Err("time is up".to_owned()) } else { work(child) };
        self.set(place, None);
        result
    }

    /// Waits until `until`, when nobody may work any more, or until an interrupt, and ends those that still work; or
    /// until everybody has gone.
    pub(crate) fn stand(&self, until: Option<Instant>, interrupt: &Interrupt, gone: &Receiver<()>) {
        let is_late = || until.is_some_and(|until| Instant::now() >= until);
        while gone.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            if is_late() || interrupt.has_come() {
                let busy = self.busy();
                self.is_over.store(true, Ordering::SeqCst);
                busy.iter().flatten().for_each(Killer::kill);
                return;
            }
        }
    }

    fn set(&self, place: usize, killer: Option<Killer>) {
        if let Some(busy) = self.busy().get_mut(place) {
            *busy = killer;
        }
    }

    fn busy(&self) -> MutexGuard<'_, Vec<Option<Killer>>> {
        lock(&self.busy)
    }
}
