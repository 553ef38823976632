//! The mistakes.

use std::cell::Cell;

macro_rules! flaws {
    ($($(#[$doc:meta])* $name:ident in $scenario:literal),+ $(,)?) => {
        /// A mistake that somebody has made in a consumer like this one.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Flaw {
            /// No mistake.
            None,
            $($(#[$doc])* $name),+
        }

        impl Flaw {
            /// Every mistake, with the scenario that is to find it.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$name, $scenario)),+];
        }
    };
}

flaws! {
    /// The cursor is committed first, ledger and total in a second transaction (R15).
    CursorBeforeTheLedger in "stream-killed-before-ack",
    /// The ACK is written before the event is committed (R30).
    AckBeforeTheCommit in "stream-killed-before-ack",
    /// What is left at the end of the stream counts as a line (R29).
    LastLineWithoutLf in "stream-rogue",
    /// Waiting for a line is interrupted by a tick, and what had been read of it is gone (M5).
    InterruptedReadLosesBytes in "stream-fragmented",
    /// An event beyond the next one is applied (R17).
    GapSkipped in "stream-rogue",
    /// Each connection resumes from where the store stood when the process started (R38).
    ResumesFromTheStart in "stream-lost-ack",
    /// A repeat is not compared with the ledger (R16).
    RepeatUnchecked in "stream-rogue",
    /// A repeat is acknowledged although nobody knows that its commit was synced (M9).
    RepeatUnsynced in "stream-two-on-one-store",
    /// An over-long line is split: its head is no event and is passed over, its tail is taken for a line (R37).
    OverlongLineSplit in "stream-rogue",
    /// The connection of a wait that was given up is kept and not closed (R33).
    ConnectionLeaked in "stream-half-open",
}

thread_local! {
    static FLAW: Cell<Flaw> = const { Cell::new(Flaw::None) };
}

/// The mistake that every twin started on this thread from now on makes.
pub fn make(flaw: Flaw) {
    FLAW.set(flaw);
}

/// Whether this thread's twins make a mistake.
pub fn makes(flaw: Flaw) -> bool {
    FLAW.get() == flaw
}
