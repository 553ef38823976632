//! A deviation in plain words: what reads as a story in a shrunk scenario file.

use super::{Action, Deviation, Kind, Phase, PointName, REFUSALS, Role};

impl Deviation {
    /// The deviation as a sentence: `As worker-a syncs the journal in claim 1, it is killed.`
    #[must_use]
    pub fn in_words(&self) -> String {
        let what = what(&self.action);
        if self.at.phase == Phase::Power {
            let PointName { role, count, .. } = &self.at;
            return format!("At the power cut, {} {count} {what}.", part(*role));
        }
        format!("As {} {}, {what}.", self.at.process, when(&self.at))
    }
}

fn when(at: &PointName) -> String {
    let place = match at.role {
        Role::Resume => "is about to go on".to_owned(),
        // A worker's own: whoever serves writes a reply as it accepts, or without any operation.
        Role::Reply if is_of_a_worker(&at.operation) => "hears its answer".to_owned(),
        role => does(role).to_owned(),
    };
    let operation = match at.operation.as_str() {
        "start" => "before its first operation".to_owned(),
        operation if at.phase == Phase::Wait || at.phase == Phase::Message => {
            format!("in or after {operation} {}", at.ordinal)
        }
        operation => format!("in {operation} {}", at.ordinal),
    };
    let life = if at.incarnation > 1 { format!(" of life {}", at.incarnation) } else { String::new() };
    format!("{place} {operation}{life}")
}

/// Whether an operation is one of a worker's.
fn is_of_a_worker(operation: &str) -> bool {
    ["claim", "finish", "renew", "release"].iter().any(|word| operation.starts_with(word))
}

fn does(role: Role) -> &'static str {
    match role {
        Role::DbOpen => "opens the database",
        Role::DbRead => "reads a page",
        Role::DbWrite => "writes a page",
        Role::DbTruncate => "changes the file's length",
        Role::DbSync => "syncs the database",
        Role::DbSize => "asks for the file's length",
        Role::DbLockShared => "asks for the lock to read",
        Role::DbLockReserved => "asks for the lock to write",
        Role::DbLockExclusive => "asks for the lock to commit",
        Role::DbCheckReserved => "looks whether somebody is writing",
        Role::DbUnlock => "gives its lock back",
        Role::DbAccess => "looks whether the file exists",
        Role::DbDelete => "deletes a file",
        Role::JournalOpen => "opens the journal",
        Role::JournalRead => "reads the journal",
        Role::JournalWrite => "writes the journal",
        Role::JournalTruncate => "cuts the journal short",
        Role::JournalSync => "syncs the journal",
        Role::JournalSize => "asks for the journal's length",
        Role::JournalAccess => "looks whether there is a journal",
        Role::JournalDelete => "deletes the journal, which is the commit,",
        Role::DirSync => "syncs the directory",
        Role::Sleep => "waits for a lock",
        Role::Now => "looks at its clock",
        Role::Connect => "connects",
        Role::Request => "writes to the server",
        Role::Reply => "writes to the client",
        Role::Serve => "serves a request",
        Role::Resume | Role::Other | Role::Entry | Role::Sector | Role::Length => "does something else",
        Role::HookAfterClaim
        | Role::HookAfterFinish
        | Role::HookAfterAudit
        | Role::HookAfterRedrive
        | Role::HookAfterRenew
        | Role::HookAfterRelease
        | Role::HookAfterAccept
        | Role::HookAfterCommit
        | Role::HookBeforeCursor
        | Role::HookBeforeAck => hook(role),
    }
}

fn hook(role: Role) -> &'static str {
    match role {
        Role::HookAfterCommit => "has committed",
        Role::HookBeforeCursor => "is about to move the cursor",
        Role::HookBeforeAck => "is about to send its ACK",
        _ => "has made its change and not committed it",
    }
}

fn part(role: Role) -> &'static str {
    match role {
        Role::Entry => "unsynced directory entry",
        Role::Length => "unsynced length",
        _ => "unsynced sector",
    }
}

