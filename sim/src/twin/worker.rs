//! A worker with a loop of its own, for the mistakes that are made around the queue: it claims, sends with renewals
//! beside, and finishes, one job after the other. Told to stop it claims no more and lets its send end.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use ackward::port::{Blocking, Clock, Lane};
use ackward::rules::{Limits, Outcome, Ticket};
use ackward::shell::{SendError, Sender};
use ackward::storage::{LeaseQueue, Renewed};
use futures_util::FutureExt;
use futures_util::future::{Either, select};
use rusqlite::{Connection, OpenFlags};

use super::{Twin, Twins, makes};
use crate::computer::{Context, SimLane, VFS_NAME};
use crate::judge::WatchedQueue;
use crate::scenario::Flaw;
use crate::scene::{Post, QUEUE_FILE, SimFault, Stage, System, WatchedSender, open_queue};

/// How long a job waits for its next attempt, in ms.
const RETRY_MS: i64 = 100;
/// How long it waits after a failure of the queue.
const TROUBLE: Duration = Duration::from_millis(50);

type QueueLane = SimLane<WatchedQueue<Twin>>;

/// A worker's program.
pub(super) async fn work(context: Context, post: Rc<Post>, stage: Rc<Stage>) {
    let lane = open_queue::<Twins>(&context, &stage).await;
    let mut sender = WatchedSender::new(Twins::sender(&context, &stage), context.clone());
    let poll = Duration::from_millis(post.poll_ms.unsigned_abs());
    let reader = match makes(Flaw::ReadsOnWhileSending) {
        true => context.open("open", reader).await.ok(),
        false => None,
    };
    // Whoever asks once listens from then on.
    let mut told = pin!(context.terminated());
    let _ = told.as_mut().now_or_never();
    while context.terminated_at_us().is_none() {
        match claim(&context, &post, &lane).await {
            Some(ticket) => {
                read(reader.as_ref(), "BEGIN; SELECT count(*) FROM jobs").await;
                let sent = send(&context, &post, &lane, &mut sender, ticket).await;
                read(reader.as_ref(), "ROLLBACK").await;
                if let Some((ticket, outcome)) = sent {
                    finish(&context, &lane, ticket, outcome).await;
                }
            }
            None => {
                select(pin!(context.sleep(poll)), told.as_mut()).await;
            }
        }
    }
    lane.close().await;
}

async fn claim(context: &Context, post: &Post, lane: &QueueLane) -> Option<Ticket> {
    let (owner, lease, clock) = (post.owner.clone(), post.lease, context.clock());
    let job = move |queue: &mut WatchedQueue<Twin>| {
        queue.claim_at(&owner, &mut || clock.now(), lease, &mut SimFault)
    };
    lane.call("claim", job).await.ok().flatten()
}

/// A second connection to the queue's file.
fn reader() -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags_and_vfs(QUEUE_FILE, flags, VFS_NAME)
}

/// What the second connection does, where there is one. If it fails, there is no cursor to be left open.
async fn read(reader: Option<&SimLane<Connection>>, statements: &'static str) {
    if let Some(reader) = reader {
        let _ = reader.call("read", move |connection| connection.execute_batch(statements)).await;
    }
}

/// Sends and renews meanwhile; what is to be recorded of it. Where the lease is lost, that is nothing.
async fn send(
    context: &Context,
    post: &Post,
    lane: &QueueLane,
    sender: &mut impl Sender,
    mut ticket: Ticket,
) -> Option<(Ticket, Outcome)> {
    let every = Duration::from_millis(post.lease.get().unsigned_abs()) / 3;
    let mut send = pin!(sender.send(ticket.event()));
    let sent = loop {
        if let Either::Left((sent, _)) = select(send.as_mut(), pin!(context.sleep(every))).await {
            break sent;
        }
        if makes(Flaw::HeartbeatStopsBeforeTheDrain) && context.terminated_at_us().is_some() {
            continue;
        }
        match renew(context, post, lane, ticket.clone()).await {
            Some(Renewed::Until(renewed)) => ticket = renewed,
            Some(Renewed::Stale) => return None,
            None => {}
        }
    };
    let outcome = match sent {
        Ok(()) => Outcome::Ok,
        Err(SendError::Retryable { .. }) => Outcome::Retry,
        Err(SendError::Permanent { .. }) => Outcome::Permanent,
        Err(SendError::BadAck { .. } | SendError::Other(_)) => return None,
    };
    Some((ticket, outcome))
}

/// Nothing where it failed.
async fn renew(context: &Context, post: &Post, lane: &QueueLane, ticket: Ticket) -> Option<Renewed> {
    let (lease, clock) = (post.lease, context.clock());
    let job =
        move |queue: &mut WatchedQueue<Twin>| queue.renew(&ticket, &mut || clock.now(), lease, &mut SimFault);
    lane.call("renew", job).await.ok()
}

async fn finish(context: &Context, lane: &QueueLane, ticket: Ticket, outcome: Outcome) {
    let Ok(delay) = Limits::CONTRACT.delay(RETRY_MS) else { return };
    while let Ok(now) = context.now() {
        let ticket = ticket.clone();
        let job =
            move |queue: &mut WatchedQueue<Twin>| queue.finish(&ticket, outcome, now, delay, &mut SimFault);
        if lane.call("finish", job).await.is_ok() {
            return;
        }
        context.sleep(TROUBLE).await;
    }
}
