//! A scenario's world: a machine with the queue file, its producer, workers and operator, and a receiver with
//! its inbox on a machine of its own, all running the code that runs in production.

mod chooser;
mod deviations;
mod fault;
mod finale;
mod front;
mod loris;
mod operator;
mod producer;
mod receiver;
mod sender;
mod stream;
mod system;
mod template;
mod worker;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ackward::rules::Timeout;
use ackward::storage::Durability;
use rand_chacha::rand_core::RngCore;

use crate::choice::{Chooser, Deviation, Kind};
use crate::computer::{
    Context, End, Ending, Event, ProcessSpec, Recording, Simulation, SimulationOptions, Struck,
    TurmoilOptions, World, current,
};
use crate::judge::{
    self, Judged, Judges, Milestone, Milestones, NO_PANIC, SETTLES, STOPS_IN_TIME, Violation, Watch,
};
use crate::scenario::{Net, Scenario};

pub use chooser::{SceneChooser, probabilities};
pub use deviations::Deviations;
pub use fault::SimFault;
pub use producer::open as open_queue;
pub use sender::{WatchedSender, http as http_sender, http_patient as patient_http_sender};
pub use stream::ADDRESS as PUBLISHER_ADDRESS;
pub use system::{Real, System};
pub use worker::{Post, work};

/// The queue file's name on its machine.
pub const QUEUE_FILE: &str = "queue.db";
/// The inbox file's name on the receiver's machine.
pub const INBOX_FILE: &str = "inbox.db";
/// How long a run may take to settle once faults have stopped, in ms: the longest time to live and the longest
/// lease, and some more.
const SETTLE_MS: i64 = 130_000;

/// The receiver's number among the processes.
const RECEIVER: usize = 0;
/// What may come on top of a grace time where nothing fails, in ms.
const STOP_SLACK_MS: i64 = 50;

/// What came of one run.
#[derive(Debug)]
pub struct Report {
    /// The seed, also of a run without random faults.
    pub seed: u64,
    /// The broken properties, in order; empty where all held.
    pub violations: Vec<Violation>,
    /// What was reached.
    pub milestones: Milestones,
    /// The hash of everything that happened.
    pub hash: u64,
    /// Virtual time, in microseconds.
    pub at_us: i64,
    /// Calls of SQLite into the operating system.
    pub vfs_calls: u64,
    /// What struck, and what of it had an effect.
    pub struck: Struck,
    /// Where the run left the default.
    pub deviations: Deviations,
    /// Scripted deviations that did not find their point.
    pub unmet: Vec<Deviation>,
    /// The story, where it was to be told.
    pub events: Vec<Event>,
    /// All rows without times, and how each process ended.
    pub final_state: String,
    /// The files of all machines as their programs saw them at the end, `machine/name`; only where every call was
    /// recorded.
    pub files: Vec<(String, Vec<u8>)>,
}

impl Report {
    /// Whether every property held.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        self.violations.is_empty()
    }
}

/// How a scene is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunOptions {
    /// How much is listed in [`Report::events`].
    pub recording: Recording,
    /// Whether judges watch. Without them a run ends when the file's jobs are done or dead, and only panics
    /// and a run that does not settle are noticed: to measure what judging costs.
    pub judging: bool,
}

impl From<Recording> for RunOptions {
    fn from(recording: Recording) -> Self {
        Self { recording, judging: true }
    }
}

impl From<bool> for RunOptions {
    fn from(tells_the_story: bool) -> Self {
        Recording::from(tells_the_story).into()
    }
}

/// What the parts of a scene share.
pub struct Stage {
    /// The scenario.
    pub scenario: Rc<Scenario>,
    /// The run's seed.
    pub seed: u64,
    pub(crate) log: stream::EventLog,
    pub(crate) resyncs: Cell<usize>,
    pub(crate) producer_done: Cell<bool>,
    /// Operators that have not done all they were to do.
    pub(crate) operators_left: Cell<usize>,
    /// The incarnation of the receiver that has its inbox open.
    pub(crate) receiver_open_in: Cell<u32>,
}

/// Runs a scenario's world with one seed, on the real queue.
#[must_use]
pub fn run(scenario: &Rc<Scenario>, seed: u64, options: impl Into<RunOptions>) -> Report {
    run_system::<Real>(scenario, seed, options)
}

/// Runs a scenario's world with one seed, on another system.
#[must_use]
pub fn run_system<S: System>(scenario: &Rc<Scenario>, seed: u64, options: impl Into<RunOptions>) -> Report {
    let chooser = Rc::new(RefCell::new(SceneChooser::new(scenario, seed)));
    let mut report = run_with::<S, _>(scenario, seed, options, Rc::clone(&chooser));
    report.unmet = chooser.borrow().unmet();
    report
}

