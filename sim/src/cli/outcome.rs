//! What came of a scenario's seeds, and what that means: the verdict, the exit code, the last lines.

use ackward_sim::campaign::{Broken, Tally};
use ackward_sim::findability::HitRate;
use ackward_sim::judge::RIGHT_VALUE;
use ackward_sim::strategy::Strategy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Exit;
use super::folder::Entry;
use super::ranges::Ranges;
use super::text::{count, grouped, shell_word};

/// What came of a scenario's seeds.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    /// Chunks whose child died, by their first seed.
    pub(crate) deaths: Vec<Death>,
    /// A run in a fresh process that differed from the one before.
    pub(crate) cold: Option<Cold>,
    /// The seeds that were run.
    pub(crate) ranges: Ranges,
    /// Chunks that still ran when time was up and were ended: first seed and count.
    pub(crate) given_up: Vec<(u64, u64)>,
    /// Real time, in seconds.
    pub(crate) seconds: f64,
}

/// A chunk whose child died.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Death {
    /// The first seed of the chunk.
    pub(crate) start: u64,
    /// How many seeds it has.
    pub(crate) count: u64,
    /// How the child ended.
    pub(crate) how: String,
}

/// The same seed in two processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Cold {
    /// The seed.
    pub(crate) seed: u64,
    /// The hash of its run among others, 16 hexadecimal digits.
    #[serde(with = "hex")]
    #[schemars(with = "String")]
    pub(crate) warm: u64,
    /// The hash of its run in a process of its own, 16 hexadecimal digits.
    #[serde(with = "hex")]
    #[schemars(with = "String")]
    pub(crate) cold: u64,
}

/// Why a scenario is not green.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) exit: Exit,
    /// One or two words for the table.
    pub(crate) word: String,
    /// What is wrong, on one line.
    pub(crate) what: String,
    /// More of it.
    pub(crate) detail: String,
    /// The seed that broke a property, where one did.
    pub(crate) seed: Option<u64>,
    /// How often the failure strikes, or what differed.
    pub(crate) notes: Vec<String>,
    /// What was made of it: what it was shrunk to, where its bundle is.
    pub(crate) made: Vec<String>,
    /// The command that shows it again.
    pub(crate) command: String,
}

impl Outcome {
    /// Adds what came of a chunk.
    pub(crate) fn merge(&mut self, tally: Tally) {
        self.tally.merge(tally);
    }

    /// Adds a chunk whose child died.
    pub(crate) fn bury(&mut self, death: Death) {
        self.deaths.push(death);
        self.deaths.sort();
    }

    /// What is wrong first, the worst kind before others; `None` where all is well.
    pub(crate) fn problem(&self, entry: &Entry) -> Option<Problem> {
        self.nondeterminism(entry)
            .or_else(|| self.death(entry))
            .or_else(|| self.broken(entry))
            .or_else(|| self.unended(entry))
            .or_else(|| self.unfailed(entry))
            .or_else(|| self.missing(entry))
    }

    /// Time was up before a single seed ended.
    fn unended(&self, entry: &Entry) -> Option<Problem> {
        let (start, count) = self.given_up.first().filter(|_| self.tally.seeds == 0)?;
        let last = start + count.saturating_sub(1);
        Some(Problem {
            exit: Exit::Failed,
            word: "no seed ended".to_owned(),
            what: format!("none of the seeds {start} to {last} ended in time"),
            detail: "a longer --time, or --seeds, lets them end".to_owned(),
            seed: None,
            notes: Vec::new(),
            made: Vec::new(),
            command: entry.fuzz(*start, *count),
        })
    }

    /// The word for the table where nothing is wrong.
    pub(crate) fn good_word(&self, entry: &Entry) -> String {
        let expected = entry.scenario.expect.fails.as_deref();
        match expected.and_then(|property| self.tally.broken.get(property)) {
            Some(caught) => format!("caught at seed {}", caught.first.seed),
            None if self.tally.seeds == 0 => "not run".to_owned(),
            None if expected.is_some() => "not caught yet".to_owned(),
            None if !self.tally.unreached(&entry.scenario).is_empty() => "held so far".to_owned(),
            None => "held".to_owned(),
        }
    }

