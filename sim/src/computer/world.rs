//! The state of a run: machines, processes, lanes, timers, and the one place where choices are made.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use ackward::port::FaultPoint;

use super::disk::{Disk, EntryChange, FileId, Unsynced};
use super::ffi::Job;
use super::lock::Level;
use super::network::Net;
use super::observer::{LockEvent, Observer};
use super::operation::{Operation, Ordinals};
use super::process::Main;
use super::simulation::SimulationOptions;
use super::trace::Trace;
use super::turmoil_arm::Hosts;
use crate::choice::{Chooser, Decision, Kind, Offer, Phase, Point, Role, stable_hash};

/// A machine's number.
pub type MachineId = usize;
/// A process's number, in the order in which they were added.
pub type ProcessId = usize;
pub(super) type LaneId = usize;

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

pub(super) struct Machine {
    pub(super) name: String,
    pub(super) disk: Disk,
    /// It lost power, and none of its processes has been started since.
    pub(super) is_off: bool,
}

pub(super) struct Process {
    pub(super) name: String,
    pub(super) hash: u64,
    pub(super) machine: MachineId,
    pub(super) incarnation: u32,
    pub(super) alive: bool,
    pub(super) skew_us: i64,
    /// The skew that it was given, without jumps.
    pub(super) lasting_skew_us: i64,
    pub(super) stalled: Option<Stalled>,
    pub(super) deferred: Vec<Runnable>,
    pub(super) ordinals: Ordinals,
    pub(super) scope: Operation,
    pub(super) restarts_left: u32,
    pub(super) restart_after_us: i64,
    pub(super) main: Main,
    pub(super) task: Option<std::pin::Pin<Box<dyn Future<Output = ()>>>>,
    pub(super) waker: Option<Waker>,
    pub(super) task_queued: bool,
    pub(super) ending: Option<Ending>,
    pub(super) steps: u64,
    pub(super) signal: Signal,
}

/// SIGTERM, as one incarnation of a process meets it.
#[derive(Default)]
pub(super) struct Signal {
    /// When it came, in microseconds of virtual time.
    pub(super) came_us: Option<i64>,
    /// Whoever waits for it; empty where the process does not listen.
    pub(super) waiting: Vec<Waker>,
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

pub(super) struct Stalled {
    pub(super) until_us: i64,
    /// The world's steps when it began, less its own: more of them mean that others ran meanwhile.
    others_steps: u64,
}

/// What a job does.
pub(super) type Body = Box<dyn FnOnce()>;

pub(super) struct Lane {
    pub(super) process: ProcessId,
    pub(super) incarnation: u32,
    pub(super) operation: Operation,
    pub(super) job: Option<Job>,
    pub(super) queue: VecDeque<(&'static str, Body)>,
    pub(super) queued: bool,
    /// Errors injected into the operation under way, which count once a caller has seen them.
    injected: Vec<Kind>,
}

pub(super) struct OpenFile {
    pub(super) process: ProcessId,
    pub(super) incarnation: u32,
    pub(super) lane: LaneId,
    pub(super) machine: MachineId,
    pub(super) file: FileId,
    pub(super) name: Rc<str>,
    pub(super) is_journal: bool,
    pub(super) is_database: bool,
    pub(super) is_new: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runnable {
    Task(ProcessId, u32),
    Lane(LaneId),
}

pub(super) enum Timer {
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
pub(super) enum Verdict {
    Go,
    /// The job must suspend; afterwards it may be dead.
    Suspend,
    Fail(Kind),
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

    pub(super) fn add_timer(&mut self, at_us: i64, timer: Timer) -> (i64, u64) {
        self.timer_sequence += 1;
        let key = (at_us, self.timer_sequence);
        self.timers.insert(key, timer);
        key
    }

