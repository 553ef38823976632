//! Events a second over loopback TCP, with a transaction per line and with group commit, against the floor
//! of bare transactions on the same disk in the same run; and the memory over a million events.
//!
//! `ACKWARD_BENCH_EVENTS` (default 1000000) shortens the memory part, `ACKWARD_BENCH_LINES` (default 400) the
//! speed part, which takes sixteen times as many events with group commit.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use ackward::adapter::{LogFile, SystemClock, Threads, TokioNetwork};
use ackward::port::{Fault, FaultPoint, Injected, Listener, Network};
use ackward::rules::Timeout;
use ackward::shell::{
    Client, ClientOptions, Commit, Log, PublishOptions, SessionOptions, publish, run_client,
};
use ackward::storage::Store;
use rusqlite::Connection;

fn main() {
    // `cargo test --benches` asks for a list or a quick run; a benchmark has neither.
    if std::env::args().any(|argument| argument == "--list" || argument == "--test") {
        return;
    }
    let lines = number("ACKWARD_BENCH_LINES", 400);
    let disk = Place::new(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("bench-consumer"));
    println!("disk: {} ({})", disk.0.display(), file_system(&disk.0));
    let floor = floor(&disk, lines);
    println!("bare transactions      {floor:9.0} a second, {lines} in all");
    let line = consume(&disk, lines, Commit::PerLine);
    println!(
        "a transaction per line {:9.0} events a second, {:.2} of the floor",
        line.speed,
        line.speed / floor
    );
    let group = consume(&disk, 16 * lines, Commit::Group);
    println!(
        "group commit           {:9.0} events a second, {:.1} times per line, batches {}",
        group.speed,
        group.speed / line.speed,
        group.batches()
    );
    memory(number("ACKWARD_BENCH_EVENTS", 1_000_000));
}

fn memory(events: u64) {
    let shm = Path::new("/dev/shm");
    let parent = if shm.is_dir() { shm.to_owned() } else { PathBuf::from(env!("CARGO_TARGET_TMPDIR")) };
    let place = Place::new(parent.join(format!("ackward-bench-{}", std::process::id())));
    consume(&place, events / 100, Commit::Group);
    let before_kib = resident_kib();
    let run = consume(&place, events, Commit::Group);
    let after_kib = resident_kib();
    println!(
        "memory: {events} events on {} at {:.0} a second, resident {before_kib} KiB before, {after_kib} KiB after",
        file_system(&place.0),
        run.speed
    );
}

/// A directory that is empty at the start and gone at the end.
struct Place(PathBuf);

impl Place {
    fn new(path: PathBuf) -> Self {
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    fn store(&self) -> PathBuf {
        self.0.join("store.db")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What any consumer must do per event, and nothing else.
fn floor(place: &Place, count: u64) -> f64 {
    let _ = fs::remove_file(place.store());
    let connection = Connection::open(place.store()).expect("a database");
    connection
        .execute_batch(
            "PRAGMA journal_mode=DELETE; PRAGMA synchronous=EXTRA;
             CREATE TABLE checkpoint(id INTEGER PRIMARY KEY CHECK(id=1), last INTEGER NOT NULL, total INTEGER NOT NULL);
             CREATE TABLE ledger(seq INTEGER PRIMARY KEY, delta INTEGER NOT NULL);
             INSERT INTO checkpoint VALUES (1, -1, 0);",
        )
        .expect("tables");
    let started = Instant::now();
    for _ in 0..count {
        for sql in [
            "BEGIN IMMEDIATE",
            "INSERT INTO ledger SELECT last + 1, 1 FROM checkpoint",
            "UPDATE checkpoint SET last = last + 1, total = total + 1",
            "COMMIT",
        ] {
            connection
                .prepare_cached(sql)
                .and_then(|mut statement| statement.execute([]))
                .expect("a statement");
        }
    }
    rate(count, started)
}

struct Run {
    speed: f64,
    sizes: BTreeMap<u32, u64>,
}

impl Run {
    fn batches(&self) -> String {
        self.sizes.iter().map(|(size, count)| format!("{count} of {size}")).collect::<Vec<_>>().join(", ")
    }
}

/// Publisher and consumer in one thread, the store on its own; a whole log of `count` events.
fn consume(place: &Place, count: u64, commit: Commit) -> Run {
    let _ = fs::remove_file(place.store());
    let log = place.0.join("events.log");
    let mut file = BufWriter::new(fs::File::create(&log).expect("a log"));
    (0..count).for_each(|seq| writeln!(file, "{seq} 1").expect("a line"));
    file.flush().expect("a log");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let timeout = Timeout::from_seconds(60.0).expect("a timeout");
        let options = PublishOptions {
            timeout,
            idle_timeout: timeout,
            poll_interval: timeout,
            follow: false,
            connections_max: 1,
        };
        let opened = Log::open(LogFile::open(&log).expect("a log")).expect("a whole log");
        let listener = TokioNetwork.listen("127.0.0.1:0").await.expect("a port");
        let address = Listener::local_address(&listener);
        let fault = Batches::default();
        let client = Client {
            clock: SystemClock,
            network: TokioNetwork,
            blocking: Threads,
            fault: fault.clone(),
            open: Store::open,
        };
        let options_client = ClientOptions::new(address, place.store(), SessionOptions { timeout, commit });
        let mut before_ack = |_| Ok(());
        let started = Instant::now();
        let state = tokio::select! {
            state = run_client(&client, &options_client, &mut before_ack) => state.expect("a whole run"),
            ended = publish(listener, opened, &SystemClock, options, std::future::pending()) => {
                panic!("the publisher ended: {ended:?}")
            }
        };
        assert_eq!(state.total, i64::try_from(count).expect("a number"));
        let sizes = std::mem::take(&mut *fault.sizes.lock().expect("whole"));
        Run { speed: rate(count, started), sizes }
    })
}

/// Counts how many events share a transaction: a session clones the hook once for each.
#[derive(Default)]
struct Batches {
    size: u32,
    sizes: Arc<Mutex<BTreeMap<u32, u64>>>,
}

impl Clone for Batches {
    fn clone(&self) -> Self {
        Self { size: 0, sizes: Arc::clone(&self.sizes) }
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        if self.size > 0
            && let Ok(mut sizes) = self.sizes.lock()
        {
            *sizes.entry(self.size).or_default() += 1;
        }
    }
}

impl Fault for Batches {
    fn at(&mut self, point: FaultPoint) -> Result<(), Injected> {
        self.size += u32::from(point == FaultPoint::BeforeCursor);
        Ok(())
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default).max(100)
}

fn rate(count: u64, started: Instant) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    let count = count as f64;
    count / started.elapsed().as_secs_f64()
}

/// The file system that a path lies on, as the kernel names it.
fn file_system(path: &Path) -> String {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (device, mounted, kind) = (fields.next()?, fields.next()?, fields.next()?);
        path.starts_with(mounted).then(|| (mounted.len(), format!("{kind} on {device}")))
    });
    mounts.max_by_key(|(len, _)| *len).map_or_else(|| "unknown file system".to_owned(), |(_, name)| name)
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}
