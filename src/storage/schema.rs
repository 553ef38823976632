//! Creates what a file lacks, all in one transaction, and writes nothing where nothing is missing
//! (Q16, Q17, M7).

use rusqlite::Connection;

use super::StorageError;
use super::transaction::Immediate;

/// The tables and indexes that a kind of file must have, and the one row some need.
pub(super) struct Schema {
    /// The names of the tables, for people.
    pub(super) tables: &'static str,
    /// How many tables there are.
    pub(super) tables_count: i64,
    /// Counts those of the tables that exist.
    pub(super) count_tables: &'static str,
    /// Counts those of `objects` that exist, by type and name; returns one number. It must not need any
    /// of them to exist.
    pub(super) count: &'static str,
    /// What `count` gives when nothing is missing.
    pub(super) objects: i64,
    /// `CREATE … IF NOT EXISTS`, for all of them.
    pub(super) create: &'static str,
}

impl Schema {
    /// Adds what is missing. Two processes opening the same new file both succeed: the second waits for
    /// the first and finds everything there.
    pub(super) fn ensure(&self, connection: &Connection) -> Result<(), StorageError> {
        if self.count(connection)? == self.objects {
            return Ok(());
        }
        let transaction = Immediate::begin(connection)?;
        transaction.connection().execute_batch(self.create)?;
        let found = self.count(transaction.connection())?;
        if found != self.objects {
            // IF NOT EXISTS is also content with a view of a table's name.
            return Err(StorageError::Setting {
                what: "schema",
                found: format!("{found} of {} tables and indexes: a name is taken", self.objects),
                expected: "the tables of the contract",
            });
        }
        transaction.commit()
    }

    /// Whether the tables are there; adds nothing.
    pub(super) fn check(&self, connection: &Connection) -> Result<(), StorageError> {
        let found: i64 = connection.query_row(self.count_tables, [], |row| row.get(0))?;
        if found == self.tables_count {
            return Ok(());
        }
        Err(StorageError::NoTables { tables: self.tables })
    }

    fn count(&self, connection: &Connection) -> Result<i64, StorageError> {
        Ok(connection.query_row(self.count, [], |row| row.get(0))?)
    }
}
