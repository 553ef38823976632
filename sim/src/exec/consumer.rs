//! The consumer's operations on its store.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ackward::port::{Fault, FaultPoint, Injected};
use ackward::rules::{self, Cursor, Invalid, Limit, StreamEvent};
use ackward::storage::{Applied, Durability, OpenOptions, StorageError, Store};
use serde_json::{Value, json};

use super::Reply;
use super::arguments::{Arguments, integer};
use super::failure::Failure;
use super::hex;
use super::json::Json;
use super::queue::{Hook, hooked, rows};

/// The consumer's store; it stays closed only where reopening it failed, and then the next operation tries
/// again.
pub(super) struct Consumer {
    path: PathBuf,
    store: Option<Store>,
}

impl Consumer {
    pub(super) fn open(path: PathBuf) -> Result<Self, Failure> {
        let mut consumer = Self { path, store: None };
        consumer.store()?;
        Ok(consumer)
    }

    pub(super) fn close(&mut self) {
        self.store = None;
    }

    /// Opens the file again, if it is closed.
    pub(super) fn reopen(&mut self) -> Result<(), Failure> {
        self.store()?;
        Ok(())
    }

    fn store(&mut self) -> Result<&mut Store, StorageError> {
        let store = match self.store.take() {
            Some(store) => store,
            None => Store::open(&self.path, &OpenOptions::new(Durability::Extra))?,
        };
        Ok(self.store.insert(store))
    }

    /// Performs an operation that is not one of the queue's; an unknown one is refused.
    pub(super) fn perform(&mut self, op: &str, arguments: &Arguments) -> Reply {
        match op {
            "parse_line" => parse_line(arguments).into(),
            "apply_event" => self.apply_event(arguments),
            "consume_line" => self.consume_line(arguments),
            "replay" => replay(arguments).into(),
            "state" => self.state(arguments).into(),
            unknown => Invalid::new("op", format_args!("{unknown:?}"), super::OPERATIONS).into(),
        }
    }

    fn apply_event(&mut self, arguments: &Arguments) -> Reply {
        hooked(arguments, &["seq", "delta"], |hook| {
            let event = StreamEvent::new(arguments.integer("seq")?, arguments.integer("delta")?)?;
            let applied = self.store()?.apply_event(event, &mut CursorHook(hook))?;
            Ok((applied == Applied::New).into())
        })
    }

    fn consume_line(&mut self, arguments: &Arguments) -> Reply {
        hooked(arguments, &["line_hex"], |hook| {
            let line = line(arguments)?;
            let consumed = self.store()?.consume_line(&line, &mut CursorHook(hook))?;
            Ok(hex::write(consumed.ack_line().as_bytes()).into())
        })
    }

    fn state(&mut self, arguments: &Arguments) -> Result<Value, Failure> {
        arguments.only(&[])?;
        let state = self.store()?.state()?;
        Ok(json!([state.last.get(), state.total]))
    }

    /// Adds the store's tables.
    pub(super) fn dump(&mut self, tables: &mut BTreeMap<&'static str, Value>) -> Result<(), Failure> {
        let connection = self.store()?.connection();
        let checkpoint = "SELECT id, last, total FROM checkpoint ORDER BY id";
        tables.insert("checkpoint", rows(connection, checkpoint)?);
        tables.insert("ledger", rows(connection, "SELECT seq, delta FROM ledger ORDER BY seq")?);
        Ok(())
    }
}

fn parse_line(arguments: &Arguments) -> Result<Value, Failure> {
    arguments.only(&["line_hex"])?;
    Ok(pair(rules::parse_line(&line(arguments)?)?))
}

fn replay(arguments: &Arguments) -> Result<Value, Failure> {
    arguments.only(&["events", "last", "limit"])?;
    let events = events(arguments)?;
    let last = Cursor::new(arguments.integer("last")?)?;
    let limit = Limit::new(arguments.integer("limit")?)?;
    Ok(rules::replay(&events, last, limit)?.into_iter().map(pair).collect())
}

/// The hook of `apply_event` and `consume_line`, whose one point is called `fault` here.
struct CursorHook<'h>(&'h mut Hook);

impl Fault for CursorHook<'_> {
    fn at(&mut self, _before_cursor: FaultPoint) -> Result<(), Injected> {
        self.0.called("fault")
    }
}

/// A history: `[[seq, delta], ...]` (R20).
fn events(arguments: &Arguments) -> Result<Vec<StreamEvent>, Invalid> {
    match arguments.get("events") {
        Some(Json::List(items)) => items.iter().map(event).collect(),
        Some(other) => Err(Invalid::new("events", other, EVENTS)),
        None => Err(Invalid::new("events", "missing", EVENTS)),
    }
}

const EVENTS: &str = "a list of pairs of integers";

fn event(item: &Json) -> Result<StreamEvent, Invalid> {
    match item {
        Json::List(numbers) if numbers.len() == 2 => {
            StreamEvent::new(integer("seq", &numbers[0])?, integer("delta", &numbers[1])?)
        }
        other => Err(Invalid::new("events", format_args!("with {other}"), EVENTS)),
    }
}

fn pair(event: StreamEvent) -> Value {
    json!([event.seq.get(), event.delta.get()])
}

/// The bytes of `line_hex`: two hex digits each, in either case.
fn line(arguments: &Arguments) -> Result<Vec<u8>, Invalid> {
    let text = arguments.text("line_hex")?;
    let refused = || Invalid::new("line_hex", format_args!("{text:?}"), "two hex digits for each byte");
    hex::read(text).ok_or_else(refused)
}
