//! The turmoil arm: the same processes on turmoil's `Sim`, each on a host of its own, with turmoil's TCP between them.
//!
//! Disk, locks and power stay with the simulated computer, below and outside of any host. Time is turmoil's: it moves
//! by ticks of [`TICK_MS`], idle ones too, and clocks, timers and messages are due at a tick. A process runs in its
//! host's turn, and its SQLite jobs run in that turn, to their end unless they wait: nobody is preempted inside SQLite
//! here.
//!
//! A process that dies is marked dead and drained in the very turn; its host is crashed when the tick is over, so that
//! the destructors of its program find a dead process. The host of a process that listened is then up without it, and
//! refuses connections; one that lost power is cut off until something is started on it again.

mod link;
mod program;
mod stream;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};

use ::turmoil::{Builder, Sim};

use super::simulation::SimulationOptions;
use super::world::{MachineId, ProcessId, Runnable, State, Timer, World};
use link::{Layout, Link, Links};
use program::Program;

pub(super) use stream::{HostListener, HostStream};

/// How far turmoil's time moves at a time, in ms.
pub const TICK_MS: i64 = 1;
const TICK_US: i64 = TICK_MS * 1_000;
/// How long a message takes at most where that is drawn, in ticks; at least one.
const LATENCY_TICKS_MAX: i64 = 4;
/// Segments that a connection holds for its reader, and connections that a listener holds for its process: more than
/// any run can make, since turmoil panics where a listener's are used up.
const TCP_CAPACITY: usize = 1 << 40;
/// The ports that a host gives out, the first of them.
const PORTS_FROM: u16 = 1_024;
/// How many ticks in a row nothing must happen until a run is over.
const QUIET_TICKS: u32 = 3;

/// How a run goes on turmoil.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurmoilOptions {
    /// Seeds turmoil's random numbers.
    pub seed: u64,
    /// Whether latencies, and the order of the hosts within a tick, are drawn; else a message takes one tick, and the
    /// order is that in which the processes were added.
    pub varies: bool,
}

/// What the world knows of the hosts.
#[derive(Default)]
pub(super) struct Hosts {
    /// The name of each process's host.
    names: BTreeMap<ProcessId, String>,
    /// Who listens where.
    listeners: BTreeMap<(MachineId, u16), ProcessId>,
    /// Open streams of each incarnation of a process.
    streams: BTreeMap<(ProcessId, u32), usize>,
    /// Ports of each process's host that no connection will ever use again: turmoil keeps that of a connect that was
    /// refused or given up.
    lost_ports: BTreeMap<ProcessId, usize>,
    /// Processes that have died, drained, whose hosts have not been crashed.
    dead: Vec<ProcessId>,
    /// Processes that their hosts are to start next.
    starting: BTreeSet<ProcessId>,
    links: Links,
}

impl Hosts {
    /// A process has died and is drained.
    pub(super) fn bury(&mut self, process: ProcessId) {
        self.dead.push(process);
        self.links.have_changed();
    }

    pub(super) fn open_streams(&self, process: ProcessId, incarnation: u32) -> usize {
        self.streams.get(&(process, incarnation)).copied().unwrap_or_default()
    }

    fn process_of(&self, name: &str) -> Option<ProcessId> {
        self.names.iter().find(|(_, known)| *known == name).map(|(process, _)| *process)
    }
}

/// turmoil's simulation, and what drives it.
pub(super) struct Arm {
    sim: Sim<'static>,
    quiet_ticks: u32,
}

impl Arm {
    pub(super) fn new(options: &SimulationOptions, TurmoilOptions { seed, varies }: TurmoilOptions) -> Self {
        let tick = Duration::from_millis(TICK_MS.unsigned_abs());
        let epoch = UNIX_EPOCH + Duration::from_millis(options.epoch_ms.unsigned_abs());
        let mut builder = Builder::new();
        builder
            .rng_seed(seed)
            .epoch(epoch)
            .tick_duration(tick)
            // The limit is the world's.
            .simulation_duration(Duration::from_secs(u64::from(u32::MAX)))
            .min_message_latency(tick)
            .max_message_latency(if varies { tick * LATENCY_TICKS_MAX as u32 } else { tick })
            .ephemeral_ports(PORTS_FROM..=u16::MAX)
            .tcp_capacity(TCP_CAPACITY);
        if varies {
            builder.enable_random_order();
        }
        Self { sim: builder.build(), quiet_ticks: 0 }
    }

    /// Runs until nothing is left to do, `is_over` says so at the end of a tick, or a limit is met. Returns whether
    /// a limit was met.
    pub(super) fn run_until(&mut self, world: &Rc<World>, is_over: &mut dyn FnMut() -> bool) -> bool {
        loop {
            self.between_ticks(world);
            if is_over() || self.is_idle(world) {
                return false;
            }
            {
                let mut state = world.state.borrow_mut();
                if state.now_us + TICK_US > state.options.limit_us || state.steps >= state.options.steps_max {
                    return true;
                }
                state.steps += 1;
            }
            self.tick(world);
        }
    }

