//! `cargo sim explore`: every run with at most K deviations, in child processes, level by level.

use std::io::{self, Write};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use ackward_sim::choice::Kind;
use ackward_sim::explore::{self, Explored, Failed, Options, Path};
use serde::Serialize;

use super::child::Work;
use super::crew::Crew;
use super::folder::Entry;
use super::interrupt::Interrupt;
use super::progress::Progress;
use super::shrink::automatic;
use super::text::{ALL, count, grouped, shell_word};
use super::{Exit, ExploreArgs, jobs, json, lock, panics, unless_closed};

/// Paths that a child runs at a time on the first level.
const CHUNK_PATHS: usize = 64;

/// A level of the search.
#[derive(Debug, Default, Serialize)]
struct Level {
    depth: u64,
    runs: u64,
    /// Alternatives that another one stands for.
    pruned: u64,
    /// Final states that no earlier level had.
    new_states: u64,
}

/// What the whole search came to.
#[derive(Default)]
struct Search {
    levels: Vec<Level>,
    explored: Explored,
    /// Whether the last level is complete: it had no failure, and nothing of it is left.
    is_complete: bool,
    /// Where an interrupt has ended it.
    cut: Option<Cut>,
}

/// Where an interrupt has ended a search.
#[derive(Clone, Copy, Serialize)]
struct Cut {
    /// The level that is not complete.
    depth: u64,
    /// Runs of it.
    runs: u64,
    /// Alternatives of it that another one stands for.
    pruned: u64,
    /// The parts that it is run in, as far as they are known.
    parts: u64,
    /// Those that are left.
    parts_left: u64,
}

/// Runs the command.
pub(crate) fn explore(args: &ExploreArgs) -> anyhow::Result<Exit> {
    let entry = Entry::load(&args.file)?.without_right_values();
    let options = Options { seed: args.seed, prunes: !args.unpruned, kinds: kinds(args) };
    let interrupt = Interrupt::listen()?;
    let search = search(&entry, args, &options, &interrupt)?;
    let failure = search.explored.failure.as_ref();
    let expected = entry.scenario.expect.fails.as_deref();
    let notes = match failure {
        Some(failed) if !args.after.no_shrink && Some(failed.property.as_str()) != expected => {
            shrunk(&entry, failed, &options, args, &interrupt)
        }
        _ => Vec::new(),
    };
    let mut output = io::BufWriter::new(io::stdout().lock());
    let told = if args.json {
        to_json(&mut output, &entry, &search, &notes)
    } else {
        tell(&mut output, &entry, args, &search, &notes)
    };
    unless_closed(told.and_then(|()| output.flush()).map_err(Into::into))?;
    // A canary is to be caught.
    let is_expected = failure.map(|failed| failed.property.as_str()) == expected;
    Ok(interrupt.or(if is_expected { Exit::Held } else { Exit::Failed }))
}

fn kinds(args: &ExploreArgs) -> Vec<String> {
    if args.kinds.iter().any(|word| word == ALL) {
        return Kind::ALL.iter().map(|kind| kind.as_str().to_owned()).collect();
    }
    args.kinds.clone()
}

