//! Invariants of the queue's rows, whoever wrote them: of one state, and of the step from one committed
//! state to the next. They hold for rows that our own operations make.

use ackward::rules::{Reason, Status};

use super::{JobRow, QueueModel};

/// A broken invariant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{property}: {detail}")]
pub struct Broken {
    /// The invariant's name, one of [`PROPERTIES`].
    pub property: &'static str,
    /// Which job or row, and what it holds.
    pub detail: String,
}

/// A column is out of its range.
pub(crate) const ROW_RANGE: &str = "row-range";
/// Status and the other columns of a row do not fit together.
pub(crate) const ROW_STATUS: &str = "row-status";
/// A job or an audit row vanished, or changed what never changes.
pub(crate) const ROW_KEPT: &str = "row-kept";
/// A job's token is lower than it was.
pub(crate) const TOKEN_FALLS: &str = "token-falls";
/// A new claim carries a token that was issued before.
pub(crate) const TOKEN_REPEATS: &str = "token-repeats";
/// A finished job changed, or a dead one lives again without a redrive.
pub(crate) const FINISHED_STAYS: &str = "finished-stays";

/// Names of the invariants.
pub const PROPERTIES: &[&str] =
    &[ROW_RANGE, ROW_STATUS, ROW_KEPT, TOKEN_FALLS, TOKEN_REPEATS, FINISHED_STAYS];

impl QueueModel {
    /// Checks every row on its own.
    ///
    /// # Errors
    /// The first [`Broken`] invariant.
    pub fn check_rows(&self) -> Result<(), Broken> {
        for (seq, job) in self.jobs() {
            if !job.is_in_range() {
                return Err(broken(ROW_RANGE, *seq, job, "a column is out of range"));
            }
            if let Some(problem) = misfit(job) {
                return Err(broken(ROW_STATUS, *seq, job, problem));
            }
        }
        for row in self.redrives() {
            if self.job(&row.id).is_none_or(|job| job.token < row.token) {
                let detail = format!("redrive {} of job {} has token {}", row.seq, row.id, row.token);
                return Err(Broken { property: ROW_STATUS, detail });
            }
        }
        Ok(())
    }

    /// Checks the step from `before`, an earlier committed state of the same file, to this one; any number of
    /// commits may lie between them.
    ///
    /// # Errors
    /// The first [`Broken`] invariant.
    pub fn check_step(&self, before: &Self) -> Result<(), Broken> {
        if !self.redrives().starts_with(before.redrives()) {
            let detail =
                format!("{} audit rows before, {} now", before.redrives().len(), self.redrives().len());
            return Err(Broken { property: ROW_KEPT, detail });
        }
        for (seq, old) in before.jobs() {
            let Some(new) = self.jobs().get(seq) else {
                return Err(broken(ROW_KEPT, *seq, old, "the job vanished"));
            };
            if old == new {
                continue;
            }
            let redrives = &self.redrives()[before.redrives().len()..];
            let is_redriven = redrives.iter().any(|row| row.id == new.id);
            check_job(*seq, old, new, is_redriven)?;
        }
        Ok(())
    }
}

/// Checks how one job changed.
fn check_job(seq: i64, old: &JobRow, new: &JobRow, is_redriven: bool) -> Result<(), Broken> {
    if (&old.id, old.qty, old.max_attempts) != (&new.id, new.qty, new.max_attempts) {
        return Err(broken(ROW_KEPT, seq, new, "id, qty or max_attempts changed"));
    }
    if new.token < old.token {
        return Err(broken(TOKEN_FALLS, seq, new, &format!("the token was {}", old.token)));
    }
    let is_renewed = old.status == Status::Leased && old.owner == new.owner && old.attempts == new.attempts;
    if new.status == Status::Leased && new.token == old.token && !is_renewed {
        return Err(broken(TOKEN_REPEATS, seq, new, &format!("the token was issued to {}", owner(old))));
    }
    let is_final = old.status == Status::Done || (old.status == Status::Dead && !is_redriven);
    if is_final {
        return Err(broken(FINISHED_STAYS, seq, new, &format!("the job was {}", old.status)));
    }
    if old.deadline != new.deadline && !is_redriven {
        return Err(broken(ROW_KEPT, seq, new, &format!("the deadline was {}", old.deadline)));
    }
    Ok(())
}

/// What does not fit together in a row.
fn misfit(job: &JobRow) -> Option<&'static str> {
    let is_leased = job.status == Status::Leased;
    if job.owner.is_some() != is_leased || job.lease_until.is_some() != is_leased {
        return Some("owner and lease_until belong to a leased job, and only to it");
    }
    if job.lease_until.is_some_and(|until| until > job.deadline) {
        return Some("the lease ends after the deadline");
    }
    if job.attempts > job.max_attempts {
        return Some("more attempts than its budget");
    }
    if job.token < job.attempts {
        return Some("fewer tokens than attempts");
    }
    let was_claimed = job.attempts >= 1;
    match (job.status, job.reason) {
        (Status::Pending, _) if job.attempts == job.max_attempts => Some("pending without an attempt left"),
        (Status::Pending, Some(Reason::Retry)) if !was_claimed => Some("a retry without an attempt"),
        (Status::Pending, _) if job.available_at >= job.deadline => Some("pending beyond its deadline"),
        (Status::Pending, None | Some(Reason::Retry)) => None,
        (Status::Leased | Status::Done, None) if was_claimed => None,
        (Status::Leased | Status::Done, None) => Some("claimed without an attempt"),
        (Status::Dead, Some(Reason::Deadline)) => None,
        (Status::Dead, Some(Reason::Exhausted)) if job.attempts == job.max_attempts => None,
        (Status::Dead, Some(Reason::Exhausted)) => Some("exhausted with attempts left"),
        (Status::Dead, Some(Reason::Permanent)) if was_claimed => None,
        (Status::Dead, Some(Reason::Permanent)) => Some("refused without an attempt"),
        _ => Some("the reason does not fit the status"),
    }
}

fn broken(property: &'static str, seq: i64, job: &JobRow, problem: &str) -> Broken {
    let row: Vec<_> = job.cells(seq).iter().map(ToString::to_string).collect();
    Broken { property, detail: format!("job {}: {problem}: ({})", job.id, row.join(", ")) }
}

fn owner(job: &JobRow) -> &str {
    job.owner.as_ref().map_or("an earlier claim", |owner| owner.as_str())
}
