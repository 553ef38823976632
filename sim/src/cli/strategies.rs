//! `cargo sim strategies`: how many runs, and how long, each strategy takes to find each planted mistake.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ackward_sim::detection::{Comparison, Row, Way};
use ackward_sim::scenario::Flaw;
use anyhow::bail;
use serde_json::json;

use super::child::Work;
use super::crew::Crew;
use super::folder::{self, Entry};
use super::interrupt::Interrupt;
use super::progress::Progress;
use super::{Exit, StrategiesArgs, jobs, lock, unless_closed};

/// Reads the word of a mistake that a scenario is to find.
///
/// # Errors
/// What is allowed.
pub(crate) fn flaw(word: &str) -> Result<String, String> {
    let mut words = Flaw::ALL.iter().map(|(flaw, _)| flaw.word());
    let allowed = || Flaw::ALL.iter().map(|(flaw, _)| flaw.word()).collect::<Vec<_>>().join(", ");
    words.find(|known| known == word).ok_or_else(|| format!("allowed: one of {}", allowed()))
}

/// Runs the command.
pub(crate) fn strategies(folder: Option<&Path>, args: &StrategiesArgs) -> anyhow::Result<Exit> {
    let began = Instant::now();
    let mut table = Comparison::new(ways(&args.ways), args.campaigns, args.runs);
    if args.strict && !table.has_verdict() {
        bail!("--strict compares mix with uniform: --ways must have both, or be left out");
    }
    let interrupt = Interrupt::listen()?;
    let is_wanted = |flaw: &Flaw| args.only.is_empty() || args.only.contains(&flaw.word());
    let flaws: Vec<_> = Flaw::ALL.iter().filter(|(flaw, _)| is_wanted(flaw)).collect();
    let folder = folder::find(folder)?;
    let load = |(_, name): &&(Flaw, &str)| Entry::load(&folder.join(format!("{name}.toml")));
    let entries: Vec<_> = flaws.iter().map(load).collect::<Result<_, _>>()?;
    table.rows = flaws.iter().map(|(flaw, _)| Row::new(flaw.word())).collect();
    let progress = Progress::new(flaws.len() as u64, began, !args.json);
    let measured = measure(&mut table, &entries, Crew::new(jobs(args.jobs), interrupt.clone()), &progress);
    progress.clear();
    let measured = measured?;
    if interrupt.has_come() {
        let all = flaws.len();
        let _ = writeln!(io::stderr(), "interrupted: {measured} of {all} mistakes are measured, no table");
        return Ok(Exit::Interrupted);
    }
    let mut output = io::stdout().lock();
    let printed = if args.json {
        writeln!(output, "{:#}", as_json(&table, args.seconds))
    } else {
        let seconds = if args.seconds { format!("\n{}", table.seconds()) } else { String::new() };
        write!(output, "{table}{seconds}")
    };
    // Apart from the results, which are the same every time.
    let _ = writeln!(io::stderr(), "took {:.1} s", began.elapsed().as_secs_f64());
    unless_closed(printed.map_err(Into::into))?;
    Ok(exit(&table, args.strict))
}

/// The ways that were asked for, in the order of the table; all where none was.
fn ways(asked: &[Way]) -> Vec<Way> {
    Way::ALL.into_iter().filter(|way| asked.is_empty() || asked.contains(way)).collect()
}

/// Fills the rows, of which each has its scenario in `entries`; tells how many of them are whole, which are all
/// unless it was interrupted.
fn measure(
    table: &mut Comparison,
    entries: &[Entry],
    mut crew: Crew,
    progress: &Progress,
) -> anyhow::Result<usize> {
    let runs_max = table.runs_max;
    let campaigns: Vec<_> = table.each_campaign().collect();
    let names: Vec<_> = table.rows.iter().map(|row| row.name.clone()).collect();
    let tasks = (0..names.len()).flat_map(|at| campaigns.iter().map(move |campaign| (at, *campaign)));
    // A row and how many of its campaigns have ended.
    let rows = Mutex::new(table.rows.iter_mut().map(|row| (row, 0)).collect::<Vec<_>>());
    let whole = |rows: &[(&mut Row, usize)]| rows.iter().filter(|(_, done)| *done == campaigns.len()).count();
    if let Some(first) = names.first() {
        progress.set(0, || first.clone());
    }
    crew.share(
        tasks,
        |child, (at, (way, start))| {
            let flaw = names[*at].clone();
            let work = Work::Detect { flaw, way: *way, start: *start, runs_max };
            child.detect(&entries[*at], work).map_err(|how| format!("{}: {how}", names[*at]))
        },
        |(at, (way, _)), (runs, took)| {
            let mut rows = lock(&rows);
            rows[at].0.add(way, runs, runs_max, took);
            rows[at].1 += 1;
            progress.set(whole(&rows) as u64, || names[at].clone());
        },
        |_| false,
    )?;
    Ok(whole(&lock(&rows)))
}

/// How a measured table ends the command.
fn exit(table: &Comparison, is_strict: bool) -> Exit {
    if is_strict && !table.is_default_no_slower() { Exit::Failed } else { Exit::Held }
}

fn as_json(table: &Comparison, has_seconds: bool) -> serde_json::Value {
    let rows = table.rows.iter();
    let rows = rows.map(|row| json!({ "mistake": row.name, "runs": by_way(table, |way| row.runs_of(way)) }));
    let mut json = json!({
        "campaigns": table.campaigns,
        "runs_max": table.runs_max,
        "mistakes": rows.collect::<Vec<_>>(),
        "total": by_way(table, |way| table.total(way)),
    });
    if has_seconds {
        json["timings"] = timings(table);
    }
    json
}

/// How long each campaign took; the only part that differs from one time to the next.
fn timings(table: &Comparison) -> serde_json::Value {
    let seconds = |row: &Row, way| row.times_of(way).iter().map(Duration::as_secs_f64).collect::<Vec<_>>();
    let rows = table.rows.iter();
    let rows =
        rows.map(|row| json!({ "mistake": row.name, "seconds": by_way(table, |way| seconds(row, way)) }));
    let total = by_way(table, |way| table.time(way).as_secs_f64());
    json!({ "mistakes": rows.collect::<Vec<_>>(), "total": total })
}

fn by_way<T>(table: &Comparison, value: impl Fn(Way) -> T) -> BTreeMap<String, T> {
    table.ways.iter().map(|way| (way.to_string(), value(*way))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_strict_table_fails_where_the_default_is_slower() {
        let with = |mix: u64| {
            let runs = [vec![3], vec![9], vec![9], vec![mix], vec![9]];
            let mut table = Comparison::new(Way::ALL.to_vec(), 1, 9);
            table.rows.push(Row { name: "one".to_owned(), runs, ..Row::default() });
            table
        };
        assert_eq!((exit(&with(3), true), exit(&with(4), true)), (Exit::Held, Exit::Failed));
        assert_eq!(exit(&with(4), false), Exit::Held);
    }
}
