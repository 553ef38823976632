//! Looks for what should not be in a queue file, and mends what can be mended without a guess. It reads the whole
//! file: row by row in short reads, since a reader holds up whoever commits, and then what needs all rows at once.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use super::open::{COUNT_INDEXES, INDEXES_COUNT, ask_checks};
use super::row;
use crate::rules::Millis;
use crate::storage::StorageError;
use crate::storage::transaction::Immediate;

/// Rows read in one go, under one lock: some thirty milliseconds. Fewer would be waited for longer than they are read,
/// where a worker commits all the time.
const PIECE_ROWS: i64 = 5_000;
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

impl Finding {
    /// The file's pages are damaged, and this is how SQLite says so.
    #[must_use]
    pub fn malformed(error: &StorageError) -> Self {
        let what = format!(
            "{error}: restore a backup, or save what can still be read into a new file with `sqlite3 FILE .recover`"
        );
        Self { check: PAGES, seq: None, what, mendable: false }
    }

    /// A check that met damaged pages: what it found before, if anything, is told apart.
    #[must_use]
    pub fn not_done(check: &'static str, error: &StorageError) -> Self {
        Self { check, seq: None, what: format!("not done, or not to its end: {error}"), mendable: false }
    }
}

/// The check of the file's pages.
const PAGES: &str = "integrity";
/// The checks of each job's and each audit row's ranges.
const RANGE: &str = "range";
const AUDIT_RANGE: &str = "audit-range";

/// A question with the rows that are wrong as its answer (seq, and a text), and the statement that mends them.
struct Check {
    name: &'static str,
    /// Whether it looks at each job by itself: then it is asked piece by piece, by the words of [`piece`].
    is_by_row: bool,
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
        is_by_row: true,
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
        is_by_row: true,
        find: "SELECT seq, 'job ' || id || ' is ' || status || ' and has an owner or the end of a lease' FROM jobs \
            WHERE status IN ('pending', 'done', 'dead') AND (owner IS NOT NULL OR lease_until IS NOT NULL)",
        mend: Some(
            "UPDATE jobs SET owner = NULL, lease_until = NULL \
             WHERE status IN ('pending', 'done', 'dead') AND (owner IS NOT NULL OR lease_until IS NOT NULL) AND ?1 >= 0",
        ),
    },
    Check {
        name: "token-below-audit",
        is_by_row: false,
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
        is_by_row: true,
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
        is_by_row: false,
        find: "SELECT max(seq), 'the next seq, ' || (SELECT seq + 1 FROM sqlite_sequence WHERE name = 'jobs') || \
            ', was given out before' FROM jobs \
            HAVING max(seq) > (SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'jobs')",
        mend: Some(
            "UPDATE sqlite_sequence SET seq = (SELECT max(seq) FROM jobs) WHERE name = 'jobs' \
             AND seq < (SELECT max(seq) FROM jobs) AND ?1 >= 0",
        ),
    },
    Check {
        name: "least-seq",
        is_by_row: false,
        // Whoever walks through the table begins behind it.
        find: "SELECT seq, 'job ' || id || ' has the least seq there can be: workers take it, no other command sees it' \
            FROM jobs WHERE seq = -9223372036854775808 UNION ALL \
            SELECT seq, 'in redrives, the row of job ' || id || ' has the least seq there can be: no check sees it' \
            FROM redrives WHERE seq = -9223372036854775808",
        mend: None,
    },
    Check {
        name: "sequence-used-up",
        is_by_row: false,
        // What SQLite then answers is that the disk is full.
        find: "SELECT NULL, 'the last seq of ' || name || ' is given out: nothing can be added there any more' \
            FROM sqlite_sequence WHERE seq >= 9223372036854775807",
        mend: None,
    },
];

const INTEGRITY: &str =
    "SELECT NULL, integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'";
const JOURNAL: &str = "PRAGMA journal_mode";
/// Greatest time of those done among the ?2 jobs behind ?1, and where they end. What is no time (M12) does not count.
const LATEST: &str = "SELECT max(CASE WHEN status = 'done' AND typeof(available_at) = 'integer' \
    AND available_at <= 1000000000000000 THEN available_at END), max(seq) \
    FROM (SELECT seq, status, available_at FROM jobs WHERE seq > ?1 ORDER BY seq LIMIT ?2)";

/// What one check has found.
struct Found {
    check: &'static str,
    mendable: bool,
    shown: Vec<Finding>,
    more: usize,
}

impl Found {
    const fn new(check: &'static str, mendable: bool) -> Self {
        Self { check, mendable, shown: Vec::new(), more: 0 }
    }

