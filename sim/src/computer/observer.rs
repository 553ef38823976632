//! The seam through which judges watch files: they see every change of a database at the moment that makes
//! it visible to others, in that order.

use super::trace::Trace;

/// Who did something, and when.
#[derive(Debug)]
pub struct LockEvent<'a> {
    /// Virtual time since the run began, in microseconds.
    pub at_us: i64,
    /// The process's number.
    pub process: usize,
    /// Its name.
    pub process_name: &'a str,
    /// The lane (one connection) that did it.
    pub lane: usize,
    /// The operation's label.
    pub operation: &'static str,
    /// The machine's number.
    pub machine: usize,
    /// The database file's name.
    pub file: &'a str,
    /// The file's bytes at this moment.
    pub image: &'a [u8],
}

/// Watches a run. Methods are called while the world stands still and must not call into it.
pub trait Observer {
    /// A lane took the write lock (RESERVED) of a database.
    fn write_locked(&mut self, _event: &LockEvent<'_>, _trace: &mut Trace) {}

    /// A lane retired the journal of a database: what the file holds is committed, or rolled back.
    fn journal_retired(&mut self, _event: &LockEvent<'_>, _trace: &mut Trace) {}

    /// A lane gave back all its locks on a database.
    fn unlocked(&mut self, _event: &LockEvent<'_>, _trace: &mut Trace) {}

    /// A process has written these bytes to a network stream.
    fn wrote(&mut self, _process: usize, _bytes: &[u8], _at_us: i64) {}

    /// A process has made a connection; it now holds `open` of them, this one included.
    fn connected(&mut self, _process: usize, _open: usize, _at_us: i64) {}

    /// A process was killed, or died with its machine.
    fn died(&mut self, _process: usize, _trace: &mut Trace) {}

    /// A machine lost power; `lost` parts of what was unsynced were lost.
    fn power_cut(&mut self, _machine: usize, _lost: usize, _trace: &mut Trace) {}
}
