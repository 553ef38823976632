//! What the simulator's tests share: one simulation at a time, one place for snapshots, the curated scenarios.
#![allow(dead_code, reason = "each test target uses a part of it")]

pub mod acts;
pub mod bench;
pub mod cut;
pub mod meet;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ackward_sim::scenario::{Net, Scenario};

/// SQLite's random numbers are one generator per OS process: one simulation at a time.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A whole number from the environment: how much a test does is the caller's choice.
#[expect(clippy::disallowed_methods, reason = "tests have no command line of their own")]
pub fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is {text:?}, expected a whole number")))
}

/// Compares with the snapshot of this name in the repository's one folder of snapshots.
pub fn assert_snapshot(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(root().join("snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// A curated scenario by its file's name, without the ending.
pub fn scenario(name: &str) -> Rc<Scenario> {
    let path = root().join("scenarios").join(format!("{name}.toml"));
    Rc::new(Scenario::load(&path).unwrap_or_else(|error| panic!("{error}")))
}

/// As [`scenario`], on this net.
pub fn scenario_on(net: Net, name: &str) -> Rc<Scenario> {
    Rc::new(Scenario { net, ..(*scenario(name)).clone() })
}

/// The names of the curated scenarios, in alphabetical order.
pub fn curated() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("scenarios")).expect("the scenarios are there");
    let paths = entries.map(|entry| entry.expect("an entry of a folder can be read").path());
    let files = paths.filter(|path| path.extension().is_some_and(|ending| ending == "toml"));
    let mut names: Vec<String> =
        files.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    names
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
