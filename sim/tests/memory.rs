//! Memory stays flat over many seeds that crash: no coroutine, file or world is left behind.
//! `ACKWARD_SOAK` sets the number of seeds.

#![cfg(target_os = "linux")]

mod common;

use ackward_sim::scene;

const SEEDS: u64 = 2_000;
/// Seeds before the first look: pools fill up.
const WARM_UP: u64 = 300;
/// What may be added afterwards, in pages: the allocator's own whims, far below a kilobyte a seed.
const PAGES_MAX: u64 = 500;

/// Resident pages of this process.
fn resident_pages() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux tells about this process");
    let resident = text.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    resident.expect("the second number is the resident set")
}

#[test]
fn memory_stays_flat_over_many_crashes() {
    let _alone = common::alone();
    let seeds = common::number("ACKWARD_SOAK").unwrap_or(SEEDS);
    let scenario = common::scenario("storm");
    let mut kills = 0;
    let mut run = |seed| {
        let report = scene::run(&scenario, seed, false);
        kills += report.struck.effective[ackward_sim::choice::Kind::Kill as usize];
    };
    (0..WARM_UP).for_each(&mut run);
    let before = resident_pages();
    (WARM_UP..WARM_UP + seeds).for_each(&mut run);
    let after = resident_pages();
    assert!(u64::from(kills) > seeds / 10, "only {kills} processes were killed with work under way");
    assert!(
        after <= before + PAGES_MAX,
        "{before} pages became {after} over {seeds} seeds and {kills} kills"
    );
}
