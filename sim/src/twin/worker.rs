//! A worker with a loop of its own, for the mistakes that are made around the queue: it claims, sends with renewals
//! beside, and finishes, one job after the other. Told to stop it claims no more and lets its send end.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use ackward::port::{Clock, Lane};
use ackward::rules::{Limits, Outcome, Ticket};
use ackward::shell::{SendError, Sender};
use ackward::storage::{LeaseQueue, Renewed};
use futures_util::FutureExt;
use futures_util::future::{Either, select};

use super::{Twin, Twins, makes};
use crate::computer::{Context, SimLane};
use crate::judge::WatchedQueue;
use crate::scenario::Flaw;
use crate::scene::{Post, SimFault, Stage, System, WatchedSender, open_queue};

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
    // Whoever asks once listens from then on.
    let mut told = pin!(context.terminated());
    let _ = told.as_mut().now_or_never();
    while context.terminated_at_us().is_none() {
        match claim(&context, &post, &lane).await {
            Some(ticket) => deliver(&context, &post, &lane, &mut sender, ticket).await,
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

/// Sends, renews meanwhile, and records the outcome; where the lease is lost, nothing is recorded.
async fn deliver(
    context: &Context,
    post: &Post,
    lane: &QueueLane,
    sender: &mut impl Sender,
    mut ticket: Ticket,
) {
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
            Some(Renewed::Stale) => return,
            None => {}
        }
    };
    let outcome = match sent {
        Ok(()) => Outcome::Ok,
        Err(SendError::Retryable { .. }) => Outcome::Retry,
        Err(SendError::Permanent { .. }) => Outcome::Permanent,
        Err(SendError::BadAck { .. } | SendError::Other(_)) => return,
    };
    finish(context, lane, ticket, outcome).await;
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
