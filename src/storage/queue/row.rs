//! A job's row, read back to the letter (M2, M12): another program may have stored anything.

use std::collections::BTreeSet;
use std::str;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, Statement};

use crate::rules::{Event, INSTANT_MAX_MS, Invalid, NOW_MAX_MS, Name, Qty, Reason, Status};
use crate::storage::StorageError;

/// The columns that [`StoredJob::read`] wants, in order.
macro_rules! columns {
    () => {
        "seq, id, qty, status, attempts, max_attempts, token, available_at, deadline, owner, lease_until, reason"
    };
}
pub(super) use columns;

/// Largest token (Q11).
pub(super) const TOKEN_MAX: i64 = 1_000_000_000_000_000;
/// Rows remembered as logged; beyond that, bad rows are no longer logged, so that memory stays bounded.
const LOGGED_MAX: usize = 1_000;

/// A job whose every column is in its range, as far as claim needs it.
pub(super) struct StoredJob {
    pub(super) seq: i64,
    pub(super) event: Event,
    pub(super) status: Status,
    pub(super) attempts: i64,
    pub(super) token: i64,
    pub(super) deadline_ms: i64,
}

/// A row that breaks a range (M12); where it is a job's, claim passes over it and leaves it as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRow {
    /// Its seq.
    pub seq: i64,
    /// The first column that is wrong.
    pub invalid: Invalid,
}

impl StoredJob {
    /// Reads a row of [`columns!`].
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Result<Self, BadRow>> {
        let seq = row.get(0)?;
        let job = read_columns(seq, row);
        Ok(job.map_err(|invalid| BadRow { seq, invalid }))
    }
}

fn read_columns(seq: i64, row: &Row<'_>) -> Result<StoredJob, Invalid> {
    let event = Event { id: name(row, 1, "id")?, qty: Qty::new(integer(row, 2, "qty", 1, 1_000)?)? };
    let status = Status::parse(text(row, 3, "status")?)?;
    let attempts = integer(row, 4, "attempts", 0, 16)?;
    integer(row, 5, "max_attempts", 1, 16)?;
    let token = integer(row, 6, "token", 0, TOKEN_MAX)?;
    integer(row, 7, "available_at", 0, INSTANT_MAX_MS)?;
    let deadline_ms = integer(row, 8, "deadline", 0, INSTANT_MAX_MS)?;
    let leased = status == Status::Leased;
    if leased || !is_null(row, 9) {
        name(row, 9, "owner")?;
    }
    if leased || !is_null(row, 10) {
        integer(row, 10, "lease_until", 0, INSTANT_MAX_MS)?;
    }
    if !is_null(row, 11) {
        Reason::parse(text(row, 11, "reason")?)?;
    }
    Ok(StoredJob { seq, event, status, attempts, token, deadline_ms })
}

/// Logs bad rows, each once per open queue.
pub(super) struct Log<'q> {
    pub(super) logged: &'q mut BTreeSet<i64>,
}

impl Log<'_> {
    pub(super) fn bad(&mut self, row: &BadRow) {
        if self.logged.len() < LOGGED_MAX && self.logged.insert(row.seq) {
            tracing::warn!(seq = row.seq, invalid = %row.invalid, "job breaks a range and is passed over");
        }
    }
}

