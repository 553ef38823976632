//! How fast the queue is, in medians and ratios. Four questions:
//!
//! 1. what claim and finish cost beside their floor, two transactions that only update the row;
//! 2. whether enqueue, claim and finish cost more when a million jobs have finished than when a thousand
//!    have;
//! 3. what batches cost beside their floor: two transactions for 1, 32 and 128 jobs, enqueue in batches beside bare
//!    inserts;
//! 4. what claim costs when a crowd waits for its time in front of a few that are ready, when few wait in
//!    front of a crowd, and when a crowd of leases runs out at once.
//!
//! Both sides of a ratio alternate within one run, so that whatever else the machine does hits both. The
//! directory of the files is the system's temporary one; set `TMPDIR` to measure another disk.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::time::{Duration, Instant};

use ackward::port::NoFault;
use ackward::rules::{Attempts, Delay, Event, Lease, Limits, Millis, Name, Outcome, Qty};
use ackward::storage::{Durability, FinishOrder, LeaseQueue, OpenOptions, Queue};
use rusqlite::Connection;

/// Measurements of each kind.
const ROUNDS: usize = 1_000;

fn main() {
    // `cargo test --all-targets` runs benchmarks too, without this argument.
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("measures only under cargo bench");
        return;
    }
    for durability in [Durability::Full, Durability::Extra] {
        floor(durability);
        for batch in [1, 32, 128] {
            batches(durability, batch);
        }
        enqueues(durability);
    }
    history();
    crowds();
}

/// Claim and finish against two bare transactions on the same columns, in a file without indexes.
fn floor(durability: Durability) {
    let dir = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(&dir.path().join("queue.db"), &OpenOptions::new(durability)).unwrap();
    let bare = bare(&dir.path().join("bare.db"), durability);
    fill(queue.connection(), "pending", ROUNDS);
    fill(&bare, "pending", ROUNDS);
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        ours.push(timed(|| claim_and_finish(&mut queue)));
        floor.push(timed(|| bare_claim_and_finish(&bare, round)));
    }
    let (ours, floor) = (median(ours), median(floor));
    println!(
        "claim+finish, {durability:?}: {ours:?}, floor of two bare transactions: {floor:?}, speed {:.2} of the floor's",
        ratio(floor, ours)
    );
}

/// Batches of claims and finishes against two bare transactions on as many rows.
fn batches(durability: Durability, batch: usize) {
    let rounds = (ROUNDS / batch).max(40);
    let dir = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(&dir.path().join("queue.db"), &OpenOptions::new(durability)).unwrap();
    let bare = bare(&dir.path().join("bare.db"), durability);
    fill(queue.connection(), "pending", rounds * batch);
    fill(&bare, "pending", rounds * batch);
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        ours.push(timed(|| {
            let tickets =
                queue.claim_many(&name("w"), &mut || Ok(now()), Lease::DEFAULT, batch, &mut NoFault).unwrap();
            let order = |ticket| FinishOrder { ticket, outcome: Outcome::Ok, delay: Delay::NONE };
            let orders: Vec<_> = tickets.into_iter().map(order).collect();
            assert!(queue.finish_many(&orders, now(), &mut NoFault).iter().all(Result::is_ok));
        }));
        floor.push(timed(|| bare_claims_and_finishes(&bare, round * batch, batch)));
    }
    let (ours, floor) = (median(ours), median(floor));
    let jobs = f64::from(u32::try_from(batch).unwrap());
    println!(
        "claim+finish, {durability:?}, batches of {batch}: {ours:?} a batch, {:.0} jobs/s, speed {:.2} of the floor's",
        jobs / ours.as_secs_f64(),
        ratio(floor, ours)
    );
}

/// Enqueue in batches of 500 against bare inserts.
fn enqueues(durability: Durability) {
    const BATCH: usize = 500;
    let dir = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(&dir.path().join("queue.db"), &OpenOptions::new(durability)).unwrap();
    let bare = bare(&dir.path().join("bare.db"), durability);
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for round in 0..20 {
        let id = |nth: usize| format!("job-{}", round * BATCH + nth);
        let events: Vec<_> =
            (0..BATCH).map(|nth| Event { id: name(&id(nth)), qty: Qty::new(1).unwrap() }).collect();
        let ttl = Limits::CONTRACT.ttl(60_000).unwrap();
        ours.push(timed(|| {
            assert!(queue.enqueue_many(&events, now(), ttl, Attempts::DEFAULT).iter().all(Result::is_ok));
        }));
        floor.push(timed(|| {
            transaction(&bare, || {
                let sql = "INSERT INTO jobs (id, qty, status, attempts, max_attempts, token, available_at, deadline) \
                    VALUES (?1, 1, 'pending', 0, 3, 0, 1, 60001)";
                for nth in 0..BATCH {
                    bare.prepare_cached(sql).unwrap().execute([id(nth)]).unwrap();
                }
            });
        }));
    }
    let (ours, floor) = (median(ours), median(floor));
    println!(
        "enqueue, {durability:?}, batches of {BATCH}: {ours:?} a batch, floor {floor:?}, speed {:.2} of the floor's",
        ratio(floor, ours)
    );
}

