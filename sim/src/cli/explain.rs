//! `cargo sim explain`: where in a failing run its failure becomes certain, and the nearest run that passes.

use std::io::{self, Write};
use std::time::Instant;

use ackward_sim::computer::Event;
use ackward_sim::explain::{self, Explained, Mark, Passing};
use ackward_sim::scene::Report;
use serde::Serialize;

use super::folder::Entry;
use super::interrupt::Interrupt;
use super::progress::Progress;
use super::text::count;
use super::{Exit, ExplainArgs, json, panics, unless_closed};

/// Width of a full bar, in characters.
const BAR: u64 = 20;

/// Runs the command.
pub(crate) fn explain(args: &ExplainArgs) -> anyhow::Result<Exit> {
    let entry = Entry::load(&args.file)?.on(args.how.net).by(args.how.strategy);
    let interrupt = Interrupt::listen()?;
    let (report, explained) = panics::guarded(|| {
        let strategist = entry.strategist();
        let report = strategist.run(args.seed, false);
        let all = explain::points(&report) * args.samples;
        let progress = Progress::new(all, Instant::now(), !args.json);
        let goes_on = |samples| {
            progress.set(samples, || format!("explaining seed {}", args.seed));
            interrupt.goes_on()
        };
        let explained = explain::explain_while(strategist.scenario(), &report, args.samples, &goes_on);
        progress.clear();
        (report, explained)
    })
    .map_err(anyhow::Error::msg)?;
    let mut output = io::BufWriter::new(io::stdout().lock());
    let told = match &explained {
        explained if args.json => to_json(&mut output, &entry, &report, explained.as_ref()),
        None => writeln!(output, "{}: seed {} holds, there is nothing to explain", entry.path, args.seed),
        Some(explained) => tell(&mut output, &entry, &report, explained, args.samples),
    };
    unless_closed(told.and_then(|()| output.flush()).map_err(Into::into))?;
    Ok(interrupt.or(if explained.is_some() { Exit::Failed } else { Exit::Held }))
}

fn tell(
    output: &mut impl Write,
    entry: &Entry,
    report: &Report,
    explained: &Explained,
    samples: u64,
) -> io::Result<()> {
    writeln!(output, "{}: seed {} breaks {}", entry.path, report.seed, explained.property)?;
    let deviations = count(report.deviations.len() as u64, "deviation");
    writeln!(
        output,
        "\nIt has {deviations}. How many of {samples} runs break the same that keep those down to a line"
    )?;
    writeln!(output, "and draw everything after it anew, from other seeds:\n")?;
    for mark in &explained.curve {
        let last = mark.last.as_ref().map_or("the beginning".to_owned(), ToString::to_string);
        writeln!(output, "{:>4} % {:<20} {last}", percent(mark), bar(mark))?;
    }
    writeln!(output)?;
    conclude(output, explained)?;
    if let Some(Passing { kept, same_events, fails, passes }) = &explained.passing {
        writeln!(
            output,
            "\nThe nearest run that passes has {} and {} in common; then",
            count(*kept as u64, "deviation"),
            count(*same_events as u64, "event")
        )?;
        writeln!(output, "  the failing run: {}", shown(fails.as_ref()))?;
        writeln!(output, "  the passing run: {}", shown(passes.as_ref()))?;
    }
    writeln!(output, "{}", entry.replay(report.seed))
}

/// What the curve says.
fn conclude(output: &mut impl Write, explained: &Explained) -> io::Result<()> {
    if !explained.is_whole {
        let (points, reached) = (explained.points, explained.curve.len());
        return writeln!(
            output,
            "interrupted at point {reached} of {points}: where it becomes certain is not known"
        );
    }
    match (explained.certain_from(), explained.curve.last()) {
        (Some(mark), _) => match &mark.last {
            Some(last) => {
                writeln!(output, "Certain from here on, {} of these runs fail: {last}", of(mark))?;
                return writeln!(output, "  {}", last.in_words());
            }
            None => {
                return writeln!(output, "Certain from the beginning: {} fail, whatever is drawn.", of(mark));
            }
        },
        (None, Some(mark)) => {
            let pass = mark.samples - mark.failed;
            writeln!(
                output,
                "Likely, never quite certain: with every deviation kept {} fail, and {pass} pass by what is drawn after\n\
                 the last of them.",
                of(mark)
            )?;
        }
        (None, None) => return Ok(()),
    }
    let Some((before, after)) = explained.greatest_step() else { return Ok(()) };
    let Some(last) = &after.last else { return Ok(()) };
    writeln!(
        output,
        "The greatest step beyond all points before, from {} to {}: {last}\n  {}",
        of(before),
        of(after),
        last.in_words()
    )
}

/// `38 of 40`.
fn of(mark: &Mark) -> String {
    format!("{} of {}", mark.failed, mark.samples)
}

fn percent(mark: &Mark) -> u64 {
    (mark.failed * 100).checked_div(mark.samples).unwrap_or(0)
}

fn bar(mark: &Mark) -> String {
    let length = (mark.failed * BAR).checked_div(mark.samples).unwrap_or(0);
    "#".repeat(usize::try_from(length).unwrap_or(0))
}

fn shown(event: Option<&Event>) -> String {
    event.map_or("nothing more".to_owned(), |event| event.to_string().trim_start().to_owned())
}

#[derive(Serialize)]
struct ExplainedJson<'a> {
    file: &'a str,
    seed: u64,
    /// None where the seed holds: then there is nothing to explain.
    property: Option<&'a str>,
    curve: Vec<MarkJson>,
    certain_from: Option<usize>,
    /// Whether it was interrupted: then the curve is not whole.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    interrupted: bool,
    passing: Option<PassingJson>,
}

#[derive(Serialize)]
struct MarkJson {
    kept: usize,
    last: Option<String>,
    failed: u64,
    samples: u64,
}

#[derive(Serialize)]
struct PassingJson {
    kept: usize,
    same_events: usize,
    fails: String,
    passes: String,
}

fn to_json(
    output: &mut impl Write,
    entry: &Entry,
    report: &Report,
    explained: Option<&Explained>,
) -> io::Result<()> {
    let mark = |mark: &Mark| MarkJson {
        kept: mark.kept,
        last: mark.last.as_ref().map(ToString::to_string),
        failed: mark.failed,
        samples: mark.samples,
    };
    let passing = |passing: &Passing| PassingJson {
        kept: passing.kept,
        same_events: passing.same_events,
        fails: shown(passing.fails.as_ref()),
        passes: shown(passing.passes.as_ref()),
    };
    let all = ExplainedJson {
        file: &entry.path,
        seed: report.seed,
        property: explained.map(|explained| explained.property),
        curve: explained.iter().flat_map(|explained| &explained.curve).map(mark).collect(),
        certain_from: explained
            .filter(|explained| explained.is_whole)
            .and_then(Explained::certain_from)
            .map(|mark| mark.kept),
        interrupted: explained.is_some_and(|explained| !explained.is_whole),
        passing: explained.and_then(|explained| explained.passing.as_ref()).map(passing),
    };
    json::print(output, &all)
}
