//! The table of a campaign, what is worth a line, and after it what is wrong.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ackward_sim::choice::Kind;
use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, Table, presets};

use super::fuzz::Finding;
use super::text::{self, grouped, span};
use super::{has_colour, ranges};

const HEADER: [&str; 4] = ["scenario", "seeds", "seeds/s", "verdict"];
/// What comes before the verdict's end with `--details`.
const DETAILS: [&str; 4] = ["distinct", "simulated", "faults with effect", "reached"];
/// Columns of numbers: aligned to the right.
const NUMBERS: [&str; 4] = ["seeds", "seeds/s", "distinct", "simulated"];

/// How findings are shown.
pub(crate) struct Shown {
    /// With all columns.
    pub(crate) details: bool,
    /// How long it took.
    pub(crate) took: Duration,
    /// What the last line says about the seeds.
    pub(crate) about: String,
}

/// Prints the findings; those of scenarios on another net than their own, `abroad`, share one line.
pub(crate) fn print(
    output: &mut impl Write,
    findings: &[Finding],
    abroad: &[Finding],
    shown: &Shown,
) -> io::Result<()> {
    writeln!(output, "{}", table(findings, shown.details).trim_fmt())?;
    for finding in findings {
        let inert = finding.outcome.tally.inert(&finding.entry.scenario);
        if !inert.is_empty() {
            writeln!(output, "{}: without any effect: {}", finding.entry.path, inert.join(", "))?;
        }
    }
    for Finding { entry, outcome, .. } in findings.iter().chain(abroad) {
        for (deviation, seeds) in &outcome.tally.unmet {
            let seeds = text::count(*seeds, "seed");
            writeln!(output, "{}: warning: did not happen in {seeds}: {deviation}", entry.path)?;
        }
        for (start, count) in &outcome.given_up {
            let seeds = ranges::shown(*start, *count);
            writeln!(
                output,
                "{}: warning: still running when time was up, not counted: {seeds}",
                entry.path
            )?;
        }
    }
    print_share(output, abroad)?;
    writeln!(output, "{}", summary(findings, abroad, shown))?;
    // Last, so that the last line is a command that shows what is wrong.
    for finding in findings.iter().chain(abroad) {
        if let Some(problem) = &finding.problem {
            writeln!(output, "\n{}", problem.in_full(&finding.entry))?;
        }
    }
    Ok(())
}

/// How many columns standard output has. None where it is no terminal, or one that does not know: it then gets what a
/// pipe gets, of which nothing is broken in two.
pub(crate) fn width() -> Option<u16> {
    if !io::stdout().is_terminal() {
        return None;
    }
    Table::new().width().filter(|width| *width > 0)
}

