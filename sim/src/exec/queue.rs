//! The queue's operations on its file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ackward::port::{Fault, FaultPoint, Injected};
use ackward::rules::{Attempt, Attempts, Invalid, Jitter, Limits, Outcome, Ticket};
use ackward::storage::{
    Durability, Enqueued, Finished, LeaseQueue, OpenOptions, Queue, Released, Renewed, StorageError,
};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde_json::{Value, json};

use super::Reply;
use super::arguments::Arguments;
use super::courier::{self, Inline};
use super::failure::Failure;
use super::hex;

/// The ranges of `exec` (M11).
pub(super) const LIMITS: Limits = Limits::CONTRACT;

/// The queue's file; it stays closed only where reopening it failed, and then the next operation tries again.
pub(super) struct QueueFile {
    path: PathBuf,
    queue: Option<Inline<Queue>>,
}

impl QueueFile {
    pub(super) fn open(path: PathBuf) -> Result<Self, Failure> {
        let mut file = Self { path, queue: None };
        file.lane()?;
        Ok(file)
    }

    pub(super) fn close(&mut self) {
        self.queue = None;
    }

    /// Opens the file again, if it is closed.
    pub(super) fn reopen(&mut self) -> Result<(), Failure> {
        self.lane()?;
        Ok(())
    }

    fn lane(&mut self) -> Result<&mut Inline<Queue>, StorageError> {
        let queue = match self.queue.take() {
            Some(queue) => queue,
            None => Inline::new(Queue::open(&self.path, &OpenOptions::new(Durability::Full))?),
        };
        Ok(self.queue.insert(queue))
    }

    fn queue(&mut self) -> Result<&mut Queue, StorageError> {
        Ok(self.lane()?.get_mut())
    }

    pub(super) fn enqueue(&mut self, arguments: &Arguments) -> Reply {
        let result = arguments.only(&["id", "qty", "event", "now_ms", "ttl_ms", "max_attempts"]);
        result.map_err(Failure::from).and_then(|()| self.try_enqueue(arguments)).into()
    }

    fn try_enqueue(&mut self, arguments: &Arguments) -> Result<Value, Failure> {
        let event = arguments.event()?;
        let now = arguments.millis("now_ms")?;
        let ttl = LIMITS.ttl(arguments.integer("ttl_ms")?)?;
        let max_attempts = Attempts::new(arguments.integer_or("max_attempts", Attempts::DEFAULT.get())?)?;
        let enqueued = self.queue()?.enqueue(&event, now, ttl, max_attempts)?;
        Ok((enqueued == Enqueued::New).into())
    }

    pub(super) fn claim(&mut self, arguments: &Arguments) -> Reply {
        hooked(arguments, &["owner", "now_ms", "lease_ms"], |hook| {
            let owner = arguments.name("owner")?;
            let now = arguments.millis("now_ms")?;
            let lease = LIMITS.lease(arguments.integer_or("lease_ms", 1_000)?)?;
            let claimed = self.queue()?.claim(&owner, now, lease, hook)?;
            Ok(claimed.as_ref().map_or(Value::Null, ticket))
        })
    }

    pub(super) fn finish(&mut self, arguments: &Arguments) -> Reply {
        hooked(arguments, &["ticket", "outcome", "now_ms", "delay_ms"], |hook| {
            let ticket = arguments.ticket()?;
            let outcome = Outcome::parse(arguments.text("outcome")?)?;
            let now = arguments.millis("now_ms")?;
            let delay = LIMITS.delay(arguments.integer_or("delay_ms", 0)?)?;
            Ok(match self.queue()?.finish(&ticket, outcome, now, delay, hook)? {
                Finished::Now(status) => status.as_str().into(),
                Finished::Stale => false.into(),
            })
        })
    }

    pub(super) fn renew(&mut self, arguments: &Arguments) -> Reply {
        hooked(arguments, &["ticket", "now_ms", "lease_ms"], |hook| {
            let old = arguments.ticket()?;
            let now = arguments.millis("now_ms")?;
            let lease = LIMITS.lease(arguments.integer_or("lease_ms", 1_000)?)?;
            Ok(match self.queue()?.renew(&old, &mut || Ok(now), lease, hook)? {
                Renewed::Until(new) => ticket(&new),
                Renewed::Stale => false.into(),
            })
        })
    }

    pub(super) fn release(&mut self, arguments: &Arguments) -> Reply {
        hooked(arguments, &["ticket", "now_ms"], |hook| {
            let ticket = arguments.ticket()?;
            let now = arguments.millis("now_ms")?;
            Ok(match self.queue()?.release(&ticket, now, hook)? {
                Released::Pending => "pending".into(),
                Released::Stale => false.into(),
            })
        })
    }

