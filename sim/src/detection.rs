//! How many runs it takes to find a mistake: each strategy, and coverage-guided fuzzing, from several first seeds.

use std::fmt::{self, Write};
use std::rc::Rc;

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

/// The table: for each mistake and way the median of the runs to its detection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// Campaigns for each mistake and way.
    pub campaigns: u64,
    /// Runs that a campaign has at most.
    pub runs_max: u64,
    /// A mistake's name, and by way its campaigns' runs, ascending; one more than `runs_max` where it was not found.
    pub rows: Vec<(String, [Vec<u64>; Way::ALL.len()])>,
}

impl Comparison {
    /// An empty table.
    #[must_use]
    pub const fn new(campaigns: u64, runs_max: u64) -> Self {
        Self { campaigns, runs_max, rows: Vec::new() }
    }

    /// Measures one mistake more.
    pub fn measure(&mut self, name: &str, scenario: &Rc<Scenario>) {
        let starts = (0..self.campaigns).map(zoo::start);
        let runs = Way::ALL.map(|way| {
            let one = |start| way.runs(scenario, start, self.runs_max).unwrap_or(self.runs_max + 1);
            let mut runs: Vec<_> = starts.clone().map(one).collect();
            runs.sort_unstable();
            runs
        });
        self.rows.push((name.to_owned(), runs));
    }

    /// The runs of all mistakes and campaigns of one way.
    #[must_use]
    pub fn total(&self, way: Way) -> u64 {
        let at = Way::ALL.iter().position(|known| *known == way).unwrap_or(0);
        self.rows.iter().flat_map(|(_, ways)| &ways[at]).sum()
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
        let line = |text: &mut String, name: &str, cells: [String; Way::ALL.len()]| {
            let cells: String = cells.iter().map(|cell| format!(" {cell:>8}")).collect();
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name:<32}{cells}");
        };
        let Self { campaigns, runs_max, rows } = self;
        writeln!(f, "median runs to detection, {campaigns} campaigns of at most {runs_max} runs each")?;
        line(&mut text, "", Way::ALL.map(|way| way.to_string()));
        for (name, ways) in rows {
            line(&mut text, name, ways.each_ref().map(|runs| self.cell(runs)));
        }
        line(&mut text, "all runs of all campaigns", Way::ALL.map(|way| self.total(way).to_string()));
        f.write_str(&text)?;
        let uniform = self.total(Way::Seeds(Strategy::Uniform));
        let mix = self.total(Way::Seeds(Strategy::default()));
        let percent = (u128::from(mix) * 100).checked_div(u128::from(uniform)).unwrap_or(100);
        let verdict = if mix <= uniform { "no slower" } else { "slower" };
        writeln!(
            f,
            "pooled: the default, mix, is {verdict} than uniform: {mix} runs against {uniform}, {percent} %"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_lower_middle_and_says_where_nothing_was_found() {
        let mut table = Comparison::new(4, 10);
        let runs = |mix: u64| [vec![1, 2, 3, 11], vec![1, 11, 11, 11], vec![11; 4], vec![mix; 4], vec![]];
        table.rows.push(("one".to_owned(), runs(4)));
        let text = table.to_string();
        let row: Vec<_> =
            text.lines().find(|line| line.starts_with("one")).unwrap().split_whitespace().collect();
        assert_eq!(row, ["one", "2", ">10", ">10", "4", "-"]);
        assert!(text.ends_with("mix, is no slower than uniform: 16 runs against 17, 94 %\n"), "{text}");
        table.rows.push(("two".to_owned(), runs(5)));
        assert!(
            table.to_string().ends_with("is slower than uniform: 36 runs against 34, 105 %\n"),
            "{table}"
        );
    }
}
