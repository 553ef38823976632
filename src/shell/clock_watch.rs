//! Notices that the wall clock jumps, or that the process stood still. Nothing is done about it: the lease queue
//! holds whatever the clock says, but a person should know why leases ended early or late.

use std::convert::Infallible;
use std::time::Duration;

use crate::port::Clock;

/// A step of the clock that is too far from the wait between its two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jump {
    /// How far the clock is from where it should be, in ms: negative where it went back.
    pub by_ms: i64,
}

/// Reads the clock every `every`, for ever, and tells of steps that are wrong by `more_than` or more. A reading that
/// fails is passed over.
pub async fn watch_clock(
    clock: &impl Clock,
    every: Duration,
    more_than: Duration,
    tell: impl Fn(Jump),
) -> Infallible {
    let whole_ms = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    let (every_ms, limit_ms) = (whole_ms(every), whole_ms(more_than));
    let mut before = clock.now().ok();
    loop {
        clock.sleep(every).await;
        let now = clock.now().ok();
        if let (Some(before), Some(now)) = (before, now) {
            let by_ms = now.get() - before.get() - every_ms;
            if by_ms.saturating_abs() >= limit_ms {
                tell(Jump { by_ms });
            }
        }
        before = now;
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test in virtual time")]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use crate::rules::{Invalid, Millis};

    /// Shows one reading after the other.
    #[derive(Clone)]
    struct Readings(Rc<RefCell<Vec<i64>>>);

    impl Clock for Readings {
        fn now(&self) -> Result<Millis, Invalid> {
            Millis::new(self.0.borrow_mut().pop().unwrap_or(-1))
        }

        fn sleep(&self, duration: Duration) -> impl Future<Output = ()> {
            tokio::time::sleep(duration)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn jumps_in_both_directions_are_told_and_steady_steps_are_not() {
        let mut readings = vec![0, 1_000, 2_040, 9_000, 10_000, 4_000, -1, 5_000, 6_000];
        readings.reverse();
        let told = RefCell::new(Vec::new());
        let clock = Readings(Rc::new(RefCell::new(readings)));
        let tell = |jump: Jump| told.borrow_mut().push(jump.by_ms);
        let watch = watch_clock(&clock, Duration::from_secs(1), Duration::from_millis(500), tell);
        tokio::select! {
            never = watch => match never {},
            () = tokio::time::sleep(Duration::from_millis(8_500)) => {}
        }
        assert_eq!(*told.borrow(), [5_960, -7_000]);
    }
}