    pub(super) fn add_lane(&mut self, process: ProcessId) -> LaneId {
        let incarnation = self.processes[process].incarnation;
        let operation = Operation::new("idle", 1, Phase::Wait);
        let (queue, injected) = (VecDeque::new(), Vec::new());
        self.lanes.push(Lane { process, incarnation, operation, job: None, queue, queued: false, injected });
        self.lanes.len() - 1
    }

    /// Gives a lane one more job.
    pub(super) fn submit(&mut self, lane: LaneId, label: &'static str, body: Body) {
        self.lanes[lane].queue.push_back((label, body));
        if self.lanes[lane].job.is_none() {
            self.queue_lane(lane);
        }
    }

    pub(super) fn queue_lane(&mut self, lane: LaneId) {
        if !std::mem::replace(&mut self.lanes[lane].queued, true) {
            self.ready.push_back(Runnable::Lane(lane));
        }
    }

    /// Begins the next job of a lane, if there is one.
    pub(super) fn begin_job(&mut self, lane: LaneId) -> Option<Job> {
        let (label, body) = self.lanes[lane].queue.pop_front()?;
        let process = self.lanes[lane].process;
        let ordinal = self.processes[process].ordinals.next(label);
        self.lanes[lane].operation = Operation::new(label, ordinal, Phase::Begin);
        self.lanes[lane].injected.clear();
        self.processes[process].scope = Operation::new(label, ordinal, Phase::Wait);
        self.trace.fold(stable_hash(label.as_bytes()) ^ u64::from(ordinal));
        Some(Job::new(body))
    }

    /// The choice at a call into the operating system. `offers` are the errors that this call can meet.
    pub(super) fn vfs_call(&mut self, role: Role, errors: &[Kind], detail: u64) -> Verdict {
        self.vfs_calls += 1;
        let Some(lane) = self.current_lane else { return Verdict::Fail(Kind::IoError) };
        if !self.lane_is_alive(lane) {
            return Verdict::Fail(Kind::Kill);
        }
        self.trace.fold(
            ((role as u64) << 56) ^ ((lane as u64) << 40) ^ detail ^ (self.now_us as u64).rotate_left(20),
        );
        if std::thread::panicking() {
            return Verdict::Go;
        }
        let Some(decision) = self.choose_in_lane(lane, role, errors) else { return Verdict::Go };
        self.apply_in_lane(lane, decision)
    }

    fn choose_in_lane(&mut self, lane: LaneId, role: Role, errors: &[Kind]) -> Option<Decision> {
        let point = self.armed_point(lane, role)?;
        let process = point.process;
        let mut offers = std::mem::take(&mut self.offers);
        offers.clear();
        self.offer_switches(process, Kind::Switch, &mut offers);
        let (low, high) = self.options.stall_ms;
        offers.push(Offer { kind: Kind::Stall, low, high });
        offers.extend(errors.iter().map(|kind| Offer::plain(*kind)));
        offers.push(Offer::plain(Kind::Kill));
        offers.push(Offer::plain(Kind::PowerCut));
        self.offer_terminate(process, &mut offers);
        let decision = self.decide(&point, &offers);
        self.offers = offers;
        (!decision.is_go()).then_some(decision)
    }

    fn hook(&mut self, role: Role) -> Verdict {
        let Some(lane) = self.current_lane else { return self.hook_of_process(role) };
        if !self.lane_is_alive(lane) {
            return Verdict::Fail(Kind::Kill);
        }
        let Some(point) = self.armed_point(lane, role) else { return Verdict::Go };
        let offers = [Offer::plain(Kind::HookKill), Offer::plain(Kind::HookError)];
        let decision = self.decide(&point, &offers);
        self.hooked(self.lanes[lane].process, decision)
    }

    /// A hook outside of SQLite: a process that is killed here goes on, without effect, to its next wait.
    fn hook_of_process(&mut self, role: Role) -> Verdict {
        let process = self.current_process;
        let offers = [Offer::plain(Kind::HookKill), Offer::plain(Kind::HookError)];
        let decision = self.choose_in_process(process, Phase::Wait, role, &offers);
        self.hooked(process, decision)
    }

