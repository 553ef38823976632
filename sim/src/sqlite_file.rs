//! Reads the tables of a SQLite database file straight from its bytes: a judge compares the rows after
//! every commit, and asking SQLite itself would cost twenty times as much and take part in the run.
//!
//! Read-only, no SQLite call, no allocation per value. It reads ordinary (rowid) tables in UTF-8 files
//! without a write-ahead log. It leaves out: indexes, `WITHOUT ROWID` tables, views, free pages, and the
//! affinity of REAL columns (an integral float that SQLite stored as an integer is shown as one). Corrupt
//! bytes give [`Malformed`], never a panic.

mod btree;
mod ddl;
mod record;
mod schema;

pub use record::{COLUMNS_MAX, Value, ValueRef};
pub use schema::{Catalog, Schema, Table};

/// First bytes of every SQLite database.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Length of the header at the start of page 1, in bytes.
const HEADER_LEN: usize = 100;
/// The `PRAGMA text_encoding` of a file in UTF-8.
const ENCODING_UTF8: u32 = 1;

/// The bytes are not a database that this reader can read: which page, what was found, what is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("page {page}: {what} is {found}, allowed: {allowed}")]
pub struct Malformed {
    /// Number of the page, from 1.
    pub page: u32,
    /// What was read there.
    pub what: &'static str,
    /// The number that was found.
    pub found: u64,
    /// What would have been accepted.
    pub allowed: &'static str,
}

impl Malformed {
    const fn new(page: u32, what: &'static str, found: u64, allowed: &'static str) -> Self {
        Self { page, what, found, allowed }
    }
}

/// The bytes of a database file whose header has been checked. Making one costs a few nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Image<'a> {
    bytes: &'a [u8],
    page_size: usize,
    /// Bytes of a page that b-trees use: all but the reserved tail.
    usable: usize,
    page_count: u32,
}

impl<'a> Image<'a> {
    /// Checks the header. An empty file is a database without tables.
    ///
    /// # Errors
    /// [`Malformed`] where this is no SQLite database, or one in WAL mode or in UTF-16.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.is_empty() {
            return Ok(Self { bytes, page_size: 4096, usable: 4096, page_count: 0 });
        }
        let Some(header) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(Malformed::new(
                1,
                "the file's length",
                bytes.len() as u64,
                "0, or at least 100 bytes",
            ));
        };
        if !header.starts_with(MAGIC) {
            return Err(Malformed::new(1, "byte 0", header[0].into(), "the text \"SQLite format 3\""));
        }
        let page_size = match u16::from_be_bytes([header[16], header[17]]) {
            1 => 65_536,
            size if size.is_power_of_two() && size >= 512 => usize::from(size),
            size => {
                return Err(Malformed::new(1, "the page size", size.into(), "a power of two, 512 to 65536"));
            }
        };
        // 2 stands for WAL: the newest rows would be in another file.
        if header[19] != 1 {
            return Err(Malformed::new(1, "the read version", header[19].into(), "1 (a rollback journal)"));
        }
        let usable = page_size - usize::from(header[20]);
        if usable < 480 {
            return Err(Malformed::new(1, "the usable page size", usable as u64, "at least 480 bytes"));
        }
        let encoding = u32::from_be_bytes([header[56], header[57], header[58], header[59]]);
        // 0 stands in a file without any table.
        if encoding > ENCODING_UTF8 {
            return Err(Malformed::new(1, "the text encoding", encoding.into(), "1 (UTF-8)"));
        }
        let page_count = u32::try_from(bytes.len() / page_size).unwrap_or(u32::MAX);
        Ok(Self { bytes, page_size, usable, page_count })
    }

    /// Finds a table by name (ASCII case is ignored, as in SQLite). Reads the schema each time; where the
    /// same file is read again and again, keep a [`Catalog`].
    ///
    /// # Errors
    /// [`Malformed`] where the schema cannot be read.
    pub fn table(&self, name: &str) -> Result<Option<Table>, Malformed> {
        Ok(Schema::read(self)?.table(name))
    }

    /// Calls `row` with the rowid and the values of each row of `table`, in the order of the rowid. The
    /// column that is an alias of the rowid holds it. A row that was written before a column was added
    /// has fewer values.
    ///
    /// # Errors
    /// The first error of `row`, or [`Malformed`] at the first corrupt place; the rows before it have been
    /// seen.
    pub fn for_each_row<E, F>(&self, table: Table, mut row: F) -> Result<(), E>
    where
        E: From<Malformed>,
        F: FnMut(i64, &[ValueRef<'_>]) -> Result<(), E>,
    {
        let mut scratch = Vec::new();
        btree::for_each_cell(self, table.root(), &mut scratch, &mut |page, rowid, payload| {
            let mut values = [ValueRef::Null; COLUMNS_MAX];
            let count = record::decode(page, payload, &mut values)?;
            let values = &mut values[..count];
            if let Some(value) = table.rowid_column().and_then(|column| values.get_mut(column)) {
                *value = ValueRef::Int(rowid);
            }
            row(rowid, values)
        })
    }

    /// The bytes of a page that b-trees use.
    fn page(&self, number: u32) -> Result<&'a [u8], Malformed> {
        let malformed = Malformed::new(number, "a page's number", number.into(), "1 to the number of pages");
        if number == 0 || number > self.page_count {
            return Err(malformed);
        }
        let start = (number as usize - 1) * self.page_size;
        self.bytes.get(start..start + self.usable).ok_or(malformed)
    }
}
