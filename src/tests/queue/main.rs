//! The lease queue against its contract, clause by clause, on real files. After every operation of the
//! [`Bed`] a second connection proves that no lock is left (Q5).

#![expect(clippy::disallowed_methods, reason = "tests start processes and wait for them in real time")]

mod batch;
mod claim;
mod courier;
mod enqueue;
mod failure;
mod finish;
mod hand_made;
mod inbox;
mod keeping;
mod looking;
mod open;
mod redrive;
mod renew;
mod seam;

use std::path::PathBuf;

use ackward::port::{Fault, FaultPoint, Injected};
use ackward::rules::{Attempt, Attempts, Event, Limits, Millis, Name, Outcome, Qty, Ticket, Token};
use ackward::storage::{
    ClaimError, Durability, EnqueueError, Enqueued, FinishError, Finished, LeaseQueue, OpenOptions, Queue,
    RedriveError, Released, Renewed,
};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use tempfile::TempDir;

/// A queue in a directory of its own, and another program's connection to it.
struct Bed {
    queue: Queue,
    peer: Connection,
    dir: TempDir,
}

impl Bed {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("queue.db");
        let queue = Queue::open(&path, &full()).unwrap();
        let peer = Connection::open(&path).unwrap();
        peer.busy_timeout(std::time::Duration::ZERO).unwrap();
        Self { queue, peer, dir }
    }

    /// A bed with these rows: the columns from id on, as SQL.
    fn with(rows: &[&str]) -> Self {
        let bed = Self::new();
        for row in rows {
            bed.insert(row);
        }
        bed
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("queue.db")
    }

    fn insert(&self, row: &str) {
        let sql = format!(
            "INSERT INTO jobs (id, qty, status, attempts, max_attempts, token, available_at, deadline, owner, \
             lease_until, reason) VALUES ({row})"
        );
        self.peer.execute(&sql, []).unwrap();
    }

    fn enqueue(&mut self, id: &str, qty: i64, now: i64, ttl: i64) -> Result<Enqueued, EnqueueError> {
        let ttl = Limits::CONTRACT.ttl(ttl).unwrap();
        let result = self.queue.enqueue(&event(id, qty), at(now), ttl, Attempts::DEFAULT);
        self.assert_free();
        result
    }

    fn claim_with(
        &mut self,
        owner: &str,
        now: i64,
        lease: i64,
        fault: &mut dyn Fault,
    ) -> Result<Option<Ticket>, ClaimError> {
        let lease = Limits::CONTRACT.lease(lease).unwrap();
        let result = self.queue.claim(&name(owner), at(now), lease, fault);
        self.assert_free();
        result
    }

    /// A claim by `w` without faults.
    fn claim(&mut self, now: i64, lease: i64) -> Option<Ticket> {
        self.claim_with("w", now, lease, &mut Hook::none()).unwrap()
    }

    fn finish_with(
        &mut self,
        ticket: &Ticket,
        outcome: Outcome,
        now: i64,
        delay: i64,
        fault: &mut dyn Fault,
    ) -> Result<Finished, FinishError> {
        let delay = Limits::CONTRACT.delay(delay).unwrap();
        let result = self.queue.finish(ticket, outcome, at(now), delay, fault);
        self.assert_free();
        result
    }

    fn finish(&mut self, ticket: &Ticket, outcome: Outcome, now: i64, delay: i64) -> Finished {
        self.finish_with(ticket, outcome, now, delay, &mut Hook::none()).unwrap()
    }

    fn redrive_with(
        &mut self,
        id: &str,
        now: i64,
        ttl: i64,
        fault: &mut dyn Fault,
    ) -> Result<(), RedriveError> {
        let ttl = Limits::CONTRACT.ttl(ttl).unwrap();
        let result = self.queue.redrive(&name(id), at(now), ttl, &name("note"), fault);
        self.assert_free();
        result
    }

    fn renew_with(
        &mut self,
        ticket: &Ticket,
        now: i64,
        lease: i64,
        fault: &mut dyn Fault,
    ) -> Result<Renewed, ClaimError> {
        let lease = Limits::CONTRACT.lease(lease).unwrap();
        let result = self.queue.renew(ticket, &mut || Ok(at(now)), lease, fault);
        self.assert_free();
        result
    }

    fn release_with(
        &mut self,
        ticket: &Ticket,
        now: i64,
        fault: &mut dyn Fault,
    ) -> Result<Released, FinishError> {
        let result = self.queue.release(ticket, at(now), fault);
        self.assert_free();
        result
    }

    /// Q5: no transaction of ours is open and no lock is held.
    #[track_caller]
    fn assert_free(&self) {
        assert!(self.queue.connection().is_autocommit(), "a transaction is open");
        self.peer.execute_batch("BEGIN EXCLUSIVE; ROLLBACK").expect("no lock is held");
    }

    /// The job's columns from status on.
    #[track_caller]
    fn job(&self, id: &str) -> String {
        let sql = format!("{JOB} FROM jobs WHERE id = '{id}'");
        let rows = query(&self.peer, &sql);
        assert_eq!(rows.len(), 1, "rows of {id}");
        rows[0].clone()
    }

    #[track_caller]
    fn assert_job(&self, id: &str, expected: &str) {
        assert_eq!(self.job(id), expected, "job {id}");
    }

    /// Everything in the file, the counters of AUTOINCREMENT included.
    fn everything(&self) -> Vec<String> {
        [
            "SELECT * FROM jobs ORDER BY seq",
            "SELECT * FROM redrives ORDER BY seq",
            "SELECT * FROM sqlite_sequence ORDER BY name",
        ]
        .iter()
        .flat_map(|sql| query(&self.peer, sql))
        .collect()
    }
}

