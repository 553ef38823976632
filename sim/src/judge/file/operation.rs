//! How an operation is judged by what its caller is told of it.

use super::super::{
    BUSY_ONLY_AFTER_TIMEOUT, CLOCK_UNDER_LOCK, FAILURE_CHANGES_NOTHING, ONE_TRANSACTION, RESULT_MATCHES_MODEL,
};
use super::{FileJudge, Model, Outcome, Running, asked};
use crate::computer::ProcessId;
use crate::model::Applied;

impl<M: Model> FileJudge<M> {
    /// An operation begins on a lane; its arguments may not be known yet.
    pub(in crate::judge) fn begin(
        &mut self,
        process: ProcessId,
        lane: usize,
        begun_at_us: i64,
        op: Option<M::Op>,
    ) {
        if self.running.len() <= lane {
            self.running.resize_with(lane + 1, || None);
        }
        self.running[lane] = Some(Running {
            process,
            begun_at_us,
            op,
            clock_read_at_us: None,
            locked_at_us: None,
            expected: None,
            committed: None,
            rewrote: false,
        });
    }

    /// The operation on a lane gave up on a lock: it must have waited for as long as the contract says (Q6).
    pub(in crate::judge) fn gave_up(&mut self, lane: usize, at_us: i64, patience_us: i64) {
        let Some(running) = self.running.get(lane).and_then(Option::as_ref) else { return };
        let waited_us = at_us - running.begun_at_us;
        if waited_us < patience_us {
            let detail = format!(
                "{} gave up on a lock after {} ms, expected at least {} ms",
                asked::<M>(running.op.as_ref()),
                waited_us / 1_000,
                patience_us / 1_000
            );
            self.found.push((BUSY_ONLY_AFTER_TIMEOUT, at_us, detail));
        }
    }

    /// The operation on a lane has read the clock; with that its arguments are known.
    pub(in crate::judge) fn set_op(&mut self, lane: usize, op: M::Op, at_us: i64) {
        if let Some(Some(running)) = self.running.get_mut(lane) {
            running.op = Some(op);
            running.clock_read_at_us = Some(at_us);
        }
    }

    /// The operation on a lane ended.
    pub(in crate::judge) fn end(&mut self, lane: usize, at_us: i64, outcome: Outcome<M::Result>) {
        let Some(running) = self.running.get_mut(lane).and_then(Option::take) else { return };
        let Running { op, clock_read_at_us, locked_at_us, expected, committed, rewrote, .. } = running;
        let asked = || asked::<M>(op.as_ref());
        let locked = locked_at_us.is_some();
        if let (Some(read_us), Some(locked_us)) = (clock_read_at_us, locked_at_us)
            && read_us < locked_us
        {
            let late_us = locked_us - read_us;
            let detail = format!("{} got the write lock {late_us} us after it had read the clock", asked());
            self.found.push((CLOCK_UNDER_LOCK, at_us, detail));
        }
        match (outcome, committed) {
            (Outcome::Returned(result), Some((number, wanted))) => {
                if let Some(last) = self.last_commit.as_mut().filter(|last| last.number == number) {
                    last.acknowledged = true;
                }
                if !wanted.contains(&result) {
                    let (asked, expected) = (asked(), alternatives::<M>(&wanted));
                    let result = M::exactly(&result);
                    let detail = format!("{asked} committed and returned: {result}; expected: {expected}");
                    self.found.push((RESULT_MATCHES_MODEL, at_us, detail));
                }
            }
            (Outcome::Returned(result), None) => {
                if rewrote {
                    // A commit of the same rows: whatever was committed before it is durable now.
                    self.last_commit = None;
                } else if M::confirms(&result) {
                    self.rely_on_last_commit(op.as_ref());
                }
                self.judge_unchanged(op, locked, expected, &result, at_us);
            }
            (Outcome::Failed, Some(_)) => {
                let detail = format!("{} failed, but its change is committed", asked());
                self.found.push((FAILURE_CHANGES_NOTHING, at_us, detail));
            }
            (Outcome::Failed | Outcome::Unknown, _) => {}
        }
    }

    /// A caller was told that its change is in place. If it was the last commit that had made it, somebody
    /// relies on that commit now, whatever its own caller was told.
    fn rely_on_last_commit(&mut self, op: Option<&M::Op>) {
        if let (Some(last), Some(op)) = (&mut self.last_commit, op) {
            last.acknowledged |= last.before.outcomes(op).iter().any(|(_, applied)| applied.changed);
        }
    }

    fn judge_unchanged(
        &mut self,
        op: Option<M::Op>,
        locked: bool,
        expected: Option<Vec<Applied<M::Result>>>,
        result: &M::Result,
        at_us: i64,
    ) {
        let (asked, told) = (|| asked::<M>(op.as_ref()), || M::exactly(result));
        let Some(expected) = expected else {
            if M::needs_no_lock(result) {
                return;
            }
            let how = if locked { "it still holds" } else { "it never held" };
            let detail = format!("{} returned: {}; {how} the write lock", asked(), told());
            self.found.push((ONE_TRANSACTION, at_us, detail));
            return;
        };
        match expected.iter().find(|expected| expected.result == *result) {
            Some(expected) if !expected.changed => {}
            Some(_) => {
                let detail =
                    format!("{} returned: {}; without a commit, but it must change rows", asked(), told());
                self.found.push((ONE_TRANSACTION, at_us, detail));
            }
            None => {
                let regular = expected.first().map(|expected| M::exactly(&expected.result));
                let regular = regular.unwrap_or_else(|| "nothing".to_owned());
                let detail = format!("{} returned: {}; expected: {regular}", asked(), told());
                self.found.push((RESULT_MATCHES_MODEL, at_us, detail));
            }
        }
    }
}

fn alternatives<M: Model>(results: &[M::Result]) -> String {
    results.iter().map(M::exactly).collect::<Vec<_>>().join(", or ")
}
