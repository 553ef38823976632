//! Deaths at every point between an event's commit and its ACK, one after the other, each by its name: the totals
//! come out exact, and what is sent again counts once.

mod common;

use std::rc::Rc;

use ackward_sim::choice::Deviation;
use ackward_sim::judge::Milestone;
use ackward_sim::scenario::Scenario;
use ackward_sim::scene::{self, Report};

const EVENTS: usize = 20;

/// A scenario without chance: a consumer, line by line or in groups, and what happens to it.
fn scripted(is_grouped: bool, grow: usize, deviations: &[(String, &str)]) -> Rc<Scenario> {
    let events = EVENTS - grow;
    let mut text = format!(
        "about = \"scripted\"\nduration_ms = 20000\n[publisher]\nevents = {events}\ngrow = {grow}\n\
         grow_every_ms = 10\ntimeout_ms = 300\n[[consumer]]\nname = \"reader\"\ntimeout_ms = 400\n\
         restarts = 100\nrestart_after_ms = 50\ngroup = {is_grouped}\n"
    );
    for (at, action) in deviations {
        text += &format!("[[deviation]]\nat = \"{at}\"\ndo = \"{action}\"\n");
    }
    Rc::new(Scenario::parse("scripted", text.as_bytes()).unwrap_or_else(|error| panic!("{error}")))
}

/// Runs it; everything scripted happened, everything held, and the store is where it must be.
fn run(scenario: &Rc<Scenario>) -> Report {
    let report = scene::run(scenario, 1, false);
    let met: Vec<&Deviation> =
        report.deviations.iter().filter(|met| scenario.deviations.contains(met)).collect();
    assert_eq!(met.len(), scenario.deviations.len(), "never met: {:?}", report.unmet);
    assert_eq!(report.violations, [], "{:?}", scenario.deviations);
    let total: i64 = (0..EVENTS as i64).map(|seq| (seq * 37) % 23 - 11).sum();
    let state = format!("reader.db last={} total={total}\n", EVENTS - 1);
    assert!(report.final_state.contains(&state), "{}", report.final_state);
    report
}

/// R42, R44: killed at the hook before the ACK of each event in turn.
#[test]
fn r44_a_consumer_killed_before_the_ack_of_each_event_counts_none_twice() {
    let _alone = common::alone();
    for at in 1..=EVENTS {
        let killed = (format!("reader/1/consume#{at}/wait/hook.before-ack#1"), "hook-kill");
        let report = run(&scripted(false, 0, &[killed]));
        assert!(report.milestones.has(Milestone::DiedBeforeAck), "event {at}");
        // Once the last event is committed the run is over.
        assert_eq!(report.milestones.has(Milestone::Resent), at < EVENTS, "event {at}");
    }
}

/// R42, R44, with a death for each event in the same run: each incarnation acknowledges what the one before had
/// committed, commits one event more, and is killed.
#[test]
fn r44_a_consumer_killed_before_every_ack_of_a_run_ends_with_the_exact_total() {
    let _alone = common::alone();
    let killed = |incarnation: usize| {
        let place = if incarnation == 1 { 1 } else { 2 };
        (format!("reader/{incarnation}/consume#{place}/wait/hook.before-ack#1"), "hook-kill")
    };
    let all: Vec<_> = (1..=EVENTS).map(killed).collect();
    assert!(run(&scripted(false, 0, &all)).milestones.has(Milestone::Resent));
}

/// R30, R42: the events of a group are acknowledged one by one after their one commit.
#[test]
fn r42_a_consumer_killed_within_the_acks_of_a_group_counts_none_twice() {
    let _alone = common::alone();
    for ack in 1..=16 {
        let killed = (format!("reader/1/consume#1/wait/hook.before-ack#{ack}"), "hook-kill");
        assert!(run(&scripted(true, 0, &[killed])).milestones.has(Milestone::Resent), "ACK {ack}");
    }
}

/// M9, R42: the power fails, or the process is killed, as each ACK is about to be written.
#[test]
fn m9_what_was_committed_before_an_ack_is_there_after_death_at_its_write() {
    let _alone = common::alone();
    for action in ["kill", "power-cut"] {
        for at in 1..=EVENTS {
            let dies = (format!("reader/1/consume#{at}/message/request#1"), action);
            let report = run(&scripted(false, 0, &[dies]));
            assert!(report.milestones.has(Milestone::DiedBeforeAck), "{action} at event {at}");
        }
    }
}

/// R43: the publisher is killed, or its machine loses power, as it is about to send; the consumer goes on from its
/// commit.
#[test]
fn r43_a_consumer_goes_on_from_its_commit_when_the_publisher_is_lost() {
    let _alone = common::alone();
    for action in ["kill", "power-cut"] {
        for at in 1..=4 {
            let dies = (format!("publisher/1/start#1/message/reply#{at}"), action);
            drop(run(&scripted(false, 10, &[dies])));
        }
    }
}

/// R43 to the letter: committed, not acknowledged, and the connection is gone.
#[test]
fn r43_an_ack_that_meets_a_reset_or_silence_leaves_its_event_committed() {
    let _alone = common::alone();
    // Silence is noticed only where more follows the publisher's window: after the first, of 16 events.
    for (action, until) in [("reset", EVENTS - 1), ("half-open", 16)] {
        for at in 1..=EVENTS {
            let lost = (format!("reader/1/consume#{at}/message/request#1"), action);
            let report = run(&scripted(false, 0, &[lost]));
            assert_eq!(report.milestones.has(Milestone::Resent), at <= until, "{action} at event {at}");
        }
    }
}

/// Deviations name processes; a run numbers them. Both must mean the same.
#[test]
fn a_scenario_lists_its_processes_as_a_run_numbers_them() {
    let _alone = common::alone();
    for name in common::curated() {
        let scenario = common::scenario(&name);
        let report = scene::run(&scenario, 1, false);
        let (_, processes) = report.final_state.split_once("processes\n").expect("it lists them");
        let names: Vec<_> = processes.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(names, scenario.process_names(), "{name}");
    }
}
