//! Looks for what should not be in a queue file, and mends what can be mended without a guess. It reads the whole
//! file, one question after the other.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use super::open::{COUNT_INDEXES, INDEXES_COUNT, ask_checks};
use super::row;
use crate::rules::Millis;
use crate::storage::StorageError;
use crate::storage::transaction::Immediate;

/// Findings of one check that are told one by one; more are only counted.
const SHOWN_MAX: usize = 20;

/// What is wrong at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The check's name.
    pub check: &'static str,
    /// The seq of the job, or of the audit row, where it is about one.
    pub seq: Option<i64>,
    /// What is wrong, for people.
    pub what: String,
    /// Whether [`Queue::mend`](super::Queue::mend) can put it right.
    pub mendable: bool,
}

/// A question with the rows that are wrong as its answer (seq, and a text), and the statement that mends them.
struct Check {
    name: &'static str,
    find: &'static str,
    mend: Option<&'static str>,
}

/// The greatest token that the audit has of each job; what is none (M12) does not count. Grouped once: the audit has no
/// index by id, so that looking it up for each job would take as long as both tables multiplied.
macro_rules! audited {
    () => {
        "(SELECT id AS audited_id, max(token) AS seen FROM redrives \
         WHERE typeof(token) = 'integer' AND token <= 1000000000000000 GROUP BY id)"
    };
}

const CHECKS: &[Check] = &[
    Check {
        name: "null-lease",
        find: "SELECT seq, 'job ' || id || ' is leased without an end: no claim ever takes it up again' FROM jobs \
            WHERE status = 'leased' AND lease_until IS NULL",
        // Over at once: the next claim takes the job up, or quarantines it. No lease ends after its deadline (Q31).
        mend: Some(
            "UPDATE jobs SET lease_until = iif(typeof(deadline) = 'integer', min(?1, deadline), ?1), owner = coalesce(owner, 'nobody') \
             WHERE status = 'leased' AND lease_until IS NULL",
        ),
    },
    Check {
        name: "lease-left-over",
        find: "SELECT seq, 'job ' || id || ' is ' || status || ' and has an owner or the end of a lease' FROM jobs \
            WHERE status IN ('pending', 'done', 'dead') AND (owner IS NOT NULL OR lease_until IS NOT NULL)",
        mend: Some(
            "UPDATE jobs SET owner = NULL, lease_until = NULL \
             WHERE status IN ('pending', 'done', 'dead') AND (owner IS NOT NULL OR lease_until IS NOT NULL) AND ?1 >= 0",
        ),
    },
    Check {
        name: "token-below-audit",
        find: concat!(
            "SELECT seq, 'job ' || id || ' has token ' || token || ', the audit has seen ' || seen || \
             ': an old ticket could hold again (a pruned job that was enqueued anew looks like this, too)' FROM ",
            audited!(),
            " CROSS JOIN jobs ON id = audited_id WHERE token < seen"
        ),
        mend: Some(concat!(
            "UPDATE jobs SET token = seen FROM ",
            audited!(),
            " WHERE id = audited_id AND token < seen AND status IN ('pending', 'done', 'dead') AND ?1 >= 0"
        )),
    },
    Check {
        name: "impossible",
        find: "SELECT seq, 'job ' || id || ': ' || what FROM (SELECT seq, id, CASE \
            WHEN status = 'leased' AND owner IS NULL THEN 'leased by nobody' \
            WHEN status = 'leased' AND (attempts < 1 OR token < 1) THEN 'leased without an attempt or a token' \
            WHEN status = 'leased' AND lease_until > deadline THEN 'its lease ends after its deadline' \
            WHEN attempts > max_attempts THEN 'more attempts than its budget' \
            WHEN attempts > token THEN 'more attempts than claims (its token)' \
            WHEN status = 'done' AND attempts < 1 THEN 'done without an attempt' \
            WHEN status = 'dead' AND (reason IS NULL OR reason = 'retry') THEN 'dead without a reason' \
            WHEN status IN ('done', 'leased') AND reason IS NOT NULL THEN status || ' with a reason' \
            WHEN status = 'pending' AND reason IS NOT NULL AND reason <> 'retry' \
              THEN 'pending with the reason ' || reason END AS what FROM jobs) WHERE what IS NOT NULL",
        mend: None,
    },
    Check {
        name: "sequence",
        find: "SELECT max(seq), 'the next seq, ' || (SELECT seq + 1 FROM sqlite_sequence WHERE name = 'jobs') || \
            ', was given out before' FROM jobs \
            HAVING max(seq) > (SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'jobs')",
        mend: Some(
            "UPDATE sqlite_sequence SET seq = (SELECT max(seq) FROM jobs) WHERE name = 'jobs' \
             AND seq < (SELECT max(seq) FROM jobs) AND ?1 >= 0",
        ),
    },
    Check {
        name: "sequence-used-up",
        // What SQLite then answers is that the disk is full.
        find: "SELECT NULL, 'the last seq of ' || name || ' is given out: nothing can be added there any more' \
            FROM sqlite_sequence WHERE seq >= 9223372036854775807",
        mend: None,
    },
];