/// status attempts/max token available deadline owner lease_until reason
const JOB: &str = "SELECT status, attempts || '/' || max_attempts, token, available_at, deadline, owner, lease_until, reason";

/// The rows of a query, one line each.
fn query(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).unwrap();
    let columns = statement.column_count();
    let line = |row: &rusqlite::Row<'_>| {
        let values: Vec<_> = (0..columns).map(|column| text(row.get_ref(column).unwrap())).collect();
        Ok(values.join(" "))
    };
    statement.query_map([], line).unwrap().map(Result::unwrap).collect()
}

fn text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "-".into(),
        ValueRef::Integer(value) => value.to_string(),
        ValueRef::Real(value) => format!("{value:?}"),
        ValueRef::Text(value) => String::from_utf8_lossy(value).into(),
        ValueRef::Blob(value) => format!("{value:?}"),
    }
}

/// Records the points it is called at, and fails or panics at one.
#[derive(Default)]
struct Hook {
    called: Vec<&'static str>,
    fails_at: Option<FaultPoint>,
    panics: bool,
}

impl Hook {
    fn none() -> Self {
        Self::default()
    }

    fn fails_at(point: FaultPoint) -> Self {
        Self { fails_at: Some(point), ..Self::default() }
    }

    fn panics_at(point: FaultPoint) -> Self {
        Self { fails_at: Some(point), panics: true, ..Self::default() }
    }
}

impl Fault for Hook {
    fn at(&mut self, point: FaultPoint) -> Result<(), Injected> {
        self.called.push(point.as_str());
        if self.fails_at != Some(point) {
            return Ok(());
        }
        assert!(!self.panics, "the hook panics");
        Err(Injected("injected by the test".into()))
    }
}

fn full() -> OpenOptions {
    OpenOptions::new(Durability::Full)
}

fn event(id: &str, qty: i64) -> Event {
    Event { id: name(id), qty: Qty::new(qty).unwrap() }
}

fn name(text: &str) -> Name {
    Name::new("name", text).unwrap()
}

fn at(now_ms: i64) -> Millis {
    Millis::new(now_ms).unwrap()
}

/// A ticket of any content.
fn ticket(id: &str, qty: i64, owner: &str, token: i64, attempt: i64, lease_until: i64) -> Ticket {
    let (token, attempt) = (Token::new(token).unwrap(), Attempt::new(attempt).unwrap());
    Ticket::new(event(id, qty), name(owner), token, attempt, lease_until).unwrap()
}
