//! `cargo sim fuzz --cover`: coverage-guided fuzzing of one scenario, with a corpus on disk; and `--minimise`.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use ackward_sim::coverage::corpus::{self, Entry as Listed};
use ackward_sim::coverage::{Failed, Fuzzer, Step, Trial, smallest};
use ackward_sim::scenario::{Scenario, Values};
use anyhow::bail;
use serde::Serialize;

use super::folder::Entry;
use super::interrupt::Interrupt;
use super::progress::Progress;
use super::shrink::automatic;
use super::text::{count, grouped};
use super::{Exit, FuzzArgs, json, millis, panics, unless_closed};

/// How long it takes where nothing is said.
const TIME: Duration = Duration::from_secs(20);

/// Why a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Stop {
    Failure,
    Runs,
    Plateau,
    Time,
    Interrupt,
}

/// What came of a search.
#[derive(Serialize)]
struct Outcome {
    file: String,
    verdict: &'static str,
    stopped: Stop,
    runs: u64,
    behaviours: usize,
    corpus: Sizes,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<Failure>,
    /// The only part that differs from one time to the next.
    timings: Timings,
}

#[derive(Default, Serialize)]
struct Sizes {
    read: usize,
    new: usize,
}

#[derive(Serialize)]
struct Failure {
    run: u64,
    property: String,
    detail: String,
    /// What was not plain of what the scenario lets vary, by path.
    values: Values,
    deviations: Vec<String>,
    notes: Vec<String>,
    is_expected: bool,
}

#[derive(Serialize)]
struct Timings {
    seconds: f64,
}

/// Runs the command.
pub(crate) fn cover(args: &FuzzArgs) -> anyhow::Result<Exit> {
    let [file] = &args.files[..] else {
        bail!(
            "--cover with {} scenario files, allowed: exactly one; run the command once for each",
            args.files.len()
        );
    };
    let mut entry = Entry::load(file)?.on(args.how.net).by(args.how.strategy);
    if !entry.is_random() {
        entry = entry.without_right_values();
    }
    if args.minimise {
        stands_alone(args)?;
        return minimise(&entry, args);
    }
    let began = Instant::now();
    let mut search = Search::new(&entry, args, began, Interrupt::listen()?);
    let (stopped, failed) = search.run()?;
    let failure = failed.map(|failed| failure(&entry, &failed, &search));
    let verdict = verdict(&entry, failure.as_ref());
    let outcome = Outcome {
        file: entry.path.clone(),
        verdict,
        stopped,
        runs: search.fuzzer.runs(),
        behaviours: search.fuzzer.reached(),
        corpus: search.sizes,
        failure,
        timings: Timings { seconds: began.elapsed().as_secs_f64() },
    };
    let mut output = io::stdout().lock();
    let printed =
        if args.json { json::print(&mut output, &outcome) } else { print(&mut output, &outcome, args) };
    unless_closed(printed.map_err(Into::into))?;
    Ok(search.interrupt.or(match verdict {
        "held" | "caught" => Exit::Held,
        _ => Exit::Failed,
    }))
}

/// Sees that nothing limits `--minimise`, which runs what there is.
fn stands_alone(args: &FuzzArgs) -> anyhow::Result<()> {
    let limits = [
        ("--time", args.time.is_some()),
        ("--seeds", args.seeds.is_some()),
        ("--plateau", args.plateau.is_some()),
    ];
    let given: Vec<_> = limits.iter().filter(|(_, is_given)| *is_given).map(|(name, _)| *name).collect();
    let Some(first) = given.first() else { return Ok(()) };
    bail!(
        "--minimise with {first}, allowed: --minimise alone: it runs each list of the corpus once, however long that \
         takes; leave out {}",
        given.join(" and ")
    )
}

/// A search under way.
struct Search<'a> {
    entry: &'a Entry,
    args: &'a FuzzArgs,
    began: Instant,
    deadline: Option<Instant>,
    fuzzer: Fuzzer,
    sizes: Sizes,
    /// The run that reached something new last.
    new_at: u64,
    progress: Progress,
    interrupt: Interrupt,
}