/// A table, and how a row of it is looked at, column by column.
pub(super) struct Table {
    /// Selects at most ?2 rows behind ?1, by seq; the first column is the seq.
    select: &'static str,
    check: fn(i64, &Row<'_>) -> Result<(), Invalid>,
}

pub(super) const JOBS: Table = Table {
    select: concat!("SELECT ", columns!(), " FROM jobs WHERE seq > ?1 ORDER BY seq LIMIT ?2"),
    check: |seq, row| {
        let job = read_columns(seq, row)?;
        if job.status == Status::Pending && job.token == TOKEN_MAX {
            return Err(no_token_left(job.token));
        }
        Ok(())
    },
};
/// The audit (Q44).
pub(super) const REDRIVES: Table = Table {
    select: "SELECT seq, id, token, at_ms, note FROM redrives WHERE seq > ?1 ORDER BY seq LIMIT ?2",
    check: |_, row| {
        name(row, 1, "id")?;
        integer(row, 2, "token", 0, TOKEN_MAX)?;
        integer(row, 3, "at_ms", 0, NOW_MAX_MS)?;
        name(row, 4, "note").map(drop)
    },
};

impl Table {
    /// Hands out the bad rows among the `max` ones behind `after`, by seq: one short read. Returns the last seq looked at,
    /// `None` at the end of the table.
    pub(super) fn find_bad(
        &self,
        connection: &Connection,
        after: i64,
        max: i64,
        mut take: impl FnMut(BadRow),
    ) -> Result<Option<i64>, StorageError> {
        let mut statement = connection.prepare_cached(self.select)?;
        let mut rows = statement.query((after, max))?;
        let mut last = None;
        while let Some(row) = rows.next()? {
            let seq = row.get(0)?;
            last = Some(seq);
            if let Err(invalid) = (self.check)(seq, row) {
                take(BadRow { seq, invalid });
            }
        }
        Ok(last)
    }
}

/// The token of a dead job's row, where a claim would take what a redrive leaves as it is (Q45).
pub(super) fn kept_by_redrive(row: &Row<'_>) -> Result<i64, Invalid> {
    integer(row, 2, "qty", 1, 1_000)?;
    integer(row, 5, "max_attempts", 1, 16)?;
    match integer(row, 6, "token", 0, TOKEN_MAX)? {
        TOKEN_MAX => Err(no_token_left(TOKEN_MAX)),
        token => Ok(token),
    }
}

/// A job whose next token would leave the range of Q11 can only be passed over, like a bad row.
pub(super) fn no_token_left(token: i64) -> Invalid {
    Invalid::new("token", token, format!("less than {TOKEN_MAX}, for another claim"))
}

/// The first row of `statement`, mapped; the cursor is closed before this returns (Q5).
pub(super) fn first<T>(
    statement: &mut Statement<'_>,
    params: impl rusqlite::Params,
    map: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    let mut rows = statement.query(params)?;
    rows.next()?.map(map).transpose()
}

fn is_null(row: &Row<'_>, column: usize) -> bool {
    matches!(row.get_ref(column), Ok(ValueRef::Null))
}

fn integer(row: &Row<'_>, column: usize, field: &'static str, min: i64, max: i64) -> Result<i64, Invalid> {
    let allowed = || format!("a whole number from {min} to {max}");
    match value(row, column) {
        ValueRef::Integer(number) if (min..=max).contains(&number) => Ok(number),
        other => Err(Invalid::new(field, shown(other), allowed())),
    }
}

fn text<'r>(row: &'r Row<'_>, column: usize, field: &'static str) -> Result<&'r str, Invalid> {
    match value(row, column) {
        ValueRef::Text(bytes) => {
            str::from_utf8(bytes).map_err(|_| Invalid::new(field, shown(ValueRef::Text(bytes)), "UTF-8 text"))
        }
        other => Err(Invalid::new(field, shown(other), "text")),
    }
}

fn name(row: &Row<'_>, column: usize, field: &'static str) -> Result<Name, Invalid> {
    Name::new(field, text(row, column, field)?)
}

/// A column that is not there reads as NULL.
fn value<'r>(row: &'r Row<'_>, column: usize) -> ValueRef<'r> {
    row.get_ref(column).unwrap_or(ValueRef::Null)
}

/// A stored value as an error shows it.
pub(super) fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".into(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => format!("{number:?}"),
        ValueRef::Text(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
        ValueRef::Blob(bytes) => format!("a blob of {} bytes", bytes.len()),
    }
}
