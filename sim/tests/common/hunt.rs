//! The hunt for a planted mistake: plain fuzzing of a curated scenario until a run fails, and its replay.

use std::fmt::{Debug, Write};
use std::process::Command;
use std::rc::Rc;

use ackward_sim::scenario::{Net, Scenario};
use ackward_sim::scene::{self, Report, SceneChooser, System};

/// A mistake must be found within so many seeds.
const SEEDS_MAX: u64 = 2_000;
const STARTS: [u64; 2] = [1, 1_000_001];
/// `MISTAKE:SEED` or `MISTAKE:SEED:NET`, for the test `replay`.
const VARIABLE: &str = "ACKWARD_REPLAY";

/// Hunts every mistake from two starts; returns the table of what was found, and prints how to replay it.
pub fn table<S: System, F: Debug + Copy>(target: &str, mistakes: &[(F, &str)], make: impl Fn(F)) -> String {
    table_on::<S, F>(Net::BuiltIn, target, mistakes, make)
}

/// As [`table`], on another net.
pub fn table_on<S: System, F: Debug + Copy>(
    net: Net,
    target: &str,
    mistakes: &[(F, &str)],
    make: impl Fn(F),
) -> String {
    let mut table = String::new();
    for (mistake, name) in mistakes {
        make(*mistake);
        let scenario = super::scenario_on(net, name);
        let mut line = format!("{:<28} {name:<34}", format!("{mistake:?}"));
        for start in STARTS {
            let found = hunt::<S>(&scenario, start);
            let found =
                found.unwrap_or_else(|| panic!("{mistake:?} is not found from seed {start} on in {name}"));
            assert_replays::<S>(&scenario, &found);
            println!("{}", command(target, mistake, found.seed, net));
            let seeds = found.seed - start + 1;
            let _ = write!(line, " {seeds:>4} seeds: {:<24}", found.violations[0].property);
        }
        let _ = writeln!(table, "{}", line.trim_end());
    }
    table
}

/// The first failing run from `start` on.
pub fn hunt<S: System>(scenario: &Rc<Scenario>, start: u64) -> Option<Report> {
    let mut reports = (start..start + SEEDS_MAX).map(|seed| scene::run_system::<S>(scenario, seed, false));
    reports.find(|report| !report.has_passed())
}

/// The same seed gives the same run, and so do its deviations without any randomness.
fn assert_replays<S: System>(scenario: &Rc<Scenario>, found: &Report) {
    let again = scene::run_system::<S>(scenario, found.seed, true);
    assert_eq!((again.hash, &again.violations), (found.hash, &found.violations));
    let chooser = SceneChooser::replay(scenario, &found.deviations);
    let replayed = scene::run_with::<S, _>(scenario, found.seed, false, chooser);
    assert_eq!(replayed.deviations, found.deviations);
    assert_eq!((replayed.hash, &replayed.violations), (found.hash, &found.violations));
}

/// The command that replays a finding and tells its story.
fn command(target: &str, mistake: impl Debug, seed: u64, net: Net) -> String {
    let net = if net == Net::BuiltIn { String::new() } else { format!(":{}", net.as_str()) };
    format!(
        "{VARIABLE}={mistake:?}:{seed}{net} cargo test -p ackward-sim --test {target} replay -- --nocapture"
    )
}

/// Replays what the environment names. Where it names nothing, the first mistake's command is run as it is
/// printed (on this very program, since cargo may be busy), and must tell the failure that was found.
#[expect(clippy::disallowed_methods, reason = "the command of the test's user, and its run")]
pub fn replay<S: System, F: Debug + Copy>(target: &str, mistakes: &[(F, &str)], make: impl Fn(F)) {
    let (mistake, name) = mistakes[0];
    let Ok(wanted) = std::env::var(VARIABLE) else {
        make(mistake);
        let found = hunt::<S>(&super::scenario(name), STARTS[0]).expect("the first mistake is found");
        let command = command(target, mistake, found.seed, Net::BuiltIn);
        let value = command.split(['=', ' ']).nth(1).expect("the command sets the variable");
        let program = std::env::current_exe().expect("this program has a path");
        let mut child = Command::new(program);
        let output =
            child.args(["replay", "--nocapture"]).env(VARIABLE, value).output().expect("it runs again");
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(told.contains(&format!("hash      {:016x}", found.hash)), "{command}\n{told}");
        assert!(told.contains(found.violations[0].property), "{command}\n{told}");
        return;
    };
    let (mistake, seed) = wanted.split_once(':').expect("MISTAKE:SEED");
    let (seed, net) = seed.split_once(':').unwrap_or((seed, Net::BuiltIn.as_str()));
    let net = Net::parse(net).expect("the name of a net");
    let seed: u64 = seed.parse().expect("a seed is a whole number");
    let known = mistakes.iter().find(|(known, _)| format!("{known:?}") == mistake).expect("a known mistake");
    make(known.0);
    let report = scene::run_system::<S>(&super::scenario_on(net, known.1), seed, true);
    println!("seed      {seed}\nhash      {:016x}", report.hash);
    report.events.iter().for_each(|event| println!("{event}"));
    for violation in &report.violations {
        println!("{}: {}", violation.property, violation.detail);
    }
}
