//! The bench of the sweeps: one operation of the real queue, on a prepared file, in a process to which
//! something may happen; and a witness, another process that looks at the file afterwards.

use std::cell::RefCell;
use std::future::pending;
use std::path::Path;
use std::rc::Rc;

use ackward::port::{Blocking, Lane};
use ackward::storage::{Durability, OpenOptions, Queue};
use ackward_sim::choice::{Chooser, Nothing, Offer, Point, Recorder};
use ackward_sim::computer::{Context, End, ProcessSpec, Simulation, SimulationOptions, VFS_NAME, current};

use super::acts::{self, Act, Answer, Told};

const FILE: &str = "queue.db";
/// When the heir begins, in microseconds.
const INHERIT_US: i64 = 200_000;
/// When the witness looks, in microseconds of virtual time; until then the victim's world stands at 0.
const LOOK_US: i64 = 500_000;

/// What the victim does once the operation is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// It does nothing more, and keeps its connection.
    Idle,
    /// As `Idle`, and then the machine loses power.
    Cut,
    /// It enqueues another job.
    Next,
    /// It does nothing more; a little later another process, the heir, runs the same operation.
    Inherit,
    /// As `Inherit`, and then the machine loses power.
    InheritAndCut,
    /// It looks at the rows; after the witness has looked too, it claims and finishes a job, all on the same
    /// connection.
    GoOn,
}

/// An operation that is ready to be run, again and again, from the same file.
pub struct Bench {
    pub act: Act,
    options: OpenOptions,
    image: Vec<u8>,
    /// The rows without the operation.
    pub before: String,
    /// The rows that the operation makes.
    pub after: String,
}

/// What came of one run.
#[derive(Debug)]
pub struct Trial {
    /// What the operation returned, if its process lived to see it.
    pub answer: Option<Answer>,
    /// What the victim still held when the operation was over: a lock, a transaction.
    pub left: Vec<&'static str>,
    /// The rows as the victim's own connection sees them next, with [`Then::GoOn`].
    pub own_look: Option<String>,
    /// Whether the victim's connection still works, with [`Then::GoOn`].
    pub goes_on: Option<Result<(), String>>,
    /// What the heir's operation returned, with [`Then::Inherit`], if it lived to see it.
    pub heir: Option<Answer>,
    /// The rows as another process finds them.
    pub rows: String,
    pub end: End,
}

#[derive(Default)]
struct Seen {
    answer: Option<Answer>,
    left: Vec<&'static str>,
    own_look: Option<String>,
    goes_on: Option<Result<(), String>>,
    heir: Option<Answer>,
    rows: Option<String>,
    idle: bool,
}

type Notes = Rc<RefCell<Seen>>;

impl Bench {
    pub fn new(act: Act, durability: Durability) -> Self {
        let options = OpenOptions::new(durability).vfs(VFS_NAME);
        let image = prepare(&act, &options);
        let mut bench = Self { act, options, image, before: String::new(), after: String::new() };
        bench.before = acts::dump_image(&bench.image, &bench.options);
        let trial = bench.run(Nothing, Then::Idle, false);
        assert_eq!(trial.answer, Some(Answer::Done), "{}", bench.act.name);
        assert_ne!(trial.rows, bench.before, "{} must change something", bench.act.name);
        bench.after = trial.rows;
        bench
    }

    /// The points of the operation itself where nothing happens, in order; with [`Then::Next`] those of the
    /// operation after it.
    pub fn points(&self, then: Then) -> Vec<(Point, Vec<Offer>)> {
        let label = if then == Then::Next { NEXT } else { self.act.name };
        let recorder = Rc::new(RefCell::new(Recorder::new(Armed)));
        let _ = self.run(Rc::clone(&recorder), then, false);
        let met = recorder.borrow().met().to_vec();
        met.into_iter().filter(|(point, _)| point.process == 0 && point.operation == label).collect()
    }

    pub fn run(&self, chooser: impl Chooser + 'static, then: Then, recording: bool) -> Trial {
        let options = SimulationOptions { recording: recording.into(), ..SimulationOptions::default() };
        let mut simulation = Simulation::new(options, chooser);
        let host = simulation.machine("host");
        simulation.install(host, FILE, &self.image);
        let notes = Notes::default();
        let (act, settings, shared) = (self.act.clone(), self.options.clone(), Rc::clone(&notes));
        simulation.process(ProcessSpec::new("victim", host), move |context| {
            suffer(context, act.clone(), settings.clone(), then, Rc::clone(&shared))
        });
        let (settings, shared) = (self.options.clone(), Rc::clone(&notes));
        let restarted = ProcessSpec { restarts: 1, restart_after_ms: 1, ..ProcessSpec::new("witness", host) };
        simulation.process(restarted, move |context| witness(context, settings.clone(), Rc::clone(&shared)));
        if matches!(then, Then::Inherit | Then::InheritAndCut) {
            let (act, settings, shared) = (self.act.clone(), self.options.clone(), Rc::clone(&notes));
            simulation.process(ProcessSpec::new("heir", host), move |context| {
                inherit(context, act.clone(), settings.clone(), Rc::clone(&shared))
            });
        }
        if then == Then::Cut {
            simulation.run_until(|| notes.borrow().idle);
            simulation.cut_power(host);
        }
        if then == Then::InheritAndCut {
            simulation.run_until(|| notes.borrow().heir.is_some());
            simulation.cut_power(host);
        }
        assert!(!simulation.run_until(|| false), "the run must end by itself");
        let end = simulation.finish(false);
        let seen = notes.take();
        let Seen { answer, left, own_look, goes_on, heir, rows, .. } = seen;
        let rows = rows.unwrap_or_else(|| "the witness saw nothing".to_owned());
        Trial { answer, left, own_look, goes_on, heir, rows, end }
    }

