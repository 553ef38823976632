//! A folder with all that is needed to look at a failure elsewhere: `--bundles DIR`.

use std::path::{Component, Path, PathBuf};

use ackward_sim::computer::Recording;
use ackward_sim::scene::Report;
use anyhow::Context;

use super::folder::Entry;
use super::interrupt::Interrupt;
use super::shrink::automatic;
use super::{panics, run};

/// The shrunk scenario's name.
const SHRUNK: &str = "shrunk.toml";

/// Writes the bundle of a failing seed; lines for the report. What goes wrong is one of them: the failure itself counts.
pub(crate) fn write(
    entry: &Entry,
    seed: u64,
    folder: &Path,
    shrinks: bool,
    interrupt: &Interrupt,
) -> Vec<String> {
    let report = match panics::guarded(|| entry.strategist().run(seed, Recording::Calls)) {
        Ok(report) => report,
        Err(panic) => return vec![format!("no bundle: {panic}")],
    };
    let folder = folder.join(name(entry, &report));
    let mut lines = match fill(entry, &report, &folder) {
        Ok(()) => vec![format!("bundle: {}", folder.display())],
        Err(error) => return vec![format!("no bundle: {error:#}; --bundles DIR names another place")],
    };
    if shrinks {
        lines.extend(automatic(entry, &report, Some(&folder.join(SHRUNK)), interrupt));
    }
    lines
}

/// `storm-effect-once-seed-7`, with the net where it is not the scenario's own.
fn name(entry: &Entry, report: &Report) -> String {
    let stem =
        Path::new(&entry.path).file_stem().map_or_else(|| "scenario".into(), |stem| stem.to_string_lossy());
    let property = report.violations.first().map_or("holds", |violation| violation.property);
    let net = if entry.is_abroad { format!("-{}", entry.scenario.net.as_str()) } else { String::new() };
    format!("{stem}-{property}-seed-{}{net}", report.seed)
}

fn fill(entry: &Entry, report: &Report, folder: &Path) -> anyhow::Result<()> {
    put(folder, Path::new("scenario.toml"), entry.text.as_bytes())?;
    let mut trace = Vec::new();
    let strategy = panics::guarded(|| entry.strategist().about(report.seed)).map_err(anyhow::Error::msg)?;
    let verdict =
        report.violations.first().map_or("held".to_owned(), |first| format!("broke {}", first.property));
    run::tell(&mut trace, report, &verdict, &strategy)?;
    put(folder, Path::new("trace.txt"), &trace)?;
    for (name, content) in &report.files {
        put(folder, &Path::new("disks").join(inside(name)), content)?;
    }
    put(folder, Path::new("replay.sh"), replay(entry, report.seed).as_bytes())
}

/// A script for the top of the workspace.
fn replay(entry: &Entry, seed: u64) -> String {
    let options = entry.options();
    format!(
        "#!/bin/sh\n# From the top of the workspace.\n\
         exec cargo sim run \"$(dirname \"$0\")/scenario.toml\" --seed {seed}{options} --trace --no-shrink\n"
    )
}

/// A file's name that cannot lead out of the bundle.
fn inside(name: &str) -> PathBuf {
    Path::new(name).components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

fn put(folder: &Path, name: &Path, content: &[u8]) -> anyhow::Result<()> {
    let path = folder.join(name);
    let parent = path.parent().unwrap_or(folder);
    let written = std::fs::create_dir_all(parent).and_then(|()| std::fs::write(&path, content));
    written.with_context(|| format!("writing {}", path.display()))
}
