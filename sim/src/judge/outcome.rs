//! How the end of a run is held against the right value that its scenario states.

use ackward::rules::Name;

use super::{Judges, RIGHT_VALUE};
use crate::scenario::{Count, JobOutcome, Scenario};

impl Judges {
    /// Every job must have ended as the scenario says.
    pub fn check_outcomes(&mut self, scenario: &Scenario, at_us: i64) {
        for outcome in &scenario.expect.jobs {
            for id in scenario.jobs_named(&outcome.id) {
                for detail in self.differences(outcome, &id) {
                    self.fail(RIGHT_VALUE, at_us, detail);
                }
            }
        }
    }

    /// What is not as it must be, a sentence each.
    fn differences(&self, outcome: &JobOutcome, id: &Name) -> Vec<String> {
        let queue = self.queue.model();
        let Some(job) = queue.jobs().values().find(|job| job.id == *id) else {
            return vec![format!("there is no job {id}")];
        };
        let mut wrong = Vec::new();
        if let Some(status) = outcome.status.filter(|status| *status != job.status) {
            wrong.push(format!("job {id} is {}, expected: {status}", job.status));
        }
        if let Some(reason) = outcome.reason.filter(|reason| Some(*reason) != job.reason) {
            let found = job.reason.map_or("none", |reason| reason.as_str());
            wrong.push(format!("job {id} has the reason {found}, expected: {reason}"));
        }
        let effects = self.inbox.model().0.effects().iter().filter(|row| row.id == *id).count();
        let redrives = queue.redrives().iter().filter(|row| row.id == *id).count();
        let posts = self.deliveries.wire.get(id).copied().unwrap_or_default();
        let counts: [(&str, Option<Count>, i64); 5] = [
            ("attempts", outcome.attempts, job.attempts),
            ("as token", outcome.token, job.token),
            ("requests on the wire", outcome.posts, posts),
            ("effects", outcome.effects, effects as i64),
            ("redrives", outcome.redrives, redrives as i64),
        ];
        for (what, expected, found) in counts {
            if let Some(expected) = expected.filter(|expected| !expected.allows(found)) {
                wrong.push(format!("job {id} has {found} {what}, expected: {expected}"));
            }
        }
        wrong
    }
}
