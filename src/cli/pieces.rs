//! Long changes in pieces, with pauses between the transactions so that others get their turn. Whoever waits for
//! SQLite's lock looks for it now and then only, and would hardly ever meet the moment between two transactions that
//! follow at once.
//!
//! Where others have committed lately, each piece is followed by a pause as long as itself. Who only waits, and never
//! gets in, is not to be seen; so where nobody has, a pause that is an eighth as long is made all the same, whenever
//! enough of it has come together: it lets whoever waits in, and the commit that follows is seen.

use std::time::Duration;

use ackward::adapter::SystemClock;
use ackward::port::Clock;
use ackward::storage::Queue;

/// The least pause between two transactions, and the longest: a transaction may have waited for its lock.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// What a piece counts for at least: the clock tells no less.
const PIECE_MIN: Duration = Duration::from_millis(1);
/// How much longer the work is than the pauses where nobody else is seen.
const ALONE: u32 = 8;
/// How long others count as being there once they have committed, in ms: longer than an idle worker sleeps.
const SEEN_MS: i64 = 2_000;

/// The shortest wait between two reads, in which a waiting worker tries again, and the longest.
const TURN_MIN: Duration = Duration::from_millis(3);
const TURN_MAX: Duration = Duration::from_millis(100);

/// The wait after a read that began then: as long as it took, since a read holds up whoever commits.
pub fn turn(began_ms: i64) -> Duration {
    ms(now_ms() - began_ms).clamp(TURN_MIN, TURN_MAX)
}

/// For turns only, in ms: a clock that fails makes them short.
pub fn now_ms() -> i64 {
    SystemClock.now().map_or(0, |now| now.get())
}

/// The pieces of one change, one after the other.
pub struct Pieces<C> {
    clock: C,
    /// When the piece before ended, in ms.
    ended_ms: i64,
    /// The pause to be made from then on.
    owed: Duration,
    others: Others,
}

/// Whether anybody else has committed to the file.
#[derive(Default)]
struct Others {
    /// What SQLite said last: another number each time that another connection has committed.
    version: Option<i64>,
    /// When they were last seen, in ms.
    seen_ms: Option<i64>,
}

impl<C: Clock> Pieces<C> {
    /// None yet.
    pub fn new(clock: C) -> Self {
        Self { clock, ended_ms: 0, owed: Duration::ZERO, others: Others::default() }
    }

    /// Runs the next piece, once the pause that is due after those before is over. The time that has passed since then
    /// counts.
    pub async fn next<T>(&mut self, queue: &mut Queue, piece: impl FnOnce(&mut Queue) -> T) -> T {
        let is_due = self.owed >= PAUSE_MIN;
        self.owed = self.owed.saturating_sub(ms(self.now_ms() - self.ended_ms));
        if is_due && !self.owed.is_zero() {
            self.clock.sleep(self.owed).await;
            self.owed = Duration::ZERO;
        }
        let began_ms = self.now_ms();
        self.others.look(queue, began_ms);
        let done = piece(queue);
        self.ended_ms = self.now_ms();
        let took = ms(self.ended_ms - began_ms);
        self.owed = if self.others.are_there(self.ended_ms) {
            took.clamp(PAUSE_MIN, PAUSE_MAX)
        } else {
            (self.owed + took.max(PIECE_MIN) / ALONE).min(PAUSE_MAX)
        };
        done
    }

    /// For pauses only: a clock that fails or jumps costs no more than one of them.
    fn now_ms(&self) -> i64 {
        self.clock.now().map_or(0, |now| now.get())
    }
}

impl Others {
    /// Looks whether anybody has committed since the last time. A file that is locked is one that others use.
    fn look(&mut self, queue: &Queue, now_ms: i64) {
        let version = queue.connection().query_row("PRAGMA data_version", [], |row| row.get(0)).ok();
        let is_first = self.version.is_none() && self.seen_ms.is_none();
        if version.is_none() || (version != self.version && !is_first) {
            self.seen_ms = Some(now_ms);
        }
        self.version = version;
    }

