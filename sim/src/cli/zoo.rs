//! `cargo sim zoo`: every planted mistake, and how soon it is caught.

use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Instant;

use ackward_sim::computer::Recording;
use ackward_sim::scenario::{Scenario, suggestion};
use ackward_sim::twin;
use ackward_sim::zoo::{self, COLUMNS, Exhibit, Score, median};
use anyhow::Context;
use clap::{Args, Subcommand};
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use super::folder::{Entry, find};
use super::interrupt::Interrupt;
use super::progress::Progress;
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

/// The column before which the timings stand.
const TIMINGS: usize = 5;

fn print(output: &mut impl Write, board: &Board, args: &ZooArgs) -> io::Result<()> {
    let mut table = Table::new();
    if io::stdout().is_terminal() {
        table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    } else {
        table.load_style(presets::ASCII_MARKDOWN).force_no_tty();
    }
    let with_time = |cells: [String; COLUMNS.len()], time: String| {
        let mut cells = Vec::from(cells);
        cells.insert(TIMINGS, time);
        cells
    };
    table.set_header(with_time(COLUMNS.map(str::to_owned), "median ms".to_owned()));
    for (score, timing) in board.exhibits.iter().zip(&board.timings) {
        let took = timing.median_seconds.map(|seconds| format!("{:.1}", seconds * 1_000.0));
        table.add_row(with_time(score.cells(), took.unwrap_or_else(|| "-".to_owned())));
    }
    writeln!(output, "{}", table.trim_fmt())?;
    let (all, starts) = (board.exhibits.len(), args.starts);
    let survivors = if board.survivors.is_empty() { "none".to_owned() } else { board.survivors.join(", ") };
    let left = match board.left {
        0 => String::new(),
        left => format!(", interrupted before {left} more"),
    };
    let (mistakes, seeds) = (count(all as u64, "mistake"), count(starts, "seed"));
    writeln!(output, "{mistakes}, each hunted from {seeds} on{left}. Survivors: {survivors}")
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
