//! `cargo sim merge`: the reports of several shards judged as one campaign.

use std::collections::BTreeSet;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ackward_sim::campaign::Tally;
use ackward_sim::outside;
use ackward_sim::scenario::{Net, Scenario};
use anyhow::{Context, bail, ensure};
use clap::Args;
use serde::Deserialize;

use super::ci::FileArgs;
use super::folder::Entry;
use super::fuzz::{Finding, exit, print};
use super::json::{self, Part};
use super::outcome::{Cold, Death, Outcome};
use super::pool::first_cold;
use super::ranges::Ranges;
use super::shard::Shard;
use super::table::{self, Shown};
use super::text::count;
use super::{Exit, unless_closed};

/// Largest report that is read, in bytes.
const REPORT_LEN_MAX: u64 = 1 << 32;

#[derive(Args)]
pub(crate) struct MergeArgs {
    /// Reports that `cargo sim fuzz --report FILE` has written.
    #[arg(required = true, value_name = "FILE")]
    reports: Vec<PathBuf>,
    /// Merge what is there although shards are missing.
    #[arg(long)]
    partial: bool,
    /// Print one JSON object instead.
    #[arg(long)]
    json: bool,
    /// Print all columns.
    #[arg(long, conflicts_with = "json")]
    details: bool,
    /// Fail where a kind of fault that is switched on never had an effect.
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    files: FileArgs,
}

/// A report as far as it is needed.
#[derive(Deserialize)]
struct Report {
    scenarios: Vec<Row>,
    timings: Timings,
}

#[derive(Deserialize)]
struct Row {
    file: String,
    net: String,
    problem: Option<ProblemRow>,
    ranges: Ranges,
    deaths: Vec<Death>,
    given_up: Vec<(u64, u64)>,
    cold: Option<Cold>,
    part: Part,
}

#[derive(Deserialize)]
struct ProblemRow {
    what: String,
    #[serde(default)]
    notes: Vec<String>,
    #[serde(default)]
    made: Vec<String>,
}

#[derive(Deserialize)]
struct Timings {
    seconds: f64,
    shards: Vec<String>,
    scenarios: Vec<Timing>,
}

#[derive(Deserialize)]
struct Timing {
    seconds: f64,
}

/// A scenario of all reports so far.
struct Merged {
    entry: Entry,
    outcome: Outcome,
    problems: Vec<ProblemRow>,
}

/// Runs the command.
pub(crate) fn merge(args: &MergeArgs) -> anyhow::Result<Exit> {
    args.files.prepare()?;
    let mut merged: Vec<Merged> = Vec::new();
    let mut shards = Vec::new();
    let mut took = Duration::ZERO;
    for (at, path) in args.reports.iter().enumerate() {
        let shown = path.display();
        let report = read(path)?;
        let seconds = Duration::try_from_secs_f64(report.timings.seconds).unwrap_or_default();
        took = took.max(seconds);
        for shard in &report.timings.shards {
            let shard = Shard::parse(shard).with_context(|| format!("{shown}: {shard:?} is no shard"))?;
            shards.push(shard);
        }
        let names = report.scenarios.len();
        for (row, timing) in report.scenarios.into_iter().zip(report.timings.scenarios) {
            add(&mut merged, row, timing.seconds, at == 0).with_context(|| shown.to_string())?;
        }
        ensure!(
            names == merged.len(),
            "{shown}: has {}, allowed: the {} of {}",
            count(names as u64, "scenario"),
            merged.len(),
            args.reports[0].display()
        );
    }
    complete(&shards, args.partial)?;
    shards.sort_by_key(|shard| (shard.total(), shard.index()));
    let findings: Vec<_> = merged.into_iter().map(|merged| judge(merged, args.strict)).collect();
    args.files.write(&findings, &shards, took)?;
    let printed = |output: &mut io::StdoutLock<'_>| {
        if args.json {
            json::findings(output, &findings, &shards, took)
        } else {
            let about = format!(", {}", count(args.reports.len() as u64, "report"));
            table::print(output, &findings, &[], &Shown { details: args.details, took, about })
        }
    };
    unless_closed(print(printed))?;
    Ok(exit(&findings))
}

