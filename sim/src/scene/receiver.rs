//! The receiver: takes each job's effect once, through its inbox, and acknowledges after the commit.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use ackward::port::{Blocking, Clock, Lane};
use ackward::storage::{AcceptError, Durability, Inbox};

use super::wire::{Reply, Request, die_if};
use super::worker::options;
use super::{INBOX_FILE, SimFault, Stage, stage};
use crate::choice::{Kind, Offer, Phase, Role};
use crate::computer::{Context, SimLane};
use crate::judge::{self, WatchedInbox};

const RETRY: Duration = Duration::from_millis(50);
const LATENCY_US: i64 = 1_000;

pub(super) async fn receive(context: Context) {
    let Some(stage) = stage() else { return };
    stage.wire.reset();
    let lane = open(&context).await;
    stage.wire.opened(&context);
    loop {
        let request = stage.wire.next().await;
        serve(&context, &stage, &lane, request).await;
    }
}

async fn open(context: &Context) -> SimLane<WatchedInbox> {
    loop {
        let options = options(Durability::Extra);
        let open = move || Inbox::open(Path::new(INBOX_FILE), &options).map(WatchedInbox);
        match context.open("open", open).await {
            Ok(lane) => return lane,
            Err(_) => context.sleep(RETRY).await,
        }
    }
}

async fn serve(context: &Context, stage: &Rc<Stage>, lane: &SimLane<WatchedInbox>, request: Request) {
    context.sleep_us(stage.scenario.receiver.service_ms * 1_000).await;
    let offers = [Offer::plain(Kind::Refused), Offer::plain(Kind::Kill)];
    let serve = context.world().choose(Phase::Message, Role::Serve, &offers);
    die_if(context, serve).await;
    let reply = if serve.kind == Kind::Refused {
        context.world().had_effect(Kind::Refused);
        Reply::Busy
    } else {
        accept(context, lane, &request).await
    };
    let slow = stage.scenario.faults.slow_ms;
    let offers = [
        Offer::plain(Kind::ReplyLost),
        Offer::plain(Kind::WrongReply),
        Offer { kind: Kind::Slow, low: slow.min(), high: slow.max() },
        Offer::plain(Kind::Kill),
    ];
    let fate = context.world().choose(Phase::Message, Role::Reply, &offers);
    die_if(context, fate).await;
    if reply == Reply::Ok && !matches!(fate.kind, Kind::ReplyLost | Kind::WrongReply) {
        let event = &request.event;
        judge::with(|judges, world| judges.acknowledging(world, &event.id, event.qty.get()));
    }
    let at_us = context.world().now_us() + LATENCY_US;
    if fate.kind != Kind::Go {
        context.world().had_effect(fate.kind);
    }
    match fate.kind {
        Kind::ReplyLost => request.lose(),
        Kind::WrongReply => request.reply(Reply::Wrong, at_us),
        Kind::Slow => request.reply(reply, at_us + fate.value * 1_000),
        _ => request.reply(reply, at_us),
    }
}

async fn accept(context: &Context, lane: &SimLane<WatchedInbox>, request: &Request) -> Reply {
    let Ok(now) = context.now() else { return Reply::Busy };
    let event = request.event.clone();
    let job = move |inbox: &mut WatchedInbox| inbox.accept(&event, now, &mut SimFault);
    match lane.call("accept", job).await {
        Ok(_) => Reply::Ok,
        Err(AcceptError::Conflict { .. }) => Reply::Conflict,
        Err(_) => Reply::Busy,
    }
}
