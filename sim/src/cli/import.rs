//! `cargo sim import`: an incident from production, found again from a seed.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use ackward_sim::import::{Draft, Finding, Found, Gap, Likeness, Log, Lost, SearchOptions, draft, search};
use ackward_sim::outside;
use anyhow::{Context, bail};
use serde::Serialize;

use super::interrupt::Interrupt;
use super::progress::Progress;
use super::text::{count, shell_word};
use super::{Exit, ImportArgs, json, panics, unless_closed};

/// Largest log, in bytes.
const LEN_MAX: u64 = 64 << 20;
/// Jobs that are named one by one.
const JOBS_SHOWN: usize = 10;

/// Runs the command.
pub(crate) fn import(args: &ImportArgs) -> anyhow::Result<Exit> {
    let files: Vec<_> = args.files.iter().map(|path| read(path)).collect::<anyhow::Result<_>>()?;
    let log = Log::read(&files)?;
    let out = Out::new(args)?;
    let draft = if log.known().next().is_none() { None } else { Some(draft(&log)?) };
    let interrupt = Interrupt::listen()?;
    let found = match &draft {
        Some(draft) => again(args, &log, draft, &interrupt)?,
        None => None,
    };
    if let Some(found) = &found {
        unless_closed(out.write(&text(&log, found)))?;
    }
    let command = found.as_ref().and_then(|found| out.replay(found.seed));
    let told = if args.json {
        json::print(
            &mut io::stdout().lock(),
            &report(&log, draft.as_ref(), found.as_ref(), command.as_deref()),
        )
    } else {
        // Where standard output is the file, it is nothing else.
        let mut output: Box<dyn Write> = match out {
            Out::Stdout => Box::new(io::stderr().lock()),
            Out::File(_) => Box::new(io::stdout().lock()),
        };
        tell(&mut output, &log, draft.as_ref(), found.as_ref(), &out, command.as_deref())
    };
    unless_closed(told.map_err(Into::into))?;
    if interrupt.has_come() {
        writeln!(io::stderr(), "{}", interrupted(args.seeds, found.as_ref()))?;
    }
    Ok(interrupt.or(exit(&log, found.as_ref())))
}

/// What an interrupt has left undone, of a search of so many seeds.
fn interrupted(seeds: u64, found: Option<&Found>) -> String {
    match found {
        Some(found) if found.likeness.is_exact || found.seeds == seeds => {
            "interrupted: fewer deviations may do".to_owned()
        }
        _ => format!("interrupted: not all of {} were searched", count(seeds, "seed")),
    }
}

fn exit(log: &Log, found: Option<&Found>) -> Exit {
    match found {
        _ if !log.findings.is_empty() => Exit::Failed,
        Some(found) if !found.broken.is_empty() => Exit::Failed,
        Some(found) if found.likeness.is_exact => Exit::Held,
        _ => Exit::NotFound,
    }
}

fn read(path: &Path) -> anyhow::Result<(String, Vec<u8>)> {
    let name = path.display().to_string();
    let bytes = outside::read(path, LEN_MAX).with_context(|| {
        format!("{name}: cannot be read, allowed: an event log of `ackward work --events FILE`")
    })?;
    Ok((name, bytes))
}

