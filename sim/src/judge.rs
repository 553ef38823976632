//! What judges a run while it happens: every commit is compared with the reference model in the order in
//! which commits become visible, every result with what the model says, and a list of properties is held
//! against everything that is seen. A broken property is a [`Violation`]; what a run ought to reach now and
//! then is a [`Milestone`].

mod delivery;
mod file;
mod inbox;
mod milestone;
mod outcome;
mod queue;
mod spy;
mod store;

use std::cell::RefCell;
use std::rc::Rc;

use ackward::rules::{Status, parse_ack, parse_resume};
use ackward::storage::Durability;

use crate::computer::{LockEvent, Observer, ProcessId, Trace, World, current};
use crate::model::QueueModel;
use crate::numbers::count;

use delivery::Deliveries;

pub use file::{FileJudge, Judged, Outcome};
pub use inbox::{GROUP_MAX, GroupModel, WatchedInbox};
pub use milestone::{Milestone, Milestones};
pub use spy::WatchedQueue;
pub use store::{Consumed, Lines, LinesEnd, StoreJudge, StoreModel, WatchedStore};

/// A property that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which, one of [`PROPERTIES`].
    pub property: &'static str,
    /// Where and how.
    pub detail: String,
    /// Virtual time since the run began, in microseconds.
    pub at_us: i64,
}

