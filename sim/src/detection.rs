//! How many runs and seconds it takes to find a mistake: each strategy, and coverage-guided fuzzing, from several first
//! seeds. The clock is the caller's: runs depend on the arguments alone.

use std::fmt::{self, Write};
use std::rc::Rc;
use std::time::Duration;

use crate::coverage::{Fuzzer, Step};
use crate::scenario::Scenario;
use crate::strategy::{Strategist, Strategy};
use crate::zoo;

/// A way of looking for a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Seed after seed.
    Seeds(Strategy),
    /// Coverage-guided, fed by the default strategy.
    Cover,
}

impl Way {
    /// Every way, in the order of the table's columns.
    pub const ALL: [Self; 5] = [
        Self::Seeds(Strategy::Uniform),
        Self::Seeds(Strategy::Pct),
        Self::Seeds(Strategy::Swarm),
        Self::Seeds(Strategy::Mix),
        Self::Cover,
    ];

    fn place(self) -> usize {
        Self::ALL.iter().position(|known| *known == self).unwrap_or(0)
    }

    /// How many runs it takes from seed `start` on until one fails; none where `runs_max` are not enough.
    #[must_use]
    pub fn runs(self, scenario: &Rc<Scenario>, start: u64, runs_max: u64) -> Option<u64> {
        match self {
            Self::Seeds(strategy) => {
                let strategist = Strategist::new(Rc::clone(scenario), strategy);
                let mut seeds = start..start.saturating_add(runs_max);
                let failed = seeds.find(|seed| !strategist.run(*seed, false).has_passed())?;
                Some(failed - start + 1)
            }
            Self::Cover => {
                let strategist = Strategist::new(Rc::clone(scenario), Strategy::default());
                let mut fuzzer = Fuzzer::new(strategist, start);
                while fuzzer.runs() < runs_max {
                    if matches!(fuzzer.step(), Step::Failed(_)) {
                        return Some(fuzzer.runs());
                    }
                }
                None
            }
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seeds(strategy) => strategy.fmt(f),
            Self::Cover => f.write_str("cover"),
        }
    }
}

/// What came of one mistake's campaigns, by way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    /// The mistake.
    pub name: String,
    /// Each campaign's runs, ascending; one more than allowed where it was not found.
    pub runs: [Vec<u64>; Way::ALL.len()],
    /// How long each campaign took, ascending.
    pub times: [Vec<Duration>; Way::ALL.len()],
}

/// The table: for each mistake and way the median of the runs to its detection, and of the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// Campaigns for each mistake and way.
    pub campaigns: u64,
    /// Runs that a campaign has at most.
    pub runs_max: u64,
    /// The mistakes, in the order in which they were measured.
    pub rows: Vec<Row>,
}

impl Comparison {
    /// An empty table.
    #[must_use]
    pub const fn new(campaigns: u64, runs_max: u64) -> Self {
        Self { campaigns, runs_max, rows: Vec::new() }
    }

    /// Measures one mistake more; `clock` tells how long it has been since some moment.
    pub fn measure(&mut self, name: &str, scenario: &Rc<Scenario>, clock: impl Fn() -> Duration) {
        let mut row = Row { name: name.to_owned(), ..Row::default() };
        for (at, way) in Way::ALL.into_iter().enumerate() {
            for start in (0..self.campaigns).map(zoo::start) {
                let began = clock();
                let runs = way.runs(scenario, start, self.runs_max);
                row.runs[at].push(runs.unwrap_or(self.runs_max + 1));
                row.times[at].push(clock().saturating_sub(began));
            }
            row.runs[at].sort_unstable();
            row.times[at].sort_unstable();
        }
        self.rows.push(row);
    }

    /// The runs of all mistakes and campaigns of one way.
    #[must_use]
    pub fn total(&self, way: Way) -> u64 {
        self.rows.iter().flat_map(|row| &row.runs[way.place()]).sum()
    }

