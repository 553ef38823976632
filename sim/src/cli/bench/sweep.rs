//! The crash sweep of one claim: it is killed at each of its calls into the operating system, and the next
//! process works on what is left.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;

use ackward::port::{Blocking, Clock, Lane, NoFault};
use ackward::rules::{Attempts, Event, Lease, Limits, Millis, Name, Qty, Ttl};
use ackward::storage::{Durability, LeaseQueue, OpenOptions, Queue, StorageError};
use ackward_sim::choice::{Chooser, Decision, Kind, Nothing, Offer, Recorder, Replay};
use ackward_sim::computer::{Context, ProcessSpec, Simulation, SimulationOptions, VFS_NAME};

const FILE: &str = "queue.db";
const KILL: Decision = Decision { kind: Kind::Kill, value: 0 };

/// The file and the points of its claim.
pub(super) struct Sweep {
    /// A queue with one pending job.
    file: Vec<u8>,
    /// Keys of the points at which the claim can be killed.
    points: Vec<u64>,
}

impl Sweep {
    pub(super) fn new() -> Self {
        let mut sweep = Self { file: prepared(), points: Vec::new() };
        let recorder = Rc::new(RefCell::new(Recorder::new(Nothing)));
        sweep.claim(Armed(Rc::clone(&recorder)));
        let recorder = recorder.borrow();
        let kills = recorder.met().iter().filter(|(point, offers)| {
            point.operation == "claim" && offers.contains(&Offer::plain(Kind::Kill))
        });
        sweep.points = kills.map(|(point, _)| point.key()).collect();
        sweep
    }

    pub(super) fn points(&self) -> usize {
        self.points.len()
    }

    /// Kills the claim at one of the points and lets the next process claim; returns the virtual time.
    pub(super) fn run(&self, number: u64) -> u64 {
        let point = self.points[usize::try_from(number).unwrap_or(0) % self.points.len()];
        self.claim(Replay::new([(point, KILL)]))
    }

    fn claim(&self, chooser: impl Chooser + 'static) -> u64 {
        let mut simulation = Simulation::new(SimulationOptions::default(), chooser);
        let machine = simulation.machine("host");
        simulation.install(machine, FILE, &self.file);
        let claims = Rc::new(Cell::new(0));
        let seen = Rc::clone(&claims);
        // The next process comes when the lease of the first has run out.
        let worker =
            ProcessSpec { restarts: 1, restart_after_ms: 1_000, ..ProcessSpec::new("worker", machine) };
        simulation.process(worker, move |context| claim(context, Rc::clone(&seen)));
        simulation.run_until(|| false);
        let end = simulation.finish(false);
        assert_eq!(claims.get(), 1, "whoever lives to the end claims the job: {:?}", end.deviations);
        end.at_us.unsigned_abs()
    }
}

async fn claim(context: Context, claims: Rc<Cell<u32>>) {
    let Ok(lane) = context.open("open", open).await else { return };
    let Ok(now) = context.now() else { return };
    let claimed = lane.call("claim", move |queue| {
        let owner = Name::new("owner", "worker").ok()?;
        queue.claim(&owner, now, lease(), &mut NoFault).ok()?
    });
    if claimed.await.is_some() {
        claims.set(claims.get() + 1);
    }
    lane.close().await;
}

fn open() -> Result<Queue, StorageError> {
    Queue::open(Path::new(FILE), &OpenOptions::new(Durability::Full).vfs(VFS_NAME))
}

fn prepared() -> Vec<u8> {
    let mut simulation = Simulation::new(SimulationOptions::default(), Nothing);
    let machine = simulation.machine("host");
    simulation.process(ProcessSpec::new("producer", machine), |context| async move {
        let Ok(lane) = context.open("open", open).await else { return };
        let Ok(now) = context.now() else { return };
        lane.call("enqueue", move |queue| enqueue(queue, now)).await;
        lane.close().await;
    });
    simulation.run_until(|| false);
    let file = simulation.read(machine, FILE).unwrap_or_default();
    let _ = simulation.finish(false);
    file
}

fn enqueue(queue: &mut Queue, now: Millis) {
    let event = Event {
        id: Name::new("id", "cake").expect("a valid name"),
        qty: Qty::new(3).expect("a valid quantity"),
    };
    let attempts = Attempts::new(3).expect("a valid budget");
    queue.enqueue(&event, now, ttl(), attempts).expect("an empty queue takes a job");
}

fn lease() -> Lease {
    Limits::CONTRACT.lease(1_000).expect("within the contract's limits")
}

fn ttl() -> Ttl {
    Limits::CONTRACT.ttl(60_000).expect("within the contract's limits")
}

/// A recorder of nothing special that is asked all the same.
struct Armed(Rc<RefCell<Recorder<Nothing>>>);

impl Chooser for Armed {
    fn choose(&mut self, point: &ackward_sim::choice::Point, offers: &[Offer]) -> Decision {
        self.0.borrow_mut().choose(point, offers)
    }
}
