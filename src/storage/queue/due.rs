//! What claim finds in the queue: the jobs that are due to die (Q26) and the first one that is eligible
//! (Q29, Q30). Reads only; bad rows are logged and passed over (M12).
//!
//! Nothing here may cost more when more jobs have finished, so each question goes to the one partial index
//! made for it, by name: the planner, left alone, walks the table for some of them.

use rusqlite::Connection;
use rusqlite::types::{ToSql, ToSqlOutput};

use crate::rules::{INSTANT_MAX_MS, Millis, Reason};

use super::row::{BadRow, Log, StoredJob, TOKEN_MAX, columns, first, no_token_left};

/// Whether anything but a plain claim of a pending job can be needed: one cheap question, mostly answered
/// with no. The last two terms find what only a hand can make: a lease without an end, to log it, and a
/// pending job with one, which stands apart from the others in the index.
const ANY: &str = "SELECT \
    EXISTS(SELECT 1 FROM jobs INDEXED BY ackward_jobs_deadline WHERE status = 'pending' AND deadline <= ?1) \
    OR EXISTS(SELECT 1 FROM jobs INDEXED BY ackward_jobs_live WHERE status = 'leased' AND lease_until <= ?1) \
    OR EXISTS(SELECT 1 FROM jobs INDEXED BY ackward_jobs_spent \
        WHERE status = 'pending' AND attempts >= max_attempts) \
    OR EXISTS(SELECT 1 FROM jobs INDEXED BY ackward_jobs_live WHERE status = 'leased' AND lease_until IS NULL) \
    OR EXISTS(SELECT 1 FROM jobs INDEXED BY ackward_jobs_live \
        WHERE status = 'pending' AND lease_until IS NOT NULL)";

const PAST_DEADLINE: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM jobs INDEXED BY ackward_jobs_deadline WHERE status = 'pending' AND deadline <= ?1 \
     UNION ALL SELECT ",
    columns!(),
    " FROM jobs INDEXED BY ackward_jobs_live \
     WHERE status = 'leased' AND lease_until <= ?1 AND deadline <= ?1"
);
const SPENT: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM jobs INDEXED BY ackward_jobs_spent WHERE status = 'pending' AND attempts >= max_attempts \
     UNION ALL SELECT ",
    columns!(),
    " FROM jobs INDEXED BY ackward_jobs_spent \
     WHERE status = 'leased' AND attempts >= max_attempts AND lease_until <= ?1"
);
const LEASE_ENDLESS: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM jobs INDEXED BY ackward_jobs_live WHERE status = 'leased' AND lease_until IS NULL UNION ALL SELECT ",
    columns!(),
    " FROM jobs INDEXED BY ackward_jobs_live WHERE status = 'leased' AND lease_until > ?1"
);

const FIRST_PENDING: &str = concat!(
    "SELECT ",
    columns!(),
    ", available_at <= ?1 FROM jobs INDEXED BY ackward_jobs_live \
     WHERE status = 'pending' AND lease_until IS NULL AND seq > ?2 ORDER BY seq LIMIT 1"
);
const HEAD: &str = concat!(
    "SELECT ",
    columns!(),
    ", available_at <= ?1 FROM jobs INDEXED BY ackward_jobs_live \
     WHERE status = 'pending' AND lease_until IS NULL ORDER BY seq LIMIT ?2"
);
const PENDING_BY_SEQ: &str = "SELECT seq, available_at <= ?1 FROM jobs INDEXED BY ackward_jobs_live \
    WHERE status = 'pending' AND lease_until IS NULL AND seq > ?2 ORDER BY seq";
const READY_BY_TIME: &str = "SELECT seq FROM jobs INDEXED BY ackward_jobs_available \
    WHERE status = 'pending' AND available_at <= ?1 AND seq > ?2";
/// Of the leases that are over, and of the pending jobs that stand apart.
const FIRST_OTHER: &str = "SELECT min(seq) FROM (\
    SELECT min(+seq) AS seq FROM jobs INDEXED BY ackward_jobs_live \
    WHERE status = 'leased' AND lease_until <= ?1 AND seq > ?2 \
    UNION ALL SELECT min(+seq) FROM jobs INDEXED BY ackward_jobs_live \
    WHERE status = 'pending' AND lease_until IS NOT NULL AND available_at <= ?1 AND seq > ?2)";