    fn add(&mut self, seq: Option<i64>, what: String) {
        if self.shown.len() < SHOWN_MAX {
            self.shown.push(Finding { check: self.check, seq, what, mendable: self.mendable });
        } else {
            self.more += 1;
        }
    }

    /// All that a question answers.
    fn collect(
        &mut self,
        connection: &Connection,
        sql: &str,
        params: impl rusqlite::Params,
    ) -> Result<(), StorageError> {
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        while let Some(row) = rows.next()? {
            self.add(row.get(0)?, text(row)?);
        }
        Ok(())
    }

    /// The findings; those that are not told one by one are counted.
    fn into_findings(self) -> impl Iterator<Item = Finding> {
        let Self { check, mendable, shown, more } = self;
        let more =
            (more > 0).then(|| Finding { check, seq: None, what: format!("and {more} more"), mendable });
        shown.into_iter().chain(more)
    }
}

/// All findings, check by check. Damaged pages are a finding, and end only the checks that meet them.
pub(super) fn examine(
    connection: &Connection,
    quick: bool,
    rest: &mut dyn FnMut(),
) -> Result<Vec<Finding>, StorageError> {
    let mut damage = Damage::default();
    let mut findings = Vec::new();
    if !quick {
        let mut pages = Found::new(PAGES, false);
        ask_checks(connection, true)?;
        let looked = pages.collect(connection, INTEGRITY, []);
        ask_checks(connection, false)?;
        if let Err(error) = looked {
            damage.met(error)?;
        }
        findings.extend(pages.into_findings());
        rest();
    }
    if let Err(error) = settings(connection, &mut findings) {
        findings.push(damage.stopped("settings", error)?);
    }
    let mut checks: Vec<_> =
        CHECKS.iter().map(|check| (check, Found::new(check.name, check.mend.is_some()))).collect();
    let mut range = Found::new(RANGE, false);
    let looked = jobs(connection, &mut range, &mut checks, rest);
    findings.extend(range.into_findings());
    if let Err(error) = looked {
        findings.push(damage.stopped("jobs", error)?);
    }
    let mut range = Found::new(AUDIT_RANGE, false);
    let looked = audit(connection, &mut range, rest);
    findings.extend(range.into_findings());
    if let Err(error) = looked {
        findings.push(damage.stopped(AUDIT_RANGE, error)?);
    }
    for (check, mut found) in checks {
        let looked = if check.is_by_row { Ok(()) } else { found.collect(connection, check.find, []) };
        if !check.is_by_row {
            rest();
        }
        findings.extend(found.into_findings());
        if let Err(error) = looked {
            findings.push(damage.stopped(check.name, error)?);
        }
    }
    // It is what all else follows from.
    Ok(damage.finding.into_iter().chain(findings).collect())
}

/// Damaged pages, told once.
#[derive(Default)]
struct Damage {
    finding: Option<Finding>,
}

impl Damage {
    /// Takes an error for damaged pages, or hands it back.
    fn met(&mut self, error: StorageError) -> Result<StorageError, StorageError> {
        if !error.is_malformed() {
            return Err(error);
        }
        self.finding.get_or_insert_with(|| Finding::malformed(&error));
        Ok(error)
    }

    /// The same; what is said of the check that met them.
    fn stopped(&mut self, check: &'static str, error: StorageError) -> Result<Finding, StorageError> {
        self.met(error).map(|error| Finding::not_done(check, &error))
    }
}

/// Looks at each job by itself: its ranges, and the checks that are by row.
fn jobs(
    connection: &Connection,
    range: &mut Found,
    checks: &mut [(&Check, Found)],
    rest: &mut dyn FnMut(),
) -> Result<(), StorageError> {
    let mut by_row: Vec<_> = checks.iter_mut().filter(|(check, _)| check.is_by_row).collect();
    let mut after = i64::MIN;
    loop {
        let reading = connection.unchecked_transaction()?;
        let last = row::JOBS.find_bad(connection, after, PIECE_ROWS, |row::BadRow { seq, invalid }| {
            range.add(Some(seq), format!("{invalid}: claim passes it over"));
        })?;
        let Some(last) = last else { return Ok(()) };
        for (check, found) in &mut by_row {
            found.collect(connection, &piece(check.find), [after, last])?;
        }
        reading.commit()?;
        after = last;
        rest();
    }
}

/// A question by row, asked of the jobs behind ?1 up to ?2.
fn piece(find: &str) -> String {
    format!("{find} AND seq > ?1 AND seq <= ?2")
}

