//! Long changes in pieces: after each transaction as long a pause as it took, so that others get their turn. Whoever
//! waits for SQLite's lock looks for it now and then only, and would hardly ever meet the moment between two
//! transactions that follow at once.

use std::time::Duration;

use ackward::port::Clock;

/// The least pause between two transactions, and the longest: a transaction may have waited for its lock.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The pieces of one change, one after the other.
pub struct Pieces<C> {
    clock: C,
    last: Option<Last>,
}

/// The piece before: when it ended, and the pause to be made from then on.
struct Last {
    ended_ms: i64,
    pause: Duration,
}

impl<C: Clock> Pieces<C> {
    /// None yet.
    pub const fn new(clock: C) -> Self {
        Self { clock, last: None }
    }

    /// Runs the next piece, once the pause after the one before is over. The time that has passed since then counts.
    pub async fn next<T>(&mut self, piece: impl FnOnce() -> T) -> T {
        if let Some(Last { ended_ms, pause }) = self.last.take() {
            let left = pause.saturating_sub(ms(self.now_ms() - ended_ms));
            if !left.is_zero() {
                self.clock.sleep(left).await;
            }
        }
        let began_ms = self.now_ms();
        let done = piece();
        let ended_ms = self.now_ms();
        self.last = Some(Last { ended_ms, pause: ms(ended_ms - began_ms).clamp(PAUSE_MIN, PAUSE_MAX) });
        done
    }

    /// For pauses only: a clock that fails or jumps costs no more than one of them.
    fn now_ms(&self) -> i64 {
        self.clock.now().map_or(0, |now| now.get())
    }
}

/// A span that a clock which was set back makes 0.
fn ms(span_ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(span_ms).unwrap_or(0))
}

#[cfg(test)]
pub mod tests {
    use std::cell::{Cell, RefCell};
    use std::future::ready;
    use std::rc::Rc;

    use ackward::rules::{Invalid, Millis};

    use super::*;

    /// A clock that stands still but for the waits that are asked of it, which it writes down.
    #[derive(Clone, Default)]
    pub struct Fake(Rc<(Cell<i64>, RefCell<Vec<u128>>)>);

    impl Fake {
        pub fn pass(&self, ms: i64) {
            self.0.0.set(self.0.0.get() + ms);
        }

        /// The waits so far, in ms.
        pub fn waits(&self) -> Vec<u128> {
            self.0.1.borrow().clone()
        }
    }

    impl Clock for Fake {
        fn now(&self) -> Result<Millis, Invalid> {
            Millis::new(self.0.0.get())
        }

        fn sleep(&self, duration: Duration) -> impl Future<Output = ()> {
            self.0.1.borrow_mut().push(duration.as_millis());
            self.pass(i64::try_from(duration.as_millis()).unwrap());
            ready(())
        }
    }

    /// Runs to its end what waits for nothing but a fake clock.
    pub fn run<T>(future: impl Future<Output = T>) -> T {
        futures_util::FutureExt::now_or_never(future).expect("a fake clock never waits")
    }

    /// As long as the piece took, at least 20 ms and at most a second, less what was spent elsewhere; none before the
    /// first, and none after the last.
    #[test]
    fn each_piece_is_followed_by_a_pause_as_long_as_itself() {
        let clock = Fake::default();
        let mut pieces = Pieces::new(clock.clone());
        let mut piece = |took_ms: i64, elsewhere_ms: i64| {
            run(pieces.next(|| clock.pass(took_ms)));
            clock.pass(elsewhere_ms);
        };
        for (took_ms, elsewhere_ms) in [(5, 0), (300, 0), (50_000, 0), (40, 30), (40, 500), (0, -700), (1, 0)]
        {
            piece(took_ms, elsewhere_ms);
        }
        assert_eq!(clock.waits(), [20, 300, 1_000, 10, 20]);
    }
}
