//! Messages between workers and the receiver: each can be lost, late or refused, by choice.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::task::{Poll, Waker};

use ackward::rules::Event;
use ackward::shell::{SendError, Sender};
use futures_util::future::{Either, select};

use super::Stage;
use crate::choice::{Decision, Kind, Offer, Phase, Role};
use crate::computer::{Context, ProcessId, World};
use crate::judge::{self, Milestone};

/// How long a message takes where nothing slows it, in microseconds.
const LATENCY_US: i64 = 1_000;

/// What a receiver answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    Ok,
    /// To be tried again (W2).
    Busy,
    /// The id is known with another quantity (W3).
    Conflict,
    /// Something that acknowledges nothing.
    Wrong,
}

impl Reply {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Busy => "busy, try again",
            Self::Conflict => "conflict",
            Self::Wrong => "something that acknowledges nothing",
        }
    }
}

/// The requests on their way to the receiver.
pub(crate) struct Wire {
    receiver: ProcessId,
    requests: RefCell<VecDeque<Request>>,
    listener: RefCell<Option<Waker>>,
    /// The incarnation of the receiver that has its inbox open.
    open_in: Cell<u32>,
}

/// A request that the receiver has; dropped without a reply, its connection breaks.
pub(super) struct Request {
    pub(super) event: Event,
    reply: Rc<ReplySlot>,
}

#[derive(Default)]
struct ReplySlot {
    state: Cell<SlotState>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum SlotState {
    #[default]
    Waiting,
    /// The reply and when it arrives.
    Replied(Reply, i64),
    Lost,
    Broken,
}

impl Wire {
    pub(super) fn new(receiver: ProcessId) -> Self {
        Self { receiver, requests: RefCell::default(), listener: RefCell::default(), open_in: Cell::new(0) }
    }

    /// The connections of a receiver that is gone break.
    pub(super) fn reset(&self) {
        let broken = self.requests.take();
        drop(broken);
    }

    /// The receiver has opened its inbox, and with that brought in order what a power cut left there.
    pub(super) fn opened(&self, context: &Context) {
        if context.is_alive() {
            self.open_in.set(context.incarnation);
        }
    }

    /// Whether the receiver is up.
    pub(super) fn is_open(&self, world: &World) -> bool {
        world.is_running(self.receiver, self.open_in.get())
    }

    pub(super) async fn next(&self) -> Request {
        poll_fn(|cx| {
            if let Some(request) = self.requests.borrow_mut().pop_front() {
                return Poll::Ready(request);
            }
            *self.listener.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    fn push(&self, request: Request) {
        self.requests.borrow_mut().push_back(request);
        if let Some(waker) = self.listener.take() {
            waker.wake();
        }
    }
}

impl Request {
    pub(super) fn reply(self, reply: Reply, at_us: i64) {
        self.reply.set(SlotState::Replied(reply, at_us));
    }

    /// The reply gets lost: the sender hears nothing, ever.
    pub(super) fn lose(self) {
        self.reply.set(SlotState::Lost);
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if self.reply.state.get() == SlotState::Waiting {
            self.reply.set(SlotState::Broken);
        }
    }
}

impl ReplySlot {
    fn set(&self, state: SlotState) {
        self.state.set(state);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    async fn changed(&self) -> SlotState {
        poll_fn(|cx| match self.state.get() {
            SlotState::Waiting => {
                *self.waker.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
            state => Poll::Ready(state),
        })
        .await
    }
}

/// A worker's end of the wire.
pub(super) struct WireSender {
    context: Context,
    stage: Rc<Stage>,
}

impl WireSender {
    pub(super) fn new(context: Context, stage: Rc<Stage>) -> Self {
        Self { context, stage }
    }

    async fn exchange(&self, event: Event, request: Decision) -> Result<Reply, SendError> {
        let context = &self.context;
        if request.kind == Kind::ConnectRefused {
            context.sleep_us(LATENCY_US).await;
            context.world().had_effect(Kind::ConnectRefused);
            return Err(SendError::retryable("connection refused"));
        }
        context.sleep_us(LATENCY_US).await;
        if request.kind == Kind::Slow {
            slow_down(context, request.value * 1_000).await;
        }
        if request.kind == Kind::RequestLost {
            pending::<()>().await;
        }
        if !context.world().is_process_alive(self.stage.wire.receiver) {
            return Err(SendError::retryable("connection refused"));
        }
        let reply = Rc::new(ReplySlot::default());
        self.stage.wire.push(Request { event, reply: Rc::clone(&reply) });
        match reply.changed().await {
            SlotState::Replied(reply, at_us) => {
                context.sleep_us(at_us - context.world().now_us()).await;
                Ok(reply)
            }
            SlotState::Broken => {
                context.sleep_us(LATENCY_US).await;
                Err(SendError::retryable("connection reset"))
            }
            SlotState::Lost | SlotState::Waiting => pending().await,
        }
    }
}

impl Sender for WireSender {
    async fn send(&mut self, event: Event) -> Result<(), SendError> {
        let context = self.context.clone();
        judge::with(|judges, world| judges.sending(world, context.process, &event.id));
        context.world().note(|| format!("sends {} (qty {})", event.id, event.qty.get()));
        let slow = self.stage.scenario.faults.slow_ms;
        let offers = [
            Offer::plain(Kind::RequestLost),
            Offer::plain(Kind::ConnectRefused),
            Offer { kind: Kind::Slow, low: slow.min(), high: slow.max() },
            Offer::plain(Kind::Kill),
        ];
        let request = context.world().choose(Phase::Message, Role::Request, &offers);
        die_if(&context, request).await;
        let timeout_us = self.stage.scenario.receiver.timeout_ms * 1_000;
        let exchange = Box::pin(self.exchange(event, request));
        let timeout = Box::pin(context.sleep_us(timeout_us));
        let reply = match select(exchange, timeout).await {
            Either::Left((reply, _)) => reply,
            Either::Right(_) => {
                if request.kind != Kind::Go {
                    context.world().had_effect(request.kind);
                }
                Err(SendError::retryable("no reply in time"))
            }
        };
        let offer = [Offer::plain(Kind::Kill)];
        let arrival = context.world().choose(Phase::Message, Role::Reply, &offer);
        die_if(&context, arrival).await;
        context.world().note(|| match &reply {
            Ok(reply) => format!("is answered: {}", reply.as_str()),
            Err(error) => format!("is not answered: {error}"),
        });
        let (result, milestone) = match reply {
            Ok(Reply::Ok) => (Ok(()), None),
            Ok(Reply::Busy) => (Err(SendError::retryable("the receiver is busy")), None),
            Ok(Reply::Conflict) => (Err(SendError::permanent("the receiver knows another quantity")), None),
            Ok(Reply::Wrong) => (Err(SendError::bad_ack("not the agreed reply")), Some(Milestone::BadReply)),
            Err(error) => (Err(error), Some(Milestone::NoReply)),
        };
        if let Some(milestone) = milestone {
            judge::with(|judges, _| judges.milestones.reach(milestone));
        }
        result
    }
}

/// Waits; counts as an effect where others ran meanwhile.
async fn slow_down(context: &Context, duration_us: i64) {
    let before = context.world().steps_of_others(context.process);
    context.sleep_us(duration_us).await;
    if context.world().steps_of_others(context.process) > before {
        context.world().had_effect(Kind::Slow);
    }
}

/// Ends the process here, if that is what was chosen.
pub(super) async fn die_if(context: &Context, decision: Decision) {
    if decision.kind == Kind::Kill {
        context.world().kill_running();
        context.world().had_effect(Kind::Kill);
        pending::<()>().await;
    }
}
