//! The discrete-event executor: runs what is ready, jumps over idle time, starts dead processes again.

mod end;
mod executor;
mod options;

use std::rc::Rc;

use super::ffi;
use super::observer::Observer;
use super::operation::{Operation, Ordinals};
use super::process::{Context, ProcessSpec};
use super::turmoil_arm::{Arm, Hosts};
use super::world::{Ending, Machine, MachineId, Process, ProcessId, Runnable, Signal, State, Timer, World};
use crate::choice::{Chooser, Phase, stable_hash};
use executor::Advance;

pub use end::End;
pub(crate) use end::named;
pub use options::{EPOCH_MS, SimulationOptions};

/// A world that is being set up or run.
pub struct Simulation {
    world: Rc<World>,
    /// What drives it instead of this executor, where the run is on turmoil.
    arm: Option<Arm>,
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

    /// The names of a machine's files, as its programs see them.
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
}