/// Runs a scenario's world with any chooser.
#[must_use]
pub fn run_with<S: System, C: Chooser + 'static>(
    scenario: &Rc<Scenario>,
    seed: u64,
    options: impl Into<RunOptions>,
    chooser: C,
) -> Report {
    let RunOptions { recording, judging } = options.into();
    let templates = template::templates();
    let mut simulation = Simulation::new(settings(scenario, seed, recording), chooser);
    let host = simulation.machine("queue-host");
    let far = simulation.machine("receiver-host");
    simulation.install(host, QUEUE_FILE, &templates.queue);
    simulation.install(far, INBOX_FILE, &templates.inbox);
    let judges = Rc::new(RefCell::new(Judges::new(
        Judged::new(host, QUEUE_FILE, scenario.durability),
        Judged::new(far, INBOX_FILE, Durability::Extra),
    )));
    if judging {
        simulation.observe(Watch(Rc::clone(&judges)));
    }
    let outer = judge::install(judging.then(|| Rc::clone(&judges)));
    let stage = Rc::new(Stage {
        scenario: Rc::clone(scenario),
        seed,
        log: stream::EventLog::new(scenario.publisher.as_ref()),
        resyncs: Cell::new(0),
        producer_done: Cell::new(scenario.jobs.is_empty()),
        operators_left: Cell::new(scenario.operators().len()),
        receiver_open_in: Cell::new(0),
    });
    add_receiver::<S>(&mut simulation, far, &stage);
    populate::<S>(&mut simulation, host, &stage);
    stream::populate::<S>(&mut simulation, &stage, &judges);
    let reader = finale::Reader::new(host);
    let is_settled = || if judging { judges.borrow().is_settled() } else { reader.is_settled() };
    let hit_limit = play(&mut simulation, scenario, || {
        !judges.borrow().violations.is_empty()
            || (stage.producer_done.get()
                && stage.operators_left.get() == 0
                && is_settled()
                && current().is_some_and(|world| stage.has_receiver(&world))
                && stream::has_caught_up(&stage, &judges.borrow()))
    });
    let files = if recording == Recording::Calls { simulation.files() } else { Vec::new() };
    let end = simulation.finish(hit_limit);
    judge::install(outer);
    stream::check(&stage, &mut judges.borrow_mut(), end.at_us);
    Report { files, ..report(scenario, seed, end, &judges) }
}

impl Stage {
    /// The receiver has opened its inbox, and with that brought in order what a power cut left there.
    fn receiver_opened(&self, context: &Context) {
        if context.is_alive() {
            self.receiver_open_in.set(context.incarnation);
        }
    }

    /// Whether the receiver is up.
    fn has_receiver(&self, world: &World) -> bool {
        world.is_running(RECEIVER, self.receiver_open_in.get())
    }
}

/// A process has ended in good order because it was told to, and within its grace time unless something held it
/// up.
fn stopped(context: &Context, grace_ms: i64) {
    let Some(told_us) = context.terminated_at_us() else { return };
    judge::with(|judges, world| {
        judges.milestones.reach(Milestone::Stopped);
        let took_ms = (world.now_us() - told_us) / 1_000;
        if took_ms > grace_ms + STOP_SLACK_MS && world.times_chosen(Kind::Stall) == 0 {
            let detail = format!(
                "process {} ended {took_ms} ms after it was told to, allowed: {grace_ms}",
                context.process
            );
            judges.fail(STOPS_IN_TIME, world.now_us(), detail);
        }
    });
}

fn timeout(ms: i64) -> Timeout {
    Timeout::from_seconds(ms as f64 / 1_000.0).expect("a scenario's times are in range")
}

fn settings(scenario: &Scenario, seed: u64, recording: Recording) -> SimulationOptions {
    SimulationOptions {
        sqlite_seed: SimulationOptions::sqlite_seed_of(seed),
        faults_until_us: scenario.duration_ms * 1_000,
        limit_us: scenario.duration_ms * 1_000,
        stall_ms: (scenario.faults.stall_ms.min(), scenario.faults.stall_ms.max()),
        slow_ms: (scenario.faults.slow_ms.min(), scenario.faults.slow_ms.max()),
        clock_jump_ms: (scenario.faults.clock_jump_ms.min(), scenario.faults.clock_jump_ms.max()),
        recording,
        turmoil: (scenario.net == Net::Turmoil).then(|| TurmoilOptions {
            seed: crate::choice::stream(seed, crate::choice::stable_hash(b"turmoil")).next_u64(),
            varies: scenario.faults.is_random(),
        }),
        ..SimulationOptions::default()
    }
}

