//! The system's clock and tokio's timer.

#![expect(clippy::disallowed_methods, reason = "the real implementation of the Clock port")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::port::Clock;
use crate::rules::{Invalid, Millis};

/// Wall-clock time since the Unix epoch, in ms; waits on tokio's timer.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Result<Millis, Invalid> {
        let Ok(since) = SystemTime::now().duration_since(UNIX_EPOCH) else {
            return Err(Invalid::new("system clock", "before 1970", "1970 or later"));
        };
        Millis::named("system clock", i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> {
        tokio::time::sleep(duration)
    }
}
