//! The mistakes that a scenario can ask for: each makes a broken twin of the system, which the simulator must catch.

macro_rules! flaws {
    ($($(#[$doc:meta])* $name:ident in $scenario:literal),+ $(,)?) => {
        /// A mistake that somebody has made in a queue, a worker, a receiver or a consumer like these.
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
    /// claim looks for a job and marks it by its number, in two statements that nothing holds together (Q6).
    ClaimInTwoStatements in "field/double-claim-two-updates",
    /// claim marks a job by its number, and then reads whether it is marked, whoever did it (Q34).
    ClaimRereadsItsMark in "field/double-claim-same-mark",
    /// `BEGIN` instead of `BEGIN IMMEDIATE` (Q6).
    DeferredBegin in "two-workers-many-jobs",
    /// claim begins deferred, and a statement that meets a lock is tried again by itself (Q6).
    StatementTriedAgain in "field/busy-snapshot",
    /// claim reads the clock before it has the write lock (Q25).
    ClaimReadsTheClockFirst in "field/lease-computed-early",
    /// claim lists the jobs whose lease is over, and later sets them pending by their numbers (Q6, Q26).
    RescueByNumber in "field/rescue-overwrites",
    /// claim extends the leases of its owner's name (Q29).
    RestartExtendsItsLeases in "field/worker-id-reuse-keeps-the-dead",
    /// The first claim of a process takes back what its owner's name holds (Q29).
    RestartTakesItsJobsBack in "field/worker-id-reuse-steals",
    /// claim takes a job over some time after it became available, however often its lease was renewed (Q29).
    RescueByElapsedTime in "field/rescue-by-elapsed-time",
    /// claim measures everybody's lease by its own (Q29).
    RescueByTheAskersLease in "field/rescue-by-elapsed-time-of-another",
    /// claim looks for leases that are over on the first page of leased jobs only (Q10).
    SweepOfOnePage in "field/rescue-by-elapsed-time-behind-a-full-page",
    /// claim takes milliseconds for microseconds (Q31).
    LeaseInTheWrongUnit in "field/unit-mismatch",
    /// claim takes over only what this process has claimed before (Q29).
    ReclaimsFromMemory in "field/lost-timer",
    /// claim commits the status first and the end of the lease then (Q6).
    LeaseApart in "field/stuck-running-without-lease",
    /// A leased job whose lease is over stays leased (Q29).
    NeverReclaims in "field/stuck-running-at-a-restart",
    /// A leased job whose attempts are used up never dies (Q26).
    LastAttemptNeverDies in "field/unique-plus-stuck",
    /// An attempt is counted when it fails, not when it is claimed (Q31).
    AttemptsCountedByFinish in "field/crash-not-counted",
    /// Taking a job over does not count as an attempt (Q31).
    ReclaimNotCounted in "field/crash-not-counted-by-the-reclaim",
    /// Whose attempts are used up by crashes dies as if it had been refused for good (Q27).
    CrashIsAPermanentFailure in "field/crash-counted-as-failure",
    /// Taking a job over does not raise its token (Q11).
    ReclaimKeepsTheToken in "field/clock-skew-of-a-replica",
    /// claim takes the job off the queue, and only its process knows of it (Q31).
    ClaimTakesTheJobAway in "field/unique-lock-orphan",
    /// claim never takes a job that waits to be tried again (Q29).
    RetryNeverSelected in "field/retry-never-runs",
    /// enqueue sets a known job up anew (Q22).
    EnqueueOverwrites in "field/duplicate-enqueue-resets",
    /// enqueue sets a known job's attempts to none (Q22).
    EnqueueResetsTheAttempts in "field/duplicate-enqueue-resets-the-attempts",
    /// enqueue looks for the id before it begins its transaction (Q24).
    EnqueueChecksOutside in "field/dedup-vs-prune",
    /// enqueue says that a job is new although the lock was not to be had (Q6).
    BusyEnqueueIsDropped in "field/busy-timeout-zero",
    /// enqueue holds a job back while another one runs, until that one is done (Q21).
    EnqueueWaitsForASlot in "field/lost-wakeup",
    /// finish compares the owner and nothing else (Q36).
    FinishChecksTheOwnerOnly in "lease-runs-out-during-a-slow-send",
    /// finish goes by the job's id and nothing else (Q36).
    FinishById in "field/stale-finish",
    /// finish asks whether the job is leased, not by whom (Q36).
    FinishByStatus in "field/fence-by-name",
    /// finish goes by its own clock and its own ticket: the row may say something else (Q36).
    FinishTrustsItsClock in "field/clock-skew",
    /// finish compares its ticket before it begins its transaction (Q6).
    FinishChecksOutside in "field/rescue-overwrites-a-finish",
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
    /// redrive looks at the job before it begins its transaction (Q43).
    RedriveChecksOutside in "field/lost-update",
    /// redrive forgets the job's budget (Q45).
    RedriveDropsTheBudget in "field/redrive-drops-field",
    /// redrive gives a new life to the living, too (Q43).
    RedriveOfTheLiving in "field/redrive-vs-live",
    /// redrive keeps the attempts of the old life (Q45).
    RedriveKeepsTheAttempts in "field/redrive-keeps-counter",
    /// redrive leaves no audit row (Q44).
    RedriveWithoutAudit in "field/no-redrive",
    /// The finish of a batch compares its first ticket only (Q36).
    BatchFencedByItsFirst in "batches-of-jobs",
    /// The finish of a batch ends at its first stale ticket, and the outcomes after it are lost (Q36).
    BatchEndsAtAStaleTicket in "batches-of-jobs",
    /// The claim of a batch reads the clock before it has the write lock (Q25).
    BatchClaimReadsTheClockFirst in "batches-of-jobs",
    /// The claim of a batch leases one job more than it hands out (Q34).
    BatchClaimForgetsItsFirst in "batches-of-jobs",
    /// claim leaves its transaction open, and finish commits it (Q49).
    LockHeldWhileSending in "two-workers-one-job",
    /// A second connection of the worker reads, and its transaction stays open while a job is sent (Q5, Q49).
    ReadsOnWhileSending in "two-workers-one-job",
    /// renew extends the lease of whoever holds the job (M10, Q36).
    RenewalIgnoresTheToken in "http-renewal-races-expiry",
    /// renew reads the clock before it has the write lock (M10).
    RenewalReadsTheClockFirst in "http-renewal-races-expiry",
    /// Renewals end with the order to stop, before what is being sent has ended (M10).
    HeartbeatStopsBeforeTheDrain in "field/heartbeat-vs-shutdown",
    /// A COMMIT that met a lock counts as done, and its transaction stays open (Q5, A15).
    BusyCommitCountsAsDone in "field/commit-busy",
    /// A finish whose COMMIT met a lock is given up, as if the lock had been met for good (A15).
    BusyCommitIsGivenUp in "field/commit-busy-given-up",
    /// A COMMIT that failed counts as done (Q7).
    FailedCommitCountsAsDone in "field/fsync-ignored",
    /// A COMMIT whose outcome is unknown counts as failed (M8).
    UnknownCommitCountsAsFailed in "field/fsync-ignored-outcome-unknown",
    /// After an error that has ended the transaction, the error of another ROLLBACK comes out instead (Q7).
    RollbackHidesTheError in "field/auto-rollback-masks",
    /// Nothing is synced (Q18, M9).
    NothingIsSynced in "field/wal-crash",
    /// The sender sends a second time by itself where it heard nothing (W1).
    ResendsByItself in "http-connection-reset-as-the-request-goes-out",
    /// The sender takes a timeout for a refusal for good (W2).
    TimeoutIsPermanent in "http-timeout-beside-the-reply",
    /// The sender takes any 200 for an acknowledgement, whatever its body says (W2).
    AnyTwoHundredIsOk in "http-wrong-answers",
    /// The sender takes a 408 for a refusal for good (W2).
    RequestTimeoutIsPermanent in "field/status-class",
    /// The sender gives every attempt an idempotency key of its own (W1).
    FreshKeyPerAttempt in "field/keepalive-race",
    /// The sender does not give a slot of its pool back where it gave up waiting (W1).
    SlotLeakedOnTimeout in "field/leak-on-cancel",
    /// The sender waits for an answer without a limit (W1).
    SendsWithoutALimit in "field/retry-never-runs-behind-a-hung-receiver",
    /// The receiver commits the inbox row first and its effect then (W3).
    EffectApart in "http-receiver-killed-after-its-commit",
    /// The receiver looks for the id before it begins its transaction (W3).
    KeyCheckedOutside in "http-two-posts-of-one-id",
    /// The receiver acknowledges although its commit failed (W3).
    AnswersDespiteTheCommit in "http-receivers-disk-is-full",
    /// The receiver counts every delivery (W3).
    EffectPerDelivery in "field/lease-mid-work",
    /// The receiver forgets an id some time after it first saw it (W3).
    InboxForgets in "field/dedup-window",
    /// The cursor is committed first, ledger and total in a second transaction (R15).
    CursorBeforeTheLedger in "stream-killed-before-ack",
    /// The ACK is written before the event is committed (R30).
    AckBeforeTheCommit in "stream-killed-before-ack",
    /// What is left at the end of the stream counts as a line (R29).
    LastLineWithoutLf in "stream-rogue",
    /// Waiting for a line is interrupted by a tick, and what had been read of it is gone (M5).
    InterruptedReadLosesBytes in "stream-fragmented",
    /// A tick begins to read anew, and what had been read ahead is gone (M5).
    InterruptedReadStartsAnew in "field/cancel-loses-bytes-of-a-line",
    /// An event beyond the next one is applied (R17).
    GapSkipped in "stream-rogue",
    /// The cursor passes over a gap, and what lies in it is never applied (R17).
    CursorPassesOverAGap in "field/skip-forever",
    /// Of two events the later one is done first, and the cursor tells of both (R15, R30).
    AckPastWork in "field/ack-past-gap",
    /// Each connection resumes from where the store stood when the process started (R38).
    ResumesFromTheStart in "stream-lost-ack",
    /// After a connection that brought nothing, the next one starts as new (R38).
    CursorForgotten in "field/stale-cursor",
    /// A repeat is not compared with the ledger (R16).
    RepeatUnchecked in "stream-rogue",
    /// A repeat is acknowledged although nobody knows that its commit was synced (M9).
    RepeatUnsynced in "stream-two-on-one-store",
    /// A commit whose BEGIN waits for a lock is given up, and where BEGIN gets it after all, nobody ends the transaction
    /// (M5, Q5).
    CancelledBeginStaysOpen in "field/cancelled-begin",
    /// An over-long line is split: its head is no event and is passed over, its tail is taken for a line (R37).
    OverlongLineSplit in "stream-rogue",
    /// The connection of a wait that was given up is kept and not closed (R33).
    ConnectionLeaked in "stream-half-open",
    /// Waiting for a line has no limit (R28).
    ReadsWithoutALimit in "field/half-open",
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
