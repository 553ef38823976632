//! Who runs next: timers, lanes with work, and processes that stand still.

use std::collections::VecDeque;

use super::super::ffi::Job;
use super::super::operation::Operation;
use super::parts::{Body, Lane, Runnable, Stalled, Timer};
use super::{LaneId, ProcessId, State};
use crate::choice::{Kind, Phase, Role, stable_hash};

impl State {
    pub(in crate::computer) fn add_timer(&mut self, at_us: i64, timer: Timer) -> (i64, u64) {
        self.timer_sequence += 1;
        let key = (at_us, self.timer_sequence);
        self.timers.insert(key, timer);
        key
    }

    pub(in crate::computer) fn add_lane(&mut self, process: ProcessId) -> LaneId {
        let incarnation = self.processes[process].incarnation;
        let operation = Operation::new("idle", 1, Phase::Wait);
        let (queue, injected) = (VecDeque::new(), Vec::new());
        self.lanes.push(Lane { process, incarnation, operation, job: None, queue, queued: false, injected });
        self.lanes.len() - 1
    }

    /// Gives a lane one more job.
    pub(in crate::computer) fn submit(&mut self, lane: LaneId, label: &'static str, body: Body) {
        self.lanes[lane].queue.push_back((label, body));
        if self.lanes[lane].job.is_none() {
            self.queue_lane(lane);
        }
    }

    pub(in crate::computer) fn queue_lane(&mut self, lane: LaneId) {
        if !std::mem::replace(&mut self.lanes[lane].queued, true) {
            self.ready.push_back(Runnable::Lane(lane));
        }
    }

    /// Begins the next job of a lane, if there is one.
    pub(in crate::computer) fn begin_job(&mut self, lane: LaneId) -> Option<Job> {
        let (label, body) = self.lanes[lane].queue.pop_front()?;
        let process = self.lanes[lane].process;
        let ordinal = self.processes[process].ordinals.next(label);
        self.lanes[lane].operation = Operation::new(label, ordinal, Phase::Begin);
        self.lanes[lane].injected.clear();
        self.processes[process].scope = Operation::new(label, ordinal, Phase::Wait);
        self.trace.fold(stable_hash(label.as_bytes()) ^ u64::from(ordinal));
        Some(Job::new(body))
    }

    /// Lets a process run before the others that are ready.
    pub(in crate::computer) fn run_first(&mut self, process: ProcessId) {
        let found = self.ready.iter().position(|runnable| self.process_of(*runnable) == process);
        if let Some(runnable) = found.and_then(|index| self.ready.remove(index)) {
            self.ready.push_front(runnable);
        }
    }

    pub(in crate::computer) fn process_of(&self, runnable: Runnable) -> ProcessId {
        match runnable {
            Runnable::Task(process, _) => process,
            Runnable::Lane(lane) => self.lanes[lane].process,
        }
    }

    /// Picks what runs next: the first that is ready, unless the chooser prefers another process.
    pub(in crate::computer) fn pick(&mut self) -> Option<Runnable> {
        let first = *self.ready.front()?;
        if self.ready.len() > 1 && self.is_armed() {
            let process = self.process_of(first);
            let mut offers = std::mem::take(&mut self.offers);
            offers.clear();
            self.offer_switches(process, Kind::Pick, &mut offers);
            if !offers.is_empty() {
                let decision = self.choose_in_process(process, Phase::Wait, Role::Resume, &offers);
                if let (false, Ok(other)) = (decision.is_go(), usize::try_from(decision.value)) {
                    self.run_first(other);
                    self.struck.effective[Kind::Pick as usize] += 1;
                }
            }
            self.offers = offers;
        }
        self.ready.pop_front()
    }

    pub(in crate::computer) fn stall(&mut self, process: ProcessId, duration_ms: i64) {
        let until_us = self.now_us + duration_ms.max(0) * 1_000;
        let others_steps = self.steps - self.processes[process].steps;
        self.processes[process].stalled = Some(Stalled { until_us, others_steps });
        self.add_timer(until_us, Timer::Resume(process));
    }

    pub(in crate::computer) fn end_stall(&mut self, process: ProcessId) {
        let this = &mut self.processes[process];
        let Some(stalled) = this.stalled.take_if(|stalled| stalled.until_us <= self.now_us) else { return };
        if self.steps - this.steps > stalled.others_steps {
            self.struck.effective[Kind::Stall as usize] += 1;
        }
        self.ready.extend(this.deferred.drain(..));
    }
}
