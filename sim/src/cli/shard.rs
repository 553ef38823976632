//! Which part of a campaign this process runs, of several that CI starts side by side.

use std::fmt;

/// Most shards.
const TOTAL_MAX: u64 = 1_000_000;
/// How far apart shards begin where the time is given: none reaches the next one's seeds.
const DISTANCE: u64 = 1_000_000_000_000;

/// What the command line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// This one.
    Of(Shard),
    /// What the environment says, with the total where it does not say it.
    Auto(Option<u64>),
}

/// Part `index` of `total`, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shard {
    index: u64,
    total: u64,
}

impl Asked {
    /// Reads `2/3`, `auto` or `auto/3`.
    ///
    /// # Errors
    /// What is allowed.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let allowed = || {
            format!(
                "allowed: i/n with i from 1 to n and n up to {TOTAL_MAX}, such as 2/3, or auto, or auto/n"
            )
        };
        match text.split_once('/') {
            None if text == "auto" => Ok(Self::Auto(None)),
            Some(("auto", total)) => {
                let total = whole(total).filter(|total| (1..=TOTAL_MAX).contains(total));
                total.map(|total| Self::Auto(Some(total))).ok_or_else(allowed)
            }
            Some((index, total)) => {
                let shard =
                    whole(index).zip(whole(total)).and_then(|(index, total)| Shard::new(index, total));
                shard.map(Self::Of).ok_or_else(allowed)
            }
            None => Err(allowed()),
        }
    }

    /// The shard, with `variable` to look at the environment.
    ///
    /// # Errors
    /// What the environment lacks.
    pub(crate) fn resolve(self, variable: impl Fn(&str) -> Option<String>) -> Result<Shard, String> {
        let total = match self {
            Self::Of(shard) => return Ok(shard),
            Self::Auto(total) => total,
        };
        let number = |name: &str| -> Result<Option<u64>, String> {
            let Some(text) = variable(name).filter(|text| !text.is_empty()) else { return Ok(None) };
            whole(&text).map(Some).ok_or_else(|| format!("{name} is {text:?}, allowed: a whole number"))
        };
        let shard = |index: u64, total: u64, what: &str| {
            Shard::new(index, total).ok_or_else(|| {
                format!(
                    "{what} say shard {index} of {total}, allowed: from 1 to the total, up to {TOTAL_MAX}"
                )
            })
        };
        // Kubernetes counts from 0 and does not say how many there are.
        match (number("JOB_COMPLETION_INDEX")?, total) {
            (Some(index), Some(total)) => {
                return shard(index.saturating_add(1), total, "JOB_COMPLETION_INDEX and auto/n");
            }
            (Some(_), None) => {
                return Err(
                    "JOB_COMPLETION_INDEX does not say how many there are, allowed: --shard auto/n with \
                            the job's completions as n"
                        .to_owned(),
                );
            }
            (None, _) => {}
        }
        if let Some(of) = number("CI_NODE_TOTAL")? {
            // GitLab says no index where a job is not parallel.
            let index = number("CI_NODE_INDEX")?.or((of == 1).then_some(1));
            let index = index.ok_or("CI_NODE_TOTAL is set and CI_NODE_INDEX is not, allowed: both")?;
            return shard(index, total.unwrap_or(of), "CI_NODE_INDEX and CI_NODE_TOTAL");
        }
        if let Some(id) = number("SLURM_ARRAY_TASK_ID")? {
            let least = number("SLURM_ARRAY_TASK_MIN")?.unwrap_or(0);
            let step = number("SLURM_ARRAY_TASK_STEP")?.filter(|step| *step > 0).unwrap_or(1);
            let of = number("SLURM_ARRAY_TASK_COUNT")?.or(total);
            let of =
                of.ok_or("SLURM_ARRAY_TASK_ID is set and SLURM_ARRAY_TASK_COUNT is not, allowed: both")?;
            let index = (id.saturating_sub(least) / step).saturating_add(1);
            return shard(index, total.unwrap_or(of), "SLURM_ARRAY_TASK_ID, _MIN and _COUNT");
        }
        Err("--shard auto finds none of JOB_COMPLETION_INDEX, CI_NODE_TOTAL, SLURM_ARRAY_TASK_ID in the environment, \
             allowed: one of them, or --shard i/n"
            .to_owned())
    }
}

impl Shard {
    /// All of it.
    pub(crate) const WHOLE: Self = Self { index: 1, total: 1 };

    /// `None` unless 1 ≤ `index` ≤ `total` ≤ 1,000,000.
    pub(crate) fn new(index: u64, total: u64) -> Option<Self> {
        (1 <= index && index <= total && total <= TOTAL_MAX).then_some(Self { index, total })
    }