/// The same operations over a short and a long history.
fn history() {
    let dir = tempfile::tempdir().unwrap();
    let mut queues = [1_000, 1_000_000].map(|finished| {
        let path = dir.path().join(format!("{finished}.db"));
        let queue = Queue::open(&path, &OpenOptions::new(Durability::Full)).unwrap();
        fill(queue.connection(), "done", finished);
        queue
    });
    let mut times = [const { [Vec::new(), Vec::new(), Vec::new()] }; 2];
    for round in 0..ROUNDS {
        for (queue, times) in queues.iter_mut().zip(&mut times) {
            let mut ticket = None;
            times[0].push(timed(|| enqueue(queue, round)));
            times[1].push(timed(|| {
                ticket = queue.claim(&name("w"), now(), Lease::DEFAULT, &mut NoFault).unwrap();
            }));
            let ticket = ticket.unwrap();
            times[2].push(timed(|| {
                queue.finish(&ticket, Outcome::Ok, now(), Delay::NONE, &mut NoFault).unwrap();
            }));
        }
    }
    let [short, long] = times;
    for ((operation, short), long) in ["enqueue", "claim", "finish"].iter().zip(short).zip(long) {
        let (short, long) = (median(short), median(long));
        println!(
            "{operation}: {short:?} over 1,000 finished jobs, {long:?} over 1,000,000, {:.2} times",
            ratio(long, short)
        );
    }
}

/// Claims among 100,000 jobs that wait for their time, are ready, or hold a lease that is over.
fn crowds() {
    const WAITS: &str = "'pending', 0, 3, 0, 9000, 60000, NULL, NULL";
    const READY: &str = "'pending', 0, 3, 0, 0, 60000, NULL, NULL";
    const OVER: &str = "'leased', 1, 3, 1, 0, 60000, 'v', 1";
    for (what, rows) in [
        ("1,000 ready and nothing else", [(READY, 1_000), (READY, 0)]),
        ("1,000 ready behind 100,000 that wait", [(WAITS, 100_000), (READY, 1_000)]),
        ("100,000 ready behind 1,000 that wait", [(WAITS, 1_000), (READY, 100_000)]),
        ("10,000 leases that are over", [(OVER, 10_000), (READY, 0)]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let options = OpenOptions::new(Durability::Full);
        let mut queue = Queue::open(&dir.path().join("queue.db"), &options).unwrap();
        for (row, count) in rows {
            let sql = format!(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
                 INSERT INTO jobs (id, qty, status, attempts, max_attempts, token, available_at, deadline, owner,
                 lease_until) SELECT 'job-' || hex(randomblob(8)), 1, {row} FROM n WHERE {count} > 0"
            );
            queue.connection().execute(&sql, []).unwrap();
        }
        let mut claim =
            || drop(queue.claim(&name("w"), now(), Lease::DEFAULT, &mut NoFault).unwrap().unwrap());
        let times = (0..500).map(|_| timed(&mut claim)).collect();
        println!("claim, {what}: {:?}", median(times));
    }
}

fn claim_and_finish(queue: &mut Queue) {
    let ticket = queue.claim(&name("w"), now(), Lease::DEFAULT, &mut NoFault).unwrap().unwrap();
    queue.finish(&ticket, Outcome::Ok, now(), Delay::NONE, &mut NoFault).unwrap();
}

fn enqueue(queue: &mut Queue, round: usize) {
    let event = Event { id: name(&format!("new-{round}")), qty: Qty::new(1).unwrap() };
    queue.enqueue(&event, now(), Limits::CONTRACT.ttl(60_000).unwrap(), Attempts::DEFAULT).unwrap();
}

fn bare_claim_and_finish(bare: &Connection, round: usize) {
    bare_claims_and_finishes(bare, round, 1);
}

/// Two transactions that only update so many rows.
fn bare_claims_and_finishes(bare: &Connection, first: usize, count: usize) {
    for sql in [
        "UPDATE jobs SET status = 'leased', attempts = attempts + 1, token = token + 1, owner = 'w', \
         lease_until = 1000, reason = NULL WHERE seq = ?1",
        "UPDATE jobs SET status = 'done', reason = NULL, available_at = 0, owner = NULL, lease_until = NULL \
         WHERE seq = ?1",
    ] {
        transaction(bare, || {
            for nth in first..first + count {
                bare.prepare_cached(sql).unwrap().execute([i64::try_from(nth).unwrap() + 1]).unwrap();
            }
        });
    }
}

fn transaction(bare: &Connection, work: impl FnOnce()) {
    bare.prepare_cached("BEGIN IMMEDIATE").unwrap().execute([]).unwrap();
    work();
    bare.prepare_cached("COMMIT").unwrap().execute([]).unwrap();
}

fn bare(path: &std::path::Path, durability: Durability) -> Connection {
    let bare = Connection::open(path).unwrap();
    let word = if durability == Durability::Full { "FULL" } else { "EXTRA" };
    let setup = format!(
        "PRAGMA journal_mode = DELETE; PRAGMA synchronous = {word};
         CREATE TABLE jobs (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, qty INTEGER NOT NULL,
           status TEXT NOT NULL, attempts INTEGER NOT NULL, max_attempts INTEGER NOT NULL, token INTEGER NOT NULL,
           available_at INTEGER NOT NULL, deadline INTEGER NOT NULL, owner TEXT, lease_until INTEGER, reason TEXT)"
    );
    bare.execute_batch(&setup).unwrap();
    bare
}

/// Adds jobs in one transaction.
fn fill(connection: &Connection, status: &str, jobs: usize) {
    let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
        INSERT INTO jobs (id, qty, status, attempts, max_attempts, token, available_at, deadline)
        SELECT 'job-' || i, 1, ?2, 0, 3, 0, 0, 60000 FROM n";
    connection.execute(sql, (i64::try_from(jobs).unwrap(), status)).unwrap();
}

fn timed(work: impl FnOnce()) -> Duration {
    let started = Instant::now();
    work();
    started.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn ratio(above: Duration, below: Duration) -> f64 {
    above.as_secs_f64() / below.as_secs_f64()
}

fn now() -> Millis {
    Millis::new(1).unwrap()
}

fn name(text: &str) -> Name {
    Name::new("name", text).unwrap()
}
