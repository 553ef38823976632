//! Reads jobs for people to look at, whatever another program may have stored (M12).

use rusqlite::types::Value;
use rusqlite::{Connection, Row};

use super::row::columns;
use crate::rules::Status;
use crate::storage::StorageError;

/// A job's row, column by column, as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRow(pub Vec<(String, Value)>);

const LIST: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM jobs WHERE seq > ?1 AND (?2 IS NULL OR status = ?2) ORDER BY seq LIMIT ?3"
);

pub(super) fn list(
    connection: &Connection,
    status: Option<Status>,
    after: i64,
    max: usize,
) -> Result<Vec<JobRow>, StorageError> {
    let mut statement = connection.prepare_cached(LIST)?;
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    let rows = statement.query_map((after, status.map(Status::as_str), max), |row| read(row, &names))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn read(row: &Row<'_>, names: &[String]) -> rusqlite::Result<JobRow> {
    let column = |(index, name): (usize, &String)| {
        let value = Value::try_from(row.get_ref(index)?).unwrap_or_else(|_| Value::Text("not UTF-8".into()));
        Ok((name.clone(), value))
    };
    Ok(JobRow(names.iter().enumerate().map(column).collect::<rusqlite::Result<_>>()?))
}