    fn hooked(&mut self, process: ProcessId, decision: Decision) -> Verdict {
        match decision.kind {
            Kind::HookKill => {
                self.struck.effective[Kind::HookKill as usize] += 1;
                self.kill(process);
                Verdict::Suspend
            }
            Kind::HookError => {
                self.struck.effective[Kind::HookError as usize] += 1;
                Verdict::Fail(Kind::HookError)
            }
            _ => Verdict::Go,
        }
    }

    /// The point of a call, where a choice is possible there; listed where calls are.
    fn armed_point(&mut self, lane: LaneId, role: Role) -> Option<Point> {
        let (is_armed, lists_calls) = (self.is_armed(), self.trace.lists_calls());
        if !is_armed && !lists_calls {
            return None;
        }
        let phase = self.lanes[lane].operation.phase;
        let point = self.point_of_lane(lane, phase, role);
        if lists_calls {
            let at = point.name(&self.processes[point.process].name);
            self.note(Some(point.process), || format!("-- {at}"));
        }
        is_armed.then_some(point)
    }

    fn point_of_lane(&mut self, lane: LaneId, phase: Phase, role: Role) -> Point {
        let operation = &mut self.lanes[lane].operation;
        let (label, ordinal) = (operation.label, operation.ordinal);
        let count = operation.count(phase, role);
        let process = self.lanes[lane].process;
        let (process_hash, incarnation) = (self.processes[process].hash, self.processes[process].incarnation);
        Point { process, process_hash, incarnation, operation: label, ordinal, phase, role, count }
    }

    /// Offers each other process that is ready to run.
    fn offer_switches(&self, process: ProcessId, kind: Kind, offers: &mut Vec<Offer>) {
        if self.hosts.is_some() {
            // Each runs in its host's turn.
            return;
        }
        for runnable in &self.ready {
            let other = self.process_of(*runnable) as i64;
            let known = offers.iter().any(|offer| offer.kind == kind && offer.low == other);
            if other != process as i64 && !known {
                offers.push(Offer::of(kind, other));
            }
        }
    }

    /// Offers SIGTERM to a process that listens and has not had it.
    pub(super) fn offer_terminate(&self, process: ProcessId, offers: &mut Vec<Offer>) {
        let signal = &self.processes[process].signal;
        if signal.came_us.is_none() && !signal.waiting.is_empty() {
            offers.push(Offer::plain(Kind::Terminate));
        }
    }

    /// Sends SIGTERM to a process.
    pub(super) fn terminate(&mut self, process: ProcessId) {
        let signal = &mut self.processes[process].signal;
        if signal.came_us.is_some() || signal.waiting.is_empty() {
            return;
        }
        signal.came_us = Some(self.now_us);
        for waker in std::mem::take(&mut signal.waiting) {
            waker.wake();
        }
        self.struck.effective[Kind::Terminate as usize] += 1;
        self.note(Some(process), || "is told to end".to_owned());
    }

    fn apply_in_lane(&mut self, lane: LaneId, decision: Decision) -> Verdict {
        let process = self.lanes[lane].process;
        match decision.kind {
            Kind::Switch => {
                self.queue_lane(lane);
                self.run_first(usize::try_from(decision.value).unwrap_or(process));
                self.struck.effective[Kind::Switch as usize] += 1;
                Verdict::Suspend
            }
            Kind::Stall => {
                self.stall(process, decision.value);
                self.queue_lane(lane);
                Verdict::Suspend
            }
            Kind::Kill => {
                // In the middle of an operation: its work is unfinished.
                self.struck.effective[Kind::Kill as usize] += 1;
                self.kill(process);
                Verdict::Suspend
            }
            Kind::PowerCut => {
                self.cut_power(self.processes[process].machine);
                Verdict::Suspend
            }
            Kind::Terminate => {
                self.terminate(process);
                Verdict::Go
            }
            kind => {
                self.lanes[lane].injected.push(kind);
                Verdict::Fail(kind)
            }
        }
    }