const INTEGRITY: &str =
    "SELECT NULL, integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'";
const JOURNAL: &str = "PRAGMA journal_mode";
const LATEST: &str =
    "SELECT max(available_at) FROM jobs WHERE status = 'done' AND typeof(available_at) = 'integer'";

/// All findings, check by check.
pub(super) fn examine(connection: &Connection) -> Result<Vec<Finding>, StorageError> {
    let mut findings = Vec::new();
    ask_checks(connection, true)?;
    let sound = collect(connection, "integrity", INTEGRITY, false, &mut findings);
    ask_checks(connection, false)?;
    sound?;
    settings(connection, &mut findings)?;
    for (check, table, (before, after)) in [
        ("range", row::JOBS, ("", ": claim passes it over")),
        ("audit-range", row::REDRIVES, ("in redrives, ", "")),
    ] {
        let (bad, more) = table.find_bad(connection, SHOWN_MAX)?;
        for row::BadRow { seq, invalid } in bad {
            let what = format!("{before}{invalid}{after}");
            findings.push(Finding { check, seq: Some(seq), what, mendable: false });
        }
        count_more(check, more, false, &mut findings);
    }
    for check in CHECKS {
        collect(connection, check.name, check.find, check.mend.is_some(), &mut findings)?;
    }
    Ok(findings)
}

/// The latest time at which a job was done, in ms since 1970; a clock that shows less has been set back.
pub(super) fn latest_ms(connection: &Connection) -> Result<Option<i64>, StorageError> {
    Ok(connection.query_row(LATEST, [], |row| row.get(0))?)
}

/// Mends what can be, in one transaction; returns the number of rows changed.
pub(super) fn mend(connection: &Connection, now: Millis) -> Result<usize, StorageError> {
    let transaction = Immediate::begin(connection)?;
    let mut rows = 0;
    for mend in CHECKS.iter().filter_map(|check| check.mend) {
        rows += connection.execute(mend, [now.get()])?;
    }
    transaction.commit()?;
    Ok(rows)
}

/// What the file as a whole should be like.
fn settings(connection: &Connection, findings: &mut Vec<Finding>) -> Result<(), StorageError> {
    let mut find = |check, what| findings.push(Finding { check, seq: None, what, mendable: true });
    let mode: String = connection.query_row(JOURNAL, [], |row| row.get(0))?;
    if mode != "delete" {
        find("journal-mode", format!("the journal mode is {mode}, the contract asks for delete"));
    }
    let indexes: i64 = connection.query_row(COUNT_INDEXES, [], |row| row.get(0))?;
    if indexes != INDEXES_COUNT {
        find(
            "indexes",
            format!("{indexes} of {INDEXES_COUNT} indexes are there: claims get slow with history"),
        );
    }
    Ok(())
}

fn collect(
    connection: &Connection,
    check: &'static str,
    sql: &str,
    mendable: bool,
    findings: &mut Vec<Finding>,
) -> Result<(), StorageError> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        count += 1;
        if count <= SHOWN_MAX {
            findings.push(Finding { check, seq: row.get(0)?, what: text(row)?, mendable });
        }
    }
    count_more(check, count.saturating_sub(SHOWN_MAX), mendable, findings);
    Ok(())
}

/// Findings that are not told one by one.
fn count_more(check: &'static str, more: usize, mendable: bool, findings: &mut Vec<Finding>) {
    if more > 0 {
        findings.push(Finding { check, seq: None, what: format!("and {more} more"), mendable });
    }
}

/// The text of a finding; a part that another program made NULL makes the whole NULL.
fn text(row: &Row<'_>) -> rusqlite::Result<String> {
    Ok(match row.get_ref(1)? {
        ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => "a row with NULL where the contract allows none".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{Durability, OpenOptions, Queue};

    /// A question that looks into one table for each row of another never ends on a large file, with the file locked.
    #[test]
    fn no_check_multiplies_two_tables() {
        let dir = tempfile::tempdir().unwrap();
        let queue = Queue::open(&dir.path().join("queue.db"), &OpenOptions::new(Durability::Full)).unwrap();
        for sql in CHECKS.iter().flat_map(|check| [Some(check.find), check.mend]).flatten() {
            let mut plan = queue.connection().prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let parameters: &[i64] = if plan.parameter_count() == 1 { &[0] } else { &[] };
            let steps = plan.query_map(rusqlite::params_from_iter(parameters), |row| row.get(3)).unwrap();
            let steps: Vec<String> = steps.collect::<Result<_, _>>().unwrap();
            assert!(!steps.iter().any(|step| step.contains("CORRELATED")), "{sql}: {steps:?}");
        }
    }
}