    /// Whether the default strategy took no more runs than `Uniform`, all mistakes and campaigns together.
    #[must_use]
    pub fn is_default_no_slower(&self) -> bool {
        self.total(Way::Seeds(Strategy::default())) <= self.total(Way::Seeds(Strategy::Uniform))
    }

    /// How long all mistakes and campaigns of one way took.
    #[must_use]
    pub fn time(&self, way: Way) -> Duration {
        self.rows.iter().flat_map(|row| &row.times[way.place()]).sum()
    }

    /// The same table of the median seconds to detection; it differs from one time to the next.
    #[must_use]
    pub fn seconds(&self) -> String {
        let shown = |time: Duration| format!("{:.3}", time.as_secs_f64());
        let mut text = String::from("median seconds to detection, in the same campaigns\n");
        line(&mut text, "", Way::ALL.map(|way| way.to_string()));
        for row in &self.rows {
            let cell =
                |times: &Vec<Duration>| zoo::median(times.clone()).map_or_else(|| "-".to_owned(), shown);
            line(&mut text, &row.name, row.times.each_ref().map(cell));
        }
        line(&mut text, "all seconds of all campaigns", Way::ALL.map(|way| shown(self.time(way))));
        text
    }

    fn cell(&self, runs: &[u64]) -> String {
        match zoo::median(runs.to_vec()) {
            Some(median) if median <= self.runs_max => median.to_string(),
            Some(_) => format!(">{}", self.runs_max),
            None => "-".to_owned(),
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        let Self { campaigns, runs_max, rows } = self;
        writeln!(f, "median runs to detection, {campaigns} campaigns of at most {runs_max} runs each")?;
        line(&mut text, "", Way::ALL.map(|way| way.to_string()));
        for row in rows {
            line(&mut text, &row.name, row.runs.each_ref().map(|runs| self.cell(runs)));
        }
        line(&mut text, "all runs of all campaigns", Way::ALL.map(|way| self.total(way).to_string()));
        f.write_str(&text)?;
        let uniform = self.total(Way::Seeds(Strategy::Uniform));
        let mix = self.total(Way::Seeds(Strategy::default()));
        let percent = (u128::from(mix) * 100).checked_div(u128::from(uniform)).unwrap_or(100);
        let verdict = if self.is_default_no_slower() { "no slower" } else { "slower" };
        writeln!(
            f,
            "pooled: the default, mix, is {verdict} than uniform: {mix} runs against {uniform}, {percent} %"
        )
    }
}

/// One row: a name and its cells.
fn line(text: &mut String, name: &str, cells: [String; Way::ALL.len()]) {
    let cells: String = cells.iter().map(|cell| format!(" {cell:>8}")).collect();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{name:<32}{cells}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_lower_middle_and_says_where_nothing_was_found() {
        let mut table = Comparison::new(4, 10);
        let row = |name: &str, mix: u64| {
            let runs = [vec![1, 2, 3, 11], vec![1, 11, 11, 11], vec![11; 4], vec![mix; 4], vec![]];
            let times = runs.clone().map(|runs| runs.into_iter().map(Duration::from_secs).collect());
            Row { name: name.to_owned(), runs, times }
        };
        table.rows.push(row("one", 4));
        let text = table.to_string();
        let shown: Vec<_> =
            text.lines().find(|line| line.starts_with("one")).unwrap().split_whitespace().collect();
        assert_eq!(shown, ["one", "2", ">10", ">10", "4", "-"]);
        assert!(table.is_default_no_slower());
        assert!(text.ends_with("mix, is no slower than uniform: 16 runs against 17, 94 %\n"), "{text}");
        let seconds = table.seconds();
        let rows: Vec<Vec<_>> = seconds.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[2], ["one", "2.000", "11.000", "11.000", "4.000", "-"]);
        assert_eq!(rows[3][5..], ["17.000", "34.000", "44.000", "16.000", "0.000"]);
        table.rows.push(row("two", 5));
        assert!(!table.is_default_no_slower());
        assert!(
            table.to_string().ends_with("is slower than uniform: 36 runs against 34, 105 %\n"),
            "{table}"
        );
    }
}
