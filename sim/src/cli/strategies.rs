//! `cargo sim strategies`: how many runs, and how long, each strategy takes to find each planted mistake.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ackward_sim::detection::{Comparison, Row, Way};
use ackward_sim::scenario::{Flaw, Scenario};
use serde_json::json;

use super::folder;
use super::interrupt::Interrupt;
use super::progress::Progress;
use super::{Exit, StrategiesArgs, panics, unless_closed};

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
    let interrupt = Interrupt::listen()?;
    let folder = folder::find(folder)?;
    let is_wanted = |flaw: &Flaw| args.only.is_empty() || args.only.contains(&flaw.word());
    let flaws: Vec<_> = Flaw::ALL.iter().filter(|(flaw, _)| is_wanted(flaw)).collect();
    let progress = Progress::new(flaws.len() as u64, began, !args.json);
    let mut table = Comparison::new(args.campaigns, args.runs);
    let measured = Arc::new(AtomicUsize::new(0));
    interrupt.end_with({
        let (measured, all, progress) = (Arc::clone(&measured), flaws.len(), progress.clone());
        move || {
            progress.clear();
            let measured = measured.load(Ordering::SeqCst);
            format!("interrupted: {measured} of {all} mistakes are measured, no table")
        }
    });
    for (at, (flaw, name)) in flaws.iter().enumerate() {
        measured.store(at, Ordering::SeqCst);
        let scenario = Scenario::load(&folder.join(format!("{name}.toml")))?;
        let scenario = Rc::new(Scenario { system: *flaw, ..scenario });
        let clock = || {
            progress.set(at as u64, || flaw.word());
            began.elapsed()
        };
        panics::guarded(|| table.measure(&flaw.word(), &scenario, clock)).map_err(anyhow::Error::msg)?;
    }
    progress.clear();
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

/// How a measured table ends the command.
fn exit(table: &Comparison, is_strict: bool) -> Exit {
    if is_strict && !table.is_default_no_slower() { Exit::Failed } else { Exit::Held }
}

fn as_json(table: &Comparison, has_seconds: bool) -> serde_json::Value {
    let rows = table.rows.iter().map(|Row { name, runs, .. }| {
        let ways: BTreeMap<_, _> = Way::ALL.iter().map(ToString::to_string).zip(runs).collect();
        json!({ "mistake": name, "runs": ways })
    });
    let total: BTreeMap<_, _> = Way::ALL.iter().map(|way| (way.to_string(), table.total(*way))).collect();
    let mut json = json!({
        "campaigns": table.campaigns,
        "runs_max": table.runs_max,
        "mistakes": rows.collect::<Vec<_>>(),
        "total": total,
    });
    if has_seconds {
        json["timings"] = timings(table);
    }
    json
}

/// How long each campaign took; the only part that differs from one time to the next.
fn timings(table: &Comparison) -> serde_json::Value {
    let rows = table.rows.iter().map(|Row { name, times, .. }| {
        let seconds =
            times.each_ref().map(|times| times.iter().map(Duration::as_secs_f64).collect::<Vec<_>>());
        let ways: BTreeMap<_, _> = Way::ALL.iter().map(ToString::to_string).zip(seconds).collect();
        json!({ "mistake": name, "seconds": ways })
    });
    let total: BTreeMap<_, _> =
        Way::ALL.iter().map(|way| (way.to_string(), table.time(*way).as_secs_f64())).collect();
    json!({ "mistakes": rows.collect::<Vec<_>>(), "total": total })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_strict_table_fails_where_the_default_is_slower() {
        let with = |mix: u64| {
            let runs = [vec![3], vec![9], vec![9], vec![mix], vec![9]];
            let mut table = Comparison::new(1, 9);
            table.rows.push(Row { name: "one".to_owned(), runs, ..Row::default() });
            table
        };
        assert_eq!((exit(&with(3), true), exit(&with(4), true)), (Exit::Held, Exit::Failed));
        assert_eq!(exit(&with(4), false), Exit::Held);
    }
}
