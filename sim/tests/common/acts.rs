//! The operations that the sweeps run, each with the rows that it starts from.

use std::fmt::Write;
use std::path::Path;

use ackward::port::{Blocking, Lane};
use ackward::rules::{
    Attempt, Attempts, Delay, Event, Lease, Limits, Millis, Name, Outcome, Qty, Ticket, Token, Ttl,
};
use ackward::storage::{
    ClaimError, EnqueueError, Enqueued, FinishError, Finished, LeaseQueue, OpenOptions, Queue, RedriveError,
    Released, Renewed, StorageError,
};
use ackward_sim::choice::Nothing;
use ackward_sim::computer::{ProcessSpec, Simulation, SimulationOptions};
use ackward_sim::scene::SimFault;
use rusqlite::Connection;

/// All times are told from here on, in ms since the Unix epoch.
const START_MS: i64 = 1_000_000;

/// An operation and what precedes it.
#[derive(Clone)]
pub struct Act {
    pub name: &'static str,
    pub prepare: fn(&mut Queue),
    pub perform: fn(&mut Queue) -> Answer,
}

/// What the operation's caller was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is done.
    Done,
    /// It failed and nothing has changed; SQLite's code.
    Failed(String),
    /// It failed and its change may be in place (M8); SQLite's code.
    Unknown(String),
    /// A hook failed (Q7, Q8).
    Hook,
    /// Something else, which no run may show.
    Odd(String),
}

pub fn all() -> Vec<Act> {
    let act =
        |name, prepare: fn(&mut Queue), perform: fn(&mut Queue) -> Answer| Act { name, prepare, perform };
    vec![
        act("enqueue", |queue| prepare_one(queue, "pie"), |queue| add(queue, "cake", 10).told()),
        act("claim", |queue| prepare_one(queue, "cake"), |queue| claim(queue, 10, 1_000).told()),
        act("reclaim", prepare_reclaim, |queue| claim(queue, 500, 1_000).told()),
        act("quarantine", prepare_quarantine, quarantine),
        act("finish-ok", prepare_ticket, |queue| finish(queue, Outcome::Ok)),
        act("finish-retry", prepare_ticket, |queue| finish(queue, Outcome::Retry)),
        act("finish-permanent", prepare_ticket, |queue| finish(queue, Outcome::Permanent)),
        act("redrive", prepare_dead, redrive),
        act("renew", prepare_ticket, renew),
        act("release", prepare_ticket, release),
    ]
}

fn prepare_one(queue: &mut Queue, id: &str) {
    done(add(queue, id, 0));
}

/// A lease that ran out with attempts left, one whose attempts are used up, and a job past its deadline.
fn prepare_reclaim(queue: &mut Queue) {
    done(enqueue(queue, "spent", 0, 60_000, 1));
    done(claim(queue, 1, 50));
    done(add(queue, "cake", 2));
    done(claim(queue, 3, 100));
    done(enqueue(queue, "late", 4, 100, 3));
}

fn prepare_quarantine(queue: &mut Queue) {
    done(enqueue(queue, "late", 0, 100, 3));
}

fn prepare_ticket(queue: &mut Queue) {
    done(add(queue, "cake", 0));
    assert_eq!(done(claim(queue, 10, 1_000)), Some(ticket()));
}

fn prepare_dead(queue: &mut Queue) {
    prepare_ticket(queue);
    assert_eq!(finish(queue, Outcome::Permanent), Answer::Done);
}

fn ticket() -> Ticket {
    let owner = name("worker-a");
    Ticket::new(event("cake"), owner, done(Token::new(1)), done(Attempt::new(1)), START_MS + 1_010)
        .expect("the ticket is in range")
}

pub fn add(queue: &mut Queue, id: &str, at_ms: i64) -> Result<Enqueued, EnqueueError> {
    enqueue(queue, id, at_ms, 60_000, 3)
}

/// A job that nobody can claim before the operation is over.
pub fn add_spare(queue: &mut Queue) {
    done(add(queue, "spare", 5_000));
}

fn enqueue(queue: &mut Queue, id: &str, at_ms: i64, ttl_ms: i64, max: i64) -> Result<Enqueued, EnqueueError> {
    queue.enqueue(&event(id), at(at_ms), ttl(ttl_ms), done(Attempts::new(max)))
}

fn claim(queue: &mut Queue, at_ms: i64, lease_ms: i64) -> Result<Option<Ticket>, ClaimError> {
    queue.claim(&name("worker-a"), at(at_ms), lease(lease_ms), &mut SimFault)
}

fn quarantine(queue: &mut Queue) -> Answer {
    match claim(queue, 500, 1_000) {
        Ok(Some(ticket)) => Answer::Odd(format!("{ticket:?}")),
        claimed => claimed.told(),
    }
}

fn finish(queue: &mut Queue, outcome: Outcome) -> Answer {
    let delay = done(Limits::CONTRACT.delay(200));
    match queue.finish(&ticket(), outcome, at(100), delay, &mut SimFault) {
        Ok(Finished::Stale) => Answer::Odd("stale".to_owned()),
        finished => finished.told(),
    }
}

fn redrive(queue: &mut Queue) -> Answer {
    queue.redrive(&name("cake"), at(300), ttl(60_000), &name("once-more"), &mut SimFault).told()
}

