//! `cargo sim bench`: how fast simulations run on one core, and where the time goes.
//!
//! The measurements alternate within each round, so that a machine that gets slower meanwhile slows all of
//! them, and the median of the rounds is printed.

mod sweep;

use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use ackward_sim::computer::{Measured, Recording, measure};
use ackward_sim::scenario::{Net, Scenario};
use ackward_sim::scene::{self, Real, RunOptions};

use super::folder::{Entry, find};
use super::interrupt::Interrupt;
use super::progress::Progress;
use super::text::{count, grouped};
use super::{Exit, panics};
use sweep::Sweep;

/// How long each measurement takes in each round.
const SLICE: Duration = Duration::from_millis(300);
/// How many measurements a round has.
const MEASUREMENTS: u64 = 7;
/// Judges off.
const UNJUDGED: RunOptions = RunOptions { recording: Recording::Off, judging: false };
/// Judges on.
const JUDGED: RunOptions = RunOptions { recording: Recording::Off, judging: true };

/// What one slice gave.
#[derive(Debug, Clone, Copy, Default)]
struct Slice {
    runs: u64,
    virtual_us: u64,
    seconds: f64,
}

/// What the rounds gave, measurement by measurement.
#[derive(Default)]
struct Rounds {
    race: Vec<Slice>,
    race_unjudged: Vec<Slice>,
    storm: Vec<Slice>,
    storm_unjudged: Vec<Slice>,
    storm_on_turmoil: Vec<Slice>,
    sweep: Vec<Slice>,
    /// Per cent of a storm's time.
    sqlite_percent: Vec<f64>,
}

/// Runs the command.
pub(crate) fn bench(folder: Option<&Path>, rounds: u64) -> anyhow::Result<Exit> {
    let folder = find(folder)?;
    let load = |name: &str| Entry::load(&folder.join(name)).map(|entry| Rc::new(entry.scenario));
    let (race, storm) = (load("two-workers-one-job.toml")?, load("storm.toml")?);
    let storm_on_turmoil = Rc::new(Scenario { net: Net::Turmoil, ..(*storm).clone() });
    let interrupt = Interrupt::listen()?;
    let progress = Progress::new(rounds.saturating_mul(MEASUREMENTS), Instant::now(), true);
    interrupt.end_with({
        let progress = progress.clone();
        move || {
            progress.clear();
            "interrupted: no round counts without all the others, nothing is printed".to_owned()
        }
    });
    let results = panics::guarded(|| {
        let sweep = Sweep::new();
        let mut results = Rounds::default();
        for round in 0..rounds {
            // Between measurements, never within one.
            let next = |at: u64| {
                progress.set(round * MEASUREMENTS + at, || format!("round {} of {rounds}", round + 1));
            };
            next(0);
            results.race.push(seeds(&race, JUDGED));
            next(1);
            results.storm.push(seeds(&storm, JUDGED));
            next(2);
            results.storm_on_turmoil.push(seeds(&storm_on_turmoil, JUDGED));
            next(3);
            results.sweep.push(slice(|i| sweep.run(i)));
            next(4);
            results.race_unjudged.push(seeds(&race, UNJUDGED));
            next(5);
            results.storm_unjudged.push(seeds(&storm, UNJUDGED));
            next(6);
            results.sqlite_percent.push(sqlite_percent(&storm));
        }
        (results, sweep.points())
    });
    progress.clear();
    let (results, points) = results.map_err(anyhow::Error::msg)?;
    let mut output = io::stdout().lock();
    print(&mut output, &results, points, rounds)?;
    output.flush()?;
    Ok(Exit::Held)
}

fn print(output: &mut impl Write, results: &Rounds, points: usize, rounds: u64) -> io::Result<()> {
    let build =
        if cfg!(debug_assertions) { "a debug build: these numbers say little" } else { "release build" };
    writeln!(
        output,
        "one core, {build}; the median of {} of {} ms each",
        count(rounds, "round"),
        SLICE.as_millis()
    )?;
    let mut line = |what: &str, value: f64, unit: &str, aim: &str| {
        writeln!(output, "{what:<46} {:>10} {unit:<8} {aim}", grouped(value as u64))
    };
    let race = "two workers race for one job";
    let storm = "storm: two workers, five jobs, crashes, stalls";
    line(race, rate(&results.race), "seeds/s", "aim 4,000")?;
    line("  without judges", rate(&results.race_unjudged), "seeds/s", "")?;
    line(storm, rate(&results.storm), "seeds/s", "aim 1,500")?;
    line("  without judges", rate(&results.storm_unjudged), "seeds/s", "")?;
    line("  the same with turmoil as the net", rate(&results.storm_on_turmoil), "seeds/s", "")?;
    let times = rate(&results.storm) / rate(&results.storm_on_turmoil);
    line("  built-in against turmoil", times, "x", "aim 20x")?;
    line(
        &format!("a kill at each of a claim's {points} points"),
        rate(&results.sweep),
        "runs/s",
        "aim 5,000",
    )?;
    line("simulated per real time, race", ratio(&results.race), "x", "")?;
    line("simulated per real time, storm", ratio(&results.storm), "x", "aim 20,000x")?;
    line("SQLite's share of a storm", median(results.sqlite_percent.iter().copied()), "%", "")?;
    writeln!(
        output,
        "\nThe share is that of SQLite with the storage code above it: the time inside jobs and outside of their\n\
         calls into the simulated operating system, in a pass of its own without judges, less the cost of\n\
         reading the clock at each crossing."
    )
}

fn rate(slices: &[Slice]) -> f64 {
    median(slices.iter().map(|slice| slice.runs as f64 / slice.seconds))
}

fn ratio(slices: &[Slice]) -> f64 {
    median(slices.iter().map(|slice| slice.virtual_us as f64 / 1e6 / slice.seconds))
}

/// The middle value, the upper one of two.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn seeds(scenario: &Rc<Scenario>, options: RunOptions) -> Slice {
    slice(|i| scene::run_system::<Real>(scenario, i + 1, options).at_us.unsigned_abs())
}

/// Runs for a while; `run` is given its number and returns the virtual time that it took.
fn slice(mut run: impl FnMut(u64) -> u64) -> Slice {
    let began = Instant::now();
    let mut slice = Slice::default();
    while began.elapsed() < SLICE {
        slice.virtual_us += run(slice.runs);
        slice.runs += 1;
    }
    Slice { seconds: began.elapsed().as_secs_f64(), ..slice }
}

/// SQLite's share of unjudged runs, in per cent.
fn sqlite_percent(scenario: &Rc<Scenario>) -> f64 {
    let began = nanoseconds();
    let (_, Measured { inside, readings }) = measure(nanoseconds, || seeds(scenario, UNJUDGED));
    let total = nanoseconds() - began;
    let reading = reading_ns();
    // A reading at each end of an interval: half of each lies inside of it.
    let inside = inside as f64 - readings as f64 / 2.0 * reading;
    let total = total as f64 - readings as f64 * reading;
    100.0 * inside / total
}

/// What one reading of the clock costs, in nanoseconds.
fn reading_ns() -> f64 {
    const READINGS: u32 = 10_000;
    let began = nanoseconds();
    let mut last = began;
    for _ in 0..READINGS {
        last = nanoseconds();
    }
    (last - began) as f64 / f64::from(READINGS)
}

/// A monotonic clock, in nanoseconds.
fn nanoseconds() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