macro_rules! properties {
    ($($(#[$doc:meta])* $name:ident = $text:literal),+ $(,)?) => {
        $($(#[$doc])* pub const $name: &str = $text;)+
        /// The properties that judges hold against a run, besides the row invariants of the model.
        pub const PROPERTIES: &[&str] = &[$($text),+];
    };
}

properties! {
    /// What a commit made visible is not what the contract says that the operation does.
    COMMIT_MATCHES_MODEL = "commit-matches-model",
    /// An operation returned something else than the contract says.
    RESULT_MATCHES_MODEL = "result-matches-model",
    /// An operation is one immediate transaction: it was none, or more than one.
    ONE_TRANSACTION = "one-transaction",
    /// An operation failed and yet its change is in place.
    FAILURE_CHANGES_NOTHING = "failure-changes-nothing",
    /// After a power cut the file holds something that neither was committed last nor just before it.
    DURABLE_AFTER_POWER_CUT = "durable-after-power-cut",
    /// An operation gave up on a lock before the busy timeout was over.
    BUSY_ONLY_AFTER_TIMEOUT = "busy-only-after-timeout",
    /// A lock is held although no operation is under way.
    NO_LOCK_LEFT = "no-lock-left",
    /// claim and renew go by a time that is read before they get the write lock (Q29, M10): when they got it, that
    /// time had passed.
    CLOCK_UNDER_LOCK = "clock-under-lock",
    /// A lock is held while the network is used.
    NO_LOCK_WHILE_SENDING = "no-lock-while-sending",
    /// A job was sent more often than its budget of attempts allows.
    SENDS_WITHIN_BUDGET = "sends-within-budget",
    /// A worker put more requests on the wire than it made attempts (W1).
    ONE_POST_PER_ATTEMPT = "one-post-per-attempt",
    /// A sender gave a job up for good although nobody had refused it for good (W2).
    PERMANENT_IF_REFUSED = "permanent-if-refused",
    /// A request carries another idempotency key than the id of a job that its worker sends (W1): a receiver would
    /// not know the repeat.
    KEY_IS_THE_JOBS = "key-is-the-jobs",
    /// An operation failed, and its error is none that the file system or another program's lock can cause: it hides
    /// what really happened (Q7), or the operation's own statements are wrong.
    ERROR_NAMES_ITS_CAUSE = "error-names-its-cause",
    /// The receiver acknowledged an effect that is not there, or not exactly once.
    EFFECT_ONCE = "effect-once",
    /// The consumer's cursor, ledger and total do not agree.
    CURSOR_AGREES = "cursor-agrees",
    /// An ACK was sent for an event that is not committed, or that a power cut took back.
    ACK_DURABLE = "ack-durable",
    /// A consumer asked for something else than what follows its store's cursor.
    RESUMES_AT_CURSOR = "resumes-at-cursor",
    /// A consumer refused a line although its publisher sent only what its log holds, in order.
    FAITHFUL_LINES_ACCEPTED = "faithful-lines-accepted",
    /// A consumer keeps connections that it no longer uses.
    NO_CONNECTION_LEAKED = "no-connection-leaked",
    /// A consumer has other events than its publisher's log.
    SAME_EVENTS = "same-events",
    /// The file cannot be read as a database.
    FILE_INTACT = "file-intact",
    /// A job or a consumer did not end as its scenario says that it must.
    RIGHT_VALUE = "right-value",
    /// Once faults have stopped, every job is done or dead in the end.
    SETTLES = "settles",
    /// A process that is told to end does not within its grace time.
    STOPS_IN_TIME = "stops-in-time",
    /// No code panics.
    NO_PANIC = "no-panic",
}

/// Connections that a consumer may hold: one, and one that it is ending.
const CONNECTIONS_MAX: usize = 2;
/// Violations kept per run: the first says it all, a few more help to understand.
const VIOLATIONS_MAX: usize = 8;

/// All judges of one run.
pub struct Judges {
    /// Judges the queue file.
    pub queue: FileJudge<QueueModel>,
    /// Judges the receiver's inbox.
    pub inbox: FileJudge<GroupModel>,
    /// Judge the consumers' stores.
    pub stores: Vec<StoreJudge>,
    /// What was seen to be broken, in order.
    pub violations: Vec<Violation>,
    /// What was reached.
    pub milestones: Milestones,
    /// Whether consumers are sent only what their publisher's log holds, in order.
    pub is_publisher_faithful: bool,
    /// The publisher's process.
    pub publisher: Option<ProcessId>,
    deliveries: Deliveries,
}

thread_local! {
    static JUDGES: RefCell<Option<Rc<RefCell<Judges>>>> = const { RefCell::new(None) };
}

/// Makes `judges` those of the run on this thread; returns the ones before.
pub fn install(judges: Option<Rc<RefCell<Judges>>>) -> Option<Rc<RefCell<Judges>>> {
    JUDGES.replace(judges)
}

/// Calls `body` with the judges of this thread's run, unless the code that runs is dead or nobody judges.
pub fn with<T>(body: impl FnOnce(&mut Judges, &World) -> T) -> Option<T> {
    let judges = JUDGES.with_borrow(Clone::clone)?;
    let world = current()?;
    if !world.is_alive() {
        return None;
    }
    let mut judges = judges.borrow_mut();
    Some(body(&mut judges, &world))
}

/// Calls `body` with the judges of this thread's run, from outside of the code that runs; `None` where nobody judges,
/// or where a judge is at work.
pub fn peek<T>(body: impl FnOnce(&Judges) -> T) -> Option<T> {
    JUDGES.with_borrow(|judges| Some(body(&*judges.as_ref()?.try_borrow().ok()?)))
}

impl Judges {
    /// Judges for a queue file and an inbox file, each on its machine.
    #[must_use]
    pub fn new(queue: Judged, inbox: Judged) -> Self {
        Self {
            queue: FileJudge::new(queue),
            inbox: FileJudge::new(inbox),
            stores: Vec::new(),
            violations: Vec::new(),
            milestones: Milestones::default(),
            is_publisher_faithful: true,
            publisher: None,
            deliveries: Deliveries::default(),
        }
    }

    /// Judges a consumer's store, too.
    pub fn add_store(&mut self, judged: Judged) {
        let file = FileJudge::new(judged);
        self.stores.push(StoreJudge { file, acknowledged: -1, consumers: Vec::new(), connections: 0 });
    }

    /// A process has written to a stream. A consumer's ACK must be for what its store holds, and it must resume
    /// where its store stands.
    fn wrote(&mut self, process: ProcessId, bytes: &[u8], at_us: i64) {
        self.wrote_http(process, bytes, at_us);
        let Some(store) = self.stores.iter_mut().find(|store| store.consumers.contains(&process)) else {
            return;
        };
        let last = store.file.model().0.state().0;
        // Where several consumers share a store, the cursor may have moved on since it was read.
        let is_alone = store.consumers.len() == 1 && !store.file.is_unsettled();
        let mut wrong = None;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if let Ok(seq) = parse_ack(line) {
                store.acknowledged = store.acknowledged.max(seq.get());
            } else if let Ok(from) = parse_resume(line)
                && (from.get() > last || from.get() < last && is_alone)
            {
                wrong = Some(format!(
                    "{}: resumes after event {from}, the cursor is {last}",
                    store.file.judged().file
                ));
            }
        }
        if let Some(detail) = wrong {
            self.fail(RESUMES_AT_CURSOR, at_us, detail);
        }
        self.check_acknowledged(at_us);
    }

    /// A consumer has made a connection: those before it must be closed, all but the one it may be ending.
    fn connected(&mut self, process: ProcessId, open: usize, at_us: i64) {
        let Some(store) = self.stores.iter_mut().find(|store| store.consumers.contains(&process)) else {
            return;
        };
        store.connections += 1;
        if open > CONNECTIONS_MAX {
            let detail = format!(
                "process {process} holds {}, allowed: {CONNECTIONS_MAX}",
                count(open as u64, "connection")
            );
            self.fail(NO_CONNECTION_LEAKED, at_us, detail);
        }
    }

    /// Notes who died between a commit and its ACK.
    fn died_before_ack(&mut self, process: ProcessId) {
        for store in &self.stores {
            let is_due = store.file.model().0.state().0 > store.acknowledged;
            if is_due && store.consumers.contains(&process) {
                self.milestones.reach(Milestone::DiedBeforeAck);
            }
            if is_due && self.publisher == Some(process) {
                self.milestones.reach(Milestone::PublisherLost);
            }
        }
    }

    fn check_acknowledged(&mut self, at_us: i64) {
        let mut broken = Vec::new();
        for store in &mut self.stores {
            let last = store.file.model().0.state().0;
            if store.acknowledged > last && !store.file.is_unsettled() {
                let name = &store.file.judged().file;
                broken.push(format!(
                    "{name}: event {} is acknowledged, the cursor is {last}",
                    store.acknowledged
                ));
                store.acknowledged = last;
            }
        }
        for detail in broken {
            self.fail(ACK_DURABLE, at_us, detail);
        }
    }

    /// Records a broken property.
    pub fn fail(&mut self, property: &'static str, at_us: i64, detail: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(Violation { property, detail, at_us });
        }
    }

    /// What must hold in the end, whatever happened.
    pub fn finish(&mut self, at_us: i64) {
        for (id, times) in std::mem::take(&mut self.deliveries.acknowledged) {
            let effects = self.inbox.model().0.effects().iter().filter(|row| row.id == id).count();
            if effects != 1 {
                let detail = format!(
                    "job {id} was acknowledged {} and has {}",
                    count(times as u64, "time"),
                    count(effects as u64, "effect")
                );
                self.fail(EFFECT_ONCE, at_us, detail);
            }
        }
        if !self.inbox.model().0.agrees() {
            self.fail(
                EFFECT_ONCE,
                at_us,
                "inbox, effects and totals of the receiver do not agree".to_owned(),
            );
        }
        if let Err(broken) = self.queue.model().check_rows() {
            self.fail(broken.property, at_us, broken.detail);
        }
    }

    /// Whether every job is done or dead.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.queue.model().jobs().values().all(|job| matches!(job.status, Status::Done | Status::Dead))
    }

    /// The jobs that are neither done nor dead, and where the consumers' stores stand, in words.
    #[must_use]
    pub fn unsettled(&self) -> String {
        let open = self
            .queue
            .model()
            .jobs()
            .values()
            .filter(|job| !matches!(job.status, Status::Done | Status::Dead));
        let jobs = open.map(|job| format!("{} is {}", job.id, job.status));
        let stores = self.stores.iter().map(|store| {
            let last = store.file.model().0.state().0;
            format!("{} is at event {last}", store.file.judged().file)
        });
        let open: Vec<_> = jobs.chain(stores).collect();
        if open.is_empty() { "the producer or the operator".to_owned() } else { open.join(", ") }
    }

    fn take_from_files(&mut self) {
        let found = std::mem::take(&mut self.queue.found);
        let stores = self.stores.iter_mut().flat_map(|store| std::mem::take(&mut store.file.found));
        let stores: Vec<_> = stores.collect();
        let found = found.into_iter().chain(std::mem::take(&mut self.inbox.found)).chain(stores);
        for (property, at_us, detail) in found {
            self.fail(property, at_us, detail);
        }
    }
}

/// The observer that hands what it sees to the judges.
pub struct Watch(pub Rc<RefCell<Judges>>);

impl Watch {
    fn file(&self, event: &LockEvent<'_>, of: impl FnOnce(&mut dyn file::Watching, &mut Milestones)) {
        let mut judges = self.0.borrow_mut();
        let Judges { queue, inbox, stores, milestones, .. } = &mut *judges;
        let store = stores.iter_mut().find(|store| store.file.judged().is(event));
        if queue.judged().is(event) {
            of(queue, milestones);
        } else if inbox.judged().is(event) {
            of(inbox, milestones);
        } else if let Some(store) = store {
            of(&mut store.file, milestones);
        } else {
            return;
        }
        judges.take_from_files();
        judges.check_acknowledged(event.at_us);
    }
}

impl Observer for Watch {
    fn write_locked(&mut self, event: &LockEvent<'_>, _trace: &mut Trace) {
        self.file(event, |file, _| file.write_locked(event));
    }

    fn journal_retired(&mut self, event: &LockEvent<'_>, trace: &mut Trace) {
        self.file(event, |file, milestones| file.journal_retired(event, trace, milestones));
    }

    fn unlocked(&mut self, event: &LockEvent<'_>, _trace: &mut Trace) {
        self.file(event, |file, _| file.unlocked(event));
    }

    fn died(&mut self, process: ProcessId, _trace: &mut Trace) {
        let mut judges = self.0.borrow_mut();
        judges.queue.died(process);
        judges.inbox.died(process);
        judges.stores.iter_mut().for_each(|store| store.file.died(process));
        judges.died_before_ack(process);
        judges.deliveries.died(process);
    }

    fn power_cut(&mut self, machine: usize, _lost: usize, _trace: &mut Trace) {
        let mut judges = self.0.borrow_mut();
        judges.queue.power_cut(machine);
        judges.inbox.power_cut(machine);
        judges.stores.iter_mut().for_each(|store| store.file.power_cut(machine));
    }

    fn wrote(&mut self, process: ProcessId, bytes: &[u8], at_us: i64) {
        self.0.borrow_mut().wrote(process, bytes, at_us);
    }

    fn connected(&mut self, process: ProcessId, open: usize, at_us: i64) {
        self.0.borrow_mut().connected(process, open, at_us);
    }
}

impl Judged {
    /// A file that is judged, with what a power cut may take of it.
    #[must_use]
    pub fn new(machine: usize, file: impl Into<String>, durability: Durability) -> Self {
        Self { machine, file: file.into(), durability }
    }

    fn is(&self, event: &LockEvent<'_>) -> bool {
        self.machine == event.machine && self.file == event.file
    }
}
