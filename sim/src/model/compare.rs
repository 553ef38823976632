//! Compares expected rows with the rows of a file, without building either twice, and says readably where
//! they part.

use std::fmt;

use ackward::rules::Name;

use crate::sqlite_file::{Image, Malformed, Schema, ValueRef};

/// The first place where a file and a model part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Difference {
    /// The file cannot be read.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// One value differs, or is none of its column's kind.
    #[error("{table}, row {row}: {column} is {found}, expected {expected}")]
    Cell {
        /// The table.
        table: &'static str,
        /// The row's key.
        row: String,
        /// The column.
        column: &'static str,
        /// What the model holds, as SQL writes it.
        expected: String,
        /// What the file holds.
        found: String,
    },
    /// The file lacks a row.
    #[error("{table}: row {row} is missing, expected {expected}")]
    Missing {
        /// The table.
        table: &'static str,
        /// The row's key.
        row: String,
        /// Its values.
        expected: String,
    },
    /// The file has a row too many.
    #[error("{table}: row {row} is not expected: {found}")]
    Extra {
        /// The table.
        table: &'static str,
        /// The row's key.
        row: String,
        /// Its values.
        found: String,
    },
}

/// A table's name and columns.
#[derive(Debug)]
pub(super) struct Shape<const N: usize> {
    pub(super) table: &'static str,
    pub(super) columns: [&'static str; N],
}

impl<const N: usize> Shape<N> {
    /// Compares a table whose key is its rowid; `expected` gives its rows in that order. An absent table has
    /// no rows.
    pub(super) fn compare<'e>(
        &self,
        image: &Image<'_>,
        schema: &Schema,
        mut expected: impl Iterator<Item = (i64, [ValueRef<'e>; N])>,
    ) -> Result<(), Difference> {
        if let Some(table) = schema.table(self.table) {
            image.for_each_row(table, |row, found| match expected.next() {
                None => Err(self.extra(row, found)),
                Some((expected_row, _)) if expected_row > row => Err(self.extra(row, found)),
                Some((expected_row, cells)) if expected_row < row => Err(self.missing(expected_row, &cells)),
                Some((_, cells)) => self.compare_row(&row, &cells, found),
            })?;
        }
        match expected.next() {
            Some((row, cells)) => Err(self.missing(row, &cells)),
            None => Ok(()),
        }
    }

    /// Compares a table whose key is the text in its first column. Any order is right; that of `expected` is
    /// found without a search.
    pub(super) fn compare_by_name<'e>(
        &self,
        image: &Image<'_>,
        schema: &Schema,
        expected: impl Iterator<Item = [ValueRef<'e>; N]> + Clone,
    ) -> Result<(), Difference> {
        let count = expected.clone().count();
        let mut candidates = expected.clone().cycle();
        let mut found_count = 0;
        if let Some(table) = schema.table(self.table) {
            image.for_each_row(table, |_, found| {
                let key = found.first().copied().unwrap_or(ValueRef::Null);
                let Some(cells) = candidates.by_ref().take(count).find(|cells| cells[0] == key) else {
                    return Err(self.extra(key, found));
                };
                found_count += 1;
                self.compare_row(&key, &cells, found)
            })?;
        }
        // The key is unique in the file: only a lack is left to be found.
        if found_count == count {
            return Ok(());
        }
        self.find_missing(image, schema, expected)
    }

    /// Reads a table that holds whole numbers only, with each row's rowid; an absent table is empty.
    pub(super) fn read_ints(
        &'static self,
        image: &Image<'_>,
        schema: &Schema,
    ) -> Result<Vec<(i64, [i64; N])>, Difference> {
        let mut rows = Vec::new();
        let Some(table) = schema.table(self.table) else { return Ok(rows) };
        image.for_each_row(table, |row, values| {
            let cells = Cells { shape: self, row, values };
            let mut numbers = [0; N];
            for (at, number) in numbers.iter_mut().enumerate() {
                *number = cells.int(at)?;
            }
            rows.push((row, numbers));
            Ok::<_, Difference>(())
        })?;
        Ok(rows)
    }

    /// Whether the table is there and has a row.
    pub(super) fn has_rows(&self, image: &Image<'_>, schema: &Schema) -> Result<bool, Malformed> {
        let mut has = false;
        let Some(table) = schema.table(self.table) else { return Ok(has) };
        image.for_each_row(table, |_, _| {
            has = true;
            Ok::<_, Malformed>(())
        })?;
        Ok(has)
    }

    fn find_missing<'e>(
        &self,
        image: &Image<'_>,
        schema: &Schema,
        expected: impl Iterator<Item = [ValueRef<'e>; N]>,
    ) -> Result<(), Difference> {
        for cells in expected {
            let mut is_there = false;
            if let Some(table) = schema.table(self.table) {
                image.for_each_row(table, |_, found| {
                    is_there |= found.first() == cells.first();
                    Ok::<_, Malformed>(())
                })?;
            }
            if !is_there {
                return Err(self.missing(cells[0], &cells));
            }
        }
        Ok(())
    }

    fn compare_row(
        &self,
        row: &dyn fmt::Display,
        expected: &[ValueRef<'_>; N],
        found: &[ValueRef<'_>],
    ) -> Result<(), Difference> {
        if expected == found {
            return Ok(());
        }
        // A column that another program added is its own affair (M7).
        let pairs = self.columns.into_iter().zip(expected.iter().enumerate());
        for (column, (at, expected)) in pairs {
            let found = found.get(at).unwrap_or(&ValueRef::Null);
            if found != expected {
                return Err(self.cell(row, column, expected, *found));
            }
        }
        Ok(())
    }

    fn cell(
        &self,
        row: &dyn fmt::Display,
        column: &'static str,
        expected: impl fmt::Display,
        found: ValueRef<'_>,
    ) -> Difference {
        let (row, expected, found) = (row.to_string(), expected.to_string(), found.to_string());
        Difference::Cell { table: self.table, row, column, expected, found }
    }

    fn missing(&self, row: impl fmt::Display, expected: &[ValueRef<'_>]) -> Difference {
        Difference::Missing { table: self.table, row: row.to_string(), expected: listed(expected) }
    }

    fn extra(&self, row: impl fmt::Display, found: &[ValueRef<'_>]) -> Difference {
        Difference::Extra { table: self.table, row: row.to_string(), found: listed(found) }
    }
}

/// Reads a row of a file column by column; the index counts from 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cells<'r, const N: usize> {
    pub(super) shape: &'static Shape<N>,
    pub(super) row: i64,
    pub(super) values: &'r [ValueRef<'r>],
}

impl<const N: usize> Cells<'_, N> {
    pub(super) fn int(&self, at: usize) -> Result<i64, Difference> {
        match self.at(at) {
            ValueRef::Int(number) => Ok(number),
            _ => Err(self.unexpected(at, "a whole number")),
        }
    }

    pub(super) fn name(&self, at: usize) -> Result<Name, Difference> {
        self.parsed(at, "an identifier", |text| Name::new("id", text).ok())
    }

    pub(super) fn parsed<T>(
        &self,
        at: usize,
        kind: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, Difference> {
        match self.at(at) {
            ValueRef::Text(text) => parse(text).ok_or_else(|| self.unexpected(at, kind)),
            _ => Err(self.unexpected(at, kind)),
        }
    }

    pub(super) fn optional<T>(
        &self,
        at: usize,
        read: impl Fn(&Self) -> Result<T, Difference>,
    ) -> Result<Option<T>, Difference> {
        if self.at(at) == ValueRef::Null { Ok(None) } else { read(self).map(Some) }
    }

    fn at(&self, at: usize) -> ValueRef<'_> {
        self.values.get(at).copied().unwrap_or(ValueRef::Null)
    }

    fn unexpected(&self, at: usize, expected: &'static str) -> Difference {
        self.shape.cell(&self.row, self.shape.columns[at], expected, self.at(at))
    }
}

fn listed(values: &[ValueRef<'_>]) -> String {
    let values: Vec<_> = values.iter().map(ToString::to_string).collect();
    format!("({})", values.join(", "))
}
