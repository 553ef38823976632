//! How the end of a run is held against the right value that its scenario states.

use ackward::rules::Name;

use super::{Judges, RIGHT_VALUE};
use crate::numbers::count;
use crate::scenario::{Consumer, ConsumerOutcome, Count, JobOutcome, Scenario};

impl Judges {
    /// Every job and every consumer must have ended as the scenario says.
    pub fn check_outcomes(&mut self, scenario: &Scenario, at_us: i64) {
        for outcome in &scenario.expect.jobs {
            for id in scenario.jobs_named(&outcome.id) {
                for detail in self.differences(outcome, &id) {
                    self.fail(RIGHT_VALUE, at_us, detail);
                }
            }
        }
        for outcome in &scenario.expect.consumers {
            for detail in self.consumer_differences(scenario, outcome) {
                self.fail(RIGHT_VALUE, at_us, detail);
            }
        }
    }

    fn consumer_differences(&self, scenario: &Scenario, outcome: &ConsumerOutcome) -> Vec<String> {
        let ConsumerOutcome { name, last, connections } = outcome;
        let of_scenario = scenario.consumers.iter().find(|consumer| consumer.name == *name);
        let file = of_scenario.map(Consumer::store_file);
        let store = self.stores.iter().find(|store| Some(&store.file.judged().file) == file.as_ref());
        let Some(store) = store else { return vec![format!("there is no consumer {name}")] };
        let mut wrong = Vec::new();
        let stands_at = store.file.model().0.state().0;
        if let Some(last) = last.filter(|last| *last != stands_at) {
            wrong.push(format!("consumer {name} is at event {stands_at}, expected: {last}"));
        }
        if let Some(expected) = connections.filter(|expected| !expected.allows(store.connections)) {
            let found = store.connections;
            wrong.push(format!(
                "consumer {name} made {}, expected: {expected}",
                count(found.unsigned_abs(), "connection")
            ));
        }
        wrong
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
        let counts: [(&str, &str, Option<Count>, i64); 4] = [
            ("attempt", "", outcome.attempts, job.attempts),
            ("request", " on the wire", outcome.posts, posts),
            ("effect", "", outcome.effects, effects as i64),
            ("redrive", "", outcome.redrives, redrives as i64),
        ];
        for (what, place, expected, found) in counts {
            if let Some(expected) = expected.filter(|expected| !expected.allows(found)) {
                let found = count(found.unsigned_abs(), what);
                wrong.push(format!("job {id} has {found}{place}, expected: {expected}"));
            }
        }
        if let Some(expected) = outcome.token.filter(|expected| !expected.allows(job.token)) {
            wrong.push(format!("job {id} has token {}, expected: {expected}", job.token));
        }
        wrong
    }
}
