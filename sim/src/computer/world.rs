//! The state of a run: machines, processes, lanes, timers, and what programs and judges can ask of it.

mod choosing;
mod ending;
mod locks;
mod parts;
mod queueing;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use ackward::port::FaultPoint;

use super::network::Net;
use super::observer::Observer;
use super::simulation::SimulationOptions;
use super::trace::Trace;
use super::turmoil_arm::Hosts;
use crate::choice::{Chooser, Decision, Kind, Offer, Phase, Point, Role};

pub use parts::{Ending, Struck};
pub(super) use parts::{Lane, Machine, OpenFile, Process, Runnable, Signal, Timer, Verdict};

/// A machine's number.
pub type MachineId = usize;
/// A process's number, in the order in which they were added.
pub type ProcessId = usize;
pub(super) type LaneId = usize;

/// One simulated world.
pub struct World {
    pub(super) state: RefCell<State>,
    pub(super) observer: RefCell<Box<dyn Observer>>,
}

pub(super) struct State {
    pub(super) options: SimulationOptions,
    pub(super) now_us: i64,
    pub(super) chooser: Box<dyn Chooser>,
    pub(super) trace: Trace,
    pub(super) machines: Vec<Machine>,
    pub(super) processes: Vec<Process>,
    pub(super) lanes: Vec<Lane>,
    pub(super) handles: Vec<Option<OpenFile>>,
    pub(super) ready: VecDeque<Runnable>,
    pub(super) timers: BTreeMap<(i64, u64), Timer>,
    pub(super) timer_sequence: u64,
    pub(super) woken: Arc<Mutex<Vec<(ProcessId, u32)>>>,
    pub(super) current_lane: Option<LaneId>,
    pub(super) current_process: ProcessId,
    /// Processes that died and whose code is still to be drained.
    pub(super) reap: Vec<ProcessId>,
    /// Power cuts that the observer has not been told of: the machine, the parts lost.
    pub(super) power_cuts: Vec<(MachineId, usize)>,
    pub(super) deviations: Vec<(Point, Decision)>,
    pub(super) struck: Struck,
    pub(super) steps: u64,
    pub(super) vfs_calls: u64,
    pub(super) net: Net,
    /// The hosts, where the run is on turmoil.
    pub(super) hosts: Option<Hosts>,
    offers: Vec<Offer>,
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
}

/// The world that runs on this thread, if any.
#[must_use]
pub fn current() -> Option<Rc<World>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Makes `world` the one that runs on this thread; returns the one before.
pub(super) fn enter(world: Option<Rc<World>>) -> Option<Rc<World>> {
    CURRENT.replace(world)
}

impl World {
    /// Virtual time since the run began, in microseconds.
    #[must_use]
    pub fn now_us(&self) -> i64 {
        self.state.borrow().now_us
    }

    /// The process and the lane that run now; the lane is `None` outside of SQLite jobs.
    #[must_use]
    pub fn running(&self) -> (ProcessId, Option<usize>) {
        let state = self.state.borrow();
        (state.current_process, state.current_lane)
    }