impl<'a> Search<'a> {
    fn new(entry: &'a Entry, args: &'a FuzzArgs, began: Instant, interrupt: Interrupt) -> Self {
        // Without any limit there is the usual time; another limit takes its place.
        let has_other = args.seeds.is_some() || args.plateau.is_some();
        let time = args.time.or((!has_other).then_some(TIME));
        let length = args.seeds.or(time.map(millis)).or(args.plateau).unwrap_or_default();
        Self {
            entry,
            args,
            began,
            deadline: time.map(|time| began + time),
            fuzzer: Fuzzer::new(entry.strategist(), args.start.unwrap_or(1)),
            sizes: Sizes::default(),
            new_at: 0,
            progress: Progress::new(length, began, !args.json),
            interrupt,
        }
    }

    /// The corpus first, then new runs until something says to stop.
    fn run(&mut self) -> anyhow::Result<(Stop, Option<Failed>)> {
        let read = corpus::read(&self.args.corpus)?;
        self.sizes.read = read.len();
        for listed in read {
            if self.interrupt.has_come() {
                self.progress.clear();
                return Ok((Stop::Interrupt, None));
            }
            let step = guarded(|| self.fuzzer.plant(&listed.trial))?;
            if let Some(failed) = self.took(step) {
                self.progress.clear();
                return Ok((Stop::Failure, Some(failed)));
            }
        }
        self.new_at = self.fuzzer.runs();
        loop {
            if let Some(stop) = self.must_stop() {
                self.progress.clear();
                return Ok((stop, None));
            }
            let step =
                guarded(|| if self.has_one_run() { self.fuzzer.last_step() } else { self.fuzzer.step() })?;
            if let Step::New(trial) = &step {
                self.keep(trial)?;
            }
            if let Some(failed) = self.took(step) {
                self.progress.clear();
                return Ok((Stop::Failure, Some(failed)));
            }
        }
    }

    fn took(&mut self, step: Step) -> Option<Failed> {
        let (runs, reached) = (self.fuzzer.runs(), self.fuzzer.reached());
        if matches!(step, Step::New(_)) {
            self.new_at = runs;
        }
        let position = match (self.args.seeds, self.deadline) {
            (Some(_), _) => runs,
            (None, Some(_)) => millis(self.began.elapsed()),
            (None, None) => runs - self.new_at,
        };
        self.progress.set(position, || {
            let (runs, reached) = (count(runs, "run"), count(reached as u64, "behaviour"));
            format!("{}: {runs}, {reached}", self.entry.path)
        });
        match step {
            Step::Failed(failed) => Some(*failed),
            Step::Known | Step::New(_) => None,
        }
    }

    /// Into the first folder.
    fn keep(&mut self, trial: &Trial) -> anyhow::Result<()> {
        self.sizes.new += 1;
        if let Some(folder) = self.args.corpus.first() {
            corpus::write(folder, &Listed::new(trial.clone()))?;
        }
        Ok(())
    }

    /// Whether no more than one run is left.
    fn has_one_run(&self) -> bool {
        self.args.seeds.is_some_and(|most| self.fuzzer.runs() + 1 >= most)
    }

    fn must_stop(&self) -> Option<Stop> {
        if self.interrupt.has_come() {
            return Some(Stop::Interrupt);
        }
        let runs = self.fuzzer.runs();
        if self.args.seeds.is_some_and(|most| runs >= most) {
            return Some(Stop::Runs);
        }
        if self.args.plateau.is_some_and(|most| runs - self.new_at >= most) {
            return Some(Stop::Plateau);
        }
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline).then_some(Stop::Time)
    }
}