    pub(super) fn choose_in_process(
        &mut self,
        process: ProcessId,
        phase: Phase,
        role: Role,
        offers: &[Offer],
    ) -> Decision {
        if !self.is_armed() || !self.processes[process].alive {
            return Decision::GO;
        }
        let point = self.point_of_process(process, phase, role);
        self.decide(&point, offers)
    }

    fn point_of_process(&mut self, process: ProcessId, phase: Phase, role: Role) -> Point {
        let this = &mut self.processes[process];
        let count = this.scope.count(phase, role);
        let (process_hash, incarnation) = (this.hash, this.incarnation);
        let (operation, ordinal) = (this.scope.label, this.scope.ordinal);
        Point { process, process_hash, incarnation, operation, ordinal, phase, role, count }
    }

    fn is_armed(&self) -> bool {
        self.now_us < self.options.faults_until_us && self.chooser.is_armed()
    }

    fn decide(&mut self, point: &Point, offers: &[Offer]) -> Decision {
        if offers.is_empty() {
            return Decision::GO;
        }
        let decision = self.chooser.choose(point, offers);
        if !decision.is_go() {
            self.struck.chosen[decision.kind as usize] += 1;
            self.deviations.push((*point, decision));
            self.trace.fold(point.key() ^ ((decision.kind as u64) << 48) ^ decision.value as u64);
            if self.tells(decision.kind) {
                let name = |id: usize| self.processes.get(id).map(|p| p.name.clone()).unwrap_or_default();
                let action = crate::choice::Action::from_decision(decision, name);
                let at = point.name(&self.processes[point.process].name);
                self.note(Some(point.process), || format!("!! {action} at {at}"));
            }
        }
        decision
    }

    /// Whether a decision belongs into the story: who runs next fills pages, and is told with the calls only.
    fn tells(&self, kind: Kind) -> bool {
        let is_scheduling = matches!(kind, Kind::Switch | Kind::Pick);
        self.trace.is_recording() && (!is_scheduling || self.trace.lists_calls())
    }

    /// Lets a process run before the others that are ready.
    pub(super) fn run_first(&mut self, process: ProcessId) {
        let found = self.ready.iter().position(|runnable| self.process_of(*runnable) == process);
        if let Some(runnable) = found.and_then(|index| self.ready.remove(index)) {
            self.ready.push_front(runnable);
        }
    }

    pub(super) fn process_of(&self, runnable: Runnable) -> ProcessId {
        match runnable {
            Runnable::Task(process, _) => process,
            Runnable::Lane(lane) => self.lanes[lane].process,
        }
    }

