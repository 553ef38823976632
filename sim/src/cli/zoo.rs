//! `cargo sim zoo`: every planted mistake, and how soon it is caught.

use std::cell::Cell;
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

use ackward_sim::computer::Recording;
use ackward_sim::scenario::{Scenario, suggestion};
use ackward_sim::twin;
use ackward_sim::zoo::{self, COLUMNS, Exhibit, Score, median};
use anyhow::Context;
use clap::{Args, Subcommand};
use comfy_table::{ContentArrangement, Table, TableStyle, presets};
use serde::Serialize;

use super::folder::{Entry, find};
use super::interrupt::Interrupt;
use super::progress::Progress;
use super::table::width;
use super::text::{self, count};
use super::{Exit, SEED_MAX, json, panics, run, unless_closed};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ZooArgs {
    #[command(subcommand)]
    command: Option<ZooCommand>,
    /// How many hunts for each mistake, each beginning with a seed of its own, 1 to 100.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = text::whole(1, 100))]
    starts: u64,
    /// Within how many seeds a hunt must find its mistake, 1 to 1000000.
    #[arg(long, value_name = "N", default_value_t = zoo::SEEDS_MAX, value_parser = text::whole(1, 1_000_000))]
    seeds: u64,
    /// Only the mistake of this name; may be given several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Print one JSON object instead; timings are apart, under `timings`.
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum ZooCommand {
    /// Finds one planted mistake and tells the story of it.
    #[command(after_help = "Example:
  cargo sim zoo run stale-finish")]
    Run(ZooRunArgs),
}

#[derive(Args)]
struct ZooRunArgs {
    /// The name, as `cargo sim zoo` prints it.
    name: String,
    /// Run this seed only, 0 to 2^63-1; else the first one that finds the mistake.
    #[arg(long, value_name = "N", value_parser = text::whole(0, SEED_MAX))]
    seed: Option<u64>,
    /// Also list every call into the operating system with its point's name.
    #[arg(long)]
    trace: bool,
}

#[derive(Serialize)]
struct Timing {
    name: String,
    median_seconds: Option<f64>,
}

#[derive(Serialize)]
struct Board {
    exhibits: Vec<Score>,
    survivors: Vec<String>,
    /// How many mistakes an interrupt has left.
    #[serde(skip_serializing_if = "is_zero")]
    left: usize,
    /// The only part that differs from one time to the next.
    timings: Vec<Timing>,
}

/// Runs the command.
pub(crate) fn zoo(folder: Option<&Path>, args: &ZooArgs) -> anyhow::Result<Exit> {
    let folder = find(folder)?;
    match &args.command {
        Some(ZooCommand::Run(args)) => tell(&folder, args),
        None => score_all(&folder, args),
    }
}

fn score_all(folder: &Path, args: &ZooArgs) -> anyhow::Result<Exit> {
    let all = zoo::exhibits();
    let only: Vec<&Exhibit> = args.only.iter().map(|name| named(&all, name)).collect::<Result<_, _>>()?;
    let exhibits = if only.is_empty() { all.iter().collect() } else { only };
    let interrupt = Interrupt::listen()?;
    let progress = Progress::new(exhibits.len() as u64, Instant::now(), !args.json);
    let all = exhibits.len();
    let mut board = Board { exhibits: Vec::new(), survivors: Vec::new(), left: 0, timings: Vec::new() };
    for (at, exhibit) in exhibits.iter().enumerate() {
        if interrupt.has_come() {
            break;
        }
        let goes_on = || {
            progress.set(at as u64, || exhibit.name.clone());
            interrupt.goes_on()
        };
        let entry = load(folder, exhibit)?;
        let scored = panics::guarded(|| score(exhibit, entry.scenario.clone(), args, &goes_on));
        let scored = scored.map_err(|panic| anyhow::anyhow!("{}: {panic}", exhibit.name))?;
        // One that was being hunted has not got away.
        let Some((score, timing)) = scored else { break };
        board.survivors.extend(score.has_survived().then(|| exhibit.name.clone()));
        board.exhibits.push(score);
        board.timings.push(timing);
    }
    progress.clear();
    board.left = all - board.exhibits.len();
    let mut output = io::stdout().lock();
    let printed = if args.json { json::print(&mut output, &board) } else { print(&mut output, &board, args) };
    unless_closed(printed.and_then(|()| output.flush()).map_err(Into::into))?;
    Ok(interrupt.or(if board.survivors.is_empty() { Exit::Held } else { Exit::Failed }))
}

/// None where it was not to go on.
fn score(
    exhibit: &Exhibit,
    scenario: Scenario,
    args: &ZooArgs,
    goes_on: &dyn Fn() -> bool,
) -> Option<(Score, Timing)> {
    let planted = exhibit.planted(scenario);
    let (mut found, mut seconds) = (Vec::new(), Vec::new());
    for at in 0..args.starts {
        let began = Instant::now();
        found.push(zoo::hunt_while(&planted, zoo::start(at), args.seeds, goes_on));
        seconds.push(began.elapsed().as_secs_f64());
    }
    let score = Score::new(exhibit, &planted, &found, goes_on);
    let timing = Timing { name: exhibit.name.clone(), median_seconds: median(seconds) };
    goes_on().then_some((score, timing))
}

fn print(output: &mut impl Write, board: &Board, args: &ZooArgs) -> io::Result<()> {
    writeln!(output, "{}", table(board, width().map(usize::from)))?;
    let (all, starts) = (board.exhibits.len(), args.starts);
    let survivors = if board.survivors.is_empty() { "none".to_owned() } else { board.survivors.join(", ") };
    let left = match board.left {
        0 => String::new(),
        left => format!(", interrupted before {left} more"),
    };
    let (mistakes, seeds) = (count(all as u64, "mistake"), count(starts, "seed"));
    writeln!(output, "{mistakes}, each hunted from {seeds} on{left}. Survivors: {survivors}")
}

/// The column before which the timings stand.
const TIMINGS_AT: usize = 5;
const TIMINGS: &str = "median ms";
/// What a terminal goes without that is too narrow for all columns, in this order.
const DISPENSABLE: [&str; 6] = ["kind", TIMINGS, "found by", "rows", "shrunk to", "median seeds"];

/// The board as a table, on a terminal of a width in columns or on none. Nothing is ever broken in two.
fn table(board: &Board, width: Option<usize>) -> String {
    let mut rows = vec![with_time(COLUMNS.map(str::to_owned), TIMINGS.to_owned())];
    for (score, timing) in board.exhibits.iter().zip(&board.timings) {
        let took = timing.median_seconds.map(|seconds| format!("{:.1}", seconds * 1_000.0));
        rows.push(with_time(score.cells(), took.unwrap_or_else(|| "-".to_owned())));
    }
    let Some(width) = width else { return drawn(&rows, presets::ASCII_MARKDOWN, false) };
    let fits = |text: &String| text.lines().all(|line| line.chars().count() <= width);
    let mut text = drawn(&rows, presets::UTF8_HORIZONTAL_ONLY, true);
    for name in DISPENSABLE {
        if fits(&text) {
            break;
        }
        if let Some(at) = rows[0].iter().position(|column| column == name) {
            rows.iter_mut().for_each(|row| drop(row.remove(at)));
        }
        text = drawn(&rows, presets::UTF8_HORIZONTAL_ONLY, true);
    }
    text
}

fn with_time(cells: [String; COLUMNS.len()], time: String) -> Vec<String> {
    let mut cells = Vec::from(cells);
    cells.insert(TIMINGS_AT, time);
    cells
}

/// A header and its rows, with two spaces between columns where they are to stand close.
fn drawn(rows: &[Vec<String>], style: TableStyle, is_close: bool) -> String {
    let mut table = Table::new();
    table.load_style(style).set_content_arrangement(ContentArrangement::Disabled);
    for (at, row) in rows.iter().enumerate() {
        if at == 0 {
            table.set_header(row)
        } else {
            table.add_row(row)
        };
    }
    let last = table.column_count().saturating_sub(1);
    for at in (0..=last).filter(|_| is_close) {
        if let Some(column) = table.column_mut(at) {
            column.set_padding((0, u16::from(at < last)));
        }
    }
    table.trim_fmt()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_zero(left: &usize) -> bool {
    *left == 0
}

/// One mistake and its story.
fn tell(folder: &Path, args: &ZooRunArgs) -> anyhow::Result<Exit> {
    let exhibits = zoo::exhibits();
    let exhibit = named(&exhibits, &args.name)?;
    let entry = load(folder, exhibit)?;
    let planted = exhibit.planted(entry.scenario.clone());
    let (start, seeds) = args.seed.map_or((zoo::start(0), zoo::SEEDS_MAX), |seed| (seed, 1));
    let recording = if args.trace { Recording::Calls } else { Recording::Story };
    let interrupt = Interrupt::listen()?;
    let tried = Cell::new(0);
    let goes_on = || {
        tried.set(tried.get() + u64::from(interrupt.goes_on()));
        interrupt.goes_on()
    };
    let report = panics::guarded(|| {
        zoo::hunt_while(&planted, start, seeds, &goes_on)
            .map(|found| twin::run(&planted, found.seed, recording))
    });
    let Some(report) = report.map_err(anyhow::Error::msg)? else {
        let (name, path) = (&exhibit.name, &entry.path);
        let (seeds, was) =
            (count(tried.get(), "seed"), if interrupt.has_come() { "interrupted, " } else { "" });
        let told = writeln!(io::stdout(), "{name}: {was}not found in {seeds} from {start} on in {path}");
        unless_closed(told.map_err(Into::into))?;
        return Ok(interrupt.or(Exit::Failed));
    };
    let property = report.violations.first().map_or("nothing", |violation| violation.property);
    let mut output = io::BufWriter::new(io::stdout().lock());
    let mut print = || -> io::Result<()> {
        run::tell(&mut output, &report, &format!("caught by {property}"), zoo::UNIFORM)?;
        writeln!(output, "\n{}: {} in {}", exhibit.name, exhibit.flaw.word(), entry.path)?;
        for violation in &report.violations {
            writeln!(output, "  {}: {}", violation.property, violation.detail)?;
        }
        writeln!(output, "cargo sim zoo run {} --seed {}", exhibit.name, report.seed)?;
        output.flush()
    };
    unless_closed(print().map_err(Into::into))?;
    Ok(Exit::Held)
}

fn named<'e>(exhibits: &'e [Exhibit], name: &str) -> anyhow::Result<&'e Exhibit> {
    let found = exhibits.iter().find(|exhibit| exhibit.name == name);
    found.with_context(|| {
        let names: Vec<&str> = exhibits.iter().map(|exhibit| exhibit.name.as_str()).collect();
        let near = suggestion(name, &names);
        format!("there is no mistake {name:?}, allowed: one that `cargo sim zoo` lists{near}")
    })
}

