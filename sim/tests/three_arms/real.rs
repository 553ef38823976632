//! A story as real processes: the binary on loopback sockets and files, behind proxies that do what the story says.

#![expect(clippy::disallowed_methods, reason = "real processes, sockets and clocks are what this arm is")]

#[path = "../../../src/tests/consumer/proxy.rs"]
#[allow(dead_code, reason = "the consumer's tests use more of it")]
mod event_proxy;
#[path = "../../../src/tests/http/process.rs"]
#[allow(dead_code, reason = "the worker's tests use more of it")]
mod process;
#[path = "../../../src/tests/http/proxy.rs"]
#[allow(dead_code, reason = "the worker's tests use more of it")]
mod proxy;

use std::fmt::Write;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

use ackward_sim::scenario::{Consumer, Scenario, Worker};
use rusqlite::Connection;
use tempfile::TempDir;

use super::story::{Deed, Story};
pub use event_proxy::{End as EventEnd, Manner as EventManner};
use process::{Process, Receiver, run as run_to_the_end};
pub use proxy::Manner;

/// A directory with all files of a story.
struct Site {
    dir: TempDir,
}

impl Site {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn queue(&self) -> PathBuf {
        self.path("queue.db")
    }

    fn inbox(&self) -> PathBuf {
        self.path("inbox.db")
    }
}

/// Runs a story to its end; returns the verdict and the final state.
pub fn run(story: &Story) -> String {
    let mut play = Play::new(story);
    play.raise_receiver();
    if !play.scenario.jobs.is_empty() {
        play.deliver();
    }
    if play.scenario.publisher.is_some() {
        play.follow();
    }
    play.end()
}

/// A story under way.
struct Play<'s> {
    story: &'s Story,
    scenario: Scenario,
    site: Site,
    receiver: Option<Receiver>,
    running: Vec<Process>,
    /// Each process's name and how it ended, in the simulator's order.
    endings: Vec<(String, &'static str)>,
}

impl<'s> Play<'s> {
    fn new(story: &'s Story) -> Self {
        let site = Site { dir: TempDir::new().unwrap() };
        let scenario = story.parsed();
        Self { story, scenario, site, receiver: None, running: Vec::new(), endings: Vec::new() }
    }

