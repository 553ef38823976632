//! How deliveries are judged: what workers put on the wire, what came of it, and what they were told.

use std::collections::BTreeMap;

use ackward::rules::Name;

use super::{
    EFFECT_ONCE, Judges, KEY_IS_THE_JOBS, NO_LOCK_WHILE_SENDING, ONE_POST_PER_ATTEMPT, PERMANENT_IF_REFUSED,
    SENDS_WITHIN_BUDGET,
};
use crate::choice::REFUSALS;
use crate::computer::{ProcessId, World};
use crate::numbers::count;

/// What was seen of all deliveries.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    /// Attempts for each job.
    sends: BTreeMap<Name, i64>,
    /// Each worker's last attempts for each job.
    attempts: BTreeMap<(ProcessId, Name), Attempts>,
    /// Requests on the wire for each job.
    pub(super) wire: BTreeMap<Name, i64>,
    /// Answers on the wire that refuse for good, less the attempts that ended so.
    refusals_left: u64,
    /// How often each job was acknowledged.
    pub(super) acknowledged: BTreeMap<Name, i64>,
}

/// A worker's attempts to deliver a job that overlap: more than one only where a slot is about to send on a lease
/// that it has lost, while another slot of the same worker has the job already.
#[derive(Debug, Clone, Copy, Default)]
struct Attempts {
    /// Under way now.
    open: u32,
    /// Made since none was under way.
    made: u32,
    /// Requests on the wire since then.
    posts: u32,
}

impl Attempts {
    fn begin(&mut self) {
        if self.open == 0 {
            *self = Self::default();
        }
        self.open += 1;
        self.made += 1;
    }

    fn end(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// A request goes out; whether that is one for an attempt at most.
    fn post(&mut self) -> bool {
        self.posts += 1;
        self.posts <= self.made
    }
}

impl Deliveries {
    /// A process's attempts ended with it.
    pub(super) fn died(&mut self, process: ProcessId) {
        self.attempts
            .iter_mut()
            .filter(|((of, _), _)| *of == process)
            .for_each(|(_, attempts)| attempts.open = 0);
    }
}

impl Judges {
    /// A worker is about to send a job: no connection of its may hold a lock, unless an operation is under way on it,
    /// for another slot; and the job's budget must allow it. A lock that outlives its operation is seen when that ends.
    pub fn sending(&mut self, world: &World, process: ProcessId, id: &Name) {
        let at_us = world.now_us();
        let attempt = (process, id.clone());
        if world.holds_idle_lock(process) {
            let detail = format!("process {process} holds a lock on a file while it sends job {id}");
            self.fail(NO_LOCK_WHILE_SENDING, at_us, detail);
        }
        self.deliveries.attempts.entry(attempt).or_default().begin();
        let sends = self.deliveries.sends.entry(id.clone()).or_default();
        *sends += 1;
        let sends = *sends;
        let lives = 1 + self.queue.model().redrives().iter().filter(|row| row.id == *id).count() as i64;
        // A power cut under FULL can take back a claim whose job was sent: its attempt is counted anew.
        let taken_back = i64::from(self.queue.commits_lost());
        if let Some(job) = self.queue.model().job(id)
            && sends > job.max_attempts * lives + taken_back
        {
            let detail =
                format!("job {id} is sent for the {sends}th time, with max_attempts {}", job.max_attempts);
            self.fail(SENDS_WITHIN_BUDGET, at_us, detail);
        }
    }

    /// An attempt that [`sending`](Self::sending) told of has ended, in whatever way.
    pub fn sent(&mut self, process: ProcessId, id: &Name) {
        if let Some(attempts) = self.deliveries.attempts.get_mut(&(process, id.clone())) {
            attempts.end();
        }
    }

