//! What runs on a host: one incarnation of a process, and its SQLite jobs, in the host's turn.

use std::error::Error;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll};

use crate::computer::steps::Task;
use crate::computer::world::{LaneId, ProcessId, Runnable, State, World};

/// What a host runs: one incarnation of a process, or nothing.
pub(super) struct Program {
    world: Rc<World>,
    process: ProcessId,
    running: Option<(u32, Task)>,
}

impl Program {
    pub(super) fn new(world: Rc<World>, process: ProcessId) -> Self {
        let is_due =
            world.state.borrow_mut().hosts.as_mut().is_some_and(|hosts| hosts.starting.remove(&process));
        let running = is_due.then(|| {
            let (task, context) = world.begin(process);
            (context.incarnation, task)
        });
        Self { world, process, running }
    }
}

impl Future for Program {
    type Output = Result<(), Box<dyn Error>>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let Self { world, process, running } = self.get_mut();
        let Some((incarnation, task)) = running else { return Poll::Pending };
        if !world.may_step(*process, *incarnation) {
            return Poll::Pending;
        }
        world.state.borrow_mut().processes[*process].waker = Some(cx.waker().clone());
        if world.poll_task(*process, task, cx.waker()) {
            // Its streams are closed in its own turn. The host stays up without it.
            *running = None;
        }
        world.reap();
        // In a statement of its own: the state must not be borrowed while the job runs.
        loop {
            let lane = world.state.borrow_mut().take_ready_lane(*process);
            let Some(lane) = lane else { return Poll::Pending };
            world.step_lane(lane);
            world.reap();
        }
    }
}

impl State {
    /// The next job of a process that is ready to run on.
    fn take_ready_lane(&mut self, process: ProcessId) -> Option<LaneId> {
        let is_mine = |runnable: &Runnable| match runnable {
            Runnable::Lane(lane) => self.lanes[*lane].process == process,
            Runnable::Task(..) => false,
        };
        let at = self.ready.iter().position(is_mine)?;
        match self.ready.remove(at) {
            Some(Runnable::Lane(lane)) => Some(lane),
            _ => None,
        }
    }
}
