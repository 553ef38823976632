//! A worker process: the worker loop that runs in production, or a courier that delivers one job after the other.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use ackward::port::Clock;
use ackward::rules::{Jitter, Lease, Limits, Name, RetryPolicy, Timeout};
use ackward::shell::{Extras, Orders, Wake, WorkOptions, Worker, run_once, work_observed};
use ackward::storage::{Durability, OpenOptions};
use rand_chacha::rand_core::RngCore;

use super::producer::open;
use super::sender::WatchedSender;
use super::{QUEUE_FILE, SimFault, Stage, System, stopped, timeout};
use crate::choice::{stable_hash, stream};
use crate::computer::{Context, VFS_NAME};
use crate::import::Diary;
use crate::judge::WatchedQueue;
use crate::scenario::Worker as Settings;

/// How long what is being sent may take to end once a worker is told to end, in ms.
const GRACE_MS: i64 = 1_500;
/// How much longer than the shortest an idle worker's wait can become.
const POLL_GROWTH: i64 = 4;
/// How long a worker waits before it begins anew.
const RETRY: Duration = Duration::from_millis(50);

/// What one worker was told.
pub struct Post {
    /// Its name in the queue.
    pub owner: Name,
    /// The lease that it takes.
    pub lease: Lease,
    /// How long it waits where it found nothing, in ms.
    pub poll_ms: i64,
    busy_timeout_ms: i64,
    slots: i64,
    batch: usize,
    is_courier: bool,
}

impl Post {
    pub(super) fn new(owner: Name, settings: &Settings) -> Self {
        let Settings { lease_ms, poll_ms, busy_timeout_ms, slots, batch, courier, .. } = *settings;
        let batch = usize::try_from(batch).unwrap_or(1);
        Self { owner, lease: lease_ms, poll_ms, busy_timeout_ms, slots, batch, is_courier: courier }
    }

    fn options(&self) -> WorkOptions {
        WorkOptions {
            owner: self.owner.clone(),
            lease: self.lease,
            retry: RetryPolicy::CONTRACT,
            limits: Limits::CONTRACT,
            poll_min: timeout(self.poll_ms),
            poll_max: self.poll_max(),
            grace: timeout(GRACE_MS),
        }
    }

    fn poll_max(&self) -> Timeout {
        timeout(self.poll_ms * POLL_GROWTH)
    }
}

pub(super) fn options(durability: Durability) -> OpenOptions {
    OpenOptions::new(durability).vfs(VFS_NAME)
}

/// A worker's program: the worker loop, or a courier's.
pub async fn work<S: System>(context: Context, post: Rc<Post>, stage: Rc<Stage>) {
    let name = format!("jitter/{}/{}", post.owner, context.incarnation);
    let random = RefCell::new(stream(stage.seed, stable_hash(name.as_bytes())));
    let jitter = move || {
        // 53 random bits make a number from 0 up to but not 1, exactly.
        let share = (random.borrow_mut().next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        Jitter::new(share).unwrap_or(Jitter::FULL)
    };
    if post.is_courier {
        return deliver::<S>(&context, &post, &stage, &jitter).await;
    }
    let patience_ms = post.busy_timeout_ms;
    let busy_timeout = Duration::from_millis(patience_ms.unsigned_abs());
    let options = options(stage.scenario.durability).create(false).busy_timeout(busy_timeout);
    let open = move || {
        let queue = S::open_queue(Path::new(QUEUE_FILE), &options)?;
        Ok(WatchedQueue::with_patience(queue, patience_ms))
    };
    let worker = Worker { clock: context.clock(), blocking: context.clone(), fault: SimFault, open };
    let options = post.options();
    loop {
        let sender = |_| WatchedSender::new(S::sender(&context, &stage), context.clone());
        let senders = (0..post.slots).map(sender).collect();
        let wake = Wake::default();
        let (ended, diary) = (context.terminated(), Diary(context.clone()));
        let worked = Cell::default();
        let extras = Extras { batch: post.batch, observer: &diary, worked: &worked };
        match work_observed(&worker, &options, senders, &jitter, &wake, ended, extras).await {
            Ok(()) => return stopped(&context, GRACE_MS),
            Err(error) => context.world().note(|| format!("cannot open the queue: {error}")),
        }
        context.sleep(RETRY).await;
    }
}

/// Delivers one job after the other, without renewing leases (Q47 to Q55).
async fn deliver<S: System>(context: &Context, post: &Post, stage: &Stage, jitter: &dyn Fn() -> Jitter) {
    let lane = open::<S>(context, stage).await;
    let mut sender = WatchedSender::new(S::sender(context, stage), context.clone());
    let poll = Duration::from_millis(post.poll_ms.unsigned_abs());
    loop {
        let orders = Orders::new(post.owner.clone(), post.lease, jitter());
        match run_once(&lane, orders, context, &mut sender, SimFault).await {
            Ok(Some(_)) => {}
            Ok(None) => context.sleep(poll).await,
            Err(error) => {
                context.world().note(|| format!("goes on after: {error}"));
                context.sleep(poll).await;
            }
        }
    }
}