fn renew(queue: &mut Queue) -> Answer {
    match queue.renew(&ticket(), &mut || Ok(at(600)), lease(1_000), &mut SimFault) {
        Ok(Renewed::Stale) => Answer::Odd("stale".to_owned()),
        renewed => renewed.told(),
    }
}

fn release(queue: &mut Queue) -> Answer {
    match queue.release(&ticket(), at(100), &mut SimFault) {
        Ok(Released::Stale) => Answer::Odd("stale".to_owned()),
        released => released.told(),
    }
}

/// What any user of the connection would do next: claim a job and finish it.
pub fn claim_and_finish(queue: &mut Queue) -> Result<(), String> {
    let ticket = claim(queue, 6_000, 1_000).map_err(|error| error.to_string())?;
    let ticket = ticket.ok_or("nothing to claim")?;
    let finished = queue.finish(&ticket, Outcome::Ok, at(6_001), Delay::NONE, &mut SimFault);
    match finished {
        Ok(Finished::Now(_)) => Ok(()),
        Ok(Finished::Stale) => Err("the finish is stale".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Turns results of all operations into what their caller was told.
pub trait Told {
    fn told(self) -> Answer;
}

macro_rules! told {
    ($error:ident $(, $other:ident)?) => {
        impl<T> Told for Result<T, $error> {
            fn told(self) -> Answer {
                match self {
                    Ok(_) => Answer::Done,
                    Err($error::Storage(error)) => storage(&error),
                    Err($error::Hook(_)) => Answer::Hook,
                    $(Err($other) => Answer::Odd($other.to_string()),)?
                }
            }
        }
    };
}
told!(ClaimError, other);
told!(FinishError);
told!(RedriveError, other);

impl<T> Told for Result<T, EnqueueError> {
    fn told(self) -> Answer {
        match self {
            Ok(_) => Answer::Done,
            Err(EnqueueError::Storage(error)) => storage(&error),
            Err(other) => Answer::Odd(other.to_string()),
        }
    }
}

fn storage(error: &StorageError) -> Answer {
    let code = error.code().map_or_else(|| "no code".to_owned(), |code| format!("{code:?}"));
    match error {
        StorageError::CommitUnknown(_) => Answer::Unknown(code),
        StorageError::Sqlite(_) => Answer::Failed(code),
        other => Answer::Odd(other.to_string()),
    }
}

/// All rows, the AUTOINCREMENT values, and whether SQLite finds the file sound; times from the start.
pub fn dump(connection: &Connection) -> rusqlite::Result<String> {
    let mut text = String::new();
    let tables = [
        "SELECT 'job', seq, id, qty, status, attempts, max_attempts, token, 't' || (available_at - 1000000), \
         't' || (deadline - 1000000), owner, 't' || (lease_until - 1000000), reason FROM jobs ORDER BY seq",
        "SELECT 'redrive', seq, id, token, 't' || (at_ms - 1000000), note FROM redrives ORDER BY seq",
        "SELECT 'last seq', name, seq FROM sqlite_sequence ORDER BY name",
    ];
    for table in tables {
        let mut statement = connection.prepare(table)?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            for column in 0..columns {
                let value: Option<rusqlite::types::Value> = row.get(column)?;
                let value = match value {
                    Some(rusqlite::types::Value::Integer(number)) => number.to_string(),
                    Some(rusqlite::types::Value::Text(word)) => word,
                    None | Some(rusqlite::types::Value::Null) => "-".to_owned(),
                    Some(other) => format!("{other:?}"),
                };
                let _ = write!(text, "{}{value}", if column == 0 { "" } else { " " });
            }
            text.push('\n');
        }
    }
    let sound: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    if sound != "ok" {
        let _ = writeln!(text, "integrity: {sound}");
    }
    Ok(text)
}

/// As [`dump`], of a file's bytes.
pub fn dump_image(image: &[u8], options: &OpenOptions) -> String {
    let mut simulation = Simulation::new(SimulationOptions::default(), Nothing);
    let host = simulation.machine("workshop");
    simulation.install(host, "queue.db", image);
    let rows = std::rc::Rc::new(std::cell::RefCell::new(String::new()));
    let (options, read) = (options.clone(), std::rc::Rc::clone(&rows));
    simulation.process(ProcessSpec::new("reader", host), move |context| {
        let (options, read) = (options.clone(), std::rc::Rc::clone(&read));
        async move {
            let open = move || Queue::open(Path::new("queue.db"), &options);
            let lane = context.open("open", open).await.expect("the file opens");
            let rows = lane.call("look", |queue| dump(queue.connection())).await;
            *read.borrow_mut() = rows.expect("the file reads");
            lane.close().await;
        }
    });
    simulation.run_until(|| false);
    rows.take()
}

fn event(id: &str) -> Event {
    Event { id: name(id), qty: done(Qty::new(3)) }
}

fn name(text: &str) -> Name {
    done(Name::new("name", text))
}

fn at(ms: i64) -> Millis {
    done(Millis::new(START_MS + ms))
}

fn ttl(ms: i64) -> Ttl {
    done(Limits::CONTRACT.ttl(ms))
}

fn lease(ms: i64) -> Lease {
    done(Limits::CONTRACT.lease(ms))
}

#[track_caller]
fn done<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}