fn again(
    args: &ImportArgs,
    log: &Log,
    draft: &Draft,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Found>> {
    let options = SearchOptions { start: args.start, seeds: args.seeds };
    let progress = Progress::new(args.seeds, Instant::now(), !args.json);
    let found = panics::guarded(|| {
        search(log, draft, options, |seeds| {
            progress.set(seeds, || "searching".to_owned());
            interrupt.goes_on()
        })
    });
    progress.clear();
    found.map_err(anyhow::Error::msg)
}

/// Where the scenario goes.
enum Out {
    Stdout,
    File(PathBuf),
}

impl Out {
    fn new(args: &ImportArgs) -> anyhow::Result<Self> {
        match &args.out {
            Some(path) if path == Path::new("-") && args.json => {
                bail!("--out - is standard output, where --json prints, allowed: a file")
            }
            Some(path) if path == Path::new("-") => Ok(Self::Stdout),
            Some(path) if path.extension().is_some_and(|extension| extension == "toml") => {
                Ok(Self::File(path.clone()))
            }
            Some(path) => bail!("--out is {}, allowed: a file *.toml, or -", path.display()),
            None => {
                let stem = args.files.first().and_then(|path| path.file_stem()).unwrap_or_default();
                let path = PathBuf::from(stem).with_extension("toml");
                if path.exists() {
                    bail!("{}: is there already; --out PATH names another file", path.display());
                }
                Ok(Self::File(path))
            }
        }
    }

    fn write(&self, text: &str) -> anyhow::Result<()> {
        match self {
            Self::Stdout => Ok(write!(io::stdout().lock(), "{text}")?),
            Self::File(path) => {
                fs::write(path, text).with_context(|| format!("{}: cannot be written", path.display()))
            }
        }
    }

    fn replay(&self, seed: u64) -> Option<String> {
        let Self::File(path) = self else { return None };
        Some(format!("cargo sim run {} --seed {seed}", shell_word(&path.display().to_string())))
    }
}

/// The scenario file, with the story of its deviations.
fn text(log: &Log, found: &Found) -> String {
    let Likeness { same, of, .. } = &found.likeness;
    let mut text = format!(
        "# Imported from {}; with --seed {}, {same} of {of} steps are the same.\n",
        log.files.join(", "),
        found.seed
    );
    for deviation in &found.scenario.deviations {
        text.push_str(&format!("# {}\n", deviation.in_words()));
    }
    text + &found.scenario.to_toml()
}

/// What a gap has taken.
fn missing(log: &Log, gap: &Gap) -> String {
    let GapJson { file, line, lost, since_ms, until_ms, unknown_jobs } = GapJson::of(log, gap);
    let lost = count(lost, "event");
    let jobs = match unknown_jobs {
        [] => "no job that the logs know was under way".to_owned(),
        [job] => format!("job {job} is unknown from there on"),
        jobs => {
            let shown = jobs.iter().take(JOBS_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = jobs.len().saturating_sub(JOBS_SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("jobs {shown}{more} are unknown from there on")
        }
    };
    format!("{file}:{line}: {lost} could not be written, from {since_ms} to {until_ms} ms: {jobs}")
}

fn tell(
    output: &mut impl Write,
    log: &Log,
    draft: Option<&Draft>,
    found: Option<&Found>,
    out: &Out,
    command: Option<&str>,
) -> io::Result<()> {
    for finding in &log.findings {
        writeln!(output, "{finding}")?;
    }
    for line in &log.torn {
        writeln!(output, "note: {line}: cut short, and passed over")?;
    }
    for gap in &log.gaps {
        writeln!(output, "note: {}", missing(log, gap))?;
    }
    for note in draft.iter().flat_map(|draft| &draft.notes) {
        writeln!(output, "note: {note}")?;
    }
    let findings = match log.findings.len() {
        0 => "the contract was kept".to_owned(),
        times => format!("the contract was not kept, {}", count(times as u64, "time")),
    };
    let (lines, logs) = (count(log.lines.len() as u64, "line"), count(log.files.len() as u64, "log"));
    writeln!(output, "{lines} of {logs}: {findings}")?;
    let Some(found) = found else { return writeln!(output, "no run replays what the logs say") };
    let Likeness { same, of, is_exact, differs } = &found.likeness;
    let (seeds, seed) = (count(found.seeds, "seed"), found.seed);
    if *is_exact {
        writeln!(output, "found again: seed {seed} does all {}, after {seeds}", count(*of as u64, "step"))?;
    } else {
        writeln!(
            output,
            "not found again in {seeds}; the nearest, seed {seed}, does {same} of {}",
            count(*of as u64, "step")
        )?;
    }
    if let Some(differs) = differs {
        writeln!(output, "  first difference: {differs}")?;
    }
    for broken in &found.broken {
        writeln!(output, "  it breaks {broken}")?;
    }
    if let Out::File(path) = out {
        let deviations = count(found.scenario.deviations.len() as u64, "deviation");
        writeln!(output, "{}: {deviations}", path.display())?;
    }
    command.map_or(Ok(()), |command| writeln!(output, "{command}"))
}

#[derive(Serialize)]
struct ImportJson<'a> {
    files: &'a [String],
    lines: usize,
    findings: &'a [Finding],
    torn: &'a [String],
    gaps: Vec<GapJson<'a>>,
    notes: &'a [String],
    jobs: usize,
    workers: usize,
    found: Option<FoundJson<'a>>,
    command: Option<&'a str>,
}

#[derive(Serialize)]
struct GapJson<'a> {
    file: &'a str,
    line: usize,
    lost: u64,
    since_ms: i64,
    until_ms: i64,
    unknown_jobs: &'a [String],
}

impl<'a> GapJson<'a> {
    fn of(log: &'a Log, gap: &'a Gap) -> Self {
        let Gap { file, number, lost: Lost { count, since_ms, until_ms }, jobs } = gap;
        let file = log.files.get(*file).map_or("", String::as_str);
        Self {
            file,
            line: *number,
            lost: *count,
            since_ms: *since_ms,
            until_ms: *until_ms,
            unknown_jobs: jobs,
        }
    }
}

#[derive(Serialize)]
struct FoundJson<'a> {
    seed: u64,
    seeds: u64,
    #[serde(flatten)]
    likeness: &'a Likeness,
    broken: &'a [String],
    deviations: Vec<String>,
}

fn report<'a>(
    log: &'a Log,
    draft: Option<&'a Draft>,
    found: Option<&'a Found>,
    command: Option<&'a str>,
) -> ImportJson<'a> {
    ImportJson {
        files: &log.files,
        lines: log.lines.len(),
        findings: &log.findings,
        torn: &log.torn,
        gaps: log.gaps.iter().map(|gap| GapJson::of(log, gap)).collect(),
        notes: draft.map_or(&[], |draft| &draft.notes),
        jobs: draft.map_or(0, |draft| draft.scenario.jobs.len()),
        workers: draft.map_or(0, |draft| draft.scenario.workers.len()),
        found: found.map(|found| FoundJson {
            seed: found.seed,
            seeds: found.seeds,
            likeness: &found.likeness,
            broken: &found.broken,
            deviations: found.scenario.deviations.iter().map(ToString::to_string).collect(),
        }),
        command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_says_what_was_left_undone() {
        let text = "about = \"x\"\n[[job]]\nid = \"a\"\n[[worker]]\nname = \"w\"\n";
        let scenario = ackward_sim::scenario::Scenario::parse("x.toml", text.as_bytes()).unwrap();
        let found = |seeds, is_exact| {
            let likeness = Likeness { same: 1, of: 2, is_exact, differs: None };
            Some(Found { seed: 1, likeness, scenario: scenario.clone(), broken: Vec::new(), seeds })
        };
        let searching = "interrupted: not all of 100,000 seeds were searched";
        let shrinking = "interrupted: fewer deviations may do";
        for (found, said) in [
            (None, searching),
            (found(7, false), searching),
            (found(7, true), shrinking),
            (found(100_000, false), shrinking),
        ] {
            assert_eq!(interrupted(100_000, found.as_ref()), said);
        }
    }
}
