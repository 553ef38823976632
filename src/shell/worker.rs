//! The worker loop: a number of slots, each with a queue connection and a sender of its own, that claim, send
//! and finish jobs until they are told to stop. It outlives whatever one job, the receiver, a lock or a full
//! disk does to it.

mod desk;
mod keep;
mod observer;
mod shared_lane;
mod slot;
#[cfg(test)]
mod tests;
mod turn;
mod wake;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::marker::PhantomData;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::sender::Sender;
use crate::port::{Blocking, Clock, Fault};
use crate::rules::{Jitter, Lease, Limits, Name, RetryPolicy, Timeout};
use crate::storage::{LeaseQueue, StorageError};
use desk::{Desk, Papers};
use shared_lane::SharedLane;
use slot::{Slot, Troubles};
use turn::Turn;

pub use observer::{Happening, NoObserver, Observer};
pub use wake::Wake;

/// Pause before a locked queue is opened again.
const OPEN_PAUSE: Duration = Duration::from_millis(50);

/// How a worker goes about it.
#[derive(Debug, Clone)]
pub struct WorkOptions {
    /// Who claims; all slots claim under this name.
    pub owner: Name,
    /// How long a claim lasts, and how far each renewal extends it. A third of it is the time between renewals.
    pub lease: Lease,
    /// The delays between attempts.
    pub retry: RetryPolicy,
    /// Caps what a receiver's `Retry-After` can ask for.
    pub limits: Limits,
    /// The first wait when there is nothing to claim; doubled with each further one.
    pub poll_min: Timeout,
    /// The longest wait when there is nothing to claim.
    pub poll_max: Timeout,
    /// How long what is being sent may take to end after the shutdown.
    pub grace: Timeout,
}

/// The ports of a worker.
#[derive(Debug, Clone)]
pub struct Worker<C, B, F, O> {
    /// Tells the time, also inside a claim's transaction.
    pub clock: C,
    /// Owns the queue connections.
    pub blocking: B,
    /// Called at the points of claim, finish, renew and release.
    pub fault: F,
    /// Opens the queue, once for each slot. With a [short busy
    /// timeout](crate::storage::OpenOptions::busy_timeout) the worker waits for locks itself, and so shares the
    /// file fairly with other workers.
    pub open: O,
}

/// What a worker has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Worked {
    /// Jobs claimed.
    pub claimed: u64,
    /// Jobs delivered and recorded as done.
    pub done: u64,
    /// Attempts recorded as to be tried again.
    pub retried: u64,
    /// Jobs recorded as dead.
    pub dead: u64,
    /// Attempts without an acknowledgement; their jobs come back when the lease ends.
    pub unknown: u64,
    /// Attempts whose lease was lost before they could be recorded.
    pub stale: u64,
    /// Jobs given back, unsent, at the shutdown.
    pub released: u64,
    /// Slots that were still busy when the grace time was over; their jobs come back when the lease ends.
    pub cut: u64,
}

/// Works until `shutdown` completes: then nothing more is claimed, what was claimed but not sent is released,
/// and what is being sent is finished, within the grace time. `jitter` draws the random part of each wait.
/// Dropping the future leaves the jobs that are being sent leased.
///
/// Nothing but the opening of the queue makes it fail: whatever goes wrong later is logged and tried again, more
/// and more slowly, up to once a second. What goes wrong again and again is logged once a minute, with how many
/// failures were left out, and so is its end.
///
/// # Errors
/// [`StorageError`] where the queue could not be opened; nothing was claimed.
pub async fn work<Q, C, B, F, O, S>(
    worker: &Worker<C, B, F, O>,
    options: &WorkOptions,
    senders: Vec<S>,
    jitter: &dyn Fn() -> Jitter,
    wake: &Wake,
    shutdown: impl Future<Output = ()>,
) -> Result<Worked, StorageError>
where
    Q: LeaseQueue + 'static,
    C: Clock + Send,
    B: Blocking,
    F: Fault + Clone + Send + 'static,
    O: Fn() -> Result<Q, StorageError> + Clone + Send + 'static,
    S: Sender,
{
    let worked = Cell::default();
    let extras = Extras { batch: 1, observer: &NoObserver, worked: &worked };
    work_observed(worker, options, senders, jitter, wake, shutdown, extras).await?;
    Ok(worked.get())
}

/// What a worker can have besides.
#[derive(Clone, Copy)]
pub struct Extras<'a> {
    /// The most jobs that are claimed, or finished, in one transaction. 1, or 0: each has its own. With more, the slots
    /// share one connection; to be filled, batches need as many slots.
    pub batch: usize,
    /// Is told what happens.
    pub observer: &'a dyn Observer,
    /// What is done is added to this while it is done: to what was done before, where it goes on.
    pub worked: &'a Cell<Worked>,
}

