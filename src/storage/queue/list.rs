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

macro_rules! filtered {
    ($order:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM jobs WHERE seq > ?1 AND (?2 IS NULL OR status = ?2) AND (?3 IS NULL OR reason = ?3) \
             AND (?4 IS NULL OR substr(id, 1, length(?4)) = ?4) ORDER BY seq ",
            $order,
            " LIMIT ?5"
        )
    };
}
const LIST: &str = filtered!("");
const LAST: &str = filtered!("DESC");
const LIVE: &str = concat!("SELECT ", columns!(), " FROM jobs WHERE status = 'pending' OR status = 'leased'");
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
    let (status, reason) = (filter.status.map(Status::as_str), filter.reason.map(Reason::as_str));
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    read(connection, LIST, (after, status, reason, filter.id_prefix.as_deref(), max))
}

/// The last jobs that the filter lets through, the last one first.
pub(super) fn list_last(
    connection: &Connection,
    filter: &JobFilter,
    max: usize,
) -> Result<Vec<JobRow>, StorageError> {
    let (status, reason) = (filter.status.map(Status::as_str), filter.reason.map(Reason::as_str));
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    read(connection, LAST, (i64::MIN, status, reason, filter.id_prefix.as_deref(), max))
}

/// Every job that is not finished, in no order.
pub(super) fn live(connection: &Connection) -> Result<Vec<JobRow>, StorageError> {
    read(connection, LIVE, [])
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
    read(connection, AUDIT, (id.map(Name::as_str), i64::try_from(max).unwrap_or(i64::MAX)))
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