fn load(folder: &Path, exhibit: &Exhibit) -> anyhow::Result<Entry> {
    Entry::load(&folder.join(format!("{}.toml", exhibit.scenario)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every mistake, each caught by the property with the longest name.
    fn board() -> Board {
        let longest =
            ackward_sim::scenario::vocabulary::properties().into_iter().max_by_key(|name| name.len());
        let score = |exhibit: Exhibit| Score {
            name: exhibit.name,
            kind: exhibit.kind,
            rows: exhibit.rows,
            system: exhibit.flaw.word(),
            scenario: exhibit.scenario,
            strategy: zoo::UNIFORM,
            seeds: vec![Some(1)],
            median_seeds: Some(2_000),
            property: longest.map(str::to_owned),
            deviations: Some(1_000),
            shrunk_deviations: Some(1_000),
        };
        let exhibits: Vec<_> = zoo::exhibits().into_iter().map(score).collect();
        let timings = exhibits.iter();
        let timings =
            timings.map(|score| Timing { name: score.name.clone(), median_seconds: Some(9.0) }).collect();
        Board { exhibits, survivors: Vec::new(), left: 0, timings }
    }

    fn width(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    fn columns(text: &str) -> Vec<&str> {
        let header = text.lines().nth(1).unwrap();
        header.split("  ").map(str::trim).filter(|name| !name.is_empty()).collect()
    }

    #[test]
    fn a_narrow_terminal_goes_without_columns_one_after_the_other_but_breaks_no_name() {
        let board = board();
        let all =
            ["mistake", "kind", "rows", "found by", "median seeds", "median ms", "shrunk to", "caught by"];
        let mut left = all.to_vec();
        let mut text = table(&board, Some(1_000));
        for dispensable in DISPENSABLE {
            assert_eq!(columns(&text), left);
            let needed = width(&text);
            assert_eq!(table(&board, Some(needed)), text, "it fits exactly");
            text = table(&board, Some(needed - 1));
            left.retain(|name| *name != dispensable);
        }
        assert_eq!(columns(&text), left);
        assert_eq!(left, ["mistake", "caught by"]);
        let usual = table(&board, Some(80));
        assert!(width(&usual) <= 80, "all of the zoo fits the usual terminal");
        assert_eq!(columns(&usual), ["mistake", "median seeds", "caught by"]);
        let narrowest = table(&board, Some(1));
        assert_eq!(narrowest, text);
        for exhibit in zoo::exhibits() {
            let is_whole = |line: &str| line.split_whitespace().next() == Some(&exhibit.name);
            assert!(narrowest.lines().any(is_whole), "{} is not whole in {narrowest}", exhibit.name);
        }
        let piped = table(&board, None);
        assert!(piped.starts_with("| mistake "), "{piped}");
    }
}