    /// Whether the code that runs now belongs to a process that lives; dead code still runs until it
    /// returns, and must have no effect.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let state = self.state.borrow();
        match state.current_lane {
            Some(lane) => state.lane_is_alive(lane),
            None => state.processes.get(state.current_process).is_some_and(|process| process.alive),
        }
    }

    /// Tells that the operation under way failed, so that the errors injected into it count as seen.
    pub fn operation_failed(&self) {
        let mut state = self.state.borrow_mut();
        let Some(lane) = state.current_lane else { return };
        for kind in std::mem::take(&mut state.lanes[lane].injected) {
            state.struck.effective[kind as usize] += 1;
        }
    }

    /// Adds a line to the story, in the name of the process that runs now.
    pub fn note(&self, text: impl FnOnce() -> String) {
        let mut state = self.state.borrow_mut();
        let process = state.current_process;
        state.note(Some(process), text);
    }

    /// Adds a number to the run's hash.
    pub fn fold(&self, value: u64) {
        self.state.borrow_mut().trace.fold(value);
    }

    /// Whether a process lives.
    #[must_use]
    pub fn is_process_alive(&self, process: ProcessId) -> bool {
        self.state.borrow().processes.get(process).is_some_and(|process| process.alive)
    }

    /// Whether this incarnation of a process lives.
    #[must_use]
    pub fn is_running(&self, process: ProcessId, incarnation: u32) -> bool {
        let state = self.state.borrow();
        state
            .processes
            .get(process)
            .is_some_and(|process| process.alive && process.incarnation == incarnation)
    }

    /// Steps that all processes but one have made so far.
    #[must_use]
    pub fn steps_of_others(&self, process: ProcessId) -> u64 {
        let state = self.state.borrow();
        state.steps - state.processes[process].steps
    }

    /// A fault hook of the operation that runs now; returns whether it goes on, and not with an error. The
    /// process may be killed here: then this returns `false` once its code is drained.
    #[must_use]
    pub fn hook(&self, point: FaultPoint) -> bool {
        let verdict = self.state.borrow_mut().hook(point.into());
        match verdict {
            Verdict::Go => true,
            Verdict::Fail(_) => false,
            Verdict::Suspend => {
                super::ffi::suspend();
                false
            }
        }
    }

    /// A choice of the process that runs now, outside of SQLite. Answers "go on" for dead code and once
    /// faults have stopped.
    pub fn choose(&self, phase: Phase, role: Role, offers: &[Offer]) -> Decision {
        let mut state = self.state.borrow_mut();
        let process = state.current_process;
        state.choose_in_process(process, phase, role, offers)
    }

    /// Looks at a file's bytes as the programs of a machine see them; `None` where there is no such file.
    pub fn with_file<T>(&self, machine: MachineId, name: &str, look: impl FnOnce(&[u8]) -> T) -> Option<T> {
        self.state.borrow().machines.get(machine)?.disk.read(name).map(look)
    }

    /// How often a kind of event was chosen so far.
    #[must_use]
    pub fn times_chosen(&self, kind: Kind) -> u32 {
        self.state.borrow().struck.chosen[kind as usize]
    }

    /// Counts an effect of a kind of event.
    pub fn had_effect(&self, kind: Kind) {
        self.state.borrow_mut().struck.effective[kind as usize] += 1;
    }

    /// Kills the process that runs now: its code goes on until it next waits, without any effect.
    pub fn kill_running(&self) {
        let mut state = self.state.borrow_mut();
        let process = state.current_process;
        state.kill(process);
    }
}

impl State {
    pub(super) fn new(options: SimulationOptions, chooser: Box<dyn Chooser>) -> Self {
        Self {
            trace: Trace::new(options.recording),
            options,
            now_us: 0,
            chooser,
            machines: Vec::new(),
            processes: Vec::new(),
            lanes: Vec::new(),
            handles: Vec::new(),
            ready: VecDeque::new(),
            timers: BTreeMap::new(),
            timer_sequence: 0,
            woken: Arc::default(),
            current_lane: None,
            current_process: 0,
            reap: Vec::new(),
            power_cuts: Vec::new(),
            deviations: Vec::new(),
            struck: Struck::default(),
            steps: 0,
            vfs_calls: 0,
            net: Net::default(),
            hosts: None,
            offers: Vec::new(),
        }
    }

    pub(super) fn note(&mut self, process: Option<ProcessId>, text: impl FnOnce() -> String) {
        let name = process.map_or("", |process| self.processes[process].name.as_str());
        self.trace.note(self.now_us, name, text);
    }

    pub(super) fn lane_is_alive(&self, lane: LaneId) -> bool {
        let lane = &self.lanes[lane];
        let process = &self.processes[lane.process];
        process.alive && process.incarnation == lane.incarnation
    }

    /// A process's clock, in ms since the Unix epoch.
    pub(super) fn clock_ms(&self, process: ProcessId) -> i64 {
        self.options.epoch_ms + (self.now_us + self.processes[process].skew_us).div_euclid(1_000)
    }
}
