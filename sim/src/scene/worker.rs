//! A worker process: claims, sends and finishes one job after the other.

use std::rc::Rc;
use std::time::Duration;

use ackward::port::Clock;
use ackward::rules::{Jitter, Lease, Name};
use ackward::shell::{Orders, run_once};
use ackward::storage::{Durability, OpenOptions};
use rand_chacha::rand_core::RngCore;

use super::producer::open;
use super::wire::WireSender;
use super::{SimFault, Stage, System};
use crate::choice::{stable_hash, stream};
use crate::computer::{Context, VFS_NAME};
use crate::scenario::Worker;

/// What one worker was told.
pub(super) struct Post {
    owner: Name,
    lease: Lease,
    poll: Duration,
}

impl Post {
    pub(super) fn new(owner: Name, settings: &Worker) -> Self {
        let poll = Duration::from_millis(settings.poll_ms.unsigned_abs());
        Self { owner, lease: settings.lease_ms, poll }
    }
}

pub(super) fn options(durability: Durability) -> OpenOptions {
    OpenOptions::new(durability).vfs(VFS_NAME)
}

pub(super) async fn work<S: System>(context: Context, post: Rc<Post>, stage: Rc<Stage>) {
    let name = format!("jitter/{}/{}", post.owner, context.incarnation);
    let mut random = stream(stage.seed, stable_hash(name.as_bytes()));
    let lane = open::<S>(&context, &stage).await;
    let mut sender = WireSender::new(context.clone(), Rc::clone(&stage));
    loop {
        // 53 random bits make a number from 0 up to but not 1, exactly.
        let share = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let jitter = Jitter::new(share).unwrap_or(Jitter::FULL);
        let orders = Orders::new(post.owner.clone(), post.lease, jitter);
        match run_once(&lane, orders, &context, &mut sender, SimFault).await {
            Ok(Some(_)) => {}
            Ok(None) => context.sleep(post.poll).await,
            Err(error) => {
                context.world().note(|| format!("goes on after: {error}"));
                context.sleep(post.poll).await;
            }
        }
    }
}
