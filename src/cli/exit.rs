//! The exit codes, told apart so that a supervisor knows whether a restart can help.

use std::fmt::Display;
use std::process::ExitCode;

use ackward::rules::Invalid;
use ackward::shell::{FollowError, LogError, PublishError, SessionError};
use ackward::storage::{ApplyError, StorageError};

/// The exit codes as the help shows them.
pub const HELP: &str = "\
Exit codes:
  0  done, caught up, or stopped by SIGTERM or Ctrl-C
  1  any other failure
  2  wrong usage, or wrong input: what a file of settings, secrets or jobs says is refused
  3  a resync is needed: the publisher does not hold what follows
  4  a gap or a conflict: publisher and store disagree about history, or a job's id
     exists with another quantity
  5  a file failed, whichever it is: missing, not a regular file, not to be read or
     written, moved while it was open, SQLite, the disk, a lock
  6  the connection was given up
  7  the publisher's log is refused for what is in it, or was cut or rewritten
  8  the job does not exist, or the one to redrive is not dead
  9  stopped, but something was still being sent or answered when the grace time was over
  10 the doctor found something
  130, 143  a second Ctrl-C or SIGTERM came while the command was stopping: it ended at once";

/// Why the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Failure = 1,
    Usage = 2,
    Resync = 3,
    History = 4,
    Storage = 5,
    Connection = 6,
    Log = 7,
    NotDead = 8,
    Cut = 9,
    Findings = 10,
    Interrupted = 130,
    Terminated = 143,
}

impl Exit {
    /// One word for it, for machines.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Failure => "failure",
            Self::Usage => "usage",
            Self::Resync => "resync",
            Self::History => "history",
            Self::Storage => "storage",
            Self::Connection => "connection",
            Self::Log => "log",
            Self::NotDead => "not-dead",
            Self::Cut => "cut",
            Self::Findings => "findings",
            Self::Interrupted => "interrupted",
            Self::Terminated => "terminated",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// How a command failed.
#[derive(Debug)]
pub struct Ended {
    pub exit: Exit,
    pub message: String,
}

impl Ended {
    pub fn new(exit: Exit, error: impl Display) -> Self {
        Self { exit, message: error.to_string() }
    }
}

impl From<SessionError> for Ended {
    fn from(error: SessionError) -> Self {
        Self::new(exit_of(&error), error)
    }
}

impl From<FollowError> for Ended {
    fn from(error: FollowError) -> Self {
        let exit = match &error {
            FollowError::GivenUp { .. } => Exit::Connection,
            FollowError::Resync(_) => Exit::Resync,
            FollowError::Session(error) => exit_of(error),
        };
        Self::new(exit, error)
    }
}

impl From<Invalid> for Ended {
    fn from(error: Invalid) -> Self {
        Self::new(Exit::Usage, error)
    }
}

impl From<StorageError> for Ended {
    fn from(error: StorageError) -> Self {
        Self::new(Exit::Storage, error)
    }
}

impl From<PublishError> for Ended {
    fn from(error: PublishError) -> Self {
        let PublishError::Log(log) = &error;
        Self::new(exit_of_log(log), error)
    }
}

/// How a command ends whose log cannot be published: a file that fails or is moved is one, whatever it is for.
pub const fn exit_of_log(error: &LogError) -> Exit {
    match error {
        LogError::Io(_) | LogError::Moved => Exit::Storage,
        LogError::Line { .. }
        | LogError::Gap { .. }
        | LogError::Shrank { .. }
        | LogError::Rewritten { .. } => Exit::Log,
    }
}

fn exit_of(error: &SessionError) -> Exit {
    match error {
        SessionError::Timeout { .. } | SessionError::Connection { .. } | SessionError::Line(_) => {
            Exit::Connection
        }
        SessionError::Apply(ApplyError::Gap { .. } | ApplyError::Conflict { .. }) => Exit::History,
        SessionError::Apply(ApplyError::Storage(_)) | SessionError::Storage(_) => Exit::Storage,
        SessionError::Resync(_) => Exit::Resync,
        SessionError::Apply(ApplyError::Hook(_)) | SessionError::BeforeAck { .. } => Exit::Failure,
    }
}
