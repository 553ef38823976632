//! The simulated computer under plain rusqlite code that knows nothing of queues.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ackward::port::{Blocking, Lane};
use ackward_sim::choice::{Kind, Nothing, Offer, Point, Probabilities, Random, Recorder, Replay, Role};
use ackward_sim::computer::{Context, End, ProcessSpec, Simulation, SimulationOptions, VFS_NAME};
use rusqlite::{Connection, OpenFlags};

const FILE: &str = "counter.db";

/// SQLite's random numbers are one generator per OS process: one simulation at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open() -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags_and_vfs(FILE, OpenFlags::default(), VFS_NAME)?;
    connection.busy_timeout(std::time::Duration::from_secs(1))?;
    connection.execute_batch(
        "PRAGMA synchronous=EXTRA; CREATE TABLE IF NOT EXISTS counter(id INTEGER PRIMARY KEY, n INTEGER);
         INSERT OR IGNORE INTO counter VALUES(1, 0);",
    )?;
    Ok(connection)
}

fn add(connection: &mut Connection) -> rusqlite::Result<i64> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let n: i64 = transaction.query_row("SELECT n FROM counter", [], |row| row.get(0))?;
    transaction.execute("UPDATE counter SET n = ?1", [n + 1])?;
    transaction.commit()?;
    Ok(n + 1)
}

fn read(connection: &mut Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT n FROM counter", [], |row| row.get(0))
}

/// What the processes were told, as (process, the value that its addition made).
type Told = Rc<RefCell<Vec<(usize, i64)>>>;

async fn count(context: Context, times: u32, told: Told) {
    let Ok(lane) = context.open("open", open).await else { return };
    for _ in 0..times {
        if let Ok(n) = lane.call("add", add).await {
            told.borrow_mut().push((context.process, n));
        }
    }
}

/// Runs two processes that add to one counter; returns the end, what they were told, and what a third reads.
fn race(
    chooser: impl ackward_sim::choice::Chooser + 'static,
    times: u32,
    recording: bool,
) -> (End, Told, i64) {
    let options = SimulationOptions {
        recording: recording.into(),
        limit_us: 60_000_000,
        ..SimulationOptions::default()
    };
    let mut simulation = Simulation::new(options, chooser);
    let machine = simulation.machine("host");
    let told = Told::default();
    for name in ["left", "right"] {
        let told = Rc::clone(&told);
        let spec = ProcessSpec { restarts: 3, restart_after_ms: 10, ..ProcessSpec::new(name, machine) };
        simulation.process(spec, move |context| count(context, times, Rc::clone(&told)));
    }
    assert!(!simulation.run_until(|| false), "the run must end by itself");
    simulation.stop_faults();
    let last = Rc::new(RefCell::new(-1));
    let seen = Rc::clone(&last);
    simulation.process(ProcessSpec::new("reader", machine), move |context| {
        let seen = Rc::clone(&seen);
        async move {
            let lane = context.open("open", open).await.expect("the file opens");
            *seen.borrow_mut() = lane.call("read", read).await.expect("the file reads");
        }
    });
    simulation.run_until(|| false);
    let last = *last.borrow();
    (simulation.finish(false), told, last)
}

#[test]
fn two_processes_count_together() {
    let _alone = alone();
    let (end, told, last) = race(Nothing, 20, true);
    assert_eq!((told.borrow().len(), last), (40, 40), "{:?}", end.processes);
    assert!(
        end.events.iter().any(|event| event.text.contains("finds the file locked")) || end.vfs_calls > 100
    );
}

#[test]
fn preemption_makes_them_wait_for_each_other() {
    let _alone = alone();
    let chooser = Random::new(7, Probabilities::default().with(Kind::Switch, 0.3));
    let (end, told, last) = race(chooser, 20, true);
    assert_eq!((told.borrow().len(), last), (40, 40));
    assert!(end.events.iter().any(|event| event.text.contains("finds the file locked")));
    assert!(end.struck.effective[Kind::Switch as usize] > 10);
}

#[test]
fn the_same_seed_gives_the_same_run_cold_and_warm() {
    let _alone = alone();
    let storm = || {
        Probabilities::default()
            .with(Kind::Switch, 0.1)
            .with(Kind::Kill, 0.01)
            .with(Kind::PowerCut, 0.003)
            .with(Kind::Keep, 0.5)
            .with(Kind::IoError, 0.01)
            .with(Kind::FsyncError, 0.01)
            .with(Kind::DiskFull, 0.01)
            .with(Kind::Stall, 0.01)
    };
    let mut hashes = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let (first, told, last) = race(Random::new(seed, storm()), 10, false);
        let (second, _, _) = race(Random::new(seed, storm()), 10, true);
        assert_eq!(first.hash, second.hash, "seed {seed}");
        hashes.insert(first.hash);
        // EXTRA: nothing that was acknowledged is lost, whatever happened, and no number is given out twice.
        let mut told: Vec<i64> = told.borrow().iter().map(|(_, n)| *n).collect();
        told.sort_unstable();
        assert!(told.windows(2).all(|pair| pair[0] < pair[1]), "seed {seed}: {told:?}");
        assert!(told.last().is_none_or(|most| *most <= last), "seed {seed}: told {told:?}, but found {last}");
    }
    assert!(hashes.len() > 195, "{}", hashes.len());
}

fn points_of_a_run() -> Vec<(Point, Vec<Offer>)> {
    let recorder = Rc::new(RefCell::new(Recorder::new(Nothing)));
    race(Rc::clone(&recorder), 2, false);
    recorder.borrow().met().to_vec()
}

#[test]
fn a_kill_at_any_call_loses_nothing_that_was_told() {
    let _alone = alone();
    let met = points_of_a_run();
    assert!(met.len() > 100, "{}", met.len());
    for (point, _) in met.iter().filter(|(_, offers)| offers.contains(&Offer::plain(Kind::Kill))) {
        let kill = Offer::plain(Kind::Kill);
        let decision = ackward_sim::choice::Decision { kind: kill.kind, value: 0 };
        let chooser = Rc::new(RefCell::new(Replay::new([(point.key(), decision)])));
        let (_, told, last) = race(Rc::clone(&chooser), 2, false);
        assert_eq!(chooser.borrow().unmet().count(), 0, "{}", point.name("?"));
        let most = told.borrow().iter().map(|(_, n)| *n).max().unwrap_or(0);
        assert!(most <= last, "{}: told {most}, found {last}", point.name("?"));
    }
    assert!(met.iter().any(|(point, _)| point.role == Role::JournalDelete));
}
