//! The steps of the executor: what was woken, what is due, and what it starts.

use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;

use super::super::process::Context;
use super::super::world::{ProcessId, Runnable, Timer, World, enter};
use super::Simulation;

impl Simulation {
    pub(super) fn enter(&self) -> Entered {
        Entered(enter(Some(Rc::clone(&self.world))))
    }

    pub(super) fn collect_woken(&self) {
        let mut state = self.world.state.borrow_mut();
        let woken = Arc::clone(&state.woken);
        for (process, incarnation) in woken.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let this = &mut state.processes[process];
            if this.incarnation == incarnation && !std::mem::replace(&mut this.task_queued, true) {
                state.ready.push_back(Runnable::Task(process, incarnation));
            }
        }
    }

    pub(super) fn step_task(&self, process: ProcessId, incarnation: u32) {
        if !self.world.may_step(process, incarnation) {
            return;
        }
        let taken = {
            let this = &mut self.world.state.borrow_mut().processes[process];
            this.task_queued = false;
            this.task.take().zip(this.waker.clone())
        };
        let Some((mut task, waker)) = taken else { return };
        if !self.world.poll_task(process, &mut task, &waker) {
            self.world.state.borrow_mut().processes[process].task = Some(task);
        }
    }

    /// Moves time to the next timer and fires all that are due then.
    pub(super) fn advance(&self) -> Advance {
        let limit_us = {
            let mut state = self.world.state.borrow_mut();
            let Some((&(at_us, _), _)) = state.timers.first_key_value() else { return Advance::Idle };
            if at_us > state.options.limit_us {
                return Advance::Limit;
            }
            state.now_us = state.now_us.max(at_us);
            state.now_us
        };
        loop {
            let timer = {
                let mut state = self.world.state.borrow_mut();
                match state.timers.first_entry() {
                    Some(entry) if entry.key().0 <= limit_us => entry.remove(),
                    _ => return Advance::Moved,
                }
            };
            self.fire(timer);
        }
    }

    pub(super) fn fire(&self, timer: Timer) {
        match timer {
            Timer::Wake(waker) => waker.wake(),
            Timer::Lane(lane) => {
                let mut state = self.world.state.borrow_mut();
                if state.lane_is_alive(lane) {
                    state.queue_lane(lane);
                }
            }
            Timer::Segment(connection, to) => self.world.state.borrow_mut().deliver(connection, to),
            Timer::Restart(process) => self.start(process),
            Timer::Resume(process) => self.world.state.borrow_mut().end_stall(process),
            // Only the turmoil arm has links.
            Timer::Links => {}
        }
    }

    pub(super) fn start(&self, process: ProcessId) {
        let (task, Context { incarnation, .. }) = self.world.begin(process);
        let mut state = self.world.state.borrow_mut();
        let woken = Arc::clone(&state.woken);
        let this = &mut state.processes[process];
        this.task_queued = true;
        this.waker = Some(Arc::new(TaskWaker { process, incarnation, woken }).into());
        this.task = Some(task);
        state.ready.push_back(Runnable::Task(process, incarnation));
    }
}

pub(super) enum Advance {
    Moved,
    Idle,
    Limit,
}

/// Restores the thread's world of before.
pub(super) struct Entered(Option<Rc<World>>);

impl Drop for Entered {
    fn drop(&mut self) {
        enter(self.0.take());
    }
}

struct TaskWaker {
    process: ProcessId,
    incarnation: u32,
    woken: Arc<Mutex<Vec<(ProcessId, u32)>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner).push((self.process, self.incarnation));
    }
}
