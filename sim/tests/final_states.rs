//! What the database holds in the end, for the first seeds of every curated scenario.

mod common;

use std::fmt::Write;

use ackward_sim::scene;

#[test]
fn the_final_states_of_the_first_seeds() {
    let _alone = common::alone();
    for name in common::curated() {
        let scenario = common::scenario(&name);
        let mut text = format!("{}\n", scenario.about);
        for seed in 1..=3 {
            let report = scene::run(&scenario, seed, false);
            let violations: Vec<_> = report.violations.iter().map(|broken| broken.property).collect();
            assert!(violations.is_empty(), "{name}, seed {seed}: {violations:?}");
            let _ = writeln!(text, "\n# seed {seed}\n{}", report.final_state.trim_end());
        }
        common::assert_snapshot(&format!("final-state-{name}"), &text);
    }
}
