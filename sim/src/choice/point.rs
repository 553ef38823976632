//! Stable names for everything that could have gone otherwise:
//! `process/incarnation/operation#n/phase/role#m`, as in `worker-a/1/claim#2/commit/journal.sync#1`.
//! Ordinals count within their operation and phase, so that an added statement elsewhere shifts nothing.

use std::fmt;
use std::str::FromStr;

use ackward::port::FaultPoint;

macro_rules! vocabulary {
    ($(#[$edoc:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$edoc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$doc])* $variant),+
        }

        impl $name {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// How many values there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The word in a point's name.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

vocabulary!(
    /// How far an operation has come. For a SQLite operation the connection's locks tell.
    Phase {
        /// No transaction yet: opening, reading the schema, asking for the lock.
        Begin = "begin",
        /// The write lock is held.
        Write = "write",
        /// COMMIT or ROLLBACK is under way: the journal is being synced, the file written, the journal retired.
        Commit = "commit",
        /// The journal is retired.
        End = "end",
        /// Outside of SQLite: a future waits.
        Wait = "wait",
        /// A message is on its way.
        Message = "message",
        /// At a power cut.
        Power = "power",
    }
);

vocabulary!(
    /// What is done, and to what.
    Role {
        /// Opening the database.
        DbOpen = "db.open",
        /// Reading a page.
        DbRead = "db.read",
        /// Writing a page.
        DbWrite = "db.write",
        /// Changing the file's length.
        DbTruncate = "db.truncate",
        /// Making it durable.
        DbSync = "db.sync",
        /// Asking for its length.
        DbSize = "db.size",
        /// Asking for a SHARED lock.
        DbLockShared = "db.lock-shared",
        /// Asking for the RESERVED lock.
        DbLockReserved = "db.lock-reserved",
        /// Asking for the EXCLUSIVE lock.
        DbLockExclusive = "db.lock-exclusive",
        /// Looking whether somebody holds RESERVED.
        DbCheckReserved = "db.check-reserved",
        /// Giving locks back.
        DbUnlock = "db.unlock",
        /// Looking whether the file exists.
        DbAccess = "db.access",
        /// Deleting the file.
        DbDelete = "db.delete",
        /// Opening or creating the journal.
        JournalOpen = "journal.open",
        /// Reading the journal.
        JournalRead = "journal.read",
        /// Writing the journal.
        JournalWrite = "journal.write",
        /// Changing the journal's length.
        JournalTruncate = "journal.truncate",
        /// Making the journal durable.
        JournalSync = "journal.sync",
        /// Asking for the journal's length.
        JournalSize = "journal.size",
        /// Looking whether there is a journal.
        JournalAccess = "journal.access",
        /// Retiring the journal: the commit.
        JournalDelete = "journal.delete",
        /// Syncing the directory.
        DirSync = "dir.sync",
        /// Waiting for a lock.
        Sleep = "sleep",
        /// A call on any other file, such as a temporary one.
        Other = "other",
        /// A process's next step.
        Resume = "resume",
        /// Reading the clock.
        Now = "now",
        /// The fault hook of this name.
        HookAfterClaim = "hook.after-claim",
        /// The fault hook of this name.
        HookAfterFinish = "hook.after-finish",
        /// The fault hook of this name.
        HookAfterAudit = "hook.after-audit",
        /// The fault hook of this name.
        HookAfterRedrive = "hook.after-redrive",
        /// The fault hook of this name.
        HookAfterRenew = "hook.after-renew",
        /// The fault hook of this name.
        HookAfterRelease = "hook.after-release",
        /// The fault hook of this name.
        HookAfterAccept = "hook.after-accept",
        /// The fault hook of this name.
        HookAfterCommit = "hook.after-commit",
        /// The fault hook of this name.
        HookBeforeCursor = "hook.before-cursor",
        /// The fault hook of this name.
        HookBeforeAck = "hook.before-ack",
        /// A directory entry at a power cut.
        Entry = "entry",
        /// A sector of 512 bytes at a power cut.
        Sector = "sector",
        /// A file's length at a power cut.
        Length = "length",
        /// Connecting.
        Connect = "connect",
        /// A request, or bytes from the connecting side.
        Request = "request",
        /// A reply, or bytes from the accepting side.
        Reply = "reply",
        /// Handling a request.
        Serve = "serve",
    }
);

impl From<FaultPoint> for Role {
    fn from(point: FaultPoint) -> Self {
        match point {
            FaultPoint::AfterClaim => Self::HookAfterClaim,
            FaultPoint::AfterFinish => Self::HookAfterFinish,
            FaultPoint::AfterAudit => Self::HookAfterAudit,
            FaultPoint::AfterRedrive => Self::HookAfterRedrive,
            FaultPoint::AfterRenew => Self::HookAfterRenew,
            FaultPoint::AfterRelease => Self::HookAfterRelease,
            FaultPoint::AfterAccept => Self::HookAfterAccept,
            FaultPoint::AfterCommit => Self::HookAfterCommit,
            FaultPoint::BeforeCursor => Self::HookBeforeCursor,
            FaultPoint::BeforeAck => Self::HookBeforeAck,
        }
    }
}

/// A place in a run. Cheap to make: texts are only written for those that are told.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    /// The process's number.
    pub process: usize,
    /// [`stable_hash`] of the process's name.
    pub process_hash: u64,
    /// How often the process was started, from 1.
    pub incarnation: u32,
    /// The operation's label.
    pub operation: &'static str,
    /// The operation's ordinal among those of its label in this incarnation, from 1.
    pub ordinal: u32,
    /// How far the operation has come.
    pub phase: Phase,
    /// What is done.
    pub role: Role,
    /// The ordinal of the role within operation and phase, from 1.
    pub count: u32,
}

impl Point {
    /// A key that is equal for equal names, on every machine.
    #[must_use]
    pub fn key(&self) -> u64 {
        key(
            self.process_hash,
            self.incarnation,
            self.operation,
            self.ordinal,
            self.phase,
            self.role,
            self.count,
        )
    }

    /// The name, given the process's.
    #[must_use]
    pub fn name(&self, process: &str) -> PointName {
        PointName {
            process: process.to_owned(),
            incarnation: self.incarnation,
            operation: self.operation.to_owned(),
            ordinal: self.ordinal,
            phase: self.phase,
            role: self.role,
            count: self.count,
        }
    }
}

/// A point's name as text carries it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PointName {
    /// The process.
    pub process: String,
    /// How often it was started, from 1.
    pub incarnation: u32,
    /// The operation's label.
    pub operation: String,
    /// Its ordinal, from 1.
    pub ordinal: u32,
    /// How far it has come.
    pub phase: Phase,
    /// What is done.
    pub role: Role,
    /// Its ordinal within operation and phase, from 1.
    pub count: u32,
}

impl PointName {
    /// The same key as [`Point::key`].
    #[must_use]
    pub fn key(&self) -> u64 {
        let process = stable_hash(self.process.as_bytes());
        key(process, self.incarnation, &self.operation, self.ordinal, self.phase, self.role, self.count)
    }
}

impl fmt::Display for PointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process, incarnation, operation, ordinal, phase, role, count } = self;
        write!(
            f,
            "{process}/{incarnation}/{operation}#{ordinal}/{}/{}#{count}",
            phase.as_str(),
            role.as_str()
        )
    }
}

