//! The values of the resumable consumer: numbered events and a position among them.

use std::fmt;

use super::invalid::{Invalid, in_range};
use super::job::ranged;

/// The highest sequence number (R4).
const SEQ_MAX: i64 = 2_147_483_647;

ranged!(
    /// An event's sequence number, 0 to 2147483647 (R4).
    Seq, "seq", 0, SEQ_MAX
);
ranged!(
    /// What an event adds to the total, -1000 to 1000 (R4).
    Delta, "delta", -1000, 1000
);
ranged!(
    /// The last event that was applied, -1 (none yet) to 2147483647 (R8, R21).
    Cursor, "last", -1, SEQ_MAX
);
ranged!(
    /// The most events that a replay returns, 1 to 16 (R21).
    Limit, "limit", 1, 16
);

impl Cursor {
    /// Where a new store stands: before the first event (R8).
    pub const START: Self = Self(-1);

    /// The event that follows; none after the highest number (R15).
    #[must_use]
    pub const fn next(self) -> Option<Seq> {
        if self.0 == SEQ_MAX { None } else { Some(Seq(self.0 + 1)) }
    }

    /// Whether the event `seq` lies at or before this position.
    #[must_use]
    pub const fn covers(self, seq: Seq) -> bool {
        seq.0 <= self.0
    }
}

impl From<Seq> for Cursor {
    /// The position after this event was applied.
    fn from(seq: Seq) -> Self {
        Self(seq.0)
    }
}

impl Seq {
    /// The first event of a whole history.
    pub const ZERO: Self = Self(0);

    /// The position before this event.
    #[must_use]
    pub const fn before(self) -> Cursor {
        Cursor(self.0 - 1)
    }
}

impl Limit {
    /// The largest window: 16.
    pub const MAX: Self = Self(16);
}

macro_rules! shown {
    ($($name:ident)+) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )+};
}
shown!(Seq Delta Cursor Limit);

/// One event of the stream (R6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamEvent {
    /// Its number.
    pub seq: Seq,
    /// What it adds to the total.
    pub delta: Delta,
}

impl StreamEvent {
    /// Checks both numbers.
    ///
    /// # Errors
    /// [`Invalid`] where `seq` is outside 0 to 2147483647 or `delta` outside -1000 to 1000.
    pub fn new(seq: i64, delta: i64) -> Result<Self, Invalid> {
        Ok(Self { seq: Seq::new(seq)?, delta: Delta::new(delta)? })
    }

    /// The line on the wire: `EVENT <seq> <delta>` and LF (R3).
    #[must_use]
    pub fn to_line(self) -> String {
        format!("EVENT {} {}\n", self.seq, self.delta)
    }
}

/// What a publisher holds, told to a consumer that it cannot continue for (W4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Resync {
    first: Seq,
    last: Cursor,
}

impl Resync {
    /// Puts a range together.
    ///
    /// # Errors
    /// [`Invalid`] where `last` lies before `first` - 1 (which stands for an empty log).
    pub fn new(first: Seq, last: Cursor) -> Result<Self, Invalid> {
        in_range("last", last.get(), first.before().get(), SEQ_MAX)?;
        Ok(Self { first, last })
    }

    /// The first event held.
    #[must_use]
    pub const fn first(self) -> Seq {
        self.first
    }

    /// The last event held; `first` - 1 where the log is empty.
    #[must_use]
    pub const fn last(self) -> Cursor {
        self.last
    }

    /// The line on the wire: `RESYNC <first> <last>` and LF (W4).
    #[must_use]
    pub fn to_line(self) -> String {
        format!("RESYNC {} {}\n", self.first, self.last)
    }
}

impl fmt::Display for Resync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R4, R8, R21: each range holds at its ends and nowhere beyond.
    #[test]
    fn ranges_hold_at_their_boundaries() {
        for (low, high, make) in [
            (0, SEQ_MAX, (|n| Seq::new(n).map(Seq::get)) as fn(i64) -> Result<i64, Invalid>),
            (-1000, 1000, |n| Delta::new(n).map(Delta::get)),
            (-1, SEQ_MAX, |n| Cursor::new(n).map(Cursor::get)),
            (1, 16, |n| Limit::new(n).map(Limit::get)),
        ] {
            assert_eq!(make(low).unwrap(), low);
            assert_eq!(make(high).unwrap(), high);
            assert_eq!(make(low - 1).unwrap_err().value, (low - 1).to_string());
            assert_eq!(make(high + 1).unwrap_err().value, (high + 1).to_string());
        }
    }

    /// R15: the highest number is the last that can be applied.
    #[test]
    fn nothing_follows_the_highest_number() {
        assert_eq!(Cursor::START.next().map(Seq::get), Some(0));
        assert_eq!(Cursor::new(SEQ_MAX - 1).unwrap().next().map(Seq::get), Some(SEQ_MAX));
        assert_eq!(Cursor::new(SEQ_MAX).unwrap().next(), None);
    }

    /// W4: an empty log is a range that ends before it starts, by one and no more.
    #[test]
    fn a_resync_range_ends_at_most_one_before_its_start() {
        let first = Seq::new(10).unwrap();
        assert!(Resync::new(first, Cursor::new(9).unwrap()).is_ok());
        assert!(Resync::new(first, Cursor::new(8).unwrap()).is_err());
    }
}
