//! `cargo sim shrink`, and what `run` and `fuzz` do about a failure by themselves: the failing run made small and
//! written as a scenario file.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use ackward_sim::judge::RIGHT_VALUE;
use ackward_sim::scenario::Scenario;
use ackward_sim::scene::Report;
use ackward_sim::shrink::{self, RUNS_MAX, Shrunk};
use anyhow::Context;

use super::folder::{Entry, REGRESSIONS};
use super::interrupt::Interrupt;
use super::progress::Progress;
use super::text::{count, shell_word};
use super::{Exit, ShrinkArgs, panics, unless_closed};

/// Runs the command.
pub(crate) fn shrink(args: &ShrinkArgs) -> anyhow::Result<Exit> {
    let entry = Entry::load(&args.file)?.on(args.how.net).by(args.how.strategy);
    let scenario = Rc::new(entry.scenario.clone());
    let interrupt = Interrupt::listen()?;
    let (report, shrunk) = panics::guarded(|| {
        let report = entry.strategist().run(args.seed, false);
        let runs_max = args.runs.unwrap_or(RUNS_MAX);
        let shrunk = watched(&scenario, &report, runs_max, &interrupt);
        (report, shrunk)
    })
    .map_err(anyhow::Error::msg)?;
    let mut output = io::stdout().lock();
    let Some(shrunk) = shrunk else {
        unless_closed(unshrunk(&mut output, &entry, &report).map_err(Into::into))?;
        return Ok(interrupt.or(if report.has_passed() { Exit::Held } else { Exit::Failed }));
    };
    let text = file_text(&entry, args.seed, &shrunk);
    if args.out.as_deref() == Some(Path::new("-")) {
        unless_closed(write!(output, "{text}").map_err(Into::into))?;
        if interrupt.has_come() {
            writeln!(io::stderr(), "{}", summary(&shrunk, &interrupt))?;
        }
        return Ok(interrupt.or(Exit::Failed));
    }
    let path = target(&entry, &shrunk, args.seed, args.out.as_deref());
    save(&path, &text)?;
    let told = writeln!(output, "{text}\n{}\n{}", summary(&shrunk, &interrupt), replay(&path, &shrunk));
    unless_closed(told.map_err(Into::into))?;
    Ok(interrupt.or(Exit::Failed))
}

fn unshrunk(output: &mut impl Write, entry: &Entry, report: &Report) -> io::Result<()> {
    match report.violations.first() {
        None => writeln!(output, "{}: seed {} holds, there is nothing to shrink", entry.path, report.seed),
        Some(first) => writeln!(
            output,
            "{}: seed {} breaks {}: {}",
            entry.path,
            report.seed,
            first.property,
            why_not(report)
        ),
    }
}

/// Why a failure has no smaller one.
fn why_not(report: &Report) -> &'static str {
    if report.violations.first().is_some_and(|first| first.property == RIGHT_VALUE) {
        "its deviations alone do not break it, or nobody has stated what is right of a smaller scenario"
    } else {
        "its deviations alone do not break the property"
    }
}

/// Shrinks a failure that was found, writes it to its file, and says so in lines for the report. Whatever goes wrong
/// here is one of those lines: the failure itself counts. After an interrupt it is not begun.
pub(crate) fn automatic(
    entry: &Entry,
    report: &Report,
    out: Option<&Path>,
    interrupt: &Interrupt,
) -> Vec<String> {
    if is_shrunk_already(entry) || interrupt.has_come() {
        return Vec::new();
    }
    let scenario = Rc::new(entry.scenario.clone());
    let shrunk = match panics::guarded(|| watched(&scenario, report, RUNS_MAX, interrupt)) {
        Ok(Some(shrunk)) => shrunk,
        Ok(None) => return vec![format!("not shrunk: {}", why_not(report))],
        Err(panic) => return vec![format!("not shrunk: {panic}")],
    };
    let path = target(entry, &shrunk, report.seed, out);
    let mut lines = vec![summary(&shrunk, interrupt)];
    match save(&path, &file_text(entry, report.seed, &shrunk)) {
        Ok(()) => lines.push(format!("replay: {}", replay(&path, &shrunk))),
        Err(error) => lines.push(format!("not written: {error:#}; --out DIR names another place")),
    }
    lines
}

/// Shrinks with a progress bar, until an interrupt.
fn watched(scenario: &Rc<Scenario>, report: &Report, runs_max: u64, interrupt: &Interrupt) -> Option<Shrunk> {
    let progress = Progress::new(runs_max, Instant::now(), true);
    let goes_on = |runs| {
        progress.set(runs, || format!("shrinking seed {}", report.seed));
        interrupt.goes_on()
    };
    let shrunk = shrink::shrink_while(scenario, report, runs_max, &goes_on);
    progress.clear();
    shrunk
}

/// A file of the folder of regressions with nothing left to chance.
fn is_shrunk_already(entry: &Entry) -> bool {
    let folder = Path::new(&entry.path).parent().and_then(Path::file_name);
    !entry.is_random() && folder.is_some_and(|folder| folder == REGRESSIONS)
}

fn file_text(entry: &Entry, seed: u64, shrunk: &Shrunk) -> String {
    let name =
        Path::new(&entry.path).file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
    shrunk.to_file(&format!("{name}, seed {seed}"))
}

fn summary(shrunk: &Shrunk, interrupt: &Interrupt) -> String {
    let (before, after) = shrunk.deviations;
    let more = match shrunk.is_done {
        true => "",
        false if interrupt.has_come() => ", then interrupted: it may get smaller still",
        false => ", and none were left for more",
    };
    format!(
        "shrunk from {} to {after} in {}{more}",
        count(before as u64, "deviation"),
        count(shrunk.runs, "run")
    )
}

fn replay(path: &Path, shrunk: &Shrunk) -> String {
    let seed = if shrunk.seed == 1 { String::new() } else { format!(" --seed {}", shrunk.seed) };
    format!("cargo sim run {}{seed}", shell_word(&path.display().to_string()))
}

/// The file asked for, or one of the folder asked for, or one of `regressions/` beside the scenario.
fn target(entry: &Entry, shrunk: &Shrunk, seed: u64, out: Option<&Path>) -> PathBuf {
    if let Some(file) = out.filter(|out| out.extension().is_some_and(|extension| extension == "toml")) {
        return file.to_owned();
    }
    let path = Path::new(&entry.path);
    let stem = path.file_stem().map_or_else(|| "scenario".into(), |stem| stem.to_string_lossy());
    let beside = || {
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        let is_there = folder.file_name().is_some_and(|name| name == REGRESSIONS);
        if is_there { folder.to_owned() } else { folder.join(REGRESSIONS) }
    };
    let folder = out.map_or_else(beside, Path::to_owned);
    folder.join(format!("{stem}-{}-seed-{seed}.toml", shrunk.property))
}

fn save(path: &Path, text: &str) -> anyhow::Result<()> {
    let shown = path.display();
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).with_context(|| format!("the folder of {shown}"))?;
    }
    std::fs::write(path, text).with_context(|| format!("writing {shown}"))
}