fn search(
    entry: &Entry,
    args: &ExploreArgs,
    options: &Options,
    interrupt: &Interrupt,
) -> anyhow::Result<Search> {
    let depth = u32::try_from(args.depth).unwrap_or(u32::MAX);
    let mut crew = Crew::new(jobs(args.jobs), interrupt.clone());
    let mut search = Search { is_complete: true, ..Search::default() };
    let mut level = vec![Path::new()];
    let mut known = 0;
    for at in 0..=depth {
        let (tasks, pruned) = tasks(entry, &level, at, depth, options)?;
        let has_next = at < depth;
        let parts = tasks.len() as u64;
        let done = run_level(entry, tasks, &mut crew, at, !args.json)?;
        let parts_left = parts - done.finished;
        search.explored.merge(done.explored);
        search.explored.pruned += pruned;
        let is_cut = interrupt.has_come() && (parts_left > 0 || has_next);
        search.is_complete = search.explored.failure.is_none() && parts_left == 0;
        let (runs, pruned) = (search.explored.runs, search.explored.pruned);
        let before: (u64, u64) =
            search.levels.iter().map(|l| (l.runs, l.pruned)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        let states = search.explored.states.len() as u64;
        let (runs, pruned) = (runs - before.0, pruned - before.1);
        search.levels.push(Level { depth: at.into(), runs, pruned, new_states: states - known });
        known = states;
        if is_cut {
            search.cut = Some(Cut { depth: at.into(), runs, pruned, parts, parts_left });
        }
        if !search.is_complete || is_cut {
            break;
        }
        if has_next && at > 0 {
            level = if at == 1 { done.run } else { done.next };
        }
    }
    Ok(search)
}

/// What is to be run on a level, and how many alternatives were left out in listing it.
fn tasks(
    entry: &Entry,
    level: &[Path],
    at: u32,
    depth: u32,
    options: &Options,
) -> anyhow::Result<(Vec<Work>, u64)> {
    let work = |paths: &[Path]| Work::Paths { paths: paths.to_vec(), options: options.clone() };
    match at {
        0 => Ok((vec![work(level)], 0)),
        1 => {
            let scenario = Rc::new(entry.scenario.clone());
            let listed = panics::guarded(|| explore::children(&scenario, &Path::new(), depth - 1, options));
            let (paths, pruned) = listed.map_err(anyhow::Error::msg)?;
            Ok((paths.chunks(CHUNK_PATHS).map(work).collect(), pruned))
        }
        _ => {
            let remaining = depth - at;
            let expand =
                |path: &Path| Work::Expand { path: path.clone(), remaining, options: options.clone() };
            Ok((level.iter().map(expand).collect(), 0))
        }
    }
}

/// What came of a level.
#[derive(Default)]
struct Done {
    explored: Explored,
    /// The task of the first failure; none after it counts.
    failed_at: Option<usize>,
    /// The paths that were run, where they were given.
    run: Vec<Path>,
    /// The paths that can be expanded, in the order of the tasks.
    next: Vec<Path>,
    by_task: Vec<(usize, Vec<Path>)>,
    finished: u64,
}

fn run_level(
    entry: &Entry,
    tasks: Vec<Work>,
    crew: &mut Crew,
    depth: u32,
    shows: bool,
) -> anyhow::Result<Done> {
    let progress = Progress::new(tasks.len() as u64, Instant::now(), shows);
    let run =
        tasks.iter().flat_map(|work| if let Work::Paths { paths, .. } = work { &paths[..] } else { &[] });
    let done = Mutex::new(Done { run: run.cloned().collect(), ..Done::default() });
    let failed = |how| format!("{}: a part of depth {depth} did not end: {how}", entry.path);
    crew.share(
        tasks.into_iter().enumerate(),
        |child, (_, work)| child.explore(entry, work.clone()).map_err(failed),
        |(at, _), (explored, paths)| {
            let (runs, finished) = lock(&done).add(at, explored, paths);
            progress.set(finished, || format!("depth {depth}: {}", count(runs, "run")));
        },
        // Tasks before the first failure so far still count, those after it do not.
        |(at, _)| lock(&done).failed_at.is_some_and(|failed| failed < *at),
    )?;
    progress.clear();
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.by_task.sort();
    done.next = std::mem::take(&mut done.by_task).into_iter().flat_map(|(_, paths)| paths).collect();
    Ok(done)
}

impl Done {
    /// Adds what came of one task; tells how many runs there were so far, and how many tasks have ended.
    fn add(&mut self, at: usize, mut explored: Explored, paths: Vec<Path>) -> (u64, u64) {
        let failure = explored.failure.take();
        self.explored.merge(explored);
        if failure.is_some() && self.failed_at.is_none_or(|failed| at < failed) {
            self.failed_at = Some(at);
            self.explored.failure = failure;
        }
        if !paths.is_empty() {
            self.by_task.push((at, paths));
        }
        self.finished += 1;
        (self.explored.runs, self.finished)
    }
}

/// Makes the failure a scenario file: it has the fewest deviations already, but not the plainest scenario.
fn shrunk(
    entry: &Entry,
    failed: &Failed,
    options: &Options,
    args: &ExploreArgs,
    interrupt: &Interrupt,
) -> Vec<String> {
    let scenario = Rc::new(entry.scenario.clone());
    match panics::guarded(|| explore::run(&scenario, &failed.path, options)) {
        Ok(report) => automatic(entry, &report, args.after.out.as_deref(), interrupt),
        Err(panic) => vec![format!("not shrunk: {panic}")],
    }
}

fn tell(
    output: &mut impl Write,
    entry: &Entry,
    args: &ExploreArgs,
    search: &Search,
    notes: &[String],
) -> io::Result<()> {
    for Level { depth, runs, pruned, new_states } in &search.levels {
        if *depth < search.levels.len() as u64 - 1 || search.is_complete {
            let counts = counts(*runs, *pruned);
            writeln!(output, "depth {depth}: {counts}, {}", count(*new_states, "new final state"))?;
        }
    }
    if args.states && search.is_complete {
        let states = search.explored.states.iter().enumerate();
        for (at, (state, runs)) in states {
            let (at, runs) = (at + 1, count(*runs, "run"));
            writeln!(output, "\n# final state {at}, of {runs}\n{}", state.trim_end())?;
        }
        writeln!(output)?;
    }
    if let Some(cut) = search.cut {
        tell_cut(output, args, search, cut)?;
    }
    let depth = search.levels.len().saturating_sub(1);
    let Some(failed) = &search.explored.failure else {
        if search.cut.is_some() {
            return Ok(());
        }
        let runs = count(search.explored.runs, "run");
        let states = count(search.explored.states.len() as u64, "final state");
        return writeln!(output, "complete to depth {depth}: {runs}, {states}");
    };
    let with = match depth {
        0 => "without any deviation".to_owned(),
        1 => "with one deviation".to_owned(),
        _ => format!("with {depth} deviations"),
    };
    writeln!(output, "{}: a run {with} breaks {}", entry.path, failed.property)?;
    let lines = failed.detail.lines().chain(failed.deviations.iter().map(String::as_str));
    for line in lines.chain(notes.iter().map(String::as_str)) {
        writeln!(output, "  {line}")?;
    }
    writeln!(output, "{}", command(entry, args, depth))
}

/// How far an interrupted search has come.
fn tell_cut(output: &mut impl Write, args: &ExploreArgs, search: &Search, cut: Cut) -> io::Result<()> {
    let Cut { depth, runs, pruned, parts, parts_left } = cut;
    let complete = if search.is_complete { Some(depth) } else { depth.checked_sub(1) };
    if parts_left > 0 {
        let parts = count(parts, "part");
        let left = grouped(parts_left);
        writeln!(
            output,
            "depth {depth}, interrupted: {}, {left} of its {parts} are left",
            counts(runs, pruned)
        )?;
    }
    let runs = count(search.explored.runs, "run");
    let so_far = complete.map_or_else(String::new, |depth| format!(", complete to depth {depth} only"));
    writeln!(output, "not complete to depth {}: interrupted after {runs}{so_far}", args.depth)
}

fn counts(runs: u64, pruned: u64) -> String {
    format!("{}, {} pruned", count(runs, "run"), count(pruned, "alternative"))
}

/// The search up to a depth, with all that decides what is run.
fn command(entry: &Entry, args: &ExploreArgs, depth: usize) -> String {
    let kinds =
        if args.kinds.is_empty() { String::new() } else { format!(" --kinds {}", args.kinds.join(",")) };
    let unpruned = if args.unpruned { " --unpruned" } else { "" };
    format!(
        "cargo sim explore {} --depth {depth}{kinds}{unpruned} --seed {}",
        shell_word(&entry.path),
        args.seed
    )
}

#[derive(Serialize)]
struct SearchJson<'a> {
    file: &'a str,
    complete_to_depth: Option<u64>,
    levels: &'a [Level],
    runs: u64,
    pruned: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupted: Option<Cut>,
    failure: Option<&'a Failed>,
    notes: &'a [String],
    final_states: Vec<StateJson<'a>>,
}

#[derive(Serialize)]
struct StateJson<'a> {
    runs: u64,
    state: Vec<&'a str>,
}

fn to_json(output: &mut impl Write, entry: &Entry, search: &Search, notes: &[String]) -> io::Result<()> {
    let Search { levels, explored, is_complete, cut } = search;
    // Where the search stopped, how much of the last level was run is a matter of chance.
    let kept = if *is_complete { &levels[..] } else { &levels[..levels.len().saturating_sub(1)] };
    let states =
        explored.states.iter().map(|(text, runs)| StateJson { runs: *runs, state: text.lines().collect() });
    json::print(
        output,
        &SearchJson {
            file: &entry.path,
            complete_to_depth: kept.last().map(|level| level.depth),
            levels: kept,
            runs: kept.iter().map(|level| level.runs).sum(),
            pruned: kept.iter().map(|level| level.pruned).sum(),
            interrupted: *cut,
            failure: explored.failure.as_ref(),
            notes,
            final_states: if *is_complete { states.collect() } else { Vec::new() },
        },
    )
}
