//! The discrete-event executor: runs what is ready, jumps over idle time, starts dead processes again.

use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;

use super::ffi;
use super::observer::Observer;
use super::operation::{Operation, Ordinals};
use super::process::{Context, ProcessSpec};
use super::trace::{Event, Recording};
use super::turmoil_arm::{Arm, Hosts, TurmoilOptions};
use super::world::{
    Ending, Machine, MachineId, Process, ProcessId, Runnable, Signal, State, Struck, Timer, World, enter,
};
use crate::choice::{Action, Chooser, Decision, Deviation, Phase, Point, stable_hash};

/// The true time at the beginning of a run where nothing else is set, in ms since the Unix epoch.
pub const EPOCH_MS: i64 = 1_000_000;

/// Settings of a run.
#[derive(Debug, Clone)]
pub struct SimulationOptions {
    /// Seeds SQLite's own random numbers.
    pub sqlite_seed: u32,
    /// The true time at the beginning, in ms since the Unix epoch.
    pub epoch_ms: i64,
    /// From this virtual time on nothing special happens any more, in microseconds.
    pub faults_until_us: i64,
    /// The run ends here at the latest, in microseconds of virtual time.
    pub limit_us: i64,
    /// The run ends after this many steps at the latest.
    pub steps_max: u64,
    /// How long a stall can take, in ms.
    pub stall_ms: (i64, i64),
    /// How much later a message can be, and how long a partition can last, in ms.
    pub slow_ms: (i64, i64),
    /// How far a clock can jump, in ms.
    pub clock_jump_ms: (i64, i64),
    /// How much of the run is listed as events.
    pub recording: Recording,
    /// Puts the processes on turmoil's hosts; `None` is the built-in executor and network.
    pub turmoil: Option<TurmoilOptions>,
}

impl Default for SimulationOptions {
    fn default() -> Self {
        Self {
            sqlite_seed: 1,
            epoch_ms: EPOCH_MS,
            faults_until_us: i64::MAX,
            limit_us: i64::MAX,
            steps_max: 10_000_000,
            stall_ms: (1, 3_000),
            slow_ms: (1, 3_000),
            clock_jump_ms: (-2_000, 2_000),
            recording: Recording::Off,
            turmoil: None,
        }
    }
}

impl SimulationOptions {
    /// What seeds SQLite's own random numbers in the run of a seed.
    #[must_use]
    pub const fn sqlite_seed_of(seed: u64) -> u32 {
        (stable_hash(&seed.to_le_bytes()) >> 32) as u32
    }
}

/// A world that is being set up or run.
pub struct Simulation {
    world: Rc<World>,
    /// What drives it instead of this executor, where the run is on turmoil.
    arm: Option<Arm>,
}

/// How a run ended.
#[derive(Debug)]
pub struct End {
    /// Virtual time, in microseconds.
    pub at_us: i64,
    /// Steps of tasks and lanes.
    pub steps: u64,
    /// Calls of SQLite into the operating system.
    pub vfs_calls: u64,
    /// Whether the run was stopped by a limit of time or steps rather than by itself.
    pub hit_limit: bool,
    /// The hash of everything that happened.
    pub hash: u64,
    /// The story, where it was to be told.
    pub events: Vec<Event>,
    /// Where the run left the default.
    pub deviations: Vec<(Point, Decision)>,
    /// What struck.
    pub struck: Struck,
    /// Each process's name and how it ended; `None` where it was still running.
    pub processes: Vec<(String, Option<Ending>)>,
}

