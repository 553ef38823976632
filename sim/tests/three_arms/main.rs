//! Three arms agree: a suite of stories with known ends, told in hook kills and in what a proxy can do to a connection,
//! runs on the built-in network, on turmoil, and as real processes on loopback sockets. The verdict and the final state
//! (all rows without times, and how each process ended) are the same.

#[path = "../common/mod.rs"]
mod common;
mod real;
mod story;

use std::rc::Rc;

use ackward_sim::scenario::{Net, Scenario};
use ackward_sim::scene;
use story::{STORIES, Story};

#[test]
fn three_arms_agree() {
    let _alone = common::alone();
    let mut differing = Vec::new();
    for story in STORIES {
        let [built_in, turmoil] = [Net::BuiltIn, Net::Turmoil].map(|net| simulated(story, net));
        let real = real::run(story);
        let name = story.name;
        for (arm, text) in [("turmoil", &turmoil), ("real sockets", &real)] {
            if *text != built_in {
                differing.push(format!("{name}, built-in:\n{built_in}\n{name}, {arm}:\n{text}"));
            }
        }
        let about = story.parsed().about;
        common::assert_snapshot(&format!("three-arms-{name}"), &format!("{about}\n\n{built_in}"));
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

/// The verdict and the final state on one of the simulator's arms.
fn simulated(story: &Story, net: Net) -> String {
    let scenario = Rc::new(Scenario { net, ..story.parsed() });
    let report = scene::run(&scenario, 1, false);
    let name = story.name;
    assert_eq!(report.unmet, [], "{name} on {}: a deviation found no point", net.as_str());
    assert_eq!(report.deviations, scenario.deviations, "{name} on {}", net.as_str());
    let broken: Vec<_> = report.violations.iter().map(|broken| broken.property).collect();
    let verdict = if broken.is_empty() { "held".to_owned() } else { broken.join(", ") };
    format!("verdict {verdict}\n{}", report.final_state)
}
