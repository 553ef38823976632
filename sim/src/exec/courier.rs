//! `run_once` with a scripted clock and a scripted sender, on the calling thread.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::{Future, ready};
use std::rc::Rc;
use std::time::Duration;

use ackward::port::{Clock, Lane, NoFault};
use ackward::rules::{Event, Invalid, Jitter, Millis, RetryPolicy};
use ackward::shell::{self, Delivery, Orders, SendError, Sender};
use ackward::storage::{Finished, Queue};
use futures_util::FutureExt;
use serde_json::{Value, json};

use super::Reply;
use super::arguments::{Arguments, integer};
use super::failure::{Failure, Unclassified};
use super::json::Json;
use super::queue::LIMITS;

/// A lane that runs its jobs at once, on the caller's thread.
pub(super) struct Inline<R>(RefCell<R>);

impl<R> Inline<R> {
    pub(super) const fn new(resource: R) -> Self {
        Self(RefCell::new(resource))
    }

    pub(super) fn get_mut(&mut self) -> &mut R {
        self.0.get_mut()
    }
}

impl<R: 'static> Lane<R> for Inline<R> {
    fn call<T, F>(&self, _label: &'static str, job: F) -> impl Future<Output = T>
    where
        T: Send + 'static,
        F: FnOnce(&mut R) -> T + Send + 'static,
    {
        ready(job(&mut self.0.borrow_mut()))
    }

    fn close(self) -> impl Future<Output = ()> {
        ready(())
    }
}

/// Performs the operation; the reply lists the calls in order.
pub(super) fn run_once(lane: &Inline<Queue>, arguments: &Arguments) -> Reply {
    if let Err(stranger) = arguments.only(&["owner", "clock", "send", "jitter", "lease_ms"]) {
        return stranger.into();
    }
    let calls = Calls::default();
    let result = try_run_once(lane, arguments, &calls);
    Reply { result, hooks: None, calls: Some(calls.take()) }
}

fn try_run_once(lane: &Inline<Queue>, arguments: &Arguments, calls: &Calls) -> Result<Value, Failure> {
    let clock = Script { readings: Rc::new(RefCell::new(readings(arguments)?)), calls: calls.clone() };
    let mut sender = Scripted { answer: answer(arguments)?, calls: calls.clone() };
    let orders = Orders {
        jitter: arguments.number("jitter").and_then(Jitter::new),
        owner: arguments.name("owner"),
        lease: arguments.integer_or("lease_ms", 1_000).and_then(|lease_ms| LIMITS.lease(lease_ms)),
        retry: RetryPolicy::CONTRACT,
        limits: LIMITS,
    };
    let run = shell::run_once(lane, orders, &clock, &mut sender, NoFault).now_or_never();
    let delivery = run.expect("neither lane nor sender ever waits")?;
    Ok(delivery.as_ref().map_or(Value::Null, delivered))
}

fn readings(arguments: &Arguments) -> Result<VecDeque<Json>, Invalid> {
    match arguments.get("clock") {
        Some(Json::List(readings)) if readings.len() == 2 => Ok(readings.iter().cloned().collect()),
        other => {
            let value = other.map_or_else(|| "missing".into(), Json::to_string);
            Err(Invalid::new("clock", value, "a list of two readings"))
        }
    }
}

fn answer(arguments: &Arguments) -> Result<Json, Invalid> {
    let answer = arguments.get("send").cloned();
    answer.ok_or_else(|| Invalid::new("send", "missing", "any value"))
}

fn delivered(delivery: &Delivery) -> Value {
    let status = match delivery.finished {
        Finished::Now(status) => status.as_str(),
        Finished::Stale => "stale",
    };
    json!({"id": delivery.id.as_str(), "status": status, "token": delivery.token.get()})
}

/// What was called, in order.
#[derive(Clone, Default)]
struct Calls(Rc<RefCell<Vec<Value>>>);

impl Calls {
    fn push(&self, call: impl Into<Value>) {
        self.0.borrow_mut().push(call.into());
    }

    fn take(&self) -> Vec<Value> {
        self.0.take()
    }
}

/// A clock that reads what it was given, lawful or not.
#[derive(Clone)]
struct Script {
    readings: Rc<RefCell<VecDeque<Json>>>,
    calls: Calls,
}

impl Clock for Script {
    fn now(&self) -> Result<Millis, Invalid> {
        self.calls.push("clock");
        let reading = self.readings.borrow_mut().pop_front();
        let reading = reading.ok_or_else(|| Invalid::new("clock", "nothing", "two readings"))?;
        Millis::named("clock", integer("clock", &reading)?)
    }

    fn sleep(&self, _duration: Duration) -> impl Future<Output = ()> {
        ready(())
    }
}

/// A sender that answers what it was given.
struct Scripted {
    answer: Json,
    calls: Calls,
}

impl Sender for Scripted {
    fn send(&mut self, event: Event) -> impl Future<Output = Result<(), SendError>> {
        self.calls.push("send");
        self.calls.push(json!({"id": event.id.as_str(), "qty": event.qty.get()}));
        ready(reply(&self.answer))
    }
}

/// Only `true` acknowledges (Q50).
fn reply(answer: &Json) -> Result<(), SendError> {
    let text = match answer {
        Json::Bool(true) => return Ok(()),
        Json::Text(text) => text.as_str(),
        _ => "",
    };
    Err(match text {
        "!Retryable" => SendError::retryable("as scripted"),
        "!Permanent" => SendError::permanent("as scripted"),
        "!Crash" => SendError::Other(Unclassified("Crash").into()),
        "!ValueError" => SendError::Other(Unclassified("ValueError").into()),
        "!TimeoutError" => SendError::Other(Unclassified("TimeoutError").into()),
        "!ConnectionResetError" => SendError::Other(Unclassified("ConnectionResetError").into()),
        _ => SendError::bad_ack(answer.to_string()),
    })
}
