//! The table of a campaign, and after it what is wrong.

use std::io::{self, IsTerminal, Write};

use ackward_sim::choice::Kind;
use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, Table, presets};

use super::fuzz::Finding;
use super::has_colour;
use super::text::{grouped, span};

const HEADER: [&str; 8] =
    ["scenario", "seeds", "distinct", "simulated", "seeds/s", "faults with effect", "reached", "verdict"];

/// Prints the findings; those of scenarios on another net than their own, `abroad`, share one line.
pub(crate) fn print(output: &mut impl Write, findings: &[Finding], abroad: &[Finding]) -> io::Result<()> {
    let mut table = Table::new();
    if io::stdout().is_terminal() {
        table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    } else {
        table.load_style(presets::ASCII_MARKDOWN).force_no_tty();
    }
    let has_colour = has_colour();
    table.set_header(HEADER);
    for finding in findings {
        table.add_row(row(finding, has_colour));
    }
    for column in 1..=4 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    writeln!(output, "{}", table.trim_fmt())?;
    for finding in findings {
        let inert = finding.outcome.tally.inert(&finding.entry.scenario);
        if !inert.is_empty() {
            writeln!(output, "{}: without any effect: {}", finding.entry.path, inert.join(", "))?;
        }
    }
    for Finding { entry, outcome, .. } in findings.iter().chain(abroad) {
        for (deviation, seeds) in &outcome.tally.unmet {
            let seeds = grouped(*seeds);
            writeln!(output, "{}: warning: did not happen in {seeds} seeds: {deviation}", entry.path)?;
        }
    }
    print_share(output, abroad)?;
    // Last, so that the last line is a command that shows what is wrong.
    for finding in findings.iter().chain(abroad) {
        if let Some(problem) = &finding.problem {
            writeln!(output, "\n{}", problem.in_full(&finding.entry))?;
        }
    }
    Ok(())
}

fn print_share(output: &mut impl Write, findings: &[Finding]) -> io::Result<()> {
    let Some(first) = findings.first() else { return Ok(()) };
    let net = first.entry.scenario.net.as_str();
    let seeds: u64 = findings.iter().map(|finding| finding.outcome.tally.seeds).sum();
    let failed = findings.iter().filter(|finding| finding.problem.is_some()).count();
    let verdict = if failed == 0 { "all held".to_owned() } else { format!("{failed} did not hold") };
    let (scenarios, seeds) = (findings.len(), grouped(seeds));
    writeln!(output, "with {net} as the net: {scenarios} scenarios, {seeds} seeds, {verdict}")
}

fn row(finding: &Finding, has_colour: bool) -> Vec<Cell> {
    let Finding { entry, outcome, problem } = finding;
    let tally = &outcome.tally;
    let coloured = |text: String, colour| {
        let cell = Cell::new(text);
        if has_colour { cell.fg(colour) } else { cell }
    };
    let verdict = match problem {
        None => coloured(outcome.good_word(entry), Color::Green),
        Some(problem) => coloured(problem.word.clone(), Color::Red),
    };
    let per_second = tally.seeds as f64 / outcome.seconds.max(1e-6);
    vec![
        Cell::new(&entry.path),
        Cell::new(grouped(tally.seeds)),
        Cell::new(grouped(tally.hashes.len() as u64)),
        Cell::new(span(tally.virtual_us)),
        Cell::new(grouped(per_second as u64)),
        Cell::new(faults(finding)),
        Cell::new(reached(finding)),
        verdict,
    ]
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
