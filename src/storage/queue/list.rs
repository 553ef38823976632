//! Reads jobs and audit rows for people to look at, whatever another program may have stored (M12). Each read is
//! short, since a reader holds up whoever commits.

use rusqlite::types::Value;
use rusqlite::{Connection, Params, Row};

use super::row::columns;
use crate::rules::{Name, Reason, Status};
use crate::storage::StorageError;

/// A row, column by column, as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRow(pub Vec<(String, Value)>);

impl JobRow {
    /// The value of a column; NULL where there is none of this name.
    #[must_use]
    pub fn get(&self, column: &str) -> &Value {
        self.0.iter().find(|(name, _)| name == column).map_or(&Value::Null, |(_, value)| value)
    }
}

/// Which jobs are wanted; all where nothing is said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Of this status.
    pub status: Option<Status>,
    /// With this reason.
    pub reason: Option<Reason>,
    /// Whose id begins like this.
    pub id_prefix: Option<String>,
}

/// Rows looked at in one go.
const PIECE_ROWS: usize = 20_000;

macro_rules! filtered {
    ($range:literal, $order:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM jobs WHERE ",
            $range,
            " AND (?3 IS NULL OR status = ?3) AND (?4 IS NULL OR reason = ?4) \
             AND (?5 IS NULL OR substr(id, 1, length(?5)) = ?5) ORDER BY seq ",
            $order,
            " LIMIT ?6"
        )
    };
}
const LIST: &str = filtered!("seq > ?1 AND seq <= ?2", "");
const LAST: &str = filtered!("seq <= ?1 AND seq >= ?2", "DESC");
/// Where the piece behind a seq ends; NULL where nothing is left.
const LIST_END: &str = "SELECT max(seq) FROM (SELECT seq FROM jobs WHERE seq > ?1 ORDER BY seq LIMIT ?2)";
/// Where the piece that goes down from a seq ends.
const LAST_END: &str =
    "SELECT min(seq) FROM (SELECT seq FROM jobs WHERE seq <= ?1 ORDER BY seq DESC LIMIT ?2)";
/// The planner, left alone, walks the table for the first of them.
const WAITING: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM jobs INDEXED BY ackward_jobs_live WHERE status = 'pending' AND lease_until IS NULL AND seq > ?1 \
     ORDER BY seq LIMIT ?2"
);
/// Leased jobs, and pending ones that stand apart from the others in the index.
const OTHERS: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM jobs INDEXED BY ackward_jobs_live WHERE status = 'leased' AND seq > ?1 AND seq <= ?2 UNION ALL SELECT ",
    columns!(),
    " FROM jobs INDEXED BY ackward_jobs_live \
     WHERE status = 'pending' AND lease_until IS NOT NULL AND seq > ?1 AND seq <= ?2"
);
const HAS_LIVE: &str =
    "SELECT EXISTS(SELECT 1 FROM sqlite_schema WHERE type = 'index' AND name = 'ackward_jobs_live')";
/// For a file that lacks the index, and is only looked at.
const LIVE_WITHOUT_INDEX: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM jobs WHERE seq > ?1 AND seq <= ?2 AND (status = 'pending' OR status = 'leased')"
);
const BY_ID: &str = concat!("SELECT ", columns!(), " FROM jobs WHERE id = ?1");
const BY_SEQ: &str = concat!("SELECT ", columns!(), " FROM jobs WHERE seq = ?1");
const AUDIT: &str =
    "SELECT seq, id, token, at_ms, note FROM redrives WHERE ?1 IS NULL OR id = ?1 ORDER BY seq DESC LIMIT ?2";

pub(super) fn list(
    connection: &Connection,
    filter: &JobFilter,
    after: i64,
    max: usize,
) -> Result<Vec<JobRow>, StorageError> {
    pieces(connection, filter, (LIST, LIST_END), after, Some, max)
}

/// The last jobs that the filter lets through, the last one first.
pub(super) fn list_last(
    connection: &Connection,
    filter: &JobFilter,
    max: usize,
) -> Result<Vec<JobRow>, StorageError> {
    pieces(connection, filter, (LAST, LAST_END), i64::MAX, |end| end.checked_sub(1), max)
}

/// Up to `max` rows from `start` on, read piece by piece; `next` makes the start of the next one of a piece's end.
fn pieces(
    connection: &Connection,
    filter: &JobFilter,
    (sql, end_sql): (&str, &str),
    start: i64,
    next: impl Fn(i64) -> Option<i64>,
    max: usize,
) -> Result<Vec<JobRow>, StorageError> {
    let (status, reason) = (filter.status.map(Status::as_str), filter.reason.map(Reason::as_str));
    let takes_all = *filter == JobFilter::default();
    let (mut rows, mut start) = (Vec::new(), Some(start));
    while let Some(from) = start
        && rows.len() < max
    {
        let left = max - rows.len();
        let piece = if takes_all { left.min(PIECE_ROWS) } else { PIECE_ROWS };
        let end = connection.prepare_cached(end_sql)?.query_row((from, number(piece)), |row| row.get(0))?;
        let Some(end) = end else { break };
        let range = (from, end, status, reason, filter.id_prefix.as_deref(), number(left));
        rows.extend(read(connection, sql, range)?);
        start = next(end);
    }
    Ok(rows)
}

