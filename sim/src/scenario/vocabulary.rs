//! The words that a scenario may use for what the engine knows: one word a thing.

/// Processes that every scenario has; no worker may take such a name.
pub const PROCESSES: &[&str] = &["producer", "operator", "receiver"];

/// Phases of an operation, in a choice point's name.
pub const PHASES: &[&str] =
    &["open", "begin", "read", "write", "commit", "rollback", "hook", "send", "close", "run"];

/// What is done at a choice point: a call into the disk or the network, a hook, or the scheduler.
pub const ROLES: &[&str] = &[
    "main.open",
    "main.read",
    "main.write",
    "main.sync",
    "main.truncate",
    "main.lock",
    "main.unlock",
    "journal.open",
    "journal.read",
    "journal.write",
    "journal.sync",
    "journal.truncate",
    "journal.delete",
    "directory.sync",
    "after-claim",
    "after-finish",
    "after-audit",
    "after-redrive",
    "after-renew",
    "after-release",
    "after-commit",
    "before-cursor",
    "before-ack",
    "connect",
    "request",
    "reply",
    "clock",
    "pick",
];

/// What can happen at a choice point.
pub const ACTIONS: &[&str] = &[
    "kill",
    "power-cut",
    "io-error",
    "fsync-error",
    "disk-full",
    "switch",
    "pick",
    "stall",
    "clock-jump",
    "lose",
    "slow",
    "wrong-reply",
    "refuse",
];

/// What a scenario may expect to be reached now and then.
pub const SOMETIMES: &[&str] = &[
    "stale-finish",
    "redelivery",
    "lease-expired",
    "dead-deadline",
    "dead-exhausted",
    "dead-permanent",
    "redrive",
    "restart",
    "busy",
    "hot-journal-rollback",
    "commit-unknown",
    "commit-lost",
];

/// Properties that can fail: those of [`model::PROPERTIES`](crate::model::PROPERTIES), and those of a whole run.
pub const PROPERTIES: &[&str] = &[
    "row-range",
    "row-status",
    "row-kept",
    "token-falls",
    "token-repeats",
    "finished-stays",
    "model",
    "one-live-lease",
    "stale-finish-changes",
    "open-transaction",
    "send-budget",
    "effect-once",
    "ack-durable",
    "cursor-agrees",
    "settles",
];