const BY_SEQ: &str = concat!("SELECT ", columns!(), " FROM jobs WHERE seq = ?1");

/// Whether the other two questions need asking at all.
pub(super) fn any_due(connection: &Connection, now: Millis) -> rusqlite::Result<bool> {
    connection.prepare_cached(ANY)?.query_row([now.get()], |row| row.get(0))
}

/// The jobs that die now, with the reason (Q26, Q27).
pub(super) fn doomed(
    connection: &Connection,
    now: Millis,
    log: &mut Log<'_>,
) -> rusqlite::Result<Vec<(i64, Reason)>> {
    let mut doomed = Vec::new();
    let mut take = |job: Result<StoredJob, _>| match job {
        Ok(job) if job.deadline_ms <= now.get() => doomed.push((job.seq, Reason::Deadline)),
        // Both questions are asked for no other reason (Q26).
        Ok(job) => doomed.push((job.seq, Reason::Exhausted)),
        Err(bad) => log.bad(&bad),
    };
    let at = now.get();
    each(connection, PAST_DEADLINE, [at], &mut take)?;
    each(connection, SPENT, [at], &mut take)?;
    each(connection, LEASE_ENDLESS, [INSTANT_MAX_MS], |job| {
        if let Err(bad) = job {
            log.bad(&bad);
        }
    })?;
    Ok(doomed)
}

/// The eligible job with the least seq, once the doomed ones are dead. `any_due` as [`any_due`] said: where
/// it is false, only pending jobs need looking at.
pub(super) fn first_eligible(
    connection: &Connection,
    now: Millis,
    any_due: bool,
    log: &mut Log<'_>,
) -> rusqlite::Result<Option<StoredJob>> {
    let mut after = After(None);
    loop {
        let Some((seq, job)) = candidate(connection, now, any_due, after)? else {
            return Ok(None);
        };
        match job {
            Ok(job) if job.token < TOKEN_MAX => return Ok(Some(job)),
            Ok(job) => log.bad(&BadRow { seq: job.seq, invalid: no_token_left(job.token) }),
            Err(bad) => log.bad(&bad),
        }
        after = After(Some(seq));
    }
}

/// The seq behind which jobs are looked at, or `None` for all: a row made by hand may have the least that there is.
#[derive(Clone, Copy)]
struct After(Option<i64>);

impl ToSql for After {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        // Less than every integer. SQLite compares the two kinds of numbers exactly.
        Ok(self.0.map_or(ToSqlOutput::from(-1e19), ToSqlOutput::from))
    }
}

/// The jobs at the front of the queue, as far as they are sound, pending and ready, at most `max`: where nothing else
/// is due, those are the first eligible ones, and one walk finds them all.
pub(super) fn head(connection: &Connection, now: Millis, max: usize) -> rusqlite::Result<Vec<StoredJob>> {
    let mut statement = connection.prepare_cached(HEAD)?;
    let mut rows = statement.query((now.get(), i64::try_from(max).unwrap_or(i64::MAX)))?;
    let mut jobs = Vec::new();
    while let Some(row) = rows.next()? {
        match StoredJob::read(row)? {
            Ok(job) if row.get::<_, bool>(12)? && job.token < TOKEN_MAX => jobs.push(job),
            _ => break,
        }
    }
    Ok(jobs)
}

type Candidate = (i64, Result<StoredJob, BadRow>);

/// The first row beyond `after` that is eligible by its times, sound or not.
fn candidate(
    connection: &Connection,
    now: Millis,
    any_due: bool,
    after: After,
) -> rusqlite::Result<Option<Candidate>> {
    let head = first(&mut *connection.prepare_cached(FIRST_PENDING)?, (now.get(), after), |row| {
        Ok((row.get::<_, i64>(0)?, StoredJob::read(row)?, row.get::<_, bool>(12)?))
    })?;
    let other = if any_due { first_other(connection, now, after)? } else { None };
    let ready = match head {
        Some((seq, job, true)) if other.is_none_or(|other| seq < other) => return Ok(Some((seq, job))),
        Some((seq, _, false)) => first_ready(connection, now, seq)?,
        _ => None,
    };
    let Some(seq) = ready.into_iter().chain(other).min() else {
        return Ok(None);
    };
    let job = first(&mut *connection.prepare_cached(BY_SEQ)?, [seq], StoredJob::read)?;
    Ok(job.map(|job| (seq, job)))
}

