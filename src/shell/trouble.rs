//! How often a trouble that lasts is logged: at once, then now and then with how many were left out, and once when it is
//! over. It reads no clock: the time is whatever its owner has read last.

use std::cell::Cell;

/// The least time between two lines about the same trouble, in ms.
const EVERY_MS: i64 = 60_000;
/// How long nothing must have failed for a success that wrote nothing to count, in ms: a full disk does not show in it.
const QUIET_MS: i64 = 5_000;

/// One kind of trouble, such as claims that fail.
#[derive(Debug, Default)]
pub struct Trouble(Cell<Option<Lasting>>);

/// A trouble that is not over yet. Times are in ms since 1970.
#[derive(Debug, Clone, Copy)]
struct Lasting {
    failures: u64,
    left_out: u64,
    said_ms: i64,
    last_ms: i64,
}

/// What a line about a failure is to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Failures since the last line, where there are any: they have none of their own.
    pub left_out: Option<u64>,
}

impl Trouble {
    /// Something failed, at `now_ms` ms since 1970. `None` where that is not to be logged.
    #[must_use]
    pub fn failed(&self, now_ms: i64) -> Option<Line> {
        let Some(lasting) = self.0.get() else {
            self.0.set(Some(Lasting { failures: 1, left_out: 0, said_ms: now_ms, last_ms: now_ms }));
            return Some(Line { left_out: None });
        };
        // A clock that was set back must not make it silent.
        let is_due = !(0..EVERY_MS).contains(&(now_ms - lasting.said_ms));
        let failures = lasting.failures + 1;
        let (left_out, said_ms) = if is_due { (0, now_ms) } else { (lasting.left_out + 1, lasting.said_ms) };
        self.0.set(Some(Lasting { failures, left_out, said_ms, last_ms: now_ms }));
        is_due.then_some(Line { left_out: Some(lasting.left_out).filter(|count| *count > 0) })
    }

    /// Something succeeded, and what it wrote is in place. After a trouble: how many failures that was.
    pub fn worked(&self) -> Option<u64> {
        self.0.take().map(|lasting| lasting.failures)
    }

    /// Something succeeded that had nothing to write.
    pub fn idled(&self, now_ms: i64) -> Option<u64> {
        let is_quiet = |lasting: Lasting| !(0..QUIET_MS).contains(&(now_ms - lasting.last_ms));
        if self.0.get().is_some_and(is_quiet) { self.worked() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thirty failures a second are a line a minute; each failure is told of, or counted as left out.
    #[test]
    fn a_trouble_that_lasts_is_a_line_a_minute() {
        let trouble = Trouble::default();
        let lines: Vec<_> = (0..30 * 150).filter_map(|nth| trouble.failed(nth * 1_000 / 30)).collect();
        let left_out: Vec<_> = lines.iter().map(|line| line.left_out).collect();
        assert_eq!(left_out, [None, Some(1_799), Some(1_799)]);
        assert_eq!((trouble.worked(), trouble.worked()), (Some(4_500), None), "its end is told once");
        assert_eq!(trouble.failed(150_001), Some(Line { left_out: None }), "the next one is a new one");
    }

    #[test]
    fn a_clock_set_back_does_not_silence_it() {
        let trouble = Trouble::default();
        assert!(trouble.failed(1_000_000).is_some() && trouble.failed(1_000_001).is_none());
        assert_eq!(trouble.failed(5), Some(Line { left_out: Some(1) }));
    }

    /// Claims that find nothing to claim write nothing, so on a full disk they succeed between those that fail.
    #[test]
    fn a_success_that_wrote_nothing_counts_after_a_while_only() {
        let trouble = Trouble::default();
        assert_eq!(trouble.idled(0), None);
        let _ = trouble.failed(0);
        let _ = trouble.failed(4_000);
        assert_eq!((trouble.idled(5_000), trouble.idled(8_999)), (None, None));
        assert_eq!((trouble.idled(9_000), trouble.idled(9_000)), (Some(2), None));
    }
}
