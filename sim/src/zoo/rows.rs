//! The faults that real systems had, a row each, and what shows that the real core does not have them: scenarios of
//! the folder `scenarios/field`, and tests.

/// A fault that a real system had.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its number.
    pub id: &'static str,
    /// What kind of fault it is; several rows may be of one kind.
    pub kind: &'static str,
    /// The scenarios that state the right value, by their names in `scenarios/field`.
    pub scenarios: &'static [&'static str],
    /// Tests of the right value: the file, from the root of the workspace, and the function.
    pub tests: &'static [(&'static str, &'static str)],
}

const fn row(id: &'static str, kind: &'static str, scenarios: &'static [&'static str]) -> Row {
    Row { id, kind, scenarios, tests: &[] }
}

const fn tested(row: Row, tests: &'static [(&'static str, &'static str)]) -> Row {
    Row { tests, ..row }
}

/// Every row.
pub const ROWS: &[Row] = &[
    row("Q001", "double-claim", &["double-claim-same-mark"]),
    row("Q002", "double-claim", &["double-claim-two-updates"]),
    row("Q004", "double-claim", &["double-claim-three-workers"]),
    row("Q005", "double-claim", &["double-claim-select-then-update"]),
    row("Q007", "lease-computed-early", &["lease-computed-early"]),
    row("Q008", "stale-finish", &["stale-finish"]),
    row("Q010", "rescue-overwrites", &["rescue-overwrites"]),
    row("Q011", "rescue-overwrites", &["rescue-overwrites-a-finish"]),
    row("Q013", "heartbeat-vs-shutdown", &["heartbeat-vs-shutdown"]),
    row("Q014", "late-heartbeat", &["late-heartbeat"]),
    row("Q016", "fence-by-name", &["fence-by-name"]),
    row("Q017", "worker-id-reuse", &["worker-id-reuse-keeps-the-dead", "worker-id-reuse-steals"]),
    row("Q019", "rescue-by-elapsed-time", &["rescue-by-elapsed-time"]),
    row(
        "Q020",
        "rescue-by-elapsed-time",
        &["rescue-by-elapsed-time-of-another", "rescue-by-elapsed-time-behind-a-full-page"],
    ),
    row("Q022", "lease-mid-work", &["lease-mid-work"]),
    tested(
        row("Q023", "unit-mismatch", &["unit-mismatch"]),
        &[("src/tests/field.rs", "unit_mismatch_a_lease_of_20s_lasts_twenty_seconds")],
    ),
    row("Q025", "lost-timer", &["lost-timer"]),
    tested(
        row("Q026", "stuck-running", &["stuck-running-without-lease"]),
        &[
            ("src/tests/queue/hand_made.rs", "m12_a_bad_row_is_passed_over_left_alone_and_listed"),
            ("src/tests/queue/keeping.rs", "m12_the_doctor_names_what_is_wrong"),
            ("src/tests/queue/keeping.rs", "the_doctor_mends_what_needs_no_guess"),
        ],
    ),
    row("Q028", "stuck-running", &["stuck-running-at-a-restart"]),
    row("Q029", "stuck-running", &["stuck-running-locked-for-good"]),
    row("Q031", "unique-plus-stuck", &["unique-plus-stuck"]),
    row("Q032", "crash-not-counted", &["crash-not-counted"]),
    row("Q034", "crash-not-counted", &["crash-not-counted-by-the-reclaim"]),
    row("Q035", "crash-counted-as-failure", &["crash-counted-as-failure"]),
    row("Q037", "duplicate-enqueue-resets", &["duplicate-enqueue-resets"]),
    row("Q038", "duplicate-enqueue-resets", &["duplicate-enqueue-resets-the-attempts"]),
    row("Q040", "lost-update", &["lost-update"]),
    row("Q041", "redrive-drops-field", &["redrive-drops-field"]),
    row("Q043", "redrive-vs-live", &["redrive-vs-live"]),
    row("Q044", "redrive-keeps-counter", &["redrive-keeps-counter"]),
    row("Q046", "no-redrive", &["no-redrive"]),
    row("Q047", "unique-lock-orphan", &["unique-lock-orphan"]),
    tested(
        row("Q049", "lost-wakeup", &["lost-wakeup"]),
        &[("src/shell/worker/tests.rs", "an_enqueue_in_this_process_wakes_an_idle_worker")],
    ),
    row("Q050", "dedup-vs-prune", &["dedup-vs-prune"]),
    row("Q052", "busy-snapshot", &["busy-snapshot"]),
    tested(
        row("Q053", "commit-busy", &["commit-busy"]),
        &[("src/tests/queue/failure.rs", "a15_a_commit_that_a_reader_blocks_is_rolled_back")],
    ),
    tested(
        row("Q055", "commit-busy", &["commit-busy-given-up"]),
        &[("src/tests/field.rs", "commit_busy_is_the_same_class_at_begin_at_a_statement_and_at_commit")],
    ),
    tested(
        row("Q056", "cancelled-begin", &["cancelled-begin"]),
        &[("src/tests/field.rs", "cancelled_begin_leaves_a_connection_that_works_and_no_lock")],
    ),
    row("Q058", "busy-timeout-zero", &["busy-timeout-zero"]),
    row("Q059", "auto-rollback-masks", &["auto-rollback-masks"]),
    // No twin makes this mistake: it is that a child which was forked uses, or only closes, the descriptors of its
    // parent, which takes the parent's POSIX locks away. The simulated computer has locks, but neither fork nor
    // descriptors that two processes share; a twin on it would have to drop a lock for no reason, and what the judges
    // then see would be that lock, not this mistake. The test has real processes.
    tested(
        row("Q061", "fork-corruption", &[]),
        &[("src/tests/field.rs", "fork_corruption_no_child_inherits_the_file_and_it_stays_intact")],
    ),
    tested(
        row("Q062", "wal-crash", &["wal-crash"]),
        &[("src/tests/field.rs", "wal_crash_two_processes_killed_at_any_moment_leave_an_intact_file")],
    ),
    row("Q064", "fsync-ignored", &["fsync-ignored"]),
    row("Q065", "fsync-ignored", &["fsync-ignored-outcome-unknown"]),
    row("Q067", "clock-skew", &["clock-skew"]),
    row("Q068", "clock-skew", &["clock-skew-of-a-replica"]),
    row("Q070", "commit-before-process", &["commit-before-process"]),
    row("Q071", "ack-past-gap", &["ack-past-gap"]),
    row("Q073", "skip-forever", &["skip-forever"]),
    row("Q074", "gap", &["gap"]),
    row("Q076", "stale-cursor", &["stale-cursor"]),
    row("Q077", "dedup-window", &["dedup-window"]),
    row("Q079", "inbox-race", &["inbox-race"]),
    row("Q080", "inbox-two-tx", &["inbox-two-tx"]),
    row("Q082", "cancel-loses-bytes", &["cancel-loses-bytes"]),
    row("Q083", "cancel-loses-bytes", &["cancel-loses-bytes-of-a-line"]),
    tested(
        row("Q085", "oversize-line", &["oversize-line"]),
        &[("src/tests/field.rs", "oversize_line_is_one_error_and_little_memory")],
    ),
    row("Q086", "eof-partial", &["eof-partial"]),
    row("Q088", "half-open", &["half-open"]),
    tested(
        row("Q089", "leak-on-cancel", &["leak-on-cancel"]),
        &[("src/tests/field.rs", "leak_on_cancel_ten_sends_given_up_and_the_eleventh_succeeds")],
    ),
    row("Q091", "keepalive-race", &["keepalive-race"]),
    row("Q092", "silent-post-retry", &["silent-post-retry"]),
    row("Q094", "status-class", &["status-class"]),
    row("Q095", "2xx-without-write", &["2xx-without-write"]),
    row("Q097", "retry-never-runs", &["retry-never-runs", "retry-never-runs-behind-a-hung-receiver"]),
];
