//! The queue's tables in a file: reading them, and comparing with them.

use crate::sqlite_file::{Image, Schema, ValueRef};

use super::QueueModel;
use crate::model::compare::{Difference, Shape};
use crate::model::row::{JOBS, REDRIVES};
use crate::model::{JobRow, RedriveRow};

/// SQLite's AUTOINCREMENT counters.
const SEQUENCES: Shape<2> = Shape { table: "sqlite_sequence", columns: ["name", "seq"] };

impl QueueModel {
    /// Reads the rows of a file; absent tables are empty.
    ///
    /// # Errors
    /// [`Difference`] where the file is corrupt or a column holds no value of its kind.
    pub fn from_image(image: &Image<'_>, schema: &Schema) -> Result<Self, Difference> {
        let mut model = Self::new();
        if let Some(table) = schema.table(JOBS.table) {
            image.for_each_row(table, |seq, values| {
                let job = JobRow::from_values(seq, values)?;
                model.ids.insert(job.id.clone(), seq);
                model.jobs.insert(seq, job);
                Ok::<_, Difference>(())
            })?;
        }
        if let Some(table) = schema.table(REDRIVES.table) {
            image.for_each_row(table, |seq, values| {
                model.redrives.push(RedriveRow::from_values(seq, values)?);
                Ok::<_, Difference>(())
            })?;
        }
        if let Some(table) = schema.table(SEQUENCES.table) {
            image.for_each_row(table, |_, values| {
                match *values {
                    [ValueRef::Text("jobs"), ValueRef::Int(last)] => model.jobs_seq_last = last,
                    [ValueRef::Text("redrives"), ValueRef::Int(last)] => model.redrives_seq_last = last,
                    _ => {}
                }
                Ok::<_, Difference>(())
            })?;
        }
        Ok(model)
    }

    /// Compares with the rows of a file, AUTOINCREMENT counters included; an absent table is empty.
    ///
    /// # Errors
    /// The first [`Difference`].
    pub fn matches(&self, image: &Image<'_>, schema: &Schema) -> Result<(), Difference> {
        JOBS.compare(image, schema, self.jobs.iter().map(|(seq, job)| (*seq, job.cells(*seq))))?;
        REDRIVES.compare(image, schema, self.redrives.iter().map(|row| (row.seq, row.cells())))?;
        let counters = [(JOBS.table, self.jobs_seq_last), (REDRIVES.table, self.redrives_seq_last)];
        let counters = counters.into_iter().filter(|(_, last)| *last > 0);
        SEQUENCES.compare_by_name(
            image,
            schema,
            counters.map(|(table, last)| [ValueRef::Text(table), ValueRef::Int(last)]),
        )
    }
}
