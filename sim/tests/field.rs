//! The faults that real systems had: each row has a scenario or a test that states the right value, and the real
//! core has it.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use ackward_sim::campaign;
use ackward_sim::scenario::Flaw;
use ackward_sim::scene::Real;
use ackward_sim::zoo::{FIELD, ROWS};

const SEEDS: u64 = 100;
/// How many rows there are.
const ROWS_COUNT: usize = 65;

#[test]
fn every_row_has_a_scenario_or_a_test() {
    let ids: BTreeSet<_> = ROWS.iter().map(|row| row.id).collect();
    assert_eq!((ROWS.len(), ids.len()), (ROWS_COUNT, ROWS_COUNT), "a row is missing or there twice");
    for row in ROWS {
        assert!(!row.scenarios.is_empty() || !row.tests.is_empty(), "{} has neither", row.id);
        for name in row.scenarios {
            assert!(name.starts_with(row.kind), "{}: {name} is not named after {}", row.id, row.kind);
            assert!(FIELD.iter().any(|(known, _)| known == name), "{}: there is no {name}", row.id);
        }
        for (file, test) in row.tests {
            let text =
                fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            assert!(text.contains(&format!("fn {test}()")), "{}: {file} has no test {test}", row.id);
        }
    }
}

#[test]
fn every_field_scenario_has_a_row_and_a_mistake_and_runs_the_real_core() {
    let folder = root().join("scenarios/field");
    let files = fs::read_dir(&folder).expect("the folder is there");
    let names = files.map(|file| file.expect("an entry can be read").path());
    let names: BTreeSet<String> =
        names.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    let known: BTreeSet<String> = FIELD.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names, known);
    for (name, flaw) in FIELD {
        assert_ne!(*flaw, Flaw::None, "{name} has no mistake to find");
        assert!(ROWS.iter().any(|row| row.scenarios.contains(name)), "no row tells of {name}");
        let scenario = common::scenario(&format!("field/{name}"));
        assert_eq!(scenario.system, Flaw::None, "{name}");
        let states = scenario.expect.jobs.len() + scenario.expect.consumers.len();
        assert!(states > 0, "{name} states no right value");
    }
}

#[test]
fn the_real_core_has_every_right_value_and_shows_what_each_scenario_is_for() {
    let _alone = common::alone();
    for (name, _) in FIELD {
        let scenario = common::scenario(&format!("field/{name}"));
        let tally = campaign::run_seeds::<Real>(&scenario, 1, SEEDS);
        assert_eq!(tally.failed, 0, "{name}: {:#?}", tally.failures);
        assert!(tally.nondeterministic.is_empty(), "{name}: {:?}", tally.nondeterministic);
        assert_eq!(tally.unreached(&scenario), [""; 0], "{name}");
        assert_eq!(tally.inert(&scenario), [""; 0], "{name}");
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