    /// Whether they were seen lately. A clock that was set back does not drive them away.
    fn are_there(&self, now_ms: i64) -> bool {
        self.seen_ms.is_some_and(|seen_ms| now_ms - seen_ms < SEEN_MS)
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
    use ackward::storage::{Durability, OpenOptions};

    use super::*;

    /// A clock that stands still but for the waits that are asked of it, which it writes down.
    #[derive(Clone, Default)]
    pub struct Fake(Rc<Inner>);

    #[derive(Default)]
    struct Inner {
        now_ms: Cell<i64>,
        waits: RefCell<Vec<u128>>,
        hook: Option<Box<dyn Fn()>>,
    }

    impl Fake {
        /// One that does something whenever it is looked at: between two transactions, that is.
        pub fn looked_at(hook: impl Fn() + 'static) -> Self {
            Self(Rc::new(Inner { hook: Some(Box::new(hook)), ..Inner::default() }))
        }

        pub fn pass(&self, ms: i64) {
            self.0.now_ms.set(self.0.now_ms.get() + ms);
        }

        /// The waits so far, in ms.
        pub fn waits(&self) -> Vec<u128> {
            self.0.waits.borrow().clone()
        }
    }

    impl Clock for Fake {
        fn now(&self) -> Result<Millis, Invalid> {
            self.0.hook.iter().for_each(|hook| hook());
            Millis::new(self.0.now_ms.get())
        }

        fn sleep(&self, duration: Duration) -> impl Future<Output = ()> {
            self.0.waits.borrow_mut().push(duration.as_millis());
            self.pass(i64::try_from(duration.as_millis()).unwrap());
            ready(())
        }
    }

    /// Runs to its end what waits for nothing but a fake clock.
    pub fn run<T>(future: impl Future<Output = T>) -> T {
        futures_util::FutureExt::now_or_never(future).expect("a fake clock never waits")
    }

    /// A queue file, and somebody else on it.
    struct Site {
        queue: Queue,
        peer: Queue,
        _dir: tempfile::TempDir,
    }

    impl Site {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("queue.db");
            let open = || Queue::open(&path, &OpenOptions::new(Durability::Full)).unwrap();
            Self { queue: open(), peer: open(), _dir: dir }
        }
    }

    fn commit(queue: &Queue, nth: i64) {
        queue.connection().execute_batch(&format!("PRAGMA user_version = {nth}")).unwrap();
    }

    /// With others at it a pause is as long as the piece took, at least 20 ms and at most a second, less what was spent
    /// elsewhere; none before the first, and none after the last.
    #[test]
    fn with_others_each_piece_is_followed_by_a_pause_as_long_as_itself() {
        let Site { mut queue, peer, _dir } = Site::new();
        let clock = Fake::default();
        let mut pieces = Pieces::new(clock.clone());
        run(pieces.next(&mut queue, |_| ()));
        let steps = [(5, 0), (300, 0), (50_000, 0), (40, 30), (40, 500), (0, -700), (1, 0)];
        for (nth, (took_ms, elsewhere_ms)) in (1..).zip(steps) {
            commit(&peer, nth);
            run(pieces.next(&mut queue, |queue| {
                // What it commits itself is no sign of others.
                commit(queue, 100 + nth);
                clock.pass(took_ms);
            }));
            // Set back, it must not take the sign away.
            clock.pass(elsewhere_ms);
        }
        assert_eq!(clock.waits(), [20, 300, 1_000, 10, 20]);
    }

    /// Alone, one part in nine is pauses, none of them shorter than 20 ms; time spent elsewhere is a pause as well.
    #[test]
    fn alone_a_pause_is_made_now_and_then() {
        let Site { mut queue, peer: _peer, _dir } = Site::new();
        let clock = Fake::default();
        let mut pieces = Pieces::new(clock.clone());
        let mut step = |took_ms: i64, elsewhere_ms: i64| {
            run(pieces.next(&mut queue, |queue| {
                commit(queue, took_ms);
                clock.pass(took_ms);
            }));
            clock.pass(elsewhere_ms);
            clock.waits()
        };
        for _ in 0..40 {
            step(40, 0);
        }
        assert_eq!(step(800, 0), [20; 10], "each after 160 ms");
        assert_eq!(step(80_000, 0)[10..], [100], "an eighth of 800 ms");
        assert_eq!(step(80, 5)[11..], [1_000], "never more than a second");
        assert_eq!(step(120, 500)[12..], [] as [u128; 0]);
        assert_eq!(step(8, 0)[12..], [] as [u128; 0], "the time elsewhere was pause enough");
    }

    /// As long as the read took, in its bounds; a clock that was set back makes it the shortest.
    #[test]
    fn others_have_their_turn_after_a_read() {
        assert_eq!(turn(0), TURN_MAX);
        assert_eq!(turn(now_ms() + 60_000), TURN_MIN);
        assert!(TURN_MIN < turn(now_ms() - 50));
    }

    /// A worker that has got in once counts as being there for two seconds.
    #[test]
    fn others_are_there_for_a_while_after_they_have_committed() {
        let Site { mut queue, peer, _dir } = Site::new();
        let clock = Fake::default();
        let mut pieces = Pieces::new(clock.clone());
        let mut step = || run(pieces.next(&mut queue, |_| clock.pass(100)));
        step();
        commit(&peer, 1);
        for _ in 0..20 {
            step();
        }
        assert_eq!(clock.waits()[..10], [100; 10]);
        assert_eq!(clock.waits()[10..], [25, 25, 25, 25]);
    }
}
