//! The exhaustive search: what it reaches, that nothing reachable is left out, and that its failures are minimal.

mod common;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::rc::Rc;

use ackward_sim::choice::Kind;
use ackward_sim::explore::{self, Options, Path};
use ackward_sim::scenario::{Flaw, Scenario};

/// One event from a publisher to a consumer: small enough for pairs of deviations.
const ONE_EVENT: &str = "about = \"One event.\"\nduration_ms = 3000\n[publisher]\nevents = 1\n\
                         [[consumer]]\nname = \"c\"\ntimeout_ms = 200\nrestart_after_ms = 10\n";

#[test]
fn the_final_states_that_one_deviation_reaches() {
    let _alone = common::alone();
    for name in ["two-workers-one-job", "killed-before-commit"] {
        let scenario = common::scenario(name);
        let kinds = Kind::ALL.iter().map(|kind| kind.as_str().to_owned()).collect();
        let explored = explore::explore(&scenario, 1, &Options { kinds, ..Options::default() });
        assert_eq!(explored.failure, None, "{name}");
        let mut text = format!(
            "{}\n\n{} runs, {} alternatives pruned, {} final states\n",
            scenario.about,
            explored.runs,
            explored.pruned,
            explored.states.len()
        );
        for (state, runs) in &explored.states {
            let _ = writeln!(text, "\n# {runs} runs\n{}", state.trim_end());
        }
        common::assert_snapshot(&format!("reachable-{name}"), &text);
    }
}

/// What is left out would have shown nothing new: not only the same final states, but the same things reached on the
/// way, and the same times.
#[test]
fn pruning_is_sound_at_depth_1() {
    let _alone = common::alone();
    const ALL: [&str; 10] = [
        "kill",
        "power-cut",
        "io-error",
        "disk-full",
        "switch",
        "pick",
        "stall",
        "terminate",
        "slow",
        "reset",
    ];
    assert_sound("two workers", &common::scenario("two-workers-one-job"), 1, &ALL);
    let broken =
        Scenario { system: Flaw::EffectApart, ..Scenario::clone(&common::scenario("killed-after-commit")) };
    assert_sound("a twin", &Rc::new(broken), 1, &ALL);
}

#[test]
fn pruning_is_sound_at_depth_2() {
    let _alone = common::alone();
    let scenario = Rc::new(Scenario::parse("one.toml", ONE_EVENT.as_bytes()).unwrap());
    assert_sound("one event", &scenario, 2, &["kill", "switch"]);
}

/// A mistake that a wrong answer shows is found at depth 1, and not at depth 0.
#[test]
fn the_first_failure_has_the_fewest_deviations() {
    let _alone = common::alone();
    let scenario =
        Scenario { deviations: Vec::new(), ..Scenario::clone(&common::scenario("two-workers-one-job")) };
    let broken = Rc::new(Scenario { system: Flaw::AnyTwoHundredIsOk, ..scenario.clone() });
    assert_eq!(explore::explore(&broken, 0, &Options::default()).failure, None);
    let answers = Options { kinds: vec!["wrong-reply".to_owned()], ..Options::default() };
    let failed = explore::explore(&broken, 2, &answers).failure.expect("it is found");
    assert_eq!((failed.path.len(), failed.deviations.len()), (1, 1));
    let again = explore::run(&broken, &failed.path, &Options::default());
    assert_eq!(again.violations[0].property, failed.property);
    // The same search on the real system holds.
    let real = explore::run(&Rc::new(scenario), &failed.path, &Options::default());
    assert_eq!(real.violations, []);
}

#[test]
fn the_same_search_finds_the_same() {
    let _alone = common::alone();
    let scenario = Rc::new(Scenario::parse("one.toml", ONE_EVENT.as_bytes()).unwrap());
    let search = || explore::explore(&scenario, 1, &Options::default());
    assert_eq!(search(), search());
}

/// What a run shows: its final state, what it reached, when it ended, what it broke.
type Outcome = (String, u64, i64, Option<&'static str>);

fn assert_sound(name: &str, scenario: &Rc<Scenario>, depth: u32, kinds: &[&str]) {
    let kinds: Vec<String> = kinds.iter().map(ToString::to_string).collect();
    let all = Options { prunes: false, kinds, ..Options::default() };
    let pruning = Options { prunes: true, ..all.clone() };
    let (pruned, pruned_runs) = outcomes(scenario, depth, &pruning);
    let (all, all_runs) = outcomes(scenario, depth, &all);
    println!("{name}: {pruned_runs} of {all_runs} runs, {} outcomes", all.len());
    assert!(pruned_runs < all_runs, "{name}: nothing is pruned");
    let lost: Vec<_> = all.difference(&pruned).collect();
    assert!(
        lost.is_empty(),
        "{name}: {} of {} outcomes are lost, such as {:#?}",
        lost.len(),
        all.len(),
        lost[0]
    );
}

fn outcomes(scenario: &Rc<Scenario>, depth: u32, options: &Options) -> (BTreeSet<Outcome>, usize) {
    let mut outcomes = BTreeSet::new();
    let mut level = vec![Path::new()];
    let mut runs = 0;
    for at in 1..=depth {
        let next: Vec<Path> =
            level.iter().flat_map(|path| explore::children(scenario, path, depth - at, options).0).collect();
        runs += next.len();
        for path in &next {
            let report = explore::run(scenario, path, options);
            let broken = report.violations.first().map(|first| first.property);
            outcomes.insert((report.final_state, report.milestones.bits(), report.at_us, broken));
        }
        level = next;
    }
    (outcomes, runs)
}
