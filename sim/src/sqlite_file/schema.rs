//! The tables of a database: where each begins, and which of its columns is the rowid.

use super::record::ValueRef;
use super::{HEADER_LEN, Image, Malformed, ddl};

/// A table of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    root: u32,
    rowid_column: Option<usize>,
}

impl Table {
    /// The schema's own table.
    const SCHEMA: Self = Self { root: 1, rowid_column: None };

    /// Number of the page where its b-tree begins.
    #[must_use]
    pub const fn root(self) -> u32 {
        self.root
    }

    /// Index of the column that is an alias of the rowid (`INTEGER PRIMARY KEY`), where there is one.
    #[must_use]
    pub const fn rowid_column(self) -> Option<usize> {
        self.rowid_column
    }
}

/// The tables of a database file by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schema {
    tables: Vec<(String, Table)>,
}

impl Schema {
    /// Reads the schema.
    ///
    /// # Errors
    /// [`Malformed`] where it cannot be read.
    pub fn read(image: &Image<'_>) -> Result<Self, Malformed> {
        let mut tables = Vec::new();
        if image.bytes.is_empty() {
            return Ok(Self { tables });
        }
        image.for_each_row(Table::SCHEMA, |_, values| {
            let &[ValueRef::Text(kind), ValueRef::Text(name), _, ValueRef::Int(root), ValueRef::Text(sql)] =
                values
            else {
                // An automatic index has no SQL.
                return Ok(());
            };
            // A virtual table is a table without pages.
            if kind != "table" || root == 0 {
                return Ok(());
            }
            let Ok(root) = u32::try_from(root) else {
                return Err(Malformed::new(1, "a table's first page", root as u64, "a page's number"));
            };
            tables.push((name.to_owned(), Table { root, rowid_column: ddl::rowid_column(sql) }));
            Ok(())
        })?;
        Ok(Self { tables })
    }

    /// Finds a table by name; ASCII case is ignored.
    #[must_use]
    pub fn table(&self, name: &str) -> Option<Table> {
        let (_, table) = self.tables.iter().find(|(found, _)| found.eq_ignore_ascii_case(name))?;
        Some(*table)
    }
}

/// Remembers the schema between two looks at the same file. It is read again whenever page 1 differs, byte
/// by byte: the schema cookie would not do, since a rolled-back CREATE gives its number to another one.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// What page 1 held; empty where the schema is not all on page 1, and for an empty file.
    page_one: Vec<u8>,
    schema: Schema,
}

impl Catalog {
    /// An empty memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The schema of `image`, from memory where it is the same.
    ///
    /// # Errors
    /// [`Malformed`] where it cannot be read.
    pub fn schema(&mut self, image: &Image<'_>) -> Result<&Schema, Malformed> {
        let page_one = if image.bytes.is_empty() { &[][..] } else { &image.page(1)?[HEADER_LEN..] };
        if !page_one.is_empty() && self.page_one == page_one {
            return Ok(&self.schema);
        }
        self.page_one.clear();
        // Where page 1 suffices to read it, equal bytes are an equal schema.
        let alone = Image { page_count: image.page_count.min(1), ..*image };
        if let Ok(schema) = Schema::read(&alone) {
            self.schema = schema;
            self.page_one.extend_from_slice(page_one);
        } else {
            self.schema = Schema::read(image)?;
        }
        Ok(&self.schema)
    }
}
