//! What a file holds at a commit, for properties: rows read from its bytes, without SQLite.

use std::fmt;

use crate::sqlite_file::{Image, Malformed, Value, ValueRef};

/// The tables of a database file at the moment of a commit.
#[derive(Debug, Clone, Copy)]
pub struct Tables<'a>(pub(super) Image<'a>);

impl Tables<'_> {
    /// The rows of an ordinary table in the order of their rowids; none where there is no such table, or where the
    /// file is malformed.
    #[must_use]
    pub fn rows(&self, table: &str) -> Vec<Row> {
        let mut rows = Vec::new();
        if let Ok(Some(table)) = self.0.table(table) {
            // What cannot be read is not there; that the file is intact is a property of its own.
            let _: Result<(), Malformed> = self.0.for_each_row(table, |_, values| {
                rows.push(Row(values.iter().copied().map(Value::from).collect()));
                Ok(())
            });
        }
        rows
    }
}

/// A row: the values of its columns in the order of the table's definition.
#[derive(Debug, Clone, PartialEq)]
pub struct Row(Vec<Value>);

impl Row {
    /// A column's value, counted from 0; none behind the last one.
    #[must_use]
    pub fn value(&self, column: usize) -> Option<&Value> {
        self.0.get(column)
    }

    /// A column's whole number, where it is one.
    #[must_use]
    pub fn integer(&self, column: usize) -> Option<i64> {
        if let Some(Value::Int(number)) = self.value(column) { Some(*number) } else { None }
    }

    /// A column's text, where it is one.
    #[must_use]
    pub fn text(&self, column: usize) -> Option<&str> {
        if let Some(Value::Text(text)) = self.value(column) { Some(text) } else { None }
    }
}

impl fmt::Display for Row {
    /// As SQL writes a row of values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (at, value) in self.0.iter().enumerate() {
            let separator = if at > 0 { ", " } else { "" };
            let value = match value {
                Value::Null => ValueRef::Null,
                Value::Int(number) => ValueRef::Int(*number),
                Value::Real(number) => ValueRef::Real(*number),
                Value::Text(text) => ValueRef::Text(text),
                Value::Blob(bytes) => ValueRef::Blob(bytes),
            };
            write!(f, "{separator}{value}")?;
        }
        f.write_str(")")
    }
}
