//! How many runs and seconds it takes to find a mistake: each strategy, and coverage-guided fuzzing, from several first
//! seeds. The clock is the caller's: runs depend on the arguments alone.

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::coverage::{Fuzzer, Step};
use crate::scenario::Scenario;
use crate::strategy::{Strategist, Strategy};
use crate::zoo;

/// A way of looking for a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

    /// The one that a campaign goes by default.
    pub const DEFAULT: Self = Self::Seeds(Strategy::Mix);
    /// The one that the default is held against.
    pub const PLAINEST: Self = Self::Seeds(Strategy::Uniform);

    /// Reads the word of a way, as it is shown.
    ///
    /// # Errors
    /// What is allowed.
    pub fn parse(word: &str) -> Result<Self, String> {
        let words = || Self::ALL.map(|way| way.to_string()).join(", ");
        let found = Self::ALL.into_iter().find(|way| way.to_string() == word);
        found.ok_or_else(|| format!("allowed: one of {}", words()))
    }

    fn place(self) -> usize {
        Self::ALL.iter().position(|known| *known == self).unwrap_or(0)
    }

    /// How many runs it takes from seed `start` on until one fails; none where `runs_max` are not enough.
    #[must_use]
    pub fn runs(self, scenario: &Rc<Scenario>, start: u64, runs_max: u64) -> Option<u64> {
        match self {
            Self::Seeds(strategy) => {
                let strategist = Strategist::new(Rc::clone(scenario), strategy);
                zoo::hunt_by(&strategist, start, runs_max, &|| true).map(|found| found.seed - start + 1)
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
    /// Each campaign's runs, ascending; one more than allowed where it was not found. Empty for a way that is not
    /// compared.
    pub runs: [Vec<u64>; Way::ALL.len()],
    /// How long each campaign took, ascending.
    pub times: [Vec<Duration>; Way::ALL.len()],
}

impl Row {
    /// A mistake of which no campaign is known yet.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Each campaign's runs of one way, ascending.
    #[must_use]
    pub fn runs_of(&self, way: Way) -> &[u64] {
        &self.runs[way.place()]
    }

    /// How long each campaign of one way took, ascending.
    #[must_use]
    pub fn times_of(&self, way: Way) -> &[Duration] {
        &self.times[way.place()]
    }

    /// Adds one campaign, whichever comes first: how many runs of at most `runs_max` it took, and how long.
    pub fn add(&mut self, way: Way, runs: Option<u64>, runs_max: u64, took: Duration) {
        let (runs, runs_before) = (runs.unwrap_or(runs_max + 1), &mut self.runs[way.place()]);
        runs_before.insert(runs_before.partition_point(|before| *before < runs), runs);
        let times = &mut self.times[way.place()];
        times.insert(times.partition_point(|before| *before < took), took);
    }
}

/// The table: for each mistake and way the median of the runs to its detection, and of the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// The ways that are compared, in the order of the columns.
    pub ways: Vec<Way>,
    /// Campaigns for each mistake and way.
    pub campaigns: u64,
    /// Runs that a campaign has at most.
    pub runs_max: u64,
    /// The mistakes, in the order of the lines.
    pub rows: Vec<Row>,
}

impl Comparison {
    /// An empty table of some ways.
    #[must_use]
    pub const fn new(ways: Vec<Way>, campaigns: u64, runs_max: u64) -> Self {
        Self { ways, campaigns, runs_max, rows: Vec::new() }
    }

    /// The campaigns that each mistake has: by which way, from which seed on.
    pub fn each_campaign(&self) -> impl Iterator<Item = (Way, u64)> {
        let starts = || (0..self.campaigns).map(zoo::start);
        self.ways.iter().flat_map(move |way| starts().map(|start| (*way, start)))
    }

    /// Measures one mistake more; `clock` tells how long it has been since some moment.
    pub fn measure(&mut self, name: &str, scenario: &Rc<Scenario>, clock: impl Fn() -> Duration) {
        let mut row = Row::new(name);
        for (way, start) in self.each_campaign() {
            let began = clock();
            let runs = way.runs(scenario, start, self.runs_max);
            row.add(way, runs, self.runs_max, clock().saturating_sub(began));
        }
        self.rows.push(row);
    }

    /// The runs of all mistakes and campaigns of one way.
    #[must_use]
    pub fn total(&self, way: Way) -> u64 {
        self.rows.iter().flat_map(|row| row.runs_of(way)).sum()
    }

    /// Whether the table tells how the default strategy stands to the plainest.
    #[must_use]
    pub fn has_verdict(&self) -> bool {
        [Way::DEFAULT, Way::PLAINEST].iter().all(|way| self.ways.contains(way))
    }

    /// Whether the default strategy took no more runs than `Uniform`, all mistakes and campaigns together.
    #[must_use]
    pub fn is_default_no_slower(&self) -> bool {
        self.total(Way::DEFAULT) <= self.total(Way::PLAINEST)
    }

    /// How long all mistakes and campaigns of one way took.
    #[must_use]
    pub fn time(&self, way: Way) -> Duration {
        self.rows.iter().flat_map(|row| row.times_of(way)).sum()
    }

    /// The same table of the median seconds to detection; it differs from one time to the next.
    #[must_use]
    pub fn seconds(&self) -> String {
        let shown = |time: Duration| format!("{:.3}", time.as_secs_f64());
        let cell = |row: &Row, way: Way| {
            zoo::median(row.times_of(way).to_vec()).map_or_else(|| "-".to_owned(), shown)
        };
        let total = ("all seconds of all campaigns", |way| shown(self.time(way)));
        format!("median seconds to detection, in the same campaigns\n{}", self.table(cell, total))
    }

    fn table(
        &self,
        cell: impl Fn(&Row, Way) -> String,
        (total_name, total): (&str, impl Fn(Way) -> String),
    ) -> String {
        let mut text = line("", self.ways.iter().map(Way::to_string));
        for row in &self.rows {
            text += &line(&row.name, self.ways.iter().map(|way| cell(row, *way)));
        }
        text + &line(total_name, self.ways.iter().map(|way| total(*way)))
    }

    fn runs(&self, row: &Row, way: Way) -> String {
        match zoo::median(row.runs_of(way).to_vec()) {
            Some(median) if median <= self.runs_max => median.to_string(),
            Some(_) => format!(">{}", self.runs_max),
            None => "-".to_owned(),
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { campaigns, runs_max, .. } = self;
        writeln!(f, "median runs to detection, {campaigns} campaigns of at most {runs_max} runs each")?;
        let total = ("all runs of all campaigns", |way| self.total(way).to_string());
        f.write_str(&self.table(|row, way| self.runs(row, way), total))?;
        if !self.has_verdict() {
            return Ok(());
        }
        let (uniform, mix) = (self.total(Way::PLAINEST), self.total(Way::DEFAULT));
        let percent = (u128::from(mix) * 100).checked_div(u128::from(uniform)).unwrap_or(100);
        let verdict = if self.is_default_no_slower() { "no slower" } else { "slower" };
        writeln!(
            f,
            "pooled: the default, mix, is {verdict} than uniform: {mix} runs against {uniform}, {percent} %"
        )
    }
}

/// One row: a name and its cells.
fn line(name: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: String = cells.map(|cell| format!(" {cell:>8}")).collect();
    format!("{name:<32}{cells}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_lower_middle_and_says_where_nothing_was_found() {
        let mut table = Comparison::new(Way::ALL.to_vec(), 4, 10);
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

    #[test]
    fn a_table_of_some_ways_has_their_columns_and_a_verdict_only_of_both() {
        let mut row = Row::new("one");
        for (runs, secs) in [(Some(7), 2), (None, 3), (Some(2), 1)] {
            row.add(Way::DEFAULT, runs, 9, Duration::from_secs(secs));
        }
        assert_eq!(row.runs[Way::DEFAULT.place()], [2, 7, 10]);
        let table = Comparison { rows: vec![row], ..Comparison::new(vec![Way::DEFAULT], 3, 9) };
        let lines: Vec<_> = table.to_string().lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 4, "{table}");
        assert_eq!(lines[1].split_whitespace().collect::<Vec<_>>(), ["mix"]);
        assert!(table.seconds().contains("2.000\n") && !table.has_verdict(), "{}", table.seconds());
        let campaigns = Comparison::new(vec![Way::Cover, Way::PLAINEST], 2, 9);
        let campaigns: Vec<_> = campaigns.each_campaign().map(|(way, _)| way).collect();
        assert_eq!(campaigns, [Way::Cover, Way::Cover, Way::PLAINEST, Way::PLAINEST]);
    }

    #[test]
    fn words_of_ways_read_back() {
        for way in Way::ALL {
            assert_eq!(Way::parse(&way.to_string()), Ok(way));
        }
        assert_eq!(Way::parse("all"), Err("allowed: one of uniform, pct, swarm, mix, cover".to_owned()));
        assert_eq!(Way::DEFAULT, Way::Seeds(Strategy::default()));
    }
}