    /// Reads `2/3`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (index, total) = text.split_once('/')?;
        Self::new(whole(index)?, whole(total)?)
    }

    /// Its number, from 1 on.
    pub(crate) const fn index(self) -> u64 {
        self.index
    }

    /// How many there are.
    pub(crate) const fn total(self) -> u64 {
        self.total
    }

    /// Its part of `count` seeds from `start` on: first seed and count. The parts of all shards follow each other.
    pub(crate) fn part(self, start: u64, count: u64) -> (u64, u64) {
        let at = |index: u64| {
            let scaled = u128::from(count) * u128::from(index) / u128::from(self.total);
            u64::try_from(scaled).unwrap_or(count)
        };
        let (first, end) = (at(self.index - 1), at(self.index));
        (start.saturating_add(first), end - first)
    }

    /// Its first seed where the time is given; `None` where that would be above `most`.
    pub(crate) fn far(self, start: u64, most: u64) -> Option<u64> {
        let seed = start.checked_add((self.index - 1) * DISTANCE)?;
        (seed <= most).then_some(seed)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.total)
    }
}

fn whole(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auto(total: Option<u64>, set: &[(&str, &str)]) -> Result<String, String> {
        let variable =
            |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Asked::Auto(total).resolve(variable).map(|shard| shard.to_string())
    }

    #[test]
    fn parts_follow_each_other_and_leave_nothing_out() {
        for (count, total) in [(100, 3), (2, 5), (1_000_000_000, 7), (0, 2), (64, 64)] {
            let mut next = 11;
            for index in 1..=total {
                let (start, part) = Shard::new(index, total).unwrap().part(11, count);
                assert_eq!(start, next);
                next = start + part;
            }
            assert_eq!(next, 11 + count);
        }
    }

    #[test]
    fn with_a_time_shards_begin_far_apart() {
        let far = |index| Shard::new(index, 3).unwrap().far(7, u64::MAX);
        assert_eq!((far(1), far(3)), (Some(7), Some(2_000_000_000_007)));
        assert_eq!(Shard::new(2, 2).unwrap().far(5, 1_000), None);
    }

    #[test]
    fn words_are_read_and_wrong_ones_are_told_what_is_allowed() {
        assert_eq!(Asked::parse("2/3"), Ok(Asked::Of(Shard { index: 2, total: 3 })));
        assert_eq!(Asked::parse("auto"), Ok(Asked::Auto(None)));
        assert_eq!(Asked::parse("auto/8"), Ok(Asked::Auto(Some(8))));
        for wrong in ["", "0/3", "4/3", "1/0", "a/b", "+1/3", "1/3/4", "auto/0", "auto/", "1/1000001", "3"] {
            assert!(Asked::parse(wrong).unwrap_err().contains("such as 2/3"), "{wrong}");
        }
    }

    #[test]
    fn the_environment_of_each_system_says_the_shard() {
        let is = |got: Result<String, String>, want: &str| assert_eq!(got, Ok(want.to_owned()));
        is(auto(None, &[("CI_NODE_INDEX", "2"), ("CI_NODE_TOTAL", "5")]), "2/5");
        is(auto(None, &[("CI_NODE_TOTAL", "1")]), "1/1");
        is(auto(Some(4), &[("JOB_COMPLETION_INDEX", "0")]), "1/4");
        let slurm = |id| {
            [("SLURM_ARRAY_TASK_ID", id), ("SLURM_ARRAY_TASK_MIN", "10"), ("SLURM_ARRAY_TASK_COUNT", "3")]
        };
        is(auto(None, &slurm("12")), "3/3");
        is(auto(None, &[slurm("14").as_slice(), &[("SLURM_ARRAY_TASK_STEP", "2")]].concat()), "3/3");
    }

    #[test]
    fn what_the_environment_lacks_is_named() {
        let says = |got: Result<String, String>, part: &str| {
            assert!(got.as_ref().unwrap_err().contains(part), "{got:?}")
        };
        says(auto(None, &[]), "CI_NODE_TOTAL");
        says(auto(None, &[("JOB_COMPLETION_INDEX", "3")]), "auto/n");
        says(auto(Some(3), &[("JOB_COMPLETION_INDEX", "3")]), "shard 4 of 3");
        says(auto(None, &[("CI_NODE_TOTAL", "3")]), "CI_NODE_INDEX is not");
        says(auto(None, &[("CI_NODE_TOTAL", "many")]), "CI_NODE_TOTAL is \"many\"");
    }
}
