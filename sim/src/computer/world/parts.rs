//! What a world is made of: machines, processes, lanes, open files, and what can be due.

use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Waker;

use super::super::disk::{Disk, FileId};
use super::super::ffi::Job;
use super::super::operation::{Operation, Ordinals};
use super::super::process::Main;
use super::{LaneId, MachineId, ProcessId};
use crate::choice::Kind;

/// How often each kind of event struck, and how often that had an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Struck {
    /// Times that it was chosen.
    pub chosen: [u32; Kind::COUNT],
    /// Times that it had an effect: a caller saw the error, a process with unfinished work died, a power
    /// cut changed durable bytes, another process ran in between.
    pub effective: [u32; Kind::COUNT],
}

impl Default for Struck {
    fn default() -> Self {
        Self { chosen: [0; Kind::COUNT], effective: [0; Kind::COUNT] }
    }
}

pub(in crate::computer) struct Machine {
    pub(in crate::computer) name: String,
    pub(in crate::computer) disk: Disk,
    /// It lost power, and none of its processes has been started since.
    pub(in crate::computer) is_off: bool,
}

pub(in crate::computer) struct Process {
    pub(in crate::computer) name: String,
    pub(in crate::computer) hash: u64,
    pub(in crate::computer) machine: MachineId,
    pub(in crate::computer) incarnation: u32,
    pub(in crate::computer) alive: bool,
    pub(in crate::computer) skew_us: i64,
    /// The skew that it was given, without jumps.
    pub(in crate::computer) lasting_skew_us: i64,
    pub(in crate::computer) stalled: Option<Stalled>,
    pub(in crate::computer) deferred: Vec<Runnable>,
    pub(in crate::computer) ordinals: Ordinals,
    pub(in crate::computer) scope: Operation,
    pub(in crate::computer) restarts_left: u32,
    pub(in crate::computer) restart_after_us: i64,
    pub(in crate::computer) main: Main,
    pub(in crate::computer) task: Option<std::pin::Pin<Box<dyn Future<Output = ()>>>>,
    pub(in crate::computer) waker: Option<Waker>,
    pub(in crate::computer) task_queued: bool,
    pub(in crate::computer) ending: Option<Ending>,
    pub(in crate::computer) steps: u64,
    pub(in crate::computer) signal: Signal,
}

/// SIGTERM, as one incarnation of a process meets it.
#[derive(Default)]
pub(in crate::computer) struct Signal {
    /// When it came, in microseconds of virtual time.
    pub(in crate::computer) came_us: Option<i64>,
    /// Whoever waits for it; empty where the process does not listen.
    pub(in crate::computer) waiting: Vec<Waker>,
}

/// How a process ended for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// Its program returned.
    Finished,
    /// It was killed and is not started again.
    Killed,
    /// It panicked; the message.
    Panicked(String),
}

pub(in crate::computer) struct Stalled {
    pub(in crate::computer) until_us: i64,
    /// The world's steps when it began, less its own: more of them mean that others ran meanwhile.
    pub(super) others_steps: u64,
}

/// What a job does.
pub(in crate::computer) type Body = Box<dyn FnOnce()>;

pub(in crate::computer) struct Lane {
    pub(in crate::computer) process: ProcessId,
    pub(in crate::computer) incarnation: u32,
    pub(in crate::computer) operation: Operation,
    pub(in crate::computer) job: Option<Job>,
    pub(in crate::computer) queue: VecDeque<(&'static str, Body)>,
    pub(in crate::computer) queued: bool,
    /// Errors injected into the operation under way, which count once a caller has seen them.
    pub(super) injected: Vec<Kind>,
}

pub(in crate::computer) struct OpenFile {
    pub(in crate::computer) process: ProcessId,
    pub(in crate::computer) incarnation: u32,
    pub(in crate::computer) lane: LaneId,
    pub(in crate::computer) machine: MachineId,
    pub(in crate::computer) file: FileId,
    pub(in crate::computer) name: Rc<str>,
    pub(in crate::computer) is_journal: bool,
    pub(in crate::computer) is_database: bool,
    pub(in crate::computer) is_new: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::computer) enum Runnable {
    Task(ProcessId, u32),
    Lane(LaneId),
}

pub(in crate::computer) enum Timer {
    Wake(Waker),
    Lane(LaneId),
    /// A segment arrives at one end of a connection.
    Segment(usize, usize),
    Restart(ProcessId),
    Resume(ProcessId),
    /// A hold or a partition of the turmoil arm ends.
    Links,
}

/// What a call into the operating system meets.
pub(in crate::computer) enum Verdict {
    Go,
    /// The job must suspend; afterwards it may be dead.
    Suspend,
    Fail(Kind),
}