fn first_other(connection: &Connection, now: Millis, after: After) -> rusqlite::Result<Option<i64>> {
    connection.prepare_cached(FIRST_OTHER)?.query_row((now.get(), after), |row| row.get(0))
}

/// The least seq beyond `after` of the pending jobs whose time has come.
///
/// Two walks take turns, one over the pending jobs by seq until one is ready, one over all that are ready;
/// whichever ends first has the answer. So the cost is that of the smaller of the two crowds, those that
/// wait in front and those that are ready.
fn first_ready(connection: &Connection, now: Millis, after: i64) -> rusqlite::Result<Option<i64>> {
    let mut by_seq = connection.prepare_cached(PENDING_BY_SEQ)?;
    let mut by_time = connection.prepare_cached(READY_BY_TIME)?;
    let mut by_seq = by_seq.query([now.get(), after])?;
    let mut by_time = by_time.query([now.get(), after])?;
    let mut least = None;
    loop {
        let Some(ready) = by_time.next()? else {
            return Ok(least);
        };
        let seq: i64 = ready.get(0)?;
        least = Some(least.map_or(seq, |least: i64| least.min(seq)));
        let Some(pending) = by_seq.next()? else {
            return Ok(None);
        };
        if pending.get(1)? {
            return pending.get(0).map(Some);
        }
    }
}

fn each<P: rusqlite::Params>(
    connection: &Connection,
    sql: &str,
    params: P,
    mut take: impl FnMut(Result<StoredJob, BadRow>),
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    while let Some(row) = rows.next()? {
        take(StoredJob::read(row)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;
    use crate::port::NoFault;
    use crate::rules::{Attempts, Event, Lease, Limits, Name, Qty};
    use crate::storage::{Durability, LeaseQueue, OpenOptions, Queue};

    /// The cost of a claim is that of what is due: where nothing is, one question is asked before the jobs are read,
    /// and several are read in one walk.
    #[test]
    fn a_claim_asks_no_more_than_it_must() {
        let dir = tempfile::tempdir().unwrap();
        let options = OpenOptions::new(Durability::Full);
        let mut queue = Queue::open(&dir.path().join("queue.db"), &options).unwrap();
        let (now, ttl) = (Millis::new(0).unwrap(), Limits::CONTRACT.ttl(500).unwrap());
        for id in ["a", "b", "c"] {
            let event = Event { id: Name::new("id", id).unwrap(), qty: Qty::new(1).unwrap() };
            queue.enqueue(&event, now, ttl, Attempts::DEFAULT).unwrap();
        }
        let owner = Name::new("owner", "w").unwrap();
        let runs = |queue: &Queue| {
            [ANY, PAST_DEADLINE, HEAD, FIRST_PENDING, FIRST_OTHER]
                .map(|sql| queue.connection().prepare_cached(sql).unwrap().get_status(StatementStatus::Run))
        };
        let claimed = queue.claim_many(&owner, &mut || Ok(now), Lease::DEFAULT, 2, &mut NoFault).unwrap();
        assert_eq!((claimed.len(), runs(&queue)), (2, [1, 0, 1, 0, 0]));
        assert!(queue.claim(&owner, now, Lease::DEFAULT, &mut NoFault).unwrap().is_some());
        assert_eq!(runs(&queue), [2, 0, 1, 1, 0]);
        // Nor does it plan anything anew because its parameters have other values.
        for max in [3, 4] {
            assert_eq!(
                queue.claim_many(&owner, &mut || Ok(now), Lease::DEFAULT, max, &mut NoFault).unwrap(),
                []
            );
        }
        let planned_anew = [ANY, HEAD, FIRST_PENDING].map(|sql| {
            queue.connection().prepare_cached(sql).unwrap().get_status(StatementStatus::RePrepare)
        });
        assert_eq!(planned_anew, [0, 0, 0]);
        // Nor does SQLite build a tree of the four words for its CHECK, not even once the doctor has asked it.
        for _ in 0..2 {
            let pragma = "ignore_check_constraints";
            assert!(
                queue.connection().pragma_query_value(None, pragma, |row| row.get::<_, bool>(0)).unwrap()
            );
            assert_eq!(queue.examine(false, &mut || ()).unwrap(), []);
        }
    }
}