    /// Where a process is to be killed.
    fn hook_of(&self, name: &str) -> Option<&'static str> {
        self.story.deeds.iter().find_map(|deed| match deed {
            Deed::Kill(who, hook) if *who == name => Some(*hook),
            _ => None,
        })
    }

    fn raise_receiver(&mut self) {
        let fault = self.hook_of("receiver").map(|hook| format!("{hook}=hold")).unwrap_or_default();
        self.receiver = Some(Receiver::with(&self.site, &[], &fault));
        self.endings.push(("receiver".to_owned(), "running"));
    }

    /// The jobs' part of the story.
    fn deliver(&mut self) {
        self.enqueue();
        let posts = self.story.deeds.iter().find_map(|deed| match deed {
            Deed::Posts(manners) => Some(*manners),
            _ => None,
        });
        let receiver = self.receiver.as_ref().expect("the receiver is up");
        let proxy = proxy::Proxy::start(&receiver.address, posts.unwrap_or_default().iter().copied());
        let workers: Vec<_> =
            self.scenario.worker_processes().into_iter().map(|(n, w)| (n, w.clone())).collect();
        for (name, worker) in workers {
            let hook = self.hook_of(name.as_str());
            let mut process = Process::start(&mut self.worker(name.as_str(), &worker, &proxy.address, hook));
            let ending = if let Some(hook) = hook {
                process.says(&held_at(hook));
                process.kill();
                "killed"
            } else {
                process.says("working");
                self.running.push(process);
                "running"
            };
            self.endings.push((name.to_string(), ending));
        }
        if let Some(hook) = self.hook_of("receiver") {
            let mut receiver = self.receiver.take().expect("the receiver is up");
            receiver.process.says(&held_at(hook));
            receiver.process.kill();
            // What is done while it is away is done before it comes back.
            self.wait_settled();
            let next = Receiver::start(&self.site, &[]);
            proxy.to(&next.address);
            self.receiver = Some(next);
        }
        self.wait_settled();
        self.redrive();
        let planned = posts.map_or(0, <[Manner]>::len);
        assert!(proxy.connections() >= planned, "{}: the proxy had nothing to do", self.story.name);
    }

    fn enqueue(&mut self) {
        for arrival in self.scenario.arrivals() {
            let mut command = ackward("enqueue");
            command.arg("--queue").arg(self.site.queue()).args(["--id", arrival.event.id.as_str()]);
            command.args(["--qty", &arrival.event.qty.get().to_string(), "--ttl", "30"]);
            command.args(["--max-attempts", &arrival.max_attempts.get().to_string()]);
            assert_eq!(run_to_the_end(&mut command).0, Some(0));
        }
        self.endings.push(("producer".to_owned(), "finished"));
    }

    fn redrive(&mut self) {
        if self.scenario.redrives.is_empty() {
            return;
        }
        for redrive in &self.scenario.redrives {
            let mut command = ackward("redrive");
            command.arg("--queue").arg(self.site.queue()).args(["--id", redrive.job.as_str()]);
            assert_eq!(
                run_to_the_end(command.args(["--note", redrive.note.as_str(), "--ttl", "30"])).0,
                Some(0)
            );
        }
        self.endings.push(("operator".to_owned(), "finished"));
        self.wait_settled();
    }

    fn worker(&self, name: &str, worker: &Worker, address: &str, hook: Option<&str>) -> Command {
        let mut command = ackward("work");
        command.arg("--queue").arg(self.site.queue()).args(["--url", &format!("http://{address}/jobs")]);
        command.args(["--owner", name, "--lease", &seconds(worker.lease_ms.get())]);
        command.args(["--slots", &worker.slots.to_string(), "--batch", &worker.batch.to_string()]);
        command.args(["--timeout", &seconds(self.scenario.receiver.timeout_ms)]);
        command.args(["--retry-base-ms", "20", "--retry-cap-ms", "100", "--poll-max", "0.05"]);
        hook.map(|hook| command.env("ACKWARD_FAULT", format!("{hook}=hold")));
        command
    }

    fn wait_settled(&self) {
        let open = "SELECT count(*) FROM jobs WHERE status IN ('pending', 'leased')";
        wait("every job is settled", || number(&self.site.queue(), open) == 0);
    }

    /// The stream's part of the story.
    fn follow(&mut self) {
        let events = self.scenario.publisher.as_ref().map_or(0, |publisher| publisher.events);
        let log = (0..events).fold(String::new(), |mut log, seq| {
            writeln!(log, "{seq} {}", delta(seq)).unwrap();
            log
        });
        std::fs::write(self.site.path("events.log"), log).unwrap();
        let mut publish = ackward("publish");
        publish
            .args(["--listen", "127.0.0.1:0", "--no-follow", "--log-file"])
            .arg(self.site.path("events.log"));
        let mut publisher = Process::start(&mut publish);
        let mut line = String::new();
        publisher.stdout.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").expect("an address").to_owned();
        self.running.push(publisher);
        self.endings.push(("publisher".to_owned(), "running"));
        let manners = self.story.deeds.iter().find_map(|deed| match deed {
            Deed::Events(manners) => Some(*manners),
            _ => None,
        });
        let proxy = event_proxy::Proxy::start(&address, manners.unwrap_or_default().iter().copied());
        for consumer in self.scenario.consumers.clone() {
            let hook = self.hook_of(consumer.name.as_str());
            if let Some(hook) = hook {
                let mut process = Process::start(&mut self.consumer(&consumer, &proxy.address, Some(hook)));
                process.says(&held_at(hook));
                process.kill();
            }
            self.running.push(Process::start(&mut self.consumer(&consumer, &proxy.address, None)));
            self.endings.push((consumer.name.to_string(), "running"));
            let store = self.site.path(&consumer.store_file());
            let planned = manners.unwrap_or_default().iter().filter(|manner| manner.after.is_some()).count();
            wait("every event is applied", || {
                store.exists() && cursor(&store).is_some_and(|(last, _)| last + 1 == events)
            });
            assert!(proxy.connections() > planned, "{}: the proxy had nothing to do", self.story.name);
        }
    }

    fn consumer(&self, consumer: &Consumer, address: &str, hook: Option<&str>) -> Command {
        let mut command = ackward("consume");
        command.args(["--address", address, "--store"]).arg(self.site.path(&consumer.store_file()));
        command.args(["--timeout", &seconds(consumer.timeout_ms)]);
        command.args(["--commit", if consumer.group { "group" } else { "line" }]);
        command.args(["--retry-base-ms", "5", "--retry-cap-ms", "50"]);
        hook.map(|hook| command.env("ACKWARD_FAULT", format!("{hook}=hold")));
        command
    }

    /// Ends what still runs; returns the verdict and the final state.
    fn end(mut self) -> String {
        let receiver = self.receiver.take().expect("the receiver is up");
        for process in self.running.drain(..).chain([receiver.process]) {
            assert_eq!(
                process.stop().0,
                Some(0),
                "{}: a process does not stop in good order",
                self.story.name
            );
        }
        let verdict = if self.agrees() { "held" } else { "the files do not agree" };
        let mut text = format!("verdict {verdict}\n");
        self.rows(&mut text);
        text.push_str("processes\n");
        for (name, ending) in &self.endings {
            writeln!(text, "  {name} {ending}").unwrap();
        }
        text
    }

    /// Every job that is done has one effect, none has two, and sums are those of what they sum up.
    fn agrees(&self) -> bool {
        let inbox = self.site.inbox();
        let ids = |path: &Path, sql: &str| strings(path, sql).unwrap_or_default();
        let effects = ids(&inbox, "SELECT id FROM effects ORDER BY id");
        let once = effects == ids(&inbox, "SELECT DISTINCT id FROM effects ORDER BY id")
            && effects == ids(&inbox, "SELECT id FROM inbox ORDER BY id");
        let sums = ids(&inbox, "SELECT coalesce(sum(count), 0) || ' ' || coalesce(sum(qty), 0) FROM totals")
            == ids(&inbox, "SELECT count(*) || ' ' || coalesce(sum(qty), 0) FROM effects");
        let done = match self.scenario.jobs.is_empty() {
            true => Vec::new(),
            false => ids(&self.site.queue(), "SELECT id FROM jobs WHERE status = 'done'"),
        };
        let stores = self.scenario.consumers.iter().all(|consumer| {
            let sum = "SELECT max(seq) || ' ' || sum(delta) || ' ' || count(*) FROM ledger";
            let state = "SELECT last || ' ' || total || ' ' || (last + 1) FROM checkpoint";
            let store = self.site.path(&consumer.store_file());
            strings(&store, sum).is_some() && strings(&store, sum) == strings(&store, state)
        });
        once && sums && stores && done.iter().all(|id| effects.contains(id))
    }

    /// All rows without times, as the simulator writes them.
    fn rows(&self, text: &mut String) {
        let jobs = "SELECT seq || ' ' || id || ' qty=' || qty || ' ' || status || ' attempts=' || attempts || '/' || \
                    max_attempts || ' token=' || token || ' owner=' || coalesce(owner, '-') || ' reason=' || \
                    coalesce(reason, '-') FROM jobs ORDER BY seq";
        let redrives =
            "SELECT seq || ' ' || id || ' token=' || token || ' note=' || note FROM redrives ORDER BY seq";
        let effects = "SELECT seq || ' ' || id || ' qty=' || qty FROM effects ORDER BY seq";
        for (title, path, sql) in [
            ("jobs", self.site.queue(), jobs),
            ("redrives", self.site.queue(), redrives),
            ("effects", self.site.inbox(), effects),
        ] {
            writeln!(text, "{title}").unwrap();
            let has_file = path.exists();
            for row in has_file.then(|| strings(&path, sql)).flatten().unwrap_or_default() {
                writeln!(text, "  {row}").unwrap();
            }
        }
        for consumer in &self.scenario.consumers {
            let file = consumer.store_file();
            if let Some((last, total)) = cursor(&self.site.path(&file)) {
                writeln!(text, "  {file} last={last} total={total}").unwrap();
            }
        }
    }
}