/// Why a text is no point's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PointNameError {
    /// The five parts are not there.
    #[error("process/incarnation/operation#n/phase/role#m, as in worker-a/1/claim#2/commit/journal.sync#1")]
    Shape,
    /// The phase is unknown.
    #[error("as phase one of {list}", list = words(Phase::ALL.iter().map(|phase| phase.as_str())))]
    Phase(String),
    /// The role is unknown.
    #[error("as role one of {list}", list = words(Role::ALL.iter().map(|role| role.as_str())))]
    Role(String),
}

impl FromStr for PointName {
    type Err = PointNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts: Vec<&str> = text.split('/').collect();
        let [process, incarnation, operation, phase, role] = parts[..] else {
            return Err(PointNameError::Shape);
        };
        let (operation, ordinal) = numbered(operation)?;
        let (role, count) = numbered(role)?;
        if process.is_empty() || operation.is_empty() {
            return Err(PointNameError::Shape);
        }
        Ok(Self {
            process: process.to_owned(),
            incarnation: positive(incarnation)?,
            operation: operation.to_owned(),
            ordinal,
            phase: Phase::parse(phase).ok_or_else(|| PointNameError::Phase(phase.to_owned()))?,
            role: Role::parse(role).ok_or_else(|| PointNameError::Role(role.to_owned()))?,
            count,
        })
    }
}

/// A 64-bit hash that is the same in every build and on every machine (FNV-1a with a final mix).
#[must_use]
pub const fn stable_hash(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    mix(hash)
}

/// The finaliser of splitmix64 (Steele, Lea, Flood 2014).
const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn key(
    process: u64,
    incarnation: u32,
    operation: &str,
    ordinal: u32,
    phase: Phase,
    role: Role,
    count: u32,
) -> u64 {
    let numbers = (u64::from(incarnation) << 32) | u64::from(ordinal);
    let place = (u64::from(count) << 16) | ((phase as u64) << 8) | role as u64;
    let operation = stable_hash(operation.as_bytes());
    mix(mix(mix(process ^ operation.rotate_left(17)) ^ numbers) ^ place)
}

fn numbered(text: &str) -> Result<(&str, u32), PointNameError> {
    let (word, number) = text.rsplit_once('#').ok_or(PointNameError::Shape)?;
    Ok((word, positive(number)?))
}

fn positive(text: &str) -> Result<u32, PointNameError> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| plain).ok_or(PointNameError::Shape)
}

fn words(list: impl Iterator<Item = &'static str>) -> String {
    list.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_back_and_has_its_points_key() {
        let text = "worker-a/1/claim#2/commit/journal.sync#1";
        let name: PointName = text.parse().unwrap();
        assert_eq!(name.to_string(), text);
        let point = Point {
            process: 0,
            process_hash: stable_hash(b"worker-a"),
            incarnation: 1,
            operation: "claim",
            ordinal: 2,
            phase: Phase::Commit,
            role: Role::JournalSync,
            count: 1,
        };
        assert_eq!(point.key(), name.key());
        assert_eq!(point.name("worker-a"), name);
        assert_ne!(Point { count: 2, ..point }.key(), name.key());
    }

    #[test]
    fn a_wrong_name_says_which_part() {
        let parse = |text: &str| text.parse::<PointName>().unwrap_err().to_string();
        assert!(parse("worker-a/1/claim#2").contains("process/incarnation"));
        assert!(parse("worker-a/1/claim#2/comit/journal.sync#1").contains("as phase one of begin"));
        assert!(parse("worker-a/1/claim#2/commit/journal.snyc#1").contains("as role one of db.open"));
        assert!(parse("worker-a/0/claim#2/commit/journal.sync#1").contains("process/incarnation"));
        assert!(parse("worker-a/1/claim#+2/commit/journal.sync#1").contains("process/incarnation"));
    }
}
