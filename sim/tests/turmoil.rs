//! The turmoil arm: probe.

mod common;

use std::rc::Rc;
use std::time::Instant;

use ackward_sim::campaign::Tally;
use ackward_sim::scenario::Net;
use ackward_sim::scene;

#[test]
fn probe() {
    let _alone = common::alone();
    let seeds = common::number("ACKWARD_SEEDS").unwrap_or(10);
    let wanted = common::number("ACKWARD_ONLY");
    for (at, name) in common::curated().iter().enumerate() {
        if wanted.is_some_and(|wanted| wanted != at as u64) {
            continue;
        }
        let mut scenario = (*common::scenario(&name)).clone();
        scenario.net = Net::Turmoil;
        let scenario = Rc::new(scenario);
        let began = Instant::now();
        let mut tally = Tally::default();
        for seed in 1..=seeds {
            let report = scene::run(&scenario, seed, false);
            if report.hash != scene::run(&scenario, seed, false).hash {
                println!("   NONDET {seed}");
            }
            if !report.violations.is_empty() {
                println!("   seed {seed} {:?}", report.violations[0]);
            }
            if !report.unmet.is_empty() && seed == 1 {
                println!("   unmet {:?}", report.unmet.iter().map(ToString::to_string).collect::<Vec<_>>());
            }
            tally.add(&report);
        }
        println!(
            "{at} {name}: failed {} of {seeds}, {:.1} ms a seed, simulated {:.1} s a seed, inert {:?} unreached {:?}",
            tally.failed,
            began.elapsed().as_secs_f64() * 500.0 / seeds as f64,
            tally.virtual_us as f64 / 1e6 / seeds as f64,
            tally.inert(&scenario),
            tally.unreached(&scenario)
        );
    }
}