    fn nondeterminism(&self, entry: &Entry) -> Option<Problem> {
        let warm =
            self.tally.nondeterministic.first().map(|seed| (*seed, "run twice in one process".to_owned()));
        let cold = self.cold.map(|Cold { seed, warm, cold }| {
            (seed, format!("in one process its hash is {warm:016x}, in a fresh one {cold:016x}"))
        });
        let (seed, detail) = warm.into_iter().chain(cold).min_by_key(|(seed, _)| *seed)?;
        let what = format!("seed {seed} is not deterministic");
        let command = entry.replay(seed);
        Some(Problem {
            exit: Exit::Nondeterministic,
            word: "not deterministic".to_owned(),
            what,
            detail,
            seed: None,
            notes: Vec::new(),
            made: Vec::new(),
            command,
        })
    }

    fn death(&self, entry: &Entry) -> Option<Problem> {
        let Death { start, count, how } = self.deaths.first()?;
        let what = format!("seeds {start} to {} did not end", start + count.saturating_sub(1));
        let command = format!("{} --jobs 1", entry.fuzz(*start, *count));
        let detail = how.clone();
        let (seed, notes, made) = (None, Vec::new(), Vec::new());
        Some(Problem {
            exit: Exit::Failed,
            word: "died".to_owned(),
            what,
            detail,
            seed,
            notes,
            made,
            command,
        })
    }

    /// The first seed that broke a property that was not expected to break.
    fn broken(&self, entry: &Entry) -> Option<Problem> {
        let expected = entry.scenario.expect.fails.as_deref();
        let unexpected = self.tally.broken.iter().filter(|(property, _)| Some(property.as_str()) != expected);
        let Broken { seeds, first } = unexpected.map(|(_, broken)| broken).min_by_key(|b| b.first.seed)?;
        Some(Problem {
            exit: Exit::Failed,
            word: format!("broke {}", first.property),
            what: format!("seed {} breaks {}", first.seed, first.property),
            detail: first.detail.clone(),
            seed: Some(first.seed),
            notes: HitRate::new(*seeds, self.tally.seeds)
                .map(|rate| findability(entry, rate))
                .into_iter()
                .chain(beyond_the_scenario(entry, &first.property, first.seed))
                .collect(),
            made: Vec::new(),
            command: entry.replay(first.seed),
        })
    }

    /// A canary whose bug was not found.
    fn unfailed(&self, entry: &Entry) -> Option<Problem> {
        let expected = entry.scenario.expect.fails.as_deref()?;
        if self.tally.broken.contains_key(expected) || !self.has_enough(entry) || entry.is_abroad {
            return None;
        }
        let what = format!("no seed breaks {expected}, as expect.fails says");
        Some(self.unseen(entry, "not caught", what))
    }

    fn missing(&self, entry: &Entry) -> Option<Problem> {
        let missing = self.tally.missing(&entry.scenario);
        if missing.is_empty() {
            return None;
        }
        let what = format!("never reached: {}", missing.join(", "));
        Some(self.unseen(entry, "never reached", what))
    }

    /// Kinds of faults that never had an effect, as a problem.
    pub(crate) fn inert(&self, entry: &Entry) -> Option<Problem> {
        let inert = self.tally.inert(&entry.scenario);
        let what = format!("without any effect: {}", inert.join(", "));
        (!inert.is_empty()).then(|| self.unseen(entry, "inert faults", what))
    }

    /// The first seed of every property that was broken and was not expected to be, by seed.
    pub(crate) fn failing_seeds(&self, entry: &Entry) -> Vec<u64> {
        let expected = entry.scenario.expect.fails.as_deref();
        let unexpected = self.tally.broken.iter().filter(|(property, _)| Some(property.as_str()) != expected);
        let mut seeds: Vec<_> = unexpected.map(|(_, broken)| broken.first.seed).collect();
        seeds.sort_unstable();
        seeds
    }

