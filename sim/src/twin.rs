//! Broken twins of the queue, the worker, the sender, the receiver's inbox and the consumer, and the way from a
//! scenario to the system that it names: the real one, or a twin with one mistake. A simulator that does not catch
//! its twins proves nothing.

mod inbox;
mod queue;
mod sender;
mod stream;
mod worker;

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use ackward::shell::Sender;
use ackward::storage::{Inbox, OpenOptions, StorageError};

use crate::choice::Chooser;
use crate::computer::{Context, current};
use crate::scenario::{Consumer, Flaw, Scenario};
use crate::scene::{Post, Real, Report, RunOptions, SceneChooser, Stage, System, run_with};

pub use inbox::InboxTwin;
pub use queue::Twin;
pub use sender::SenderTwin;
pub use stream::StoreTwin;

thread_local! {
    static FLAW: Cell<Flaw> = const { Cell::new(Flaw::None) };
}

/// The mistake that every twin started on this thread from now on makes.
pub fn make(flaw: Flaw) {
    FLAW.set(flaw);
}

/// Whether the twins of this thread make a mistake.
fn makes(flaw: Flaw) -> bool {
    FLAW.get() == flaw
}

/// Runs a scenario's world with one seed, on the system that it names.
#[must_use]
pub fn run(scenario: &Rc<Scenario>, seed: u64, options: impl Into<RunOptions>) -> Report {
    let chooser = Rc::new(RefCell::new(SceneChooser::new(scenario, seed)));
    let mut report = run_choosing(scenario, seed, options, Rc::clone(&chooser));
    report.unmet = chooser.borrow().unmet();
    report
}

/// Runs a scenario's world with any chooser, on the system that it names.
#[must_use]
pub fn run_choosing<C: Chooser + 'static>(
    scenario: &Rc<Scenario>,
    seed: u64,
    options: impl Into<RunOptions>,
    chooser: C,
) -> Report {
    match scenario.system {
        Flaw::None => run_with::<Real, C>(scenario, seed, options, chooser),
        flaw => {
            make(flaw);
            run_with::<Twins, C>(scenario, seed, options, chooser)
        }
    }
}

/// Starts twins.
#[derive(Debug, Clone, Copy)]
pub struct Twins;

impl System for Twins {
    type Queue = Twin;
    type Inbox = InboxTwin;
    type Store = StoreTwin;

    fn open_queue(path: &Path, options: &OpenOptions) -> Result<Twin, StorageError> {
        leak();
        Twin::open(path, options, FLAW.get())
    }

    fn open_inbox(path: &Path, options: &OpenOptions) -> Result<InboxTwin, StorageError> {
        Ok(InboxTwin { real: Inbox::open(path, options)?, flaw: FLAW.get() })
    }

    fn open_store(path: &Path, options: &OpenOptions) -> Result<StoreTwin, StorageError> {
        StoreTwin::open(path, options)
    }

    fn sender(context: &Context, stage: &Stage) -> impl Sender {
        SenderTwin::new(context, stage, FLAW.get())
    }

    async fn work(context: Context, post: Rc<Post>, stage: Rc<Stage>) {
        match FLAW.get() {
            Flaw::HeartbeatStopsBeforeTheDrain | Flaw::ReadsOnWhileSending => {
                worker::work(context, post, stage).await
            }
            _ => crate::scene::work::<Self>(context, post, stage).await,
        }
    }

    async fn consume(context: Context, consumer: Rc<Consumer>, stage: Rc<Stage>) {
        stream::consume(context, consumer, stage).await;
    }
}

/// What outlives a run, where that is the mistake.
fn leak() {
    static OPENED: AtomicU64 = AtomicU64::new(0);
    let opened = OPENED.fetch_add(1, Ordering::Relaxed);
    if let (Flaw::LeaksBetweenRuns, Some(world)) = (FLAW.get(), current()) {
        world.fold(opened);
        world.note(|| format!("opens queue {opened} of this OS process"));
    }
}