fn number(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// The jobs behind `after` that are not finished, by seq, and up to where it went.
pub(super) fn live(
    connection: &Connection,
    after: i64,
    max: usize,
) -> Result<(Vec<JobRow>, i64), StorageError> {
    let has_index: bool = connection.prepare_cached(HAS_LIVE)?.query_row([], |row| row.get(0))?;
    if !has_index {
        let end = connection.prepare_cached(LIST_END)?.query_row((after, number(max)), |row| row.get(0))?;
        let Some(end) = end else { return Ok((Vec::new(), i64::MAX)) };
        return Ok((read(connection, LIVE_WITHOUT_INDEX, (after, end))?, end));
    }
    let mut rows = read(connection, WAITING, (after, number(max)))?;
    let is_full = rows.len() >= max;
    let end = rows.last().filter(|_| is_full).map_or(i64::MAX, seq);
    rows.extend(read(connection, OTHERS, (after, end))?);
    rows.sort_by_key(seq);
    Ok((rows, end))
}

/// A row's seq, which is always a whole number.
fn seq(row: &JobRow) -> i64 {
    if let Value::Integer(seq) = row.get("seq") { *seq } else { 0 }
}

pub(super) fn by_id(connection: &Connection, id: &Name) -> Result<Option<JobRow>, StorageError> {
    Ok(read(connection, BY_ID, [id.as_str()])?.pop())
}

pub(super) fn by_seq(connection: &Connection, seq: i64) -> Result<Option<JobRow>, StorageError> {
    Ok(read(connection, BY_SEQ, [seq])?.pop())
}

/// The newest audit rows, of one job or of all.
pub(super) fn audit(
    connection: &Connection,
    id: Option<&Name>,
    max: usize,
) -> Result<Vec<JobRow>, StorageError> {
    read(connection, AUDIT, (id.map(Name::as_str), number(max)))
}

fn read(connection: &Connection, sql: &str, params: impl Params) -> Result<Vec<JobRow>, StorageError> {
    let mut statement = connection.prepare_cached(sql)?;
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let rows = statement.query_map(params, |row| read_row(row, &names))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn read_row(row: &Row<'_>, names: &[String]) -> rusqlite::Result<JobRow> {
    let column = |(index, name): (usize, &String)| {
        let value = Value::try_from(row.get_ref(index)?).unwrap_or_else(|_| Value::Text("not UTF-8".into()));
        Ok((name.clone(), value))
    };
    Ok(JobRow(names.iter().enumerate().map(column).collect::<rusqlite::Result<_>>()?))
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;
    use crate::storage::{Durability, OpenOptions, Queue};

    /// A reader holds up whoever commits, so none of its statements may read a long table to its end; and nothing is
    /// lost or told twice where two pieces meet.
    #[test]
    fn a_filter_that_lets_few_jobs_through_reads_a_long_table_in_pieces() {
        let dir = tempfile::tempdir().unwrap();
        let options = OpenOptions::new(Durability::Full);
        let queue = Queue::open(&dir.path().join("queue.db"), &options).unwrap();
        let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000) \
            INSERT INTO jobs SELECT i, 'job-' || i, 1, iif(i % 9999, 'done', 'dead'), 1, 3, 1, 0, 9, NULL, NULL, NULL \
            FROM n WHERE i <> 777";
        queue.connection().execute_batch(fill).unwrap();
        let dead = JobFilter { status: Some(Status::Dead), ..JobFilter::default() };
        let seqs = |rows: Vec<JobRow>| -> Vec<i64> {
            rows.iter().map(|row| if let Value::Integer(seq) = row.get("seq") { *seq } else { 0 }).collect()
        };
        let runs = |sql| queue.connection().prepare_cached(sql).unwrap().get_status(StatementStatus::Run);
        assert_eq!(seqs(queue.list(&dead, 0, 100).unwrap()), [9_999, 19_998, 29_997, 39_996, 49_995]);
        assert_eq!(seqs(queue.list_last(&dead, 100).unwrap()), [49_995, 39_996, 29_997, 19_998, 9_999]);
        assert_eq!((runs(LIST), runs(LAST)), (3, 3), "statements");
        assert_eq!(seqs(queue.list(&dead, 9_999, 1).unwrap()), [19_998]);
        assert_eq!(seqs(queue.list_last(&dead, 1).unwrap()), [49_995]);
        assert_eq!((runs(LIST), runs(LAST)), (4, 4), "it ends where it has enough");
        assert_eq!(queue.list(&JobFilter::default(), 0, usize::MAX).unwrap().len(), 49_999);
        assert_eq!(seqs(queue.list(&JobFilter::default(), 775, 2).unwrap()), [776, 778]);
        assert_eq!(seqs(queue.list_last(&JobFilter::default(), 1).unwrap()), [50_000]);
    }
}
