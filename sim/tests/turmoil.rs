//! The turmoil arm: the same scenarios on turmoil's hosts hold, replay, and find mistakes; what each fault does there.
//! `ACKWARD_SEEDS` and `ACKWARD_START` choose other seeds.

mod common;

use std::path::Path;
use std::process::Command;
use std::rc::Rc;

use ackward::port::Network;
use ackward::rules::Event;
use ackward::shell::{SendError, Sender};
use ackward::storage::{Inbox, OpenOptions, Queue, StorageError, Store};
use ackward_sim::campaign;
use ackward_sim::choice::{Chooser, Decision, Kind, Nothing, Offer, Point, Role};
use ackward_sim::computer::{
    Context, End, ProcessSpec, Simulation, SimulationOptions, TICK_MS, TurmoilOptions,
};
use ackward_sim::scenario::{Net, Scenario};
use ackward_sim::scene::{self, Real, Stage, System};
use ackward_sim::zoo::FIELD;
use common::alone;
use common::meet::{Seen, echo, echo_at};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Seeds of each scenario here; CI fuzzes more of them.
const SEEDS: u64 = 60;
/// Long enough for every wait of these tests, in microseconds.
const LIMIT_US: i64 = 5_000_000;

#[test]
fn every_curated_scenario_holds_on_turmoil() {
    let _alone = alone();
    let (start, seeds) =
        (common::number("ACKWARD_START").unwrap_or(1), common::number("ACKWARD_SEEDS").unwrap_or(SEEDS));
    let mut problems = Vec::new();
    for name in common::curated() {
        let scenario = on_turmoil(&name);
        let tally = campaign::run_seeds::<Real>(&scenario, start, seeds);
        println!("{name}: {seeds} seeds, {} different, {} failed", tally.hashes.len(), tally.failed);
        problems.extend(tally.failures.iter().map(|failure| format!("{name}: {failure:#?}")));
        problems.extend(tally.nondeterministic.iter().map(|seed| format!("{name}: seed {seed} differs")));
        let inert = tally.inert(&scenario);
        if seeds >= SEEDS && !inert.is_empty() {
            problems.push(format!("{name}: faults that never had an effect: {}", inert.join(", ")));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// A scenario where nothing is left to chance tells the same story here, as long as its points are named alike.
#[test]
fn the_scripted_scenarios_reach_what_they_are_for_on_turmoil_too() {
    let _alone = alone();
    let mut seen = 0;
    for name in common::curated() {
        let scenario = on_turmoil(&name);
        // Here a partition loses what was under way, so that nothing of it arrives after the lease.
        let is_partition = name == "http-partition-heals-after-the-lease";
        if scenario.faults.is_random() || scenario.deviations.is_empty() || is_partition {
            continue;
        }
        let report = scene::run(&scenario, 1, false);
        assert_eq!((&report.violations, &report.unmet), (&vec![], &vec![]), "{name}");
        for word in &scenario.expect.sometimes {
            let is_reached = report.milestones.iter().any(|reached| reached.as_str() == word);
            assert!(is_reached, "{name}: {word} is not reached");
        }
        seen += 1;
    }
    assert!(seen >= 8, "{seen}");
}

/// What strikes in a field scenario strikes here too: a story whose event never happens shows nothing.
#[test]
fn every_deviation_of_a_field_scenario_happens_on_turmoil_too() {
    let _alone = alone();
    let mut seen = 0;
    for (name, _) in FIELD {
        let scenario = on_turmoil(&format!("field/{name}"));
        if !scenario.faults.is_random() && !scenario.deviations.is_empty() {
            let report = scene::run(&scenario, 1, false);
            assert_eq!((&report.violations, &report.unmet), (&vec![], &vec![]), "{name}");
            seen += 1;
        }
    }
    assert!(seen >= 30, "{seen}");
}

/// The whole story, byte by byte, in two processes and with no environment at all.
#[test]
#[expect(clippy::disallowed_methods, reason = "the same seed in processes of its own")]
fn the_same_seed_is_the_same_trace_in_two_processes() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/storm.toml");
    let run = |change: &dyn Fn(&mut Command) -> &mut Command| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ackward-sim"));
        command.arg("run").arg(&file).args(["--net", "turmoil", "--seed", "11", "--trace", "--json"]);
        let output = change(&mut command).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let first = run(&|command| command);
    let text = String::from_utf8_lossy(&first);
    assert!(text.contains("\"net\": \"turmoil\"") && text.contains("COMMIT") && text.contains("is killed"));
    assert!(run(&|command| command) == first, "another process");
    assert!(run(&|command| command.env_clear()) == first, "no environment");
}

#[test]
fn other_seeds_are_other_runs_and_turmoil_is_not_the_built_in_network() {
    let _alone = alone();
    let tally = campaign::run_seeds::<Real>(&on_turmoil("storm"), 1, 40);
    assert_eq!(tally.hashes.len(), 40);
    assert!(!tally.hashes.contains(&scene::run(&common::scenario("storm"), 1, false).hash));
}

/// Nobody is preempted inside SQLite: those choices are never made, however likely they are, and whoever waits for a
/// lock meanwhile.
#[test]
fn nobody_is_preempted_on_turmoil() {
    let _alone = alone();
    for name in ["storm", "stream-two-on-one-store", "power-cut-full"] {
        let scenario = on_turmoil(name);
        assert!(scenario.faults.probabilities().iter().any(|(kind, p)| *kind == Kind::Switch && *p > 0.0));
        let tally = campaign::run_seeds::<Real>(&scenario, 1, 60);
        assert_eq!(
            (tally.chosen[Kind::Switch as usize], tally.chosen[Kind::Pick as usize]),
            (0, 0),
            "{name}"
        );
    }
}

/// The system of production, but for a sender that panics.
struct Panicking;

struct PanickingSender;

impl Sender for PanickingSender {
    async fn send(&mut self, event: Event) -> Result<(), SendError> {
        panic!("no {} today", event.id)
    }
}

impl System for Panicking {
    type Queue = Queue;
    type Inbox = Inbox;
    type Store = Store;

    fn open_queue(path: &Path, options: &OpenOptions) -> Result<Queue, StorageError> {
        Queue::open(path, options)
    }

    fn open_inbox(path: &Path, options: &OpenOptions) -> Result<Inbox, StorageError> {
        Inbox::open(path, options)
    }

    fn open_store(path: &Path, options: &OpenOptions) -> Result<Store, StorageError> {
        Store::open(path, options)
    }

    fn sender(_context: &Context, _stage: &Stage) -> impl Sender {
        PanickingSender
    }
}

#[test]
fn a_panic_in_a_task_is_reported() {
    let _alone = alone();
    let report = scene::run_system::<Panicking>(&on_turmoil("killed-before-commit"), 1, false);
    let panics: Vec<_> = report.violations.iter().filter(|broken| broken.property == "no-panic").collect();
    assert!(panics.iter().any(|broken| broken.detail.contains("panics: no cake today")), "{panics:?}");
    assert!(report.final_state.contains("panicked: no cake today"), "{}", report.final_state);
}

/// Answers once, where a process writes in this role.
struct Once {
    role: Role,
    decision: Decision,
    is_done: bool,
}

impl Chooser for Once {
    fn choose(&mut self, point: &Point, offers: &[Offer]) -> Decision {
        let is_it = point.role == self.role && offers.iter().any(|offer| offer.allows(self.decision));
        if self.is_done || !is_it {
            return Decision::GO;
        }
        self.is_done = true;
        self.decision
    }
}

fn once(role: Role, kind: Kind, value: i64) -> Once {
    Once { role, decision: Decision { kind, value }, is_done: false }
}

fn on_hosts(chooser: impl Chooser + 'static) -> Simulation {
    let turmoil = Some(TurmoilOptions { seed: 1, varies: false });
    Simulation::new(
        SimulationOptions { limit_us: LIMIT_US, turmoil, ..SimulationOptions::default() },
        chooser,
    )
}

/// Two exchanges on one connection, and what becomes of them by when, in ms.
async fn greet(context: Context, seen: Seen) {
    greet_at("far:7000", context, seen).await;
}

async fn greet_at(address: &str, context: Context, seen: Seen) {
    let tell = |text: String| {
        seen.borrow_mut().push(format!("{} ms: {text}", context.world().now_us() / 1_000));
    };
    let mut stream = match context.connect(address).await {
        Ok(stream) => stream,
        Err(error) => return tell(format!("connect: {:?}", error.kind())),
    };
    for word in [&b"hello"[..], b"again"] {
        let mut bytes = vec![0; word.len()];
        let result = async {
            stream.write_all(word).await?;
            stream.read_exact(&mut bytes).await
        };
        match result.await {
            Ok(_) => tell(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) => return tell(format!("{:?}", error.kind())),
        }
    }
}

fn meet(chooser: impl Chooser + 'static) -> (End, Vec<String>) {
    common::meet::meet(on_hosts(chooser), greet)
}

#[test]
fn a_message_takes_a_tick_and_a_run_without_anything_to_do_ends() {
    let _alone = alone();
    let (end, seen) = meet(Nothing);
    // To connect, to ask, to be answered; and twice for the second exchange.
    let ms = |ticks: i64| ticks * TICK_MS;
    assert_eq!(seen, [format!("{} ms: hello", ms(3)), format!("{} ms: again", ms(5))]);
    assert!(!end.hit_limit);
    assert!(end.at_us < ms(20) * 1_000, "{}", end.at_us);
}

#[test]
fn hold_and_release_heals_and_a_partition_kills_a_stream_for_good() {
    let _alone = alone();
    let (end, seen) = meet(once(Role::Request, Kind::Slow, 300));
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert!(end.at_us > 300_000, "{}", end.at_us);
    let (end, seen) = meet(once(Role::Request, Kind::Partition, 300));
    assert_eq!(seen, Vec::<String>::new(), "long after the machines reach each other again");
    assert_eq!(end.struck.effective[Kind::Partition as usize], 1);
}

/// While a partition lasts turmoil refuses what it cannot deliver; a connection made afterwards is as good as any.
#[test]
fn machines_reach_each_other_again_after_a_partition() {
    let _alone = alone();
    let mut simulation = on_hosts(once(Role::Request, Kind::Partition, 300));
    let (near, far) = (simulation.machine("near"), simulation.machine("far"));
    let seen = Seen::default();
    simulation.process(ProcessSpec::new("echo", far), echo);
    simulation.process(ProcessSpec::new("other-echo", far), |context| echo_at("far:7001", context));
    for (name, address, late_us) in
        [("first", "far:7000", 0), ("second", "far:7001", 100_000), ("third", "far:7001", 400_000)]
    {
        let told = Rc::clone(&seen);
        simulation.process(ProcessSpec::new(name, near), move |context| {
            let told = Rc::clone(&told);
            async move {
                context.sleep_us(late_us).await;
                greet_at(address, context, told).await;
            }
        });
    }
    let hit_limit = simulation.run_until(|| false);
    drop(simulation.finish(hit_limit));
    let seen = seen.borrow();
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert!(seen[0].starts_with("10") && seen[0].ends_with("connect: ConnectionRefused"), "{seen:?}");
    assert!(seen[1].starts_with("40") && seen[2].ends_with("again"), "{seen:?}");
}

#[test]
fn a_lost_message_is_the_end_of_its_direction() {
    let _alone = alone();
    for kind in [Kind::RequestLost, Kind::HalfOpen] {
        let (_, seen) = meet(once(Role::Request, kind, 0));
        assert_eq!(seen, Vec::<String>::new(), "{kind:?}");
    }
    let (_, seen) = meet(once(Role::Reply, Kind::ReplyLost, 0));
    assert_eq!(seen, Vec::<String>::new());
}

#[test]
fn pieces_arrive_in_order_and_a_reset_is_an_error() {
    let _alone = alone();
    let (_, seen) = meet(once(Role::Request, Kind::Fragment, 2));
    assert_eq!(seen.len(), 2, "{seen:?}");
    let (_, seen) = meet(once(Role::Request, Kind::Reset, 0));
    assert!(seen.len() == 1 && seen[0].ends_with("ConnectionReset"), "{seen:?}");
    let (_, seen) = meet(once(Role::Connect, Kind::ConnectRefused, 0));
    assert!(seen.len() == 1 && seen[0].ends_with("connect: ConnectionRefused"), "{seen:?}");
    let (_, seen) = meet(once(Role::Connect, Kind::ConnectLost, 0));
    assert_eq!(seen, Vec::<String>::new());
}

/// Tells what it could do when it was dropped.
struct Witness(Context, Seen);

impl Drop for Witness {
    fn drop(&mut self) {
        let at_ms = self.0.world().now_us() / 1_000;
        self.1.borrow_mut().push(format!("dropped after {at_ms} ms, alive: {}", self.0.is_alive()));
    }
}

/// The destructors of a killed program run after its death on the simulated computer: they have no effect.
#[test]
fn a_crash_kills_the_process_on_the_simulated_computer_first() {
    let _alone = alone();
    for kind in [Kind::Kill, Kind::PowerCut] {
        let mut simulation = on_hosts(once(Role::Request, kind, 0));
        let (near, far) = (simulation.machine("near"), simulation.machine("far"));
        let seen = Seen::default();
        let told = Rc::clone(&seen);
        simulation.process(ProcessSpec::new("echo", far), echo);
        let spec = ProcessSpec { restarts: 1, restart_after_ms: 50, ..ProcessSpec::new("greeter", near) };
        simulation.process(spec, move |context| {
            let witness = Witness(context.clone(), Rc::clone(&told));
            let told = Rc::clone(&told);
            async move {
                greet(context, told).await;
                drop(witness);
            }
        });
        let hit_limit = simulation.run_until(|| false);
        drop(simulation.finish(hit_limit));
        let seen = seen.borrow();
        // It dies at its first write, as soon as it is connected; its host is crashed when that tick is over.
        assert_eq!(seen[0], "dropped after 2 ms, alive: false", "{kind:?}: {seen:?}");
        let is_served = seen.iter().any(|line| line.ends_with(": again"));
        // A killed process's stream ends; after a power cut nobody tells the other side, which serves one at a time.
        assert_eq!(is_served, kind == Kind::Kill, "{kind:?}: {seen:?}");
    }
}

/// turmoil keeps the port of every connect that is refused, and panics when none is left: here that is an error.
#[test]
fn ports_that_run_out_are_an_error_and_no_panic() {
    let _alone = alone();
    let turmoil = Some(TurmoilOptions { seed: 1, varies: false });
    let options = SimulationOptions { turmoil, ..SimulationOptions::default() };
    let mut simulation = Simulation::new(options, Nothing);
    let (near, far) = (simulation.machine("near"), simulation.machine("far"));
    let seen = Seen::default();
    let told = Rc::clone(&seen);
    simulation.process(ProcessSpec::new("nobody", far), |_| std::future::pending());
    simulation.process(ProcessSpec::new("caller", near), move |context| {
        let told = Rc::clone(&told);
        async move {
            for _ in 0..70 {
                let connects = (0..1_000).map(|_| context.connect("far:7000"));
                for result in futures_util::future::join_all(connects).await {
                    let kind = result.err().map(|error| format!("{:?}", error.kind()));
                    let line = kind.unwrap_or_else(|| "connected".to_owned());
                    if told.borrow().last() != Some(&line) {
                        told.borrow_mut().push(line);
                    }
                }
            }
        }
    });
    let hit_limit = simulation.run_until(|| false);
    let end = simulation.finish(hit_limit);
    assert_eq!(*seen.borrow(), ["ConnectionRefused", "AddrNotAvailable"], "{:?}", end.processes);
}

/// A killed process's host is up: its connections end, new ones are refused. A machine without power answers nothing.
#[test]
fn a_killed_process_refuses_and_a_power_cut_is_silence() {
    let _alone = alone();
    for (kind, after) in [(Kind::Kill, "ConnectionRefused"), (Kind::PowerCut, "nothing")] {
        let mut simulation = on_hosts(once(Role::Reply, kind, 0));
        let (near, far) = (simulation.machine("near"), simulation.machine("far"));
        let seen = Seen::default();
        simulation.process(ProcessSpec::new("echo", far), echo);
        for (name, late_us) in [("first", 0), ("second", 200_000)] {
            let told = Rc::clone(&seen);
            simulation.process(ProcessSpec::new(name, near), move |context| {
                let told = Rc::clone(&told);
                async move {
                    context.sleep_us(late_us).await;
                    greet(context, told).await;
                }
            });
        }
        let hit_limit = simulation.run_until(|| false);
        drop(simulation.finish(hit_limit));
        let seen = seen.borrow();
        match kind {
            Kind::Kill => {
                assert!(
                    seen[0].ends_with("UnexpectedEof") || seen[0].ends_with("ConnectionReset"),
                    "{seen:?}"
                );
                assert!(seen[1].ends_with(&format!("connect: {after}")), "{seen:?}");
            }
            _ => assert_eq!(*seen, Vec::<String>::new()),
        }
    }
}

fn on_turmoil(name: &str) -> Rc<Scenario> {
    common::scenario_on(Net::Turmoil, name)
}