    /// A process has written to a stream: a worker no more than one request an attempt.
    pub(super) fn wrote_http(&mut self, process: ProcessId, bytes: &[u8], at_us: i64) {
        self.deliveries.refusals_left += u64::from(is_final_refusal(bytes));
        let Some(id) = posted(bytes) else { return };
        *self.deliveries.wire.entry(id.clone()).or_default() += 1;
        let Some(attempts) = self.deliveries.attempts.get_mut(&(process, id.clone())) else {
            let detail =
                format!("process {process} sends a request with the key {id}, and no job of that id");
            return self.fail(KEY_IS_THE_JOBS, at_us, detail);
        };
        if !attempts.post() {
            let Attempts { posts, made, .. } = *attempts;
            let detail = format!(
                "process {process} sends request {posts} of job {id} and made {}",
                count(made as u64, "attempt")
            );
            self.fail(ONE_POST_PER_ATTEMPT, at_us, detail);
        }
    }

    /// A sender gives a job up for good.
    pub fn refused_for_good(&mut self, world: &World, id: &Name) {
        if self.deliveries.refusals_left == 0 {
            let detail = format!("job {id} is given up for good, and no answer on the wire said so");
            self.fail(PERMANENT_IF_REFUSED, world.now_us(), detail);
        }
        self.deliveries.refusals_left = self.deliveries.refusals_left.saturating_sub(1);
    }

    /// A sender was told that the receiver has a job's effect.
    pub fn acknowledging(&mut self, world: &World, id: &Name, qty: i64) {
        *self.deliveries.acknowledged.entry(id.clone()).or_default() += 1;
        let effects =
            self.inbox.model().0.effects().iter().filter(|row| row.id == *id && row.qty == qty).count();
        if effects != 1 {
            let detail = format!(
                "job {id} is acknowledged with {} in the receiver's inbox",
                count(effects as u64, "effect")
            );
            self.fail(EFFECT_ONCE, world.now_us(), detail);
        }
    }
}

/// The job whose request these bytes begin (W1: its id is the idempotency key).
fn posted(bytes: &[u8]) -> Option<Name> {
    let head = str::from_utf8(bytes.strip_prefix(b"POST ")?).ok()?;
    let key = head.lines().find_map(|line| line.strip_prefix("idempotency-key: "))?;
    Name::new("id", key.strip_prefix('"')?.strip_suffix('"')?).ok()
}

/// Whether these bytes begin an HTTP answer that refuses for good: a 4xx that is not one of [`REFUSALS`].
fn is_final_refusal(bytes: &[u8]) -> bool {
    let status = bytes.strip_prefix(b"HTTP/1.1 ").and_then(|rest| str::from_utf8(rest.get(..3)?).ok());
    let status = status.and_then(|status| status.parse::<i64>().ok());
    status.is_some_and(|status| (400..500).contains(&status) && !REFUSALS.contains(&status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w1_attempts_that_overlap_have_a_request_each_and_others_have_one() {
        let mut attempts = Attempts::default();
        attempts.begin();
        // One that never reached the wire lends its request to nobody.
        attempts.end();
        attempts.begin();
        assert!(attempts.post() && !attempts.post());
        attempts.end();
        attempts.begin();
        attempts.begin();
        assert!(attempts.post() && attempts.post() && !attempts.post());
    }

    #[test]
    fn w1_a_request_is_known_by_its_idempotency_key() {
        let id = |text: &str| posted(text.as_bytes()).map(|id| id.to_string());
        let request = "POST /jobs HTTP/1.1\r\nhost: h\r\nidempotency-key: \"cake\"\r\n\r\n{}";
        assert_eq!(id(request), Some("cake".to_owned()));
        assert_eq!(id("POST /jobs HTTP/1.1\r\nhost: h\r\n\r\n{}"), None);
        assert_eq!(id("{\"id\":\"cake\"}"), None);
    }

    #[test]
    fn w2_refusals_for_good_are_4xx_other_than_those_to_be_tried_again() {
        for status in [400, 404, 405, 413, 415, 422, 499] {
            assert!(is_final_refusal(format!("HTTP/1.1 {status} No\r\n").as_bytes()), "{status}");
        }
        for status in [200, 302, 401, 403, 408, 409, 425, 429, 500, 503] {
            assert!(!is_final_refusal(format!("HTTP/1.1 {status} No\r\n").as_bytes()), "{status}");
        }
        assert!(!is_final_refusal(b"HTTP/1.1 4"));
    }
}
