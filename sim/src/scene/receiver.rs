//! The receiver: the one that runs in production, on the simulated network, with an inbox that is watched.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use ackward::port::{Blocking, Clock, Lane, Network};
use ackward::shell::{ReceiverOptions, TOLERANCE_DEFAULT, receive};
use ackward::storage::Durability;

use super::front::Front;
use super::worker::options;
use super::{INBOX_FILE, SimFault, Stage, System, stopped, timeout};
use crate::computer::{Context, SimLane};
use crate::judge::WatchedInbox;

/// Where it listens.
pub(super) const ADDRESS: &str = "receiver-host:7100";
/// How long it waits before it tries again what failed.
const RETRY: Duration = Duration::from_millis(50);
/// How long requests may take to end once it is told to end, in ms.
pub(super) const GRACE_MS: i64 = 1_000;

pub(super) async fn serve<S: System>(context: Context, stage: Rc<Stage>) {
    let settings = &stage.scenario.receiver;
    let lane = open::<S>(&context).await;
    stage.receiver_opened(&context);
    let listener = loop {
        match context.listen(ADDRESS).await {
            Ok(listener) => break Front::new(listener, context.clone()),
            Err(_) => context.sleep(RETRY).await,
        }
    };
    let options = ReceiverOptions {
        head_timeout: timeout(settings.head_timeout_ms),
        body_timeout: timeout(settings.head_timeout_ms),
        grace: timeout(GRACE_MS),
        connections_max: usize::try_from(settings.connections_max).unwrap_or(1),
        group_max: usize::try_from(settings.group_max).unwrap_or(1),
        secrets: None,
        tolerance: TOLERANCE_DEFAULT,
    };
    let desk = Desk { lane, context: context.clone(), service_us: settings.service_ms * 1_000 };
    receive(listener, &desk, &context, &options, SimFault, context.terminated()).await;
    stopped(&context, GRACE_MS);
    desk.close().await;
}

async fn open<S: System>(context: &Context) -> SimLane<WatchedInbox<S::Inbox>> {
    loop {
        let options = options(Durability::Extra);
        let open = move || S::open_inbox(Path::new(INBOX_FILE), &options).map(WatchedInbox);
        match context.open("open", open).await {
            Ok(lane) => return lane,
            Err(_) => context.sleep(RETRY).await,
        }
    }
}

/// The inbox's lane, which takes its time over each group of events.
struct Desk<I: 'static> {
    lane: SimLane<I>,
    context: Context,
    service_us: i64,
}

impl<I: 'static> Lane<I> for Desk<I> {
    async fn call<T, F>(&self, label: &'static str, job: F) -> T
    where
        T: Send + 'static,
        F: FnOnce(&mut I) -> T + Send + 'static,
    {
        self.context.sleep_us(self.service_us).await;
        self.lane.call(label, job).await
    }

    async fn close(self) {
        self.lane.close().await;
    }
}
