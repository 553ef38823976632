//! Who holds locks on files now.

use super::super::lock::Level;
use super::parts::OpenFile;
use super::{ProcessId, World};

impl World {
    /// Whether a process holds any lock on a file now.
    #[must_use]
    pub fn holds_lock(&self, process: ProcessId) -> bool {
        let incarnation = self.state.borrow().processes[process].incarnation;
        let is_its = |open: &OpenFile| (open.process, open.incarnation) == (process, incarnation);
        self.holds_lock_where(is_its)
    }

    /// Whether a process holds a lock on a file now with a connection that nothing runs on. What is under way on a lane
    /// may well be a transaction.
    #[must_use]
    pub fn holds_idle_lock(&self, process: ProcessId) -> bool {
        let (incarnation, idle) = {
            let state = self.state.borrow();
            let idle: Vec<_> = state.lanes.iter().map(|lane| lane.job.is_none()).collect();
            (state.processes[process].incarnation, idle)
        };
        self.holds_lock_where(|open| {
            let is_idle = idle.get(open.lane).copied().unwrap_or(true);
            (open.process, open.incarnation) == (process, incarnation) && is_idle
        })
    }

    fn holds_lock_where(&self, is_meant: impl Fn(&OpenFile) -> bool) -> bool {
        let state = &mut *self.state.borrow_mut();
        let machines = &mut state.machines;
        state.handles.iter().enumerate().filter_map(|(handle, open)| Some((handle, open.as_ref()?))).any(
            |(handle, open)| {
                let locks = &machines[open.machine].disk.file(open.file).lock;
                is_meant(open) && locks.level(handle) > Level::None
            },
        )
    }

    /// Whether a lane holds any lock on a file now.
    #[must_use]
    pub fn lane_holds_lock(&self, lane: usize) -> bool {
        self.holds_lock_where(|open| open.lane == lane)
    }
}
