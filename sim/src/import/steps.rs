//! What two runs have in common: the steps of each job, claim by claim. Times are left out.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::Line;

/// Something that happened to a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Who did it.
    pub worker: String,
    /// What, in the word of the log.
    pub what: &'static str,
    /// The job.
    pub job: String,
    /// The token, counted from the first one of the job that the log knows, from 1.
    pub token: i64,
    /// What came of it.
    pub outcome: String,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { worker, what, job, token, outcome } = self;
        let outcome = if outcome.is_empty() { String::new() } else { format!(" ({outcome})") };
        write!(f, "{worker} {what} {job} with token {token}{outcome}")
    }
}

/// The steps of all jobs: by job, then by token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Steps(BTreeMap<String, BTreeMap<i64, Claim>>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Claim {
    steps: Vec<Step>,
    /// Whether the worker was done with it.
    is_closed: bool,
    /// Whether the job was over with it.
    is_final: bool,
}

/// How near one run comes to a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Likeness {
    /// Steps of the log that the run has too, from each job's first on.
    pub same: usize,
    /// Steps of the log.
    pub of: usize,
    /// Whether it also did nothing more, where the log would tell.
    pub is_exact: bool,
    /// The first difference.
    pub differs: Option<String>,
}

impl Steps {
    /// The steps that lines tell.
    pub fn of<'l>(lines: impl Iterator<Item = &'l Line>) -> Self {
        let mut jobs: BTreeMap<String, BTreeMap<i64, Claim>> = BTreeMap::new();
        for line in lines {
            let claim = jobs.entry(line.job().to_owned()).or_default().entry(line.token()).or_default();
            claim.is_closed |= line.what.is_last();
            claim.is_final |=
                matches!(&line.what, super::What::Finished(_, _, word) if word == "done" || word == "dead");
            claim.steps.push(Step {
                worker: line.ticket.owner.to_string(),
                what: line.what.as_str(),
                job: line.job().to_owned(),
                token: line.token(),
                outcome: line.what.outcome(),
            });
        }
        for claims in jobs.values_mut() {
            let before = claims.keys().next().map_or(0, |first| first - 1);
            *claims = std::mem::take(claims)
                .into_iter()
                .map(|(token, claim)| (token - before, claim.less(before)))
                .collect();
        }
        Self(jobs)
    }

    /// How near `run` comes to this log.
    #[must_use]
    pub fn likeness(&self, run: &Self) -> Likeness {
        let mut likeness = Likeness { same: 0, of: 0, is_exact: true, differs: None };
        for (job, claims) in &self.0 {
            let mut is_same = true;
            let theirs = run.0.get(job);
            for (token, claim) in claims {
                likeness.of += claim.steps.len();
                let found = theirs.and_then(|claims| claims.get(token)).map_or(&[][..], |claim| &claim.steps);
                let same = claim.steps.iter().zip(found).take_while(|(ours, theirs)| ours == theirs).count();
                // What follows a difference is not the same story.
                likeness.same += if is_same { same } else { 0 };
                let may_go_on = !claim.is_closed && claims.keys().next_back() == Some(token);
                let is_whole = same == claim.steps.len() && (found.len() == same || may_go_on);
                if is_same && !is_whole {
                    is_same = false;
                    likeness.differ(claim.steps.get(same), found.get(same));
                }
            }
            let last = claims.iter().next_back();
            let more = last.filter(|(_, claim)| claim.is_final).and_then(|(last, _)| {
                theirs
                    .and_then(|claims| claims.range(last + 1..).next())
                    .and_then(|(_, claim)| claim.steps.first())
            });
            if is_same && more.is_some() {
                likeness.differ(None, more);
            }
        }
        likeness
    }
}

impl Likeness {
    fn differ(&mut self, log: Option<&Step>, run: Option<&Step>) {
        let text = |step: Option<&Step>| step.map_or("nothing more".to_owned(), ToString::to_string);
        self.is_exact = false;
        self.differs.get_or_insert_with(|| format!("the log: {}; the run: {}", text(log), text(run)));
    }
}

impl Claim {
    fn less(mut self, before: i64) -> Self {
        self.steps.iter_mut().for_each(|step| step.token -= before);
        self
    }
}