    /// How many seeds failed that were not expected to, and chunks that died.
    pub(crate) fn failures(&self, entry: &Entry) -> u64 {
        self.tally.unexpected(&entry.scenario) + self.deaths.len() as u64
    }

    fn unseen(&self, entry: &Entry, word: &str, what: String) -> Problem {
        let least = entry.scenario.expect.seeds;
        let detail = format!("seeds run: {}; expect.seeds is {least}", grouped(self.tally.seeds));
        let start = self.ranges.first().map_or(1, |(start, _)| start);
        let command = entry.fuzz(start, self.tally.seeds);
        let (seed, notes, made) = (None, Vec::new(), Vec::new());
        Problem { exit: Exit::Failed, word: word.to_owned(), what, detail, seed, notes, made, command }
    }

    fn has_enough(&self, entry: &Entry) -> bool {
        self.tally.seeds >= entry.scenario.expect.seeds.unsigned_abs()
    }
}

impl Problem {
    /// The problem with its scenario; the last line is the command.
    pub(crate) fn in_full(&self, entry: &Entry) -> String {
        let head = format!("{}: {}", entry.path, self.what);
        let detail = self.detail.lines().chain(self.notes.iter().chain(&self.made).map(String::as_str));
        let detail = detail.map(|line| format!("  {line}"));
        let lines = std::iter::once(head).chain(detail).chain([self.command.clone()]);
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// How often a failure strikes, and what that means for its fix.
pub(crate) fn findability(entry: &Entry, rate: HitRate) -> String {
    let clean = |confidence| count(rate.clean_seeds(confidence), "clean seed");
    format!(
        "hit rate {rate}: after a fix, {} for 95 % confidence, {} for 99 %: cargo sim verify {} --was {rate}{}",
        clean(95),
        clean(99),
        shell_word(&entry.path),
        entry.options()
    )
}

/// A right value may be one at the scenario's own probabilities only, and a swarm seed has others.
fn beyond_the_scenario(entry: &Entry, property: &str, seed: u64) -> Option<String> {
    let strategist = entry.strategist();
    if property != RIGHT_VALUE || strategist.strategy().of_seed(seed) != Strategy::Swarm {
        return None;
    }
    let about = Some(strategist.about(seed)).filter(|about| about.contains("against the scenario"))?;
    Some(format!("the seed is one of {about}; --strategy uniform keeps to the scenario's own probabilities"))
}

/// A hash as 16 hexadecimal digits: not every reader of JSON has whole numbers of 64 bits.
mod hex {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(hash: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{hash:016x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        let text = String::deserialize(from)?;
        u64::from_str_radix(&text, 16).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use ackward_sim::campaign::Failure;
    use ackward_sim::scenario::{Net, Scenario};

    use super::*;

    fn entry(more: &str) -> Entry {
        let text = format!("about = \"x\"\n[[job]]\nid = \"a\"\n[[worker]]\nname = \"w\"\n{more}");
        let scenario = Scenario::parse("x.toml", text.as_bytes()).unwrap();
        let strategy = ackward_sim::strategy::Strategy::default();
        Entry { path: "x.toml".to_owned(), text, scenario, is_abroad: false, strategy }
    }

    fn broke(property: &str, seed: u64) -> Outcome {
        let (property, detail) = (property.to_owned(), "here".to_owned());
        let first = Failure { seed, property: property.clone(), detail, deviations: Vec::new() };
        let mut outcome = Outcome::default();
        outcome.tally.seeds = 500;
        outcome.tally.broken.insert(property, Broken { seeds: 1, first });
        outcome
    }

    fn exit(outcome: &Outcome, entry: &Entry) -> Exit {
        outcome.problem(entry).map_or(Exit::Held, |problem| problem.exit)
    }

    #[test]
    fn a_broken_property_ends_with_its_replay() {
        let entry = entry("");
        let problem = broke("settles", 7).problem(&entry).unwrap();
        assert_eq!(problem.exit, Exit::Failed);
        let text = problem.in_full(&entry);
        assert_eq!(
            text,
            "x.toml: seed 7 breaks settles\n  here\n  hit rate 1/500: after a fix, 1,497 clean seeds for 95 % \
             confidence, 2,301 clean seeds for 99 %: cargo sim verify x.toml --was 1/500\ncargo sim run x.toml --seed 7"
        );
    }

    #[test]
    fn a_wrong_value_of_a_swarm_seed_says_what_the_seed_has_beyond_the_scenario() {
        let random = entry("[faults]\nkill = 0.01");
        let is_swarm = |seed: &u64| random.strategist().about(*seed).contains("kill 8 times");
        let seed = (1..).find(is_swarm).unwrap();
        let note = |property| broke(property, seed).problem(&random).unwrap().notes.pop().unwrap();
        assert_eq!(
            note("right-value"),
            "the seed is one of swarm, against the scenario: kill 8 times; --strategy uniform keeps to the scenario's own \
             probabilities"
        );
        assert!(note("settles").starts_with("hit rate"));
        let plain = broke("right-value", seed).problem(&entry("")).unwrap();
        assert_eq!(plain.notes.len(), 1, "nothing is left to chance");
    }

    #[test]
    fn on_another_net_the_replay_names_it_and_expectations_are_not_judged() {
        let entry = entry("[expect]\nsometimes = [\"reclaim\"]\nseeds = 20").on(Some(Net::Turmoil));
        let problem = broke("settles", 7).problem(&entry).unwrap();
        assert_eq!(problem.command, "cargo sim run x.toml --seed 7 --net turmoil");
        let mut outcome = Outcome::default();
        outcome.tally.seeds = 20;
        assert_eq!(exit(&outcome, &entry), Exit::Held);
        assert_eq!(outcome.good_word(&entry), "held");
    }

    #[test]
    fn a_canary_must_fail_as_it_says() {
        let entry = entry("[expect]\nfails = \"settles\"\nseeds = 500");
        assert_eq!(exit(&broke("settles", 7), &entry), Exit::Held);
        assert_eq!(broke("settles", 7).good_word(&entry), "caught at seed 7");
        assert_eq!(exit(&broke("effect-once", 7), &entry), Exit::Failed);
        let mut green = Outcome::default();
        green.tally.seeds = 499;
        assert_eq!(exit(&green, &entry), Exit::Held);
        green.tally.seeds = 500;
        assert_eq!(exit(&green, &entry), Exit::Failed);
    }

    #[test]
    fn what_is_expected_sometimes_is_judged_from_its_seed_count_on() {
        let entry = entry("[expect]\nsometimes = [\"reclaim\"]\nseeds = 20");
        let mut outcome = Outcome::default();
        outcome.tally.seeds = 19;
        assert_eq!(exit(&outcome, &entry), Exit::Held);
        outcome.tally.seeds = 20;
        // Some part in the middle died, and was not counted.
        outcome.ranges.add(7, 12);
        outcome.ranges.add(30, 8);
        let problem = outcome.problem(&entry).unwrap();
        assert_eq!(problem.what, "never reached: reclaim");
        assert_eq!(problem.command, "cargo sim fuzz x.toml --start 7 --seeds 20");
    }

    #[test]
    fn a_run_that_is_not_deterministic_weighs_more_than_a_failure() {
        let entry = entry("");
        let mut warm = broke("settles", 1);
        warm.tally.nondeterministic = vec![9];
        assert_eq!(warm.problem(&entry).unwrap().what, "seed 9 is not deterministic");
        assert_eq!(exit(&warm, &entry), Exit::Nondeterministic);
        let mut cold = broke("settles", 1);
        cold.cold = Some(Cold { seed: 3, warm: 1, cold: 2 });
        assert_eq!(exit(&cold, &entry), Exit::Nondeterministic);
    }

    #[test]
    fn a_dead_child_names_its_chunk() {
        let mut outcome = Outcome::default();
        outcome.bury(Death { start: 65, count: 64, how: "a child process died (signal: 9)".to_owned() });
        let problem = outcome.problem(&entry("")).unwrap();
        assert_eq!(problem.what, "seeds 65 to 128 did not end");
        assert_eq!(problem.command, "cargo sim fuzz x.toml --start 65 --seeds 64 --jobs 1");
    }
}