    pub(super) fn redrive(&mut self, arguments: &Arguments) -> Reply {
        hooked(arguments, &["id", "now_ms", "ttl_ms", "note"], |hook| {
            let id = arguments.name("id")?;
            let now = arguments.millis("now_ms")?;
            let ttl = LIMITS.ttl(arguments.integer("ttl_ms")?)?;
            let note = arguments.name("note")?;
            self.queue()?.redrive(&id, now, ttl, &note, hook)?;
            Ok(true.into())
        })
    }

    pub(super) fn run_once(&mut self, arguments: &Arguments) -> Reply {
        match self.lane() {
            Ok(lane) => courier::run_once(lane, arguments),
            Err(error) => Failure::from(error).into(),
        }
    }

    /// Adds the queue's tables.
    pub(super) fn dump(&mut self, tables: &mut BTreeMap<&'static str, Value>) -> Result<(), Failure> {
        let connection = self.queue()?.connection();
        let jobs = "SELECT seq, id, qty, status, attempts, max_attempts, token, available_at, deadline, \
            owner, lease_until, reason FROM jobs ORDER BY seq";
        let redrives = "SELECT seq, id, token, at_ms, note FROM redrives ORDER BY seq";
        tables.insert("jobs", rows(connection, jobs)?);
        tables.insert("redrives", rows(connection, redrives)?);
        Ok(())
    }
}

pub(super) fn retry_delay(arguments: &Arguments) -> Result<Value, Failure> {
    arguments.only(&["attempt", "base_ms", "cap_ms", "jitter"])?;
    let attempt = Attempt::new(arguments.integer("attempt")?)?;
    let policy = LIMITS.retry(arguments.integer("base_ms")?, arguments.integer("cap_ms")?)?;
    let jitter = Jitter::new(arguments.number("jitter")?)?;
    Ok(ackward::rules::retry_delay(attempt, policy, jitter).get().into())
}

/// All rows of a query, each a list in the order of its columns.
pub(super) fn rows(connection: &Connection, sql: &str) -> Result<Value, StorageError> {
    let mut statement = connection.prepare_cached(sql)?;
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        (0..columns).map(|column| row.get_ref(column).map(stored)).collect::<Result<Value, _>>()
    })?;
    Ok(rows.collect::<Result<Value, _>>()?)
}

/// A stored value; what JSON has no type for is marked as `$float` and `$blob`.
fn stored(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => value.into(),
        ValueRef::Real(value) if value.is_finite() => value.into(),
        ValueRef::Real(value) => json!({"$float": value.to_string()}),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
        ValueRef::Blob(blob) => json!({"$blob": hex::write(blob)}),
    }
}

/// A ticket's six fields (Q32).
fn ticket(ticket: &Ticket) -> Value {
    json!({
        "attempt": ticket.attempt.get(),
        "id": ticket.id.as_str(),
        "lease_until": ticket.lease_until_ms(),
        "owner": ticket.owner.as_str(),
        "qty": ticket.qty.get(),
        "token": ticket.token.get(),
    })
}

/// Runs an operation that may be given a fault point, and reports the points it called.
pub(super) fn hooked(
    arguments: &Arguments,
    keys: &[&str],
    operation: impl FnOnce(&mut Hook) -> Result<Value, Failure>,
) -> Reply {
    let allowed: Vec<&str> = keys.iter().copied().chain(["fault"]).collect();
    if let Err(stranger) = arguments.only(&allowed) {
        return Failure::from(stranger).into();
    }
    let mut hook = Hook::default();
    if arguments.get("fault").is_none() {
        return operation(&mut hook).into();
    }
    let point = arguments.text("fault").map(str::to_owned).map_err(Failure::from);
    let result = point.and_then(|point| {
        hook.point = point;
        operation(&mut hook)
    });
    Reply { result, hooks: Some(hook.called), calls: None }
}

/// Fails at one point and records all that were called.
#[derive(Default)]
pub(super) struct Hook {
    point: String,
    called: Vec<&'static str>,
}

impl Hook {
    /// Records `name` and fails if it is the one.
    pub(super) fn called(&mut self, name: &'static str) -> Result<(), Injected> {
        self.called.push(name);
        if self.point == name {
            return Err(Injected(format!("at {name}").into()));
        }
        Ok(())
    }
}

impl Fault for Hook {
    fn at(&mut self, point: FaultPoint) -> Result<(), Injected> {
        self.called(point.as_str())
    }
}

/// What every value of an argument turns into when it is bad.
impl From<Invalid> for Reply {
    fn from(invalid: Invalid) -> Self {
        Failure::from(invalid).into()
    }
}
