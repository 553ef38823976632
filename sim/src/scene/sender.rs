//! A worker's sender: the HTTP sender that runs in production, watched. The judges are told of every attempt and
//! of every acknowledgement, and the worker can be killed with the answer in its hands.

use std::future::pending;

use ackward::rules::{Event, Name};
use ackward::shell::{HttpError, HttpSender, HttpSenderOptions, SendError, Sender, Target};

use super::receiver::ADDRESS;
use super::{Stage, timeout};
use crate::choice::{Decision, Kind, Offer, Phase, Role};
use crate::computer::{Context, ProcessId};
use crate::judge::{self, Judges, Milestone};

/// The HTTP sender of a simulated process, as the production binary has it.
#[must_use]
pub fn http(context: &Context, stage: &Stage) -> HttpSender<Context, Context> {
    within(context, stage.scenario.receiver.timeout_ms)
}

/// As [`http`], with more patience than any job has time to live.
#[must_use]
pub fn http_patient(context: &Context) -> HttpSender<Context, Context> {
    within(context, PATIENCE_MS)
}

fn within(context: &Context, timeout_ms: i64) -> HttpSender<Context, Context> {
    let target = Target::parse(&format!("http://{ADDRESS}/jobs")).expect("the receiver's URL is one");
    let timeout = timeout(timeout_ms);
    let options = HttpSenderOptions { target, timeout, secrets: None };
    HttpSender::new(context.clone(), context.clone(), options)
}

/// More than any time to live, in ms.
const PATIENCE_MS: i64 = 120_000;

/// A sender that is watched.
pub struct WatchedSender<S> {
    inner: S,
    context: Context,
}

impl<S: Sender> WatchedSender<S> {
    /// Watches a worker's sender.
    pub const fn new(inner: S, context: Context) -> Self {
        Self { inner, context }
    }
}

impl<S: Sender> Sender for WatchedSender<S> {
    async fn send(&mut self, event: Event) -> Result<(), SendError> {
        let world = self.context.world().clone();
        let _attempt = Attempt::begin(self.context.process, &event.id);
        world.note(|| format!("sends {} (qty {})", event.id, event.qty.get()));
        let result = self.inner.send(event.clone()).await;
        judge::with(|judges, world| match &result {
            Ok(()) => judges.acknowledging(world, &event.id, event.qty.get()),
            Err(SendError::Permanent { .. }) => judges.refused_for_good(world, &event.id),
            Err(error) => failed(judges, error),
        });
        let arrival = world.choose(Phase::Message, Role::Reply, &[Offer::plain(Kind::Kill)]);
        die_if(&self.context, arrival).await;
        world.note(|| match &result {
            Ok(()) => "is answered: ok".to_owned(),
            Err(error) => format!("is answered: {error}"),
        });
        result
    }
}

/// An attempt under way: it ends where this is dropped, also with a send that is cancelled.
struct Attempt<'a> {
    process: ProcessId,
    id: &'a Name,
}

impl<'a> Attempt<'a> {
    fn begin(process: ProcessId, id: &'a Name) -> Self {
        judge::with(|judges, world| judges.sending(world, process, id));
        Self { process, id }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        judge::with(|judges, _| judges.sent(self.process, self.id));
    }
}

/// Notes what became of an attempt.
fn failed(judges: &mut Judges, error: &SendError) {
    let reached = &mut judges.milestones;
    match error {
        SendError::Retryable { cause, retry_after } => {
            let is_reply = matches!(cause.downcast_ref(), Some(HttpError::Status(_)));
            reached.reach(if is_reply { Milestone::RefusedForNow } else { Milestone::NoReply });
            if retry_after.is_some() {
                reached.reach(Milestone::RetryAfter);
            }
        }
        SendError::BadAck { .. } => reached.reach(Milestone::BadReply),
        SendError::Permanent { .. } | SendError::Other(_) => {}
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