fn read(path: &Path) -> anyhow::Result<Report> {
    let shown = path.display();
    let reading = || format!("{shown}: cannot be read");
    let file = outside::open(path).with_context(reading)?;
    let metadata = file.metadata().with_context(reading)?;
    ensure!(metadata.len() <= REPORT_LEN_MAX, "{shown}: is larger than 4 GiB, allowed: up to 4 GiB");
    // Read as it is parsed: a device that never ends is refused at its first byte.
    serde_json::from_reader(BufReader::new(file.take(REPORT_LEN_MAX)))
        .with_context(|| format!("{shown}: is no report, allowed: what cargo sim fuzz --report FILE writes"))
}

/// Adds a report's scenario to what there is of it.
fn add(merged: &mut Vec<Merged>, row: Row, seconds: f64, is_first: bool) -> anyhow::Result<()> {
    let Row { file, net, problem, ranges, deaths, given_up, cold, part } = row;
    let is_same = |known: &&mut Merged| known.entry.path == file && known.entry.scenario.net.as_str() == net;
    let known = match merged.iter_mut().find(is_same) {
        Some(known) => known,
        None if is_first => {
            let entry = entry(&file, &net, &part)?;
            merged.push(Merged { entry, outcome: Outcome::default(), problems: Vec::new() });
            merged.last_mut().context("it was added just now")?
        }
        None => bail!("{file} is not in the first report, allowed: reports of the same scenarios"),
    };
    let Merged { entry, outcome, problems } = known;
    ensure!(entry.text == part.text, "{file} has another text than in the first report, allowed: the same");
    ensure!(
        entry.strategy == part.strategy,
        "{file} was run by strategy {}, allowed: {}, as in the first report",
        part.strategy,
        entry.strategy
    );
    if let Some(seed) = outcome.ranges.common(&ranges) {
        bail!("{file}: seed {seed} is in a report before this one, too, allowed: every seed once");
    }
    check(&file, &ranges, &part.tally)?;
    outcome.ranges.extend(&ranges);
    outcome.cold = first_cold(outcome.cold, cold);
    deaths.into_iter().for_each(|death| outcome.bury(death));
    outcome.given_up.extend(given_up);
    outcome.given_up.sort_unstable();
    outcome.seconds += seconds;
    outcome.merge(part.tally);
    problems.extend(problem);
    Ok(())
}

fn check(file: &str, ranges: &Ranges, tally: &Tally) -> anyhow::Result<()> {
    ensure!(
        ranges.count() == tally.seeds,
        "{file}: ranges hold {} and the tally {}, allowed: the same",
        count(ranges.count(), "seed"),
        tally.seeds
    );
    Ok(())
}

fn entry(file: &str, net: &str, part: &Part) -> anyhow::Result<Entry> {
    let scenario = Scenario::parse(file, part.text.as_bytes())?;
    let net = Net::parse(net).with_context(|| format!("{file}: there is no net {net:?}"))?;
    let (path, text) = (file.to_owned(), part.text.clone());
    Ok(Entry { path, text, scenario, is_abroad: false, strategy: part.strategy }.on(Some(net)))
}

/// Sees that all shards of one campaign are there.
fn complete(shards: &[Shard], is_partial: bool) -> anyhow::Result<()> {
    let totals: BTreeSet<_> = shards.iter().map(|shard| shard.total()).collect();
    if is_partial {
        return Ok(());
    }
    for total in totals {
        let there: BTreeSet<_> =
            shards.iter().filter(|shard| shard.total() == total).map(|shard| shard.index()).collect();
        let missing: Vec<_> = (1..=total)
            .filter(|index| !there.contains(index))
            .take(5)
            .map(|i| format!("{i}/{total}"))
            .collect();
        let more = if total - there.len() as u64 > 5 { ", …" } else { "" };
        ensure!(
            missing.is_empty(),
            "missing: shard {}{more}; allowed: all shards of a campaign, or --partial",
            missing.join(", ")
        );
    }
    Ok(())
}

/// The verdict over all seeds, with what was made of the same failure where it was found.
fn judge(merged: Merged, is_strict: bool) -> Finding {
    let Merged { entry, outcome, problems } = merged;
    let mut problem = outcome.problem(&entry).or_else(|| outcome.inert(&entry).filter(|_| is_strict));
    if let Some(problem) = &mut problem
        && let Some(found) = problems.into_iter().find(|found| found.what == problem.what)
    {
        if problem.exit == Exit::Nondeterministic {
            problem.notes = found.notes;
        }
        problem.made = found.made;
    }
    Finding { entry, outcome, problem }
}
