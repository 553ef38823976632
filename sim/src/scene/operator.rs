//! An operator: redrives jobs at given times; a job that is not dead by then is left alone.

use std::rc::Rc;
use std::time::Duration;

use ackward::port::{Clock, Lane};
use ackward::storage::{LeaseQueue, RedriveError};

use super::producer::open;
use super::{SimFault, Stage, System};
use crate::computer::Context;
use crate::judge::WatchedQueue;

const RETRY: Duration = Duration::from_millis(50);

pub(super) async fn operate<S: System>(context: Context, number: i64, stage: Rc<Stage>) {
    let lane = open::<S>(&context, &stage).await;
    let all = stage.scenario.redrives.iter();
    let mut redrives: Vec<_> = all.filter(|redrive| redrive.operator == number).cloned().collect();
    redrives.sort_by_key(|redrive| redrive.at_ms);
    for redrive in redrives {
        let now_us = context.world().now_us();
        context.sleep_us(redrive.at_ms * 1_000 - now_us).await;
        while let Ok(now) = context.now() {
            let wanted = redrive.clone();
            let job = move |queue: &mut WatchedQueue<S::Queue>| {
                queue.redrive(&wanted.job, now, wanted.ttl_ms, &wanted.note, &mut SimFault)
            };
            if !matches!(lane.call("redrive", job).await, Err(RedriveError::Storage(_))) {
                break;
            }
            context.sleep(RETRY).await;
        }
    }
    lane.close().await;
    if context.is_alive() {
        stage.operators_left.set(stage.operators_left.get() - 1);
    }
}