    /// Which of the two states these rows are.
    pub fn state(&self, rows: &str) -> Option<State> {
        match rows {
            rows if rows == self.before => Some(State::Before),
            rows if rows == self.after => Some(State::After),
            _ => None,
        }
    }
}

/// The only two states that an operation may leave behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    Before,
    After,
}

/// A point as the snapshots show it: without process and incarnation.
pub fn place(point: &Point) -> String {
    let name = point.name("").to_string();
    name.trim_start_matches("/1/").to_owned()
}

/// As [`Nothing`], but points are computed.
struct Armed;

impl Chooser for Armed {
    fn choose(&mut self, _point: &Point, _offers: &[Offer]) -> ackward_sim::choice::Decision {
        ackward_sim::choice::Decision::GO
    }
}

const NEXT: &str = "next";
/// The heir's operation.
pub const INHERIT: &str = "inherit";

/// Makes the file that the operation starts from.
fn prepare(act: &Act, options: &OpenOptions) -> Vec<u8> {
    let mut simulation = Simulation::new(SimulationOptions::default(), Nothing);
    let host = simulation.machine("workshop");
    let (prepare, options) = (act.prepare, options.clone());
    simulation.process(ProcessSpec::new("maker", host), move |context| {
        let options = options.clone();
        async move {
            let open = move || Queue::open(Path::new(FILE), &options);
            let lane = context.open("open", open).await.expect("an empty disk takes a new file");
            lane.call("prepare", move |queue| {
                prepare(queue);
                acts::add_spare(queue);
            })
            .await;
            lane.close().await;
        }
    });
    simulation.run_until(|| false);
    simulation.read(host, FILE).expect("the file was made")
}

async fn suffer(context: Context, act: Act, options: OpenOptions, then: Then, notes: Notes) {
    let open = move || Queue::open(Path::new(FILE), &options);
    let lane = context.open("open", open).await.expect("nothing happens while the file is opened");
    let perform = act.perform;
    let (answer, left) = lane
        .call(act.name, move |queue| {
            let answer = perform(queue);
            (answer, what_is_left(queue))
        })
        .await;
    notes.borrow_mut().answer = Some(answer);
    notes.borrow_mut().left = left;
    if then == Then::Next {
        lane.call(NEXT, |queue| acts::add(queue, "next", 1).told()).await;
    }
    if then == Then::GoOn {
        let look = lane.call("look", |queue| acts::dump(queue.connection())).await;
        notes.borrow_mut().own_look = Some(look.unwrap_or_else(|error| error.to_string()));
        context.sleep_us(2 * LOOK_US).await;
        let goes_on = lane.call("go-on", acts::claim_and_finish).await;
        notes.borrow_mut().goes_on = Some(goes_on);
    }
    notes.borrow_mut().idle = true;
    pending::<()>().await;
}

async fn inherit(context: Context, act: Act, options: OpenOptions, notes: Notes) {
    context.sleep_us(INHERIT_US).await;
    let open = move || Queue::open(Path::new(FILE), &options);
    let lane = context.open("open", open).await.expect("nothing happens while the file is opened");
    let answer = lane.call(INHERIT, act.perform).await;
    notes.borrow_mut().heir = Some(answer);
    pending::<()>().await;
}

fn what_is_left(queue: &Queue) -> Vec<&'static str> {
    let mut left = Vec::new();
    if !queue.connection().is_autocommit() {
        left.push("a transaction is open");
    }
    let Some(world) = current() else { return left };
    if let (_, Some(lane)) = world.running()
        && world.lane_holds_lock(lane)
    {
        left.push("a lock is held");
    }
    left
}

async fn witness(context: Context, options: OpenOptions, notes: Notes) {
    context.sleep_us(LOOK_US).await;
    let open = move || Queue::open(Path::new(FILE), &options);
    let rows = match context.open("open", open).await {
        Err(error) => format!("cannot be opened: {error}"),
        Ok(lane) => {
            let look = lane.call("look", |queue| acts::dump(queue.connection())).await;
            lane.close().await;
            look.unwrap_or_else(|error| format!("cannot be read: {error}"))
        }
    };
    notes.borrow_mut().rows = Some(rows);
}