fn table(findings: &[Finding], details: bool) -> Table {
    let mut table = Table::new();
    let width = width();
    if width.is_some() {
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    } else {
        table.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    }
    if !io::stdout().is_terminal() {
        table.force_no_tty();
    }
    let folder = if width.is_some() { common_folder(findings) } else { PathBuf::new() };
    let header: Vec<_> = if details { HEADER.into_iter().chain(DETAILS).collect() } else { HEADER.to_vec() };
    table.set_header(&header);
    let has_colour = has_colour();
    for finding in findings {
        table.add_row(row(finding, &folder, details, has_colour));
    }
    for (at, _) in header.iter().enumerate().filter(|(_, name)| NUMBERS.contains(name)) {
        if let Some(column) = table.column_mut(at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// `38 scenarios held, 2 of them caught as they must be, 12,345 seeds, 20 s`.
fn summary(findings: &[Finding], abroad: &[Finding], shown: &Shown) -> String {
    let all = || findings.iter().chain(abroad);
    let count = findings.len();
    // A scenario that fails on either net has failed once.
    let mut failed: Vec<_> =
        all().filter(|finding| finding.problem.is_some()).map(|finding| &finding.entry.path).collect();
    failed.sort();
    failed.dedup();
    let unrun = findings.iter().filter(|f| f.problem.is_none() && f.outcome.tally.seeds == 0).count();
    let held = count - unrun;
    let unrun = if unrun == 0 { String::new() } else { format!(", {unrun} not run") };
    let verdict = match failed.len() {
        0 => format!("{} held{}", text::count(held as u64, "scenario"), caught(findings)),
        failed => format!("{failed} of {} did not hold", text::count(count as u64, "scenario")),
    };
    let seeds = text::count(all().map(|finding| finding.outcome.tally.seeds).sum(), "seed");
    format!("{verdict}{unrun}, {seeds}{}, {} s", shown.about, shown.took.as_secs_f64().round())
}

/// What is said of scenarios that hold in that they fail.
fn caught(findings: &[Finding]) -> String {
    match findings.iter().filter(|finding| finding.is_caught()).count() {
        0 => String::new(),
        caught => format!(", {caught} of them caught as {} must be", if caught == 1 { "it" } else { "they" }),
    }
}

fn print_share(output: &mut impl Write, findings: &[Finding]) -> io::Result<()> {
    let Some(first) = findings.first() else { return Ok(()) };
    let net = first.entry.scenario.net.as_str();
    let seeds: u64 = findings.iter().map(|finding| finding.outcome.tally.seeds).sum();
    if seeds == 0 && findings.iter().all(|finding| finding.problem.is_none()) {
        // Interrupted before its turn.
        return Ok(());
    }
    let failed = findings.iter().filter(|finding| finding.problem.is_some()).count();
    let verdict = if failed == 0 { "all held".to_owned() } else { format!("{failed} did not hold") };
    let (scenarios, seeds) = (text::count(findings.len() as u64, "scenario"), text::count(seeds, "seed"));
    writeln!(output, "with {net} as the net: {scenarios}, {seeds}, {verdict}")
}

fn row(finding: &Finding, folder: &Path, details: bool, has_colour: bool) -> Vec<Cell> {
    let Finding { entry, outcome, problem } = finding;
    let tally = &outcome.tally;
    let verdict = Cell::new(finding.word());
    let colour = if problem.is_some() { Color::Red } else { Color::Green };
    let verdict = if has_colour { verdict.fg(colour) } else { verdict };
    let per_second = tally.seeds as f64 / outcome.seconds.max(1e-6);
    let mut row = vec![
        Cell::new(name(&entry.path, folder)),
        Cell::new(grouped(tally.seeds)),
        Cell::new(grouped(per_second as u64)),
        verdict,
    ];
    if details {
        row.extend([
            Cell::new(grouped(tally.hashes.len() as u64)),
            Cell::new(span(tally.virtual_us)),
            Cell::new(faults(finding)),
            Cell::new(reached(finding)),
        ]);
    }
    row
}

/// The folder that holds all of the scenarios.
fn common_folder(findings: &[Finding]) -> PathBuf {
    let mut folders = findings.iter().map(|finding| Path::new(&finding.entry.path).parent());
    let mut common = folders.next().flatten().map_or_else(PathBuf::new, Path::to_owned);
    for folder in folders {
        while !folder.is_some_and(|folder| folder.starts_with(&common)) && common.pop() {}
    }
    common
}

/// On a terminal, which may be narrow, without what all have in common; elsewhere `folder` is empty, and it is a path
/// to be copied.
fn name(path: &str, folder: &Path) -> String {
    let short = Path::new(path).strip_prefix(folder).ok().filter(|_| folder != Path::new(""));
    short.map_or_else(|| path.to_owned(), |short| short.with_extension("").display().to_string())
}

/// `kill 12, stall 3`: how often each kind of fault had an effect.
fn faults(finding: &Finding) -> String {
    let effective = &finding.outcome.tally.effective;
    let counts = Kind::ALL.iter().zip(effective).filter(|(_, count)| **count > 0);
    let counts: Vec<_> =
        counts.map(|(kind, count)| format!("{} {}", kind.as_str(), grouped(*count))).collect();
    if counts.is_empty() { "none".to_owned() } else { counts.join(", ") }
}

/// What was reached, then what the scenario expects and nobody has seen yet.
fn reached(finding: &Finding) -> String {
    let reached = finding.outcome.tally.milestones();
    let expected = finding.entry.scenario.expect.sometimes.iter();
    let missing =
        expected.filter(|word| !reached.iter().any(|milestone| milestone.as_str() == word.as_str()));
    let reached = reached.iter().map(|milestone| milestone.as_str().to_owned());
    let all: Vec<_> = reached.chain(missing.map(|word| format!("NOT {word}"))).collect();
    all.join(", ")
}