/// Looks at each row of the audit.
fn audit(connection: &Connection, range: &mut Found, rest: &mut dyn FnMut()) -> Result<(), StorageError> {
    let mut after = i64::MIN;
    loop {
        let last =
            row::REDRIVES.find_bad(connection, after, PIECE_ROWS, |row::BadRow { seq, invalid }| {
                range.add(Some(seq), format!("in redrives, {invalid}"));
            })?;
        let Some(last) = last else { return Ok(()) };
        after = last;
        rest();
    }
}

/// The first `max` jobs that break a range, by seq.
pub(super) fn bad_rows(connection: &Connection, max: usize) -> Result<Vec<row::BadRow>, StorageError> {
    let (mut bad, mut after) = (Vec::new(), i64::MIN);
    while bad.len() < max {
        let last = row::JOBS.find_bad(connection, after, PIECE_ROWS, |row| bad.push(row))?;
        let Some(last) = last else { break };
        after = last;
    }
    bad.truncate(max);
    Ok(bad)
}

/// The latest time at which a job was done, in ms since 1970; a clock that shows less has been set back.
pub(super) fn latest_ms(
    connection: &Connection,
    rest: &mut dyn FnMut(),
) -> Result<Option<i64>, StorageError> {
    let (mut latest_ms, mut after) = (None, i64::MIN);
    loop {
        let (ms, last): (Option<i64>, Option<i64>) = connection
            .prepare_cached(LATEST)?
            .query_row((after, PIECE_ROWS), |row| Ok((row.get(0)?, row.get(1)?)))?;
        let Some(last) = last else { return Ok(latest_ms) };
        (latest_ms, after) = (latest_ms.max(ms), last);
        rest();
    }
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
            let steps = plan(&queue, sql);
            assert!(!steps.iter().any(|step| step.contains("CORRELATED")), "{sql}: {steps:?}");
        }
    }

    fn plan(queue: &Queue, sql: &str) -> Vec<String> {
        let mut plan = queue.connection().prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let parameters = vec![0_i64; plan.parameter_count()];
        let steps = plan.query_map(rusqlite::params_from_iter(parameters), |row| row.get(3)).unwrap();
        steps.collect::<Result<_, _>>().unwrap()
    }

    /// A reader holds up whoever commits: what looks at jobs one by one reads no more of them than a piece has, and others
    /// have their turn after each.
    #[test]
    fn rows_are_looked_at_in_pieces() {
        let dir = tempfile::tempdir().unwrap();
        let queue = Queue::open(&dir.path().join("queue.db"), &OpenOptions::new(Durability::Full)).unwrap();
        for check in CHECKS.iter().filter(|check| check.is_by_row) {
            let steps = plan(&queue, &piece(check.find));
            let by_seq = "SEARCH jobs USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)";
            // Leases are few, and have an index.
            let is_short = |step: &String| {
                step == by_seq || step.contains("ackward_jobs_live (status=? AND lease_until=?")
            };
            assert!(steps.iter().all(is_short), "{}: {steps:?}", check.name);
        }
        let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 15001) \
            INSERT INTO jobs SELECT i, 'job-' || i, 1, 'done', iif(i % 7500, 1, 0), 3, 1, i, 500, \
            iif(i % 5000 = 1, 'w', NULL), NULL, NULL FROM n";
        queue.connection().execute_batch(fill).unwrap();
        let peer = Queue::open(&dir.path().join("queue.db"), &OpenOptions::new(Durability::Full)).unwrap();
        peer.connection().busy_timeout(std::time::Duration::ZERO).unwrap();
        let rests = std::cell::Cell::new(0);
        let mut rest = || {
            rests.set(rests.get() + 1);
            peer.connection().execute_batch(&format!("PRAGMA user_version = {}", rests.get())).unwrap();
        };
        assert_eq!(queue.latest_ms(&mut rest).unwrap(), Some(15_001));
        let findings = queue.examine(false, &mut rest).unwrap();
        let found: Vec<_> = findings.iter().map(|found| (found.check, found.seq.unwrap_or(0))).collect();
        let (left, done) = ("lease-left-over", "impossible");
        let expected =
            [(left, 1), (left, 5_001), (left, 10_001), (left, 15_001), (done, 7_500), (done, 15_000)];
        assert_eq!(found, expected, "nothing is lost or told twice where two pieces meet");
        assert_eq!(rests.get(), 4 + 1 + 4 + 4, "times, pages, jobs, and what needs all rows at once");
        assert_eq!(queue.examine(true, &mut rest).unwrap(), findings);
        assert_eq!(rests.get(), 13 + 4 + 4, "without the pages");
    }
}