/// [`work`] in batches, observed.
///
/// # Errors
/// As for [`work`].
pub async fn work_observed<Q, C, B, F, O, S>(
    worker: &Worker<C, B, F, O>,
    options: &WorkOptions,
    senders: Vec<S>,
    jitter: &dyn Fn() -> Jitter,
    wake: &Wake,
    shutdown: impl Future<Output = ()>,
    extras: Extras<'_>,
) -> Result<(), StorageError>
where
    Q: LeaseQueue + 'static,
    C: Clock + Send,
    B: Blocking,
    F: Fault + Clone + Send + 'static,
    O: Fn() -> Result<Q, StorageError> + Clone + Send + 'static,
    S: Sender,
{
    let Extras { batch, observer, worked } = extras;
    let lanes = lanes(worker, senders.len(), batch).await?;
    let shutdown = shutdown.shared();
    let (clock, fault) = (&worker.clock, &worker.fault);
    let turn = Turn::new(clock, jitter, observer);
    let troubles = Troubles::default();
    let desk = lanes.first().filter(|_| batch > 1).map(|lane| Desk {
        clock,
        fault,
        options,
        observer,
        turn: &turn,
        lane: lane.clone(),
        worked,
        batch,
        papers: RefCell::new(Papers::default()),
        arrived: tokio::sync::Notify::new(),
        queue: PhantomData,
    });
    let slots: FuturesUnordered<_> = senders
        .into_iter()
        .zip(lanes)
        .map(|(sender, lane)| {
            let (desk, turn, troubles) = (desk.as_ref(), &turn, &troubles);
            let slot =
                Slot { clock, fault, options, jitter, wake, observer, turn, troubles, lane, desk, worked };
            slot.work(sender, shutdown.clone())
        })
        .collect();
    let all = run(slots, clock, options.grace, shutdown, worked);
    match &desk {
        None => all.await,
        Some(desk) => tokio::select! {
            biased;
            () = all => {}
            never = desk.run() => match never {},
        },
    }
    // The slots are gone, and with them their handles of the connection.
    if let Some(desk) = desk {
        desk.close().await;
    }
    Ok(())
}

/// A connection for each slot, or one for all of them where they work in batches.
async fn lanes<Q, C, B, F, O>(
    worker: &Worker<C, B, F, O>,
    slots: usize,
    batch: usize,
) -> Result<Vec<SharedLane<B::Lane<Q>>>, StorageError>
where
    Q: LeaseQueue + 'static,
    C: Clock,
    B: Blocking,
    O: Fn() -> Result<Q, StorageError> + Clone + Send + 'static,
{
    if batch > 1 {
        let lane = SharedLane::new(open(worker).await?);
        return Ok(vec![lane; slots]);
    }
    let lanes = join_all((0..slots).map(|_| open(worker))).await;
    lanes.into_iter().map(|lane| lane.map(SharedLane::new)).collect()
}

/// Opens a queue connection; a file that is locked is no reason to give up.
async fn open<Q, C, B, F, O>(worker: &Worker<C, B, F, O>) -> Result<B::Lane<Q>, StorageError>
where
    Q: LeaseQueue + 'static,
    C: Clock,
    B: Blocking,
    O: Fn() -> Result<Q, StorageError> + Clone + Send + 'static,
{
    loop {
        match worker.blocking.open("open", worker.open.clone()).await {
            Err(error) if error.is_busy() => tracing::warn!(%error, "the queue cannot be opened yet"),
            opened => return opened,
        }
        worker.clock.sleep(OPEN_PAUSE).await;
    }
}

/// Runs the slots to their end, or to the end of the grace time.
async fn run(
    mut slots: FuturesUnordered<impl Future<Output = ()>>,
    clock: &impl Clock,
    grace: Timeout,
    shutdown: impl Future<Output = ()>,
    worked: &Cell<Worked>,
) {
    let overdue = async {
        shutdown.await;
        clock.sleep(grace.duration()).await;
    };
    let all = async { while slots.next().await.is_some() {} };
    let in_time = tokio::select! {
        biased;
        () = all => true,
        () = overdue => false,
    };
    if !in_time {
        count(worked, |worked| worked.cut += slots.len() as u64);
        tracing::warn!(slots = slots.len(), "cut off: the grace time is over");
    }
}

fn count(worked: &Cell<Worked>, change: impl FnOnce(&mut Worked)) {
    let mut now = worked.get();
    change(&mut now);
    worked.set(now);
}
