//! What is listed of a run, and who judges it, does not change the run.

use std::path::Path;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ackward_sim::computer::Recording;
use ackward_sim::scenario::Scenario;
use ackward_sim::scene::{self, Real, RunOptions, SceneChooser};

/// SQLite's random numbers are one generator per OS process: one simulation at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A storm whose faults stop after a second, so that calls are listed with and without choices.
fn storm() -> Rc<Scenario> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/storm.toml");
    Rc::new(Scenario { duration_ms: 1_000, ..Scenario::load(&file).unwrap() })
}

#[test]
fn the_hash_is_the_same_at_every_level_of_recording() {
    let _alone = alone();
    let storm = storm();
    let mut calls = 0;
    for seed in 0..60 {
        let run = |recording| scene::run(&storm, seed, recording);
        let (off, story, all) = (run(Recording::Off), run(Recording::Story), run(Recording::Calls));
        assert_eq!((off.hash, off.hash), (story.hash, all.hash), "seed {seed}");
        assert_eq!(off.deviations, all.deviations);
        assert!(off.events.is_empty() && !story.events.is_empty());
        // Calls, and who runs next.
        let only_there = ["-- ", "!! switch", "!! pick"];
        let is_listed = |text: &str| only_there.iter().any(|prefix| text.starts_with(prefix));
        let listed = all.events.iter().filter(|event| is_listed(&event.text)).count();
        assert_eq!(all.events.len() - listed, story.events.len(), "seed {seed}");
        calls += listed;
    }
    assert!(calls > 10_000, "{calls}");
}

/// Every name that is listed is one that a scenario file can use.
#[test]
fn listed_calls_are_names_of_points() {
    let _alone = alone();
    let report = scene::run(&storm(), 3, Recording::Calls);
    for event in &report.events {
        if let Some(name) = event.text.strip_prefix("-- ") {
            let point: ackward_sim::choice::PointName = name.parse().unwrap();
            assert_eq!((point.to_string().as_str(), point.process.as_str()), (name, event.process.as_str()));
        }
    }
}

#[test]
fn a_run_without_judges_is_the_same_run() {
    let _alone = alone();
    let storm = storm();
    for seed in 0..100 {
        let judged = scene::run(&storm, seed, false);
        let unjudged =
            scene::run_system::<Real>(&storm, seed, RunOptions { recording: Recording::Off, judging: false });
        assert_eq!((judged.at_us, judged.vfs_calls), (unjudged.at_us, unjudged.vfs_calls), "seed {seed}");
        assert_eq!(judged.deviations, unjudged.deviations, "seed {seed}");
    }
}

/// A recorded run is its scenario and its deviations; each of them finds its point again.
#[test]
fn every_deviation_of_a_replay_is_met() {
    let _alone = alone();
    let storm = storm();
    let recorded = scene::run(&storm, 5, false);
    assert!(recorded.deviations.len() > 10, "{}", recorded.deviations.len());
    let mut quiet = Scenario { deviations: recorded.deviations.to_vec(), ..(*storm).clone() };
    quiet.faults = ackward_sim::scenario::Faults {
        stall_ms: storm.faults.stall_ms,
        slow_ms: storm.faults.slow_ms,
        ..ackward_sim::scenario::Faults::default()
    };
    let replayed = scene::run(&Rc::new(quiet), 5, false);
    assert_eq!(replayed.unmet, []);
    assert_eq!(replayed.hash, recorded.hash);
}

#[test]
fn a_deviation_without_its_point_is_unmet() {
    let _alone = alone();
    let storm = storm();
    let mut never = scene::run(&storm, 5, false).deviations[0].clone();
    never.at.ordinal = 999;
    let chooser =
        Rc::new(std::cell::RefCell::new(SceneChooser::replay(&storm, std::slice::from_ref(&never))));
    let _ = scene::run_with::<Real, _>(&storm, 5, false, Rc::clone(&chooser));
    assert_eq!(chooser.borrow().unmet(), [never]);
}
