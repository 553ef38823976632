//! What a scenario's seeds ought to reach now and then: green without ever having been there is a failure.

macro_rules! milestones {
    ($($(#[$doc:meta])* $variant:ident = $text:literal),+ $(,)?) => {
        /// Something worth reaching.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Milestone {
            $($(#[$doc])* $variant),+
        }

        impl Milestone {
            /// Every milestone.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// Their words in scenario files.
            pub const WORDS: &'static [&'static str] = &[$($text),+];

            /// The word in scenario files and tables.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// Reads the word.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

milestones! {
    /// A job was delivered and finished.
    Done = "done",
    /// A job went back to pending to be tried again.
    Retry = "retry",
    /// A job was claimed after another claim's lease had run out.
    Reclaim = "reclaim",
    /// A finish came too late and changed nothing.
    StaleFinish = "stale-finish",
    /// A receiver was sent a job that had taken effect before.
    Redelivery = "redelivery",
    /// A job died because its deadline passed.
    DeadDeadline = "dead-deadline",
    /// A job died because its attempts were used up.
    DeadExhausted = "dead-exhausted",
    /// A job died because the receiver refused it for good.
    DeadPermanent = "dead-permanent",
    /// A claim found nothing, but committed a quarantine.
    QuarantineOnly = "quarantine-only",
    /// A dead job was given a new life.
    Redriven = "redriven",
    /// A redrive found the job not dead.
    RedriveRefused = "redrive-refused",
    /// A job was enqueued again.
    Duplicate = "duplicate",
    /// An id was enqueued or received with another quantity.
    Conflict = "conflict",
    /// A claim found nothing to do.
    Idle = "idle",
    /// The lock was not to be had within the busy timeout.
    Busy = "busy",
    /// SQLite reported an error other than a busy lock.
    StorageError = "storage-error",
    /// COMMIT failed and its outcome was unknown.
    CommitUnknown = "commit-unknown",
    /// The journal of a transaction that never committed was rolled back by somebody else.
    HotJournal = "hot-journal-rollback",
    /// A power cut took back a commit, as `synchronous=FULL` allows.
    CommitLost = "commit-lost",
    /// A lease was renewed.
    Renewed = "renewed",
    /// A renewal came too late.
    LeaseLost = "lease-lost",
    /// A job was given back unsent.
    Released = "released",
    /// A sender heard nothing in time, or its connection broke.
    NoReply = "no-reply",
    /// A sender was refused for now, by a status that says so (W2).
    RefusedForNow = "refused",
    /// A receiver said how long to wait before the next attempt (W2).
    RetryAfter = "retry-after",
    /// A worker or the receiver ended in good order because it was told to.
    Stopped = "stopped",
    /// An event that had been applied was sent again.
    Resent = "resent",
    /// A stream held something else than the next event: a gap, a conflict, a malformed line.
    BadStream = "bad-stream",
    /// The publisher no longer holds what a consumer needs.
    Resync = "resync",
    /// A consumer died with an event committed and not acknowledged (R42).
    DiedBeforeAck = "died-before-ack",
    /// The publisher died with an event committed and not acknowledged (R43).
    PublisherLost = "publisher-lost",
    /// Several lines shared a transaction.
    Group = "group",
    /// A receiver answered something that acknowledges nothing.
    BadReply = "bad-reply",
}

impl Milestone {
    /// What an error of SQLite is.
    #[must_use]
    pub(super) const fn of_failure(unknown: bool, busy: bool) -> Self {
        match (unknown, busy) {
            (true, _) => Self::CommitUnknown,
            (false, true) => Self::Busy,
            (false, false) => Self::StorageError,
        }
    }
}

/// A set of milestones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Milestones(u64);

impl Milestones {
    /// Adds one.
    pub fn reach(&mut self, milestone: Milestone) {
        self.0 |= 1 << milestone as u8;
    }

    /// Whether it was reached.
    #[must_use]
    pub const fn has(self, milestone: Milestone) -> bool {
        self.0 & (1 << milestone as u8) != 0
    }

    /// Adds all of another set.
    pub fn merge(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Those that were reached.
    pub fn iter(self) -> impl Iterator<Item = Milestone> {
        Milestone::ALL.iter().copied().filter(move |milestone| self.has(*milestone))
    }

    /// The set as a number, to hand to another OS process of the same build.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The reverse of [`Milestones::bits`].
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}