fn add_receiver<S: System>(simulation: &mut Simulation, machine: usize, stage: &Rc<Stage>) {
    let spec =
        ProcessSpec { restarts: u32::MAX, restart_after_ms: 200, ..ProcessSpec::new("receiver", machine) };
    let shared = Rc::clone(stage);
    let process = simulation.process(spec, move |context| receiver::serve::<S>(context, Rc::clone(&shared)));
    debug_assert_eq!(process, RECEIVER);
}

fn populate<S: System>(simulation: &mut Simulation, host: usize, stage: &Rc<Stage>) {
    let patient = |name: &str| ProcessSpec {
        restarts: u32::MAX,
        restart_after_ms: 100,
        ..ProcessSpec::new(name, host)
    };
    if stage.scenario.jobs.is_empty() {
        return;
    }
    let shared = Rc::clone(stage);
    simulation
        .process(patient("producer"), move |context| producer::produce::<S>(context, Rc::clone(&shared)));
    for (name, settings) in stage.scenario.worker_processes() {
        let spec = ProcessSpec {
            clock_skew_ms: settings.clock_skew_ms,
            restarts: u32::try_from(settings.restarts).unwrap_or(u32::MAX),
            restart_after_ms: settings.restart_after_ms,
            ..ProcessSpec::new(name.as_str(), host)
        };
        let orders = Rc::new(worker::Post::new(name, settings));
        let shared = Rc::clone(stage);
        simulation.process(spec, move |context| S::work(context, Rc::clone(&orders), Rc::clone(&shared)));
    }
    for (number, name) in stage.scenario.operators() {
        let shared = Rc::clone(stage);
        simulation.process(patient(name), move |context| {
            operator::operate::<S>(context, number, Rc::clone(&shared))
        });
    }
    if stage.scenario.receiver.lorises > 0 {
        let desk = simulation.machine("loris-host");
        let shared = Rc::clone(stage);
        simulation.process(ProcessSpec::new("loris", desk), move |context| {
            loris::dawdle(context, Rc::clone(&shared))
        });
    }
}

/// Runs until everything is settled; returns whether that did not happen.
fn play(simulation: &mut Simulation, scenario: &Scenario, is_over: impl Fn() -> bool) -> bool {
    if !simulation.run_until(&is_over) {
        return false;
    }
    // Faults are over: whatever died for good is started once more by hand, and then everything must settle.
    simulation.stop_faults();
    simulation.revive();
    simulation.set_limit_us((scenario.duration_ms + settle_ms(scenario)) * 1_000);
    simulation.run_until(&is_over)
}

/// What a scenario's own numbers add to the time that it may take to settle.
fn settle_ms(scenario: &Scenario) -> i64 {
    // Not the skew of a clock: a worker that lives far in the past leaves jobs undone, and that is a failure.
    let workers = scenario.workers.iter().map(|worker| worker.restart_after_ms);
    let consumers = scenario.consumers.iter().map(|consumer| consumer.restart_after_ms);
    let slowest = workers.chain(consumers).max().unwrap_or(0);
    let faults = scenario.faults.stall_ms.max() + 2 * scenario.faults.slow_ms.max();
    let growth =
        scenario.publisher.as_ref().map_or(0, |publisher| publisher.grow * (publisher.grow_every_ms + 1));
    SETTLE_MS + slowest + faults + growth
}

fn report(scenario: &Scenario, seed: u64, end: End, judges: &Rc<RefCell<Judges>>) -> Report {
    let mut judges = judges.borrow_mut();
    for (name, ending) in &end.processes {
        if let Some(Ending::Panicked(text)) = ending {
            judges.fail(NO_PANIC, end.at_us, format!("{name} panics: {text}"));
        }
    }
    if end.hit_limit {
        let detail =
            format!("not settled {} ms after the beginning: {}", end.at_us / 1_000, judges.unsettled());
        judges.fail(SETTLES, end.at_us, detail);
    }
    judges.finish(end.at_us);
    judges.check_outcomes(scenario, end.at_us);
    Report {
        seed,
        violations: std::mem::take(&mut judges.violations),
        milestones: judges.milestones,
        hash: end.hash,
        at_us: end.at_us,
        vfs_calls: end.vfs_calls,
        struck: end.struck,
        unmet: Vec::new(),
        final_state: finale::text(&judges, &end.processes),
        deviations: Deviations::new(end.deviations, end.processes),
        events: end.events,
        files: Vec::new(),
    }
}
