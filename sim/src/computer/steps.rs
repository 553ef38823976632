//! The steps that the executor and the hosts of the turmoil arm share: a program is polled, a lane's job runs on, a dead
//! process is drained, one is started. What runs when is theirs to say.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll, Waker};

use super::ffi;
use super::operation::{Operation, Ordinals};
use super::process::Context;
use super::world::{Ending, LaneId, ProcessId, Runnable, Signal, Timer, World};
use crate::choice::Phase;

/// A program that runs.
pub(super) type Task = Pin<Box<dyn Future<Output = ()>>>;

impl World {
    /// Whether this incarnation of a process can make a step now; one that is stalled makes it later.
    pub(super) fn may_step(&self, process: ProcessId, incarnation: u32) -> bool {
        let this = &mut self.state.borrow_mut().processes[process];
        if !this.alive || this.incarnation != incarnation {
            return false;
        }
        if this.stalled.is_some() {
            this.deferred.push(Runnable::Task(process, incarnation));
            return false;
        }
        true
    }

    /// Polls a process's program once; returns whether it has ended. A panic is how it ended, too.
    pub(super) fn poll_task(&self, process: ProcessId, task: &mut Task, waker: &Waker) -> bool {
        {
            let mut state = self.state.borrow_mut();
            state.steps += 1;
            state.processes[process].steps += 1;
            state.current_process = process;
            state.trace.fold(process as u64 | 0x7a5c_0000);
        }
        let polled =
            catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(&mut TaskContext::from_waker(waker))));
        let ending = match polled {
            Ok(Poll::Pending) => return false,
            Ok(Poll::Ready(())) => Ending::Finished,
            Err(panic) => Ending::Panicked(panic_text(panic.as_ref())),
        };
        self.end(process, ending);
        true
    }

    /// A program has ended by itself.
    fn end(&self, process: ProcessId, ending: Ending) {
        let mut state = self.state.borrow_mut();
        if !state.processes[process].alive {
            return;
        }
        state.note(Some(process), || match &ending {
            Ending::Panicked(text) => format!("panics: {text}"),
            _ => "ends".to_owned(),
        });
        // Whoever ends because he was told to is started again, as in a rolling restart.
        let this = &mut state.processes[process];
        let is_restart =
            ending == Ending::Finished && this.signal.came_us.is_some() && this.restarts_left > 0;
        this.ending = (!is_restart).then_some(ending);
        state.die(process, false);
    }

    /// Runs a lane's job on, or begins its next one.
    pub(super) fn step_lane(&self, lane: LaneId) {
        let job = {
            let mut state = self.state.borrow_mut();
            if !state.lane_is_alive(lane) {
                return;
            }
            let process = state.lanes[lane].process;
            if state.processes[process].stalled.is_some() {
                state.processes[process].deferred.push(Runnable::Lane(lane));
                return;
            }
            state.lanes[lane].queued = false;
            state.steps += 1;
            state.processes[process].steps += 1;
            state.current_process = process;
            let job = state.lanes[lane].job.take();
            job.or_else(|| state.begin_job(lane))
        };
        if let Some(job) = job {
            self.resume(lane, job);
        }
    }

    /// Runs a lane's job until it suspends or ends.
    fn resume(&self, lane: LaneId, mut job: ffi::Job) {
        self.state.borrow_mut().current_lane = Some(lane);
        let has_ended = job.resume();
        let mut state = self.state.borrow_mut();
        state.current_lane = None;
        if !has_ended {
            state.lanes[lane].job = Some(job);
        } else if !state.lanes[lane].queue.is_empty() {
            state.queue_lane(lane);
        }
    }

    /// Lets the code of dead processes return, drops their programs, tells the observer, and plans restarts.
    pub(super) fn reap(&self) {
        let (dead, cuts) = {
            let mut state = self.state.borrow_mut();
            if state.reap.is_empty() && state.power_cuts.is_empty() {
                return;
            }
            (std::mem::take(&mut state.reap), std::mem::take(&mut state.power_cuts))
        };
        for process in &dead {
            self.drain(*process);
        }
        let mut observer = self.observer.borrow_mut();
        for process in dead {
            let mut state = self.state.borrow_mut();
            observer.died(process, &mut state.trace);
            if let Some(hosts) = &mut state.hosts {
                hosts.bury(process);
            }
            let now_us = state.now_us;
            let this = &mut state.processes[process];
            if this.ending.is_some() {
                continue;
            }
            if this.restarts_left == 0 {
                this.ending = Some(Ending::Killed);
                continue;
            }
            this.restarts_left -= 1;
            let at_us = now_us + this.restart_after_us;
            state.add_timer(at_us, Timer::Restart(process));
        }
        for (machine, lost) in cuts {
            observer.power_cut(machine, lost, &mut self.state.borrow_mut().trace);
        }
    }

    fn drain(&self, process: ProcessId) {
        let (task, lanes) = {
            let mut state = self.state.borrow_mut();
            state.current_process = process;
            let lanes: Vec<LaneId> =
                (0..state.lanes.len()).filter(|lane| state.lanes[*lane].process == process).collect();
            (state.processes[process].task.take(), lanes)
        };
        drop(task);
        for lane in lanes {
            loop {
                let job = self.state.borrow_mut().lanes[lane].job.take();
                let Some(job) = job else { break };
                self.resume(lane, job);
            }
            let queue = std::mem::take(&mut self.state.borrow_mut().lanes[lane].queue);
            drop(queue);
        }
    }

    /// Begins the next incarnation of a process; returns its program, which has not been polled.
    pub(super) fn begin(self: &Rc<Self>, process: ProcessId) -> (Task, Context) {
        let (main, context) = {
            let mut state = self.state.borrow_mut();
            let machine = state.processes[process].machine;
            state.machines[machine].is_off = false;
            let this = &mut state.processes[process];
            this.incarnation += 1;
            this.alive = true;
            this.signal = Signal::default();
            this.ordinals = Ordinals::default();
            this.scope = Operation::new("start", 1, Phase::Wait);
            let incarnation = this.incarnation;
            let main = Rc::clone(&this.main);
            if incarnation > 1 {
                state.note(Some(process), || format!("is started again (incarnation {incarnation})"));
            }
            (main, Context { world: Rc::clone(self), process, incarnation })
        };
        (main(context.clone()), context)
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a text".to_owned())
}