fn what(action: &Action) -> String {
    match action {
        Action::Process(_, other) => format!("{other} runs first"),
        Action::Amount(kind, amount) => of_amount(*kind, *amount),
        Action::Plain(kind) => of_kind(*kind).to_owned(),
    }
}

fn of_amount(kind: Kind, amount: i64) -> String {
    match kind {
        Kind::Stall => format!("it stands still for {amount} ms"),
        Kind::ClockJump => format!("its clock jumps by {amount} ms"),
        Kind::Slow => format!("the message takes {amount} ms longer"),
        Kind::Partition => format!("the two machines cannot reach each other for {amount} ms"),
        Kind::Fragment => format!("the bytes arrive in two pieces, the first {amount} long"),
        Kind::WrongReply => format!("the answer is wrong, in way {amount}"),
        Kind::BadLine => format!("the rules of the stream are broken, in way {amount}"),
        Kind::Refused => format!("the request is refused for now, with {amount}"),
        kind => format!("{} ({amount})", of_kind(kind)),
    }
}

fn of_kind(kind: Kind) -> &'static str {
    match kind {
        Kind::IoError => "the call fails with an I/O error",
        Kind::FsyncError => "the sync fails",
        Kind::DiskFull => "the disk is full",
        Kind::Kill | Kind::HookKill => "it is killed",
        Kind::PowerCut => "its machine loses power",
        Kind::Keep => "is on the disk all the same",
        Kind::HookError => "the hook returns an error",
        Kind::RequestLost => "the request never arrives",
        Kind::ReplyLost => "the reply never arrives",
        Kind::Terminate => "it is told to end",
        Kind::ConnectRefused => "the connection is refused",
        Kind::ConnectLost => "nobody answers",
        Kind::Reset => "the connection is reset",
        Kind::HalfOpen => "what it writes is swallowed from here on",
        kind => kind.as_str(),
    }
}

/// A plainer action in the place of this one, plainest first.
pub(super) fn plainer(action: &Action) -> Vec<Action> {
    match action {
        Action::Plain(Kind::PowerCut) => vec![Action::Plain(Kind::Kill)],
        Action::Plain(Kind::HalfOpen) => {
            vec![Action::Plain(Kind::RequestLost), Action::Plain(Kind::ReplyLost)]
        }
        Action::Amount(Kind::Partition, ms) => vec![Action::Amount(Kind::Slow, *ms)],
        Action::Amount(Kind::Refused, status) if *status != REFUSALS[0] => {
            vec![Action::Amount(Kind::Refused, REFUSALS[0])]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deviation_reads_as_a_sentence() {
        let words = |at: &str, action: &str| {
            let (at, action) = (at.parse().unwrap(), Action::parse(action).unwrap());
            Deviation { at, action }.in_words()
        };
        assert_eq!(
            words("worker-a/1/claim#2/commit/journal.sync#1", "kill"),
            "As worker-a syncs the journal in claim 2, it is killed."
        );
        assert_eq!(
            words("worker-a/2/claim#1/message/request#1", "slow:700ms"),
            "As worker-a writes to the server in or after claim 1 of life 2, the message takes 700 ms longer."
        );
        assert_eq!(
            words("worker-a/1/claim#1/message/reply#1", "kill"),
            "As worker-a hears its answer in or after claim 1, it is killed."
        );
        assert_eq!(
            words("receiver/1/accept#2/message/reply#1", "reply-lost"),
            "As receiver writes to the client in or after accept 2, the reply never arrives."
        );
        assert_eq!(
            words("worker-a/1/start#1/wait/resume#1", "pick:worker-b"),
            "As worker-a is about to go on before its first operation, worker-b runs first."
        );
        assert_eq!(
            words("receiver/1/power#1/power/sector#3", "keep"),
            "At the power cut, unsynced sector 3 is on the disk all the same."
        );
    }
}