/// Keeps a smallest set of the corpus that reaches the same.
fn minimise(entry: &Entry, args: &FuzzArgs) -> anyhow::Result<Exit> {
    let Some(folder) = args.corpus.first() else {
        bail!("--minimise without a corpus; --corpus DIR names its folder");
    };
    let read = corpus::read(&args.corpus)?;
    let mut fuzzer = Fuzzer::new(entry.strategist(), args.start.unwrap_or(1));
    let mut lists = Vec::new();
    let interrupt = Interrupt::listen()?;
    let progress = Progress::new(read.len() as u64, Instant::now(), !args.json);
    for listed in &read {
        progress.set(lists.len() as u64, || format!("{}: the corpus", entry.path));
        if interrupt.has_come() {
            progress.clear();
            let (at, all) = (grouped(lists.len() as u64), count(read.len() as u64, "list"));
            writeln!(io::stderr(), "interrupted: {at} of {all} were run, the corpus is as it was")?;
            return Ok(Exit::Interrupted);
        }
        let (report, behaviours) = guarded(|| fuzzer.replay(&listed.trial))?;
        if let Some(first) = report.violations.first() {
            let (name, property) = (&listed.name, first.property);
            bail!(
                "{name} breaks {property}, nothing is minimised; the same command without --minimise shrinks it"
            );
        }
        lists.push((listed.trial.len(), behaviours));
    }
    progress.clear();
    let places = smallest(&lists);
    let kept: Vec<Listed> = places.iter().filter_map(|at| read.get(*at).cloned()).collect();
    corpus::replace(folder, &kept)?;
    let reached: std::collections::BTreeSet<_> =
        lists.iter().flat_map(|(_, behaviours)| behaviours).collect();
    let (from, to, reached) = (read.len(), kept.len(), reached.len());
    let mut output = io::stdout().lock();
    let shown = folder.display().to_string();
    let printed = if args.json {
        let json = serde_json::json!({ "file": entry.path, "corpus": shown, "read": from, "kept": to, "behaviours": reached });
        writeln!(output, "{json:#}")
    } else {
        let (from, to) = (count(from as u64, "list"), grouped(to as u64));
        let reached = count(reached as u64, "behaviour");
        writeln!(output, "{shown}: {to} of {from} kept, with the same {reached}")
    };
    unless_closed(printed.map_err(Into::into))?;
    Ok(Exit::Held)
}

fn guarded<T>(body: impl FnOnce() -> T) -> anyhow::Result<T> {
    panics::guarded(body).map_err(anyhow::Error::msg)
}

fn failure(entry: &Entry, failed: &Failed, search: &Search<'_>) -> Failure {
    let Search { args, interrupt, .. } = search;
    let run = search.fuzzer.runs();
    let report = &failed.report;
    let first = report.violations.first();
    let property = first.map(|first| first.property.to_owned()).unwrap_or_default();
    let is_expected = entry.scenario.expect.fails.as_deref() == Some(&*property);
    let wants_notes = !args.after.no_shrink && !is_expected;
    // What failed is the scenario with its values.
    let varied = Entry { scenario: Scenario::clone(&failed.scenario), ..entry.clone() };
    let notes = if wants_notes {
        automatic(&varied, report, args.after.out.as_deref(), interrupt)
    } else {
        Vec::new()
    };
    Failure {
        run,
        property,
        detail: first.map(|first| first.detail.clone()).unwrap_or_default(),
        values: failed.values.clone(),
        deviations: report.deviations.iter().map(ToString::to_string).collect(),
        notes,
        is_expected,
    }
}

/// A canary must fail as it says, and may need more runs than these.
fn verdict(entry: &Entry, failure: Option<&Failure>) -> &'static str {
    match failure {
        Some(failure) if failure.is_expected => "caught",
        Some(_) => "failed",
        None if entry.scenario.expect.fails.is_some() => "not caught",
        None => "held",
    }
}

fn print(output: &mut impl Write, outcome: &Outcome, args: &FuzzArgs) -> io::Result<()> {
    let Outcome { file, verdict, runs, behaviours, corpus, .. } = outcome;
    let (read, new) = (count(corpus.read as u64, "list"), grouped(corpus.new as u64));
    let (runs, behaviours) = (count(*runs, "run"), count(*behaviours as u64, "behaviour"));
    writeln!(output, "{file}: {runs}, {behaviours}, corpus {read} read and {new} new: {verdict}")?;
    let why = match outcome.stopped {
        Stop::Failure => "a property is broken".to_owned(),
        Stop::Runs => format!("{runs} done"),
        Stop::Plateau => {
            format!("no new behaviour in {}", count(args.plateau.unwrap_or_default(), "run"))
        }
        Stop::Time => "the time is over".to_owned(),
        Stop::Interrupt => "it was interrupted".to_owned(),
    };
    writeln!(output, "stopped: {why}")?;
    let Some(failure) = &outcome.failure else { return Ok(()) };
    writeln!(output, "\nrun {} breaks {}\n  {}", failure.run, failure.property, failure.detail)?;
    failure.values.iter().try_for_each(|(path, value)| writeln!(output, "  with {path} = {value}"))?;
    if failure.notes.is_empty() {
        failure.deviations.iter().try_for_each(|deviation| writeln!(output, "  {deviation}"))?;
    }
    failure.notes.iter().try_for_each(|note| writeln!(output, "  {note}"))
}