impl End {
    /// The deviations by the names of their points and processes.
    #[must_use]
    pub fn named_deviations(&self) -> Vec<Deviation> {
        let name = |process: usize| self.processes.get(process).map_or("", |(name, _)| name.as_str());
        let named = self.deviations.iter().map(|(point, decision)| Deviation {
            at: point.name(name(point.process)),
            action: Action::from_decision(*decision, |process| name(process).to_owned()),
        });
        named.collect()
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

struct Blind;

impl Observer for Blind {}

impl Simulation {
    /// An empty world. SQLite's random numbers are seeded now: run one simulation at a time in an OS process.
    #[must_use]
    pub fn new(options: SimulationOptions, chooser: impl Chooser + 'static) -> Self {
        ffi::register();
        ffi::seed_sqlite(options.sqlite_seed);
        let arm = options.turmoil.map(|turmoil| Arm::new(&options, turmoil));
        let mut state = State::new(options, Box::new(chooser));
        state.hosts = arm.is_some().then(Hosts::default);
        let world = World { state: state.into(), observer: std::cell::RefCell::new(Box::new(Blind)) };
        Self { world: Rc::new(world), arm }
    }

    /// Sets who watches.
    pub fn observe(&mut self, observer: impl Observer + 'static) {
        *self.world.observer.borrow_mut() = Box::new(observer);
    }

    /// Adds a machine with an empty disk.
    pub fn machine(&mut self, name: impl Into<String>) -> MachineId {
        let mut state = self.world.state.borrow_mut();
        state.machines.push(Machine { name: name.into(), disk: Default::default(), is_off: false });
        state.machines.len() - 1
    }

    /// Puts a durable file on a machine's disk.
    pub fn install(&mut self, machine: MachineId, name: &str, content: &[u8]) {
        self.world.state.borrow_mut().machines[machine].disk.install(name, content);
    }

    /// A file's content as the programs of a machine see it.
    #[must_use]
    pub fn read(&self, machine: MachineId, name: &str) -> Option<Vec<u8>> {
        self.world.state.borrow().machines[machine].disk.read(name).map(<[u8]>::to_vec)
    }

    /// Whether anything at all is left of a file's journal, as programs see it.
    #[must_use]
    pub fn names(&self, machine: MachineId) -> Vec<String> {
        self.world.state.borrow().machines[machine].disk.names().map(str::to_owned).collect()
    }

    /// The files of all machines as their programs see them: `machine/name` and content, in order.
    #[must_use]
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let state = self.world.state.borrow();
        let of = |machine: &Machine, name: &str| {
            let content = machine.disk.read(name).unwrap_or_default();
            (format!("{}/{name}", machine.name), content.to_vec())
        };
        let machines = state.machines.iter();
        machines.flat_map(|machine| machine.disk.names().map(move |name| of(machine, name))).collect()
    }

    /// Cuts a machine's power now, between two steps.
    pub fn cut_power(&mut self, machine: MachineId) {
        let _entered = self.enter();
        self.world.state.borrow_mut().cut_power(machine);
        self.world.reap();
    }

    /// From now on nothing special happens any more.
    pub fn stop_faults(&mut self) {
        let mut state = self.world.state.borrow_mut();
        state.options.faults_until_us = state.now_us;
        // Somebody sets the clocks right that have jumped.
        for process in &mut state.processes {
            process.skew_us = process.lasting_skew_us;
        }
    }

    /// Sets the virtual time at which the run ends at the latest, in microseconds.
    pub fn set_limit_us(&mut self, limit_us: i64) {
        self.world.state.borrow_mut().options.limit_us = limit_us;
    }

    /// Starts every process once more that died for good.
    pub fn revive(&mut self) {
        let mut state = self.world.state.borrow_mut();
        let now_us = state.now_us;
        for process in 0..state.processes.len() {
            if state.processes[process].ending.take_if(|ending| *ending == Ending::Killed).is_some() {
                state.add_timer(now_us, Timer::Restart(process));
            }
        }
    }

    /// Adds a process; it is started when the simulation runs.
    pub fn process<F>(&mut self, spec: ProcessSpec, main: impl Fn(Context) -> F + 'static) -> ProcessId
    where
        F: Future<Output = ()> + 'static,
    {
        let mut state = self.world.state.borrow_mut();
        let process = state.processes.len();
        state.processes.push(Process {
            hash: stable_hash(spec.name.as_bytes()),
            name: spec.name,
            machine: spec.machine,
            incarnation: 0,
            alive: false,
            skew_us: spec.clock_skew_ms * 1_000,
            lasting_skew_us: spec.clock_skew_ms * 1_000,
            stalled: None,
            deferred: Vec::new(),
            ordinals: Ordinals::default(),
            scope: Operation::new("start", 1, Phase::Wait),
            restarts_left: spec.restarts,
            restart_after_us: spec.restart_after_ms * 1_000,
            main: Rc::new(move |context| Box::pin(main(context))),
            task: None,
            waker: None,
            task_queued: false,
            ending: None,
            steps: 0,
            signal: Signal::default(),
        });
        let now_us = state.now_us;
        state.add_timer(now_us, Timer::Restart(process));
        process
    }

    /// Runs until nothing is left to do, `is_over` says so at the end of an instant, or a limit is met.
    /// Returns whether a limit was met. Can be called again.
    pub fn run_until(&mut self, mut is_over: impl FnMut() -> bool) -> bool {
        let _entered = self.enter();
        if let Some(arm) = &mut self.arm {
            return arm.run_until(&self.world, &mut is_over);
        }
        loop {
            self.collect_woken();
            let next = self.world.state.borrow_mut().pick();
            match next {
                Some(Runnable::Task(process, incarnation)) => self.step_task(process, incarnation),
                Some(Runnable::Lane(lane)) => self.world.step_lane(lane),
                None if is_over() => return false,
                None => match self.advance() {
                    Advance::Moved => {}
                    Advance::Idle => return false,
                    Advance::Limit => return true,
                },
            }
            self.world.reap();
            let state = self.world.state.borrow();
            if state.steps >= state.options.steps_max {
                return true;
            }
        }
    }

    /// Runs to the end and takes the world apart.
    #[must_use]
    pub fn run(mut self) -> End {
        let hit_limit = self.run_until(|| false);
        self.finish(hit_limit)
    }

    /// Takes the world apart; what still runs is dropped.
    #[must_use]
    pub fn finish(mut self, hit_limit: bool) -> End {
        let end = {
            let mut state = self.world.state.borrow_mut();
            let processes = state.processes.iter().map(|p| (p.name.clone(), p.ending.clone())).collect();
            End {
                at_us: state.now_us,
                steps: state.steps,
                vfs_calls: state.vfs_calls,
                hit_limit,
                hash: state.trace.hash(),
                events: state.trace.take_events(),
                deviations: std::mem::take(&mut state.deviations),
                struck: state.struck,
                processes,
            }
        };
        self.take_apart();
        end
    }

    /// Drops all programs, and with them the circle of references between them and the world.
    fn take_apart(&mut self) {
        let _entered = self.enter();
        *self.world.observer.borrow_mut() = Box::new(Blind);
        let count = self.world.state.borrow().processes.len();
        for process in 0..count {
            let mut state = self.world.state.borrow_mut();
            state.processes[process].restarts_left = 0;
            if state.processes[process].alive {
                state.die(process, false);
            }
        }
        self.world.reap();
        drop(self.arm.take());
        let mut state = self.world.state.borrow_mut();
        let remains = (std::mem::take(&mut state.timers), state.processes.drain(..).collect::<Vec<_>>());
        drop(state);
        drop(remains);
    }

    fn enter(&self) -> Entered {
        Entered(enter(Some(Rc::clone(&self.world))))
    }

    fn collect_woken(&self) {
        let mut state = self.world.state.borrow_mut();
        let woken = Arc::clone(&state.woken);
        for (process, incarnation) in woken.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let this = &mut state.processes[process];
            if this.incarnation == incarnation && !std::mem::replace(&mut this.task_queued, true) {
                state.ready.push_back(Runnable::Task(process, incarnation));
            }
        }
    }

    fn step_task(&self, process: ProcessId, incarnation: u32) {
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
    fn advance(&self) -> Advance {
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

    fn fire(&self, timer: Timer) {
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

    fn start(&self, process: ProcessId) {
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

enum Advance {
    Moved,
    Idle,
    Limit,
}

/// Restores the thread's world of before.
struct Entered(Option<Rc<World>>);

impl Drop for Entered {
    fn drop(&mut self) {
        enter(self.0.take());
    }
}
