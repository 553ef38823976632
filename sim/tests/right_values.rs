//! The right value that a scenario states is held against the end of every run, field by field.

mod common;

use std::rc::Rc;

use ackward_sim::judge::RIGHT_VALUE;
use ackward_sim::scenario::Scenario;
use ackward_sim::scene;

/// Q60: two requests on the wire, one effect, job done with token 2 and attempt 2.
const STORY: &str = "about = \"Q60.\"\nduration_ms = 10000\n[[job]]\nid = \"cake\"\nttl_ms = 20000\n\
    [[worker]]\nname = \"worker-a\"\nrestarts = 0\n[[worker]]\nname = \"worker-b\"\n\
    [[deviation]]\nat = \"worker-a/1/claim#1/message/reply#1\"\ndo = \"kill\"\n[[expect.job]]\nid = \"cake\"\n";

fn details(expected: &str) -> Vec<String> {
    let scenario = Scenario::parse("story", format!("{STORY}{expected}").as_bytes()).expect("it is valid");
    let report = scene::run(&Rc::new(scenario), 1, false);
    let of_others = report.violations.iter().find(|violation| violation.property != RIGHT_VALUE);
    assert_eq!(of_others, None);
    report.violations.into_iter().map(|violation| violation.detail).collect()
}

#[test]
fn q60_the_right_value_holds() {
    let _alone = common::alone();
    let right = "status = \"done\"\nattempts = 2\ntoken = [2, 3]\nposts = 2\neffects = 1\nredrives = 0\n";
    assert_eq!(details(right), [""; 0]);
}

#[test]
fn every_field_that_is_not_as_stated_is_named() {
    let _alone = common::alone();
    for (wrong, detail) in [
        ("status = \"dead\"\n", "job cake is done, expected: dead"),
        ("reason = \"exhausted\"\n", "job cake has the reason none, expected: exhausted"),
        ("attempts = 1\n", "job cake has 2 attempts, expected: 1"),
        ("token = [3, 9]\n", "job cake has token 2, expected: 3 to 9"),
        ("posts = 1\n", "job cake has 2 requests on the wire, expected: 1"),
        ("effects = 2\n", "job cake has 1 effect, expected: 2"),
        ("redrives = 1\n", "job cake has 0 redrives, expected: 1"),
    ] {
        assert_eq!(details(wrong), [detail]);
    }
}

const STREAM: &str = "about = \"R42.\"\nduration_ms = 8000\n[publisher]\nevents = 4\n[[consumer]]\nname = \"reader\"\n\
    [[expect.consumer]]\nname = \"reader\"\n";

#[test]
fn r42_where_a_consumer_stands_and_how_often_it_connected() {
    let _alone = common::alone();
    for (expected, detail) in [
        ("last = 3\nconnections = 1\n", None),
        ("last = 2\n", Some("consumer reader is at event 3, expected: 2")),
        ("connections = [2, 9]\n", Some("consumer reader made 1 connection, expected: 2 to 9")),
    ] {
        let scenario =
            Scenario::parse("stream", format!("{STREAM}{expected}").as_bytes()).expect("it is valid");
        let report = scene::run(&Rc::new(scenario), 1, false);
        let found =
            report.violations.first().map(|violation| (violation.property, violation.detail.as_str()));
        assert_eq!(found, detail.map(|detail| (RIGHT_VALUE, detail)));
    }
}