/// What a process says on stderr when it stands still at a hook.
fn held_at(hook: &str) -> String {
    format!("held at {}", hook.split(':').next().unwrap_or(hook))
}

/// What event `seq` adds, as in the simulator.
const fn delta(seq: i64) -> i64 {
    (seq * 37) % 23 - 11
}

fn seconds(ms: i64) -> String {
    format!("{}", ms as f64 / 1_000.0)
}

fn open(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(10)).unwrap();
    connection
}

fn strings(path: &Path, sql: &str) -> Option<Vec<String>> {
    let connection = open(path);
    let mut statement = connection.prepare(sql).ok()?;
    statement.query_map([], |row| row.get(0)).ok()?.collect::<Result<_, _>>().ok()
}

fn number(path: &Path, sql: &str) -> i64 {
    open(path).query_row(sql, [], |row| row.get(0)).unwrap()
}

fn cursor(path: &Path) -> Option<(i64, i64)> {
    open(path).query_row("SELECT last, total FROM checkpoint", [], |row| Ok((row.get(0)?, row.get(1)?))).ok()
}

#[track_caller]
fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < until, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The binary, with nothing of the caller's settings.
fn ackward(command: &str) -> Command {
    let mut ackward = Command::new(binary());
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("ACKWARD_")) {
            ackward.env_remove(name);
        }
    }
    ackward.arg(command);
    ackward
}

/// The production binary beside this test. It belongs to another package: where only this one was built, or the
/// other's sources are newer, it is built first.
fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let profile = test.parent().and_then(Path::parent).expect("target/PROFILE/deps/TEST");
        let binary = profile.join(format!("ackward{}", std::env::consts::EXE_SUFFIX));
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let changed = |path: &Path| std::fs::metadata(path).and_then(|data| data.modified()).ok();
        let is_fresh = changed(&binary).is_some_and(|built| built >= newest(&top.join("src")));
        if !is_fresh {
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let mut build = Command::new(cargo);
            build.current_dir(top).args(["build", "--quiet", "--package", "ackward", "--bin", "ackward"]);
            if profile.file_name().is_some_and(|name| name == "release") {
                build.arg("--release");
            }
            assert!(build.status().unwrap().success(), "the binary `ackward` cannot be built");
        }
        binary
    })
}

/// When the newest source of a folder was changed; tests are no part of the binary.
fn newest(folder: &Path) -> SystemTime {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let sources = entries.filter(|path| !path.ends_with("tests") && !path.ends_with("benches"));
    let times = sources.map(|path| {
        if path.is_dir() { newest(&path) } else { std::fs::metadata(&path).unwrap().modified().unwrap() }
    });
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}
