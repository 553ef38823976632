//! The producer: enqueues each job at its time, until the queue has confirmed it.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use ackward::port::{Blocking, Clock, Lane};
use ackward::storage::{EnqueueError, LeaseQueue};

use super::worker::options;
use super::{QUEUE_FILE, Stage, System};
use crate::computer::{Context, SimLane};
use crate::judge::WatchedQueue;
use crate::scenario::Arrival;

/// How long it waits after an error, in ms.
const RETRY: Duration = Duration::from_millis(50);

pub(super) async fn produce<S: System>(context: Context, stage: Rc<Stage>) {
    let lane = open::<S>(&context, &stage).await;
    let mut arrivals = stage.scenario.arrivals();
    arrivals.sort_by_key(|arrival| arrival.at_ms);
    for arrival in arrivals {
        let now_us = context.world().now_us();
        context.sleep_us(arrival.at_ms * 1_000 - now_us).await;
        while !enqueue::<S>(&context, &lane, arrival.clone()).await {
            context.sleep(RETRY).await;
        }
    }
    lane.close().await;
    if context.is_alive() {
        stage.producer_done.set(true);
    }
}

/// Opens the queue file, as often as it takes.
pub async fn open<S: System>(context: &Context, stage: &Stage) -> SimLane<WatchedQueue<S::Queue>> {
    let options = options(stage.scenario.durability);
    loop {
        let options = options.clone();
        let open = move || S::open_queue(Path::new(QUEUE_FILE), &options).map(WatchedQueue::new);
        match context.open("open", open).await {
            Ok(lane) => return lane,
            Err(error) => context.world().note(|| format!("cannot open the queue: {error}")),
        }
        context.sleep(RETRY).await;
    }
}

/// Whether the queue has an answer for this job.
async fn enqueue<S: System>(
    context: &Context,
    lane: &SimLane<WatchedQueue<S::Queue>>,
    arrival: Arrival,
) -> bool {
    let Ok(now) = context.now() else { return false };
    let job = move |queue: &mut WatchedQueue<S::Queue>| {
        queue.enqueue(&arrival.event, now, arrival.ttl, arrival.max_attempts)
    };
    !matches!(lane.call("enqueue", job).await, Err(EnqueueError::Storage(_) | EnqueueError::Invalid(_)))
}