    /// Picks what runs next: the first that is ready, unless the chooser prefers another process.
    pub(super) fn pick(&mut self) -> Option<Runnable> {
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

    pub(super) fn stall(&mut self, process: ProcessId, duration_ms: i64) {
        let until_us = self.now_us + duration_ms.max(0) * 1_000;
        let others_steps = self.steps - self.processes[process].steps;
        self.processes[process].stalled = Some(Stalled { until_us, others_steps });
        self.add_timer(until_us, Timer::Resume(process));
    }

    pub(super) fn end_stall(&mut self, process: ProcessId) {
        let this = &mut self.processes[process];
        let Some(stalled) = this.stalled.take_if(|stalled| stalled.until_us <= self.now_us) else { return };
        if self.steps - this.steps > stalled.others_steps {
            self.struck.effective[Kind::Stall as usize] += 1;
        }
        self.ready.extend(this.deferred.drain(..));
    }

    /// Marks a process dead and releases its locks; its code is drained by the executor. Whoever kills says
    /// whether that was the effect of a fault.
    pub(super) fn kill(&mut self, process: ProcessId) {
        if !self.processes[process].alive {
            return;
        }
        self.die(process, false);
        self.note(Some(process), || "is killed".to_owned());
    }

    pub(super) fn die(&mut self, process: ProcessId, is_power_cut: bool) {
        self.drop_sockets(process, is_power_cut);
        let this = &mut self.processes[process];
        this.alive = false;
        this.stalled = None;
        this.deferred.clear();
        let machine = this.machine;
        let (handles, processes) = (&self.handles, &self.processes);
        self.machines[machine].disk.release_locks_of(|handle| {
            handles[handle].as_ref().is_none_or(|open| {
                let owner = &processes[open.process];
                !owner.alive || owner.incarnation != open.incarnation
            })
        });
        self.reap.push(process);
        self.trace.fold(0xdead ^ process as u64);
    }

    /// A machine loses power: its processes die, and what was not synced is lost or kept by choice.
    pub(super) fn cut_power(&mut self, machine: MachineId) {
        let mut was_busy = false;
        for process in 0..self.processes.len() {
            if self.processes[process].machine == machine && self.processes[process].alive {
                was_busy |= self.lanes.iter().any(|lane| lane.process == process && lane.job.is_some());
                self.die(process, true);
            }
        }
        self.machines[machine].is_off = true;
        let name = self.machines[machine].name.clone();
        self.trace.note(self.now_us, &name, || "loses power".to_owned());
        let mut disk = std::mem::take(&mut self.machines[machine].disk);
        let hash = stable_hash(name.as_bytes());
        let witness = self.processes.iter().position(|p| p.machine == machine).unwrap_or(0);
        let incarnation = self.processes.get(witness).map_or(1, |p| p.incarnation);
        let mut scope = Operation::new("power", self.processes[witness].ordinals.next("power"), Phase::Power);
        let lost = disk.cut_power(|part| {
            let (role, detail) = match part {
                Unsynced::Entry(change) => (Role::Entry, entry_text(change)),
                Unsynced::Length => (Role::Length, String::new()),
                Unsynced::Sector => (Role::Sector, String::new()),
            };
            let count = scope.count(Phase::Power, role);
            let (operation, ordinal, phase) = (scope.label, scope.ordinal, Phase::Power);
            let process = witness;
            let process_hash = self.processes.get(witness).map_or(hash, |p| p.hash);
            let point = Point { process, process_hash, incarnation, operation, ordinal, phase, role, count };
            let is_kept = !self.decide(&point, &[Offer::plain(Kind::Keep)]).is_go();
            if role == Role::Entry {
                let fate = if is_kept { "survived" } else { "is lost" };
                self.trace.note(self.now_us, &name, || format!("unsynced: {detail} {fate}"));
            }
            is_kept
        });
        self.machines[machine].disk = disk;
        if lost > 0 || was_busy {
            self.struck.effective[Kind::PowerCut as usize] += 1;
        }
        self.trace.fold(0x0ff ^ lost as u64);
        self.power_cuts.push((machine, lost));
    }

    /// What an observer is told about a handle's file.
    pub(super) fn lock_event<'a>(
        processes: &'a [Process],
        lanes: &[Lane],
        machines: &'a mut [Machine],
        now_us: i64,
        lane: LaneId,
        (machine, name): (MachineId, &'a str),
    ) -> LockEvent<'a> {
        let process = lanes[lane].process;
        LockEvent {
            at_us: now_us,
            process,
            process_name: &processes[process].name,
            lane,
            operation: lanes[lane].operation.label,
            machine,
            file: name,
            image: machines[machine].disk.read(name).unwrap_or_default(),
        }
    }
}

fn entry_text(change: &EntryChange) -> String {
    match change {
        EntryChange::Create(name, _) => format!("the creation of {name}"),
        EntryChange::Delete(name, _) => format!("the deletion of {name}"),
    }
}