    fn tick(&mut self, world: &Rc<World>) {
        let before = world.state.borrow().steps;
        // A program's panic is caught where it is polled: what comes out here is a fault of the arm itself.
        if let Err(error) = self.sim.step() {
            panic!("a host of the turmoil arm failed: {error}");
        }
        let happened = world.state.borrow().steps != before;
        self.quiet_ticks = if happened { 0 } else { self.quiet_ticks + 1 };
    }

    /// What is due at the end of a tick and the beginning of the next one.
    fn between_ticks(&mut self, world: &Rc<World>) {
        world.state.borrow_mut().now_us = i64::try_from(self.sim.elapsed().as_micros()).unwrap_or(i64::MAX);
        self.join(world);
        self.crash_dead(world);
        self.fire_due(world);
        self.join(world);
        wake_ready(world);
    }

    /// Brings turmoil's links to where the world's machines and faults want them.
    fn join(&mut self, world: &Rc<World>) {
        let state = &mut *world.state.borrow_mut();
        let Some(hosts) = &mut state.hosts else { return };
        if !hosts.links.take_changed() {
            return;
        }
        let layout = Layout { processes: &state.processes, machines: &state.machines, now_us: state.now_us };
        let names = &hosts.names;
        for (a, b, before, after) in hosts.links.changes(&layout, names.keys().copied()) {
            link::join(&self.sim, (names[&a].as_str(), names[&b].as_str()), before, after);
        }
    }

    fn crash_dead(&mut self, world: &Rc<World>) {
        let dead: Vec<_> = {
            let state = &mut *world.state.borrow_mut();
            let Some(hosts) = &mut state.hosts else { return };
            let dead = std::mem::take(&mut hosts.dead);
            let is_off = |process: ProcessId| state.machines[state.processes[process].machine].is_off;
            let refuses =
                |process| !is_off(process) && hosts.listeners.values().any(|known| *known == process);
            dead.into_iter().map(|process| (hosts.names[&process].clone(), refuses(process))).collect()
        };
        for (name, refuses) in dead {
            self.sim.crash(name.as_str());
            if refuses {
                // The machine is up, without the process: it refuses what the process would have accepted.
                self.sim.bounce(name.as_str());
            }
        }
    }

    fn fire_due(&mut self, world: &Rc<World>) {
        loop {
            let timer = {
                let mut state = world.state.borrow_mut();
                let now_us = state.now_us;
                match state.timers.first_entry() {
                    Some(entry) if entry.key().0 <= now_us => entry.remove(),
                    _ => return,
                }
            };
            self.quiet_ticks = 0;
            match timer {
                Timer::Wake(waker) => waker.wake(),
                Timer::Restart(process) => self.start(world, process),
                other => fire(&mut world.state.borrow_mut(), &other),
            }
        }
    }

    /// Starts a process on its host, which comes into being with it.
    fn start(&mut self, world: &Rc<World>, process: ProcessId) {
        let (name, is_new) = {
            let mut state = world.state.borrow_mut();
            let name = format!("{}.p{process}", state.processes[process].name);
            let Some(hosts) = &mut state.hosts else { return };
            hosts.starting.insert(process);
            hosts.links.have_changed();
            let is_new = hosts.names.insert(process, name.clone()).is_none();
            (name, is_new)
        };
        if is_new {
            let world = Rc::clone(world);
            self.sim.host(name, move || Program::new(Rc::clone(&world), process));
        } else {
            self.sim.bounce(name);
        }
    }

    /// Whether nothing will ever happen again: no timer, no message, and nothing has happened for some ticks.
    fn is_idle(&self, world: &Rc<World>) -> bool {
        if self.quiet_ticks < QUIET_TICKS || !world.state.borrow().timers.is_empty() {
            return false;
        }
        let mut is_flying = false;
        self.sim.links(|mut links| is_flying = links.any(|mut link| link.next().is_some()));
        !is_flying
    }
}

fn fire(state: &mut State, timer: &Timer) {
    match *timer {
        Timer::Lane(lane) if state.lane_is_alive(lane) => state.queue_lane(lane),
        Timer::Resume(process) => {
            state.end_stall(process);
            if let Some(waker) = &state.processes[process].waker {
                waker.wake_by_ref();
            }
        }
        Timer::Links => {
            if let Some(hosts) = &mut state.hosts {
                hosts.links.have_changed();
            }
        }
        _ => {}
    }
}

/// Lets the hosts know whose jobs can go on; they run in their host's turn.
fn wake_ready(world: &World) {
    let mut state = world.state.borrow_mut();
    let ready = std::mem::take(&mut state.ready);
    for runnable in ready {
        let process = state.process_of(runnable);
        if state.processes[process].stalled.is_none()
            && let Some(waker) = &state.processes[process].waker
        {
            waker.wake_by_ref();
        }
        if let Runnable::Lane(lane) = runnable
            && state.lane_is_alive(lane)
        {
            state.ready.push_back(runnable);
        }
    }
}
