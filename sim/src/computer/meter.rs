//! Measures how much of a run is spent above the simulated operating system: in SQLite and in the code that
//! calls it. Off, it costs a look at a flag for each call; it never changes what a run does.

use std::cell::Cell;

/// What was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Measured {
    /// Time inside SQLite jobs and outside of their calls into the operating system, in the clock's unit.
    pub inside: u64,
    /// How often the clock was read; each reading makes its own cost part of what is measured.
    pub readings: u64,
}

#[derive(Clone, Copy)]
struct Meter {
    clock: fn() -> u64,
    /// When the code above the operating system went on; `None` while it does not run.
    since: Option<u64>,
    measured: Measured,
}

thread_local! {
    static IS_ON: Cell<bool> = const { Cell::new(false) };
    static METER: Cell<Option<Meter>> = const { Cell::new(None) };
}

/// Runs simulations on this thread and measures them by a monotonic clock.
pub fn measure<T>(clock: fn() -> u64, body: impl FnOnce() -> T) -> (T, Measured) {
    METER.set(Some(Meter { clock, since: None, measured: Measured::default() }));
    IS_ON.set(true);
    let value = body();
    IS_ON.set(false);
    (value, METER.take().map(|meter| meter.measured).unwrap_or_default())
}

/// A job's code goes on.
pub(super) fn enter() {
    if !IS_ON.get() {
        return;
    }
    let Some(mut meter) = METER.get() else { return };
    meter.measured.readings += 1;
    meter.since = Some((meter.clock)());
    METER.set(Some(meter));
}

/// A job's code stops; returns whether it was running.
pub(super) fn leave() -> bool {
    if !IS_ON.get() {
        return false;
    }
    let Some(mut meter) = METER.get() else { return false };
    let Some(since) = meter.since.take() else { return false };
    meter.measured.readings += 1;
    meter.measured.inside += (meter.clock)().saturating_sub(since);
    METER.set(Some(meter));
    true
}

/// A call into the operating system, or a suspension: the job's code goes on when it is dropped.
pub(super) struct Away(bool);

pub(super) fn away() -> Away {
    Away(leave())
}

impl Drop for Away {
    fn drop(&mut self) {
        if self.0 {
            enter();
        }
    }
}
