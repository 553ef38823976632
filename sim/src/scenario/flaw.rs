//! The mistakes that a scenario can ask for: each makes a broken twin of the system, which the simulator must catch.

macro_rules! flaws {
    ($($(#[$doc:meta])* $name:ident in $scenario:literal),+ $(,)?) => {
        /// A mistake that somebody has made in a queue like this one.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub enum Flaw {
            /// No mistake.
            #[default]
            None,
            /// Something outlives a run: how many queues this OS process has opened shows in the story. No property is
            /// broken; only comparing two runs of one seed can tell.
            LeaksBetweenRuns,
            $($(#[$doc])* $name),+
        }

        impl Flaw {
            /// Every mistake, with the scenario that is to find it.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$name, $scenario)),+];

            fn identifier(self) -> &'static str {
                match self {
                    Self::None => "None",
                    Self::LeaksBetweenRuns => "LeaksBetweenRuns",
                    $(Self::$name => stringify!($name)),+
                }
            }
        }
    };
}

flaws! {
    /// claim looks for a job first and begins its transaction then (Q6).
    SelectOutsideTheTransaction in "two-workers-one-job",
    /// `BEGIN` instead of `BEGIN IMMEDIATE` (Q6).
    DeferredBegin in "two-workers-many-jobs",
    /// finish compares the owner and nothing else (Q36).
    FinishChecksTheOwnerOnly in "lease-runs-out-during-a-slow-send",
    /// finish takes a ticket whose lease is over, as long as nobody has reclaimed the job (Q36).
    FinishIgnoresExpiry in "lease-runs-out-during-a-slow-send",
    /// claim passes over a job in the very millisecond in which it becomes available (Q29).
    LateAvailability in "every-millisecond-counts",
    /// claim lets a job live in the very millisecond of its deadline (Q26).
    LateDeadline in "every-millisecond-counts",
    /// claim takes a lease to hold in the very millisecond of its end (Q26, Q29).
    LateExpiry in "every-millisecond-counts",
    /// finish takes a ticket in the very millisecond in which its lease ends (Q36).
    FinishAtTheLeasesEnd in "every-millisecond-counts",
    /// A retry that would be available in the very millisecond of the deadline stays pending (Q39).
    RetryAtTheDeadline in "every-millisecond-counts",
    /// Where nothing can be claimed, the quarantine is rolled back (Q28).
    QuarantineRolledBack in "every-millisecond-counts",
    /// redrive begins anew with token 0 (Q11, Q45).
    RedriveResetsTheToken in "redrive-races-a-worker",
    /// redrive commits its audit row before it changes the job (Q46).
    AuditApart in "redrive-races-a-worker",
    /// claim leaves its transaction open, and finish commits it (Q49).
    LockHeldWhileSending in "two-workers-one-job",
    /// renew extends the lease of whoever holds the job (M10, Q36).
    RenewalIgnoresTheToken in "http-renewal-races-expiry",
    /// renew reads the clock before it has the write lock (M10).
    RenewalReadsTheClockFirst in "http-renewal-races-expiry",
    /// The sender sends a second time by itself where it heard nothing (W1).
    ResendsByItself in "http-connection-reset-as-the-request-goes-out",
    /// The sender takes a timeout for a refusal for good (W2).
    TimeoutIsPermanent in "http-timeout-beside-the-reply",
    /// The sender takes any 200 for an acknowledgement, whatever its body says (W2).
    AnyTwoHundredIsOk in "http-wrong-answers",
    /// The receiver commits the inbox row first and its effect then (W3).
    EffectApart in "http-receiver-killed-after-its-commit",
    /// The receiver looks for the id before it begins its transaction (W3).
    KeyCheckedOutside in "http-two-posts-of-one-id",
    /// The receiver acknowledges although its commit failed (W3).
    AnswersDespiteTheCommit in "http-receivers-disk-is-full",
}

impl Flaw {
    /// The word of a scenario file: `finish-ignores-expiry`.
    #[must_use]
    pub fn word(self) -> String {
        let mut word = String::new();
        for letter in self.identifier().chars() {
            if letter.is_ascii_uppercase() && !word.is_empty() {
                word.push('-');
            }
            word.push(letter.to_ascii_lowercase());
        }
        word
    }

    /// Reads the word of a mistake.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .map(|(flaw, _)| *flaw)
            .chain([Self::LeaksBetweenRuns])
            .find(|flaw| flaw.word() == word)
    }
}
