//! The reader of SQLite's file format against SQLite itself, and against corrupt bytes.

use std::path::Path;

use ackward_sim::sqlite_file::{Catalog, Image, Malformed, Value, ValueRef};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, params_from_iter};

type Rows = Vec<(i64, Vec<Value>)>;

#[test]
fn empty_file_has_no_tables() {
    let image = Image::new(&[]).unwrap();
    assert_eq!(image.table("jobs"), Ok(None));
    assert_eq!(Catalog::new().schema(&image).unwrap().table("jobs"), None);
}

#[test]
fn jobs_read_as_sqlite_reads_them() {
    let file = Database::new(
        "CREATE TABLE jobs (seq INTEGER PRIMARY KEY AUTOINCREMENT,
           id TEXT NOT NULL UNIQUE, qty INTEGER NOT NULL,
           status TEXT NOT NULL CHECK(status IN ('pending','leased','done','dead')),
           attempts INTEGER NOT NULL, max_attempts INTEGER NOT NULL, token INTEGER NOT NULL,
           available_at INTEGER NOT NULL, deadline INTEGER NOT NULL,
           owner TEXT, lease_until INTEGER, reason TEXT);
         CREATE INDEX pending ON jobs(seq) WHERE status = 'pending';
         INSERT INTO jobs VALUES
           (1, 'cake', 3, 'done', 1, 3, 1, 1000, 31000, NULL, NULL, NULL),
           (7, 'tea', 1000, 'leased', 0, 16, 999999999999999, 127, 128, 'worker-a', 32768, NULL);
         DELETE FROM jobs WHERE seq = 1;
         INSERT INTO jobs VALUES
           (9, '-', 1, 'dead', 255, 256, 65536, 8388608, -2147483649, NULL, -1, 'exhausted');",
    );
    assert_eq!(file.rows("jobs").len(), 2);
    file.check("jobs");
    file.check("sqlite_sequence");
}

#[test]
fn random_tables_read_as_sqlite_reads_them() {
    for seed in 0..60 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let page_size = 512 << (random.next_u32() % 8);
        let file = Database::new(&format!(
            "PRAGMA page_size={page_size};
             CREATE TABLE other(a);
             CREATE TABLE t(a, id INTEGER PRIMARY KEY, b, c BLOB, d TEXT);
             CREATE INDEX i ON t(b);
             BEGIN;"
        ));
        for _ in 0..random.next_u32() % 1500 {
            change(&file.connection, &mut random);
        }
        file.connection.execute_batch("COMMIT").unwrap();
        file.check("t");
        file.check("other");
    }
}

/// One insert, update or delete.
fn change(connection: &Connection, random: &mut ChaCha8Rng) {
    let id = match random.next_u32() % 8 {
        0 => random.next_u64() as i64,
        _ => i64::from(random.next_u32() % 2000),
    };
    if random.next_u32().is_multiple_of(4) {
        connection
            .prepare_cached("DELETE FROM t WHERE id BETWEEN ? AND ?")
            .unwrap()
            .execute((id, id + 3))
            .unwrap();
        return;
    }
    let values =
        [any_value(random), SqlValue::Integer(id), any_value(random), any_value(random), any_value(random)];
    let sql = "INSERT OR REPLACE INTO t VALUES (?,?,?,?,?)";
    connection.prepare_cached(sql).unwrap().execute(params_from_iter(values)).unwrap();
}

fn any_value(random: &mut ChaCha8Rng) -> SqlValue {
    let len = match random.next_u32() % 40 {
        0 => random.next_u32() % 20_000,
        1..=4 => random.next_u32() % 600,
        _ => random.next_u32() % 20,
    };
    match random.next_u32() % 6 {
        0 => SqlValue::Null,
        1 => SqlValue::Integer(random.next_u64() as i64 >> (random.next_u32() % 64)),
        2 => SqlValue::Integer(i64::from(random.next_u32() % 3) - 1),
        3 => SqlValue::Real(f64::from_bits(random.next_u64())),
        4 => SqlValue::Text("aé€𝄞".chars().cycle().take(len as usize).collect()),
        _ => SqlValue::Blob(vec![random.next_u32() as u8; len as usize]),
    }
}

#[test]
fn a_row_from_before_a_column_was_added_is_shorter() {
    let file = Database::new("CREATE TABLE t(a); INSERT INTO t VALUES (1); ALTER TABLE t ADD COLUMN b");
    assert_eq!(file.read("t").unwrap(), [(1, vec![Value::Int(1)])]);
}

#[test]
fn rowid_column_agrees_with_sqlite() {
    for columns in [
        "a INTEGER PRIMARY KEY, b",
        "a integer primary key autoincrement, b",
        "a, b INTEGER NOT NULL PRIMARY KEY",
        "a, b INTEGER CONSTRAINT k PRIMARY KEY",
        "a INT PRIMARY KEY, b",
        "a BIG INTEGER PRIMARY KEY, b",
        "a INTEGER UNSIGNED PRIMARY KEY, b",
        "a INTEGER(4) PRIMARY KEY, b",
        "a INTEGER PRIMARY KEY DESC, b",
        "a INTEGER PRIMARY KEY ASC, b",
        "a INTEGER, b INTEGER, PRIMARY KEY(b)",
        "a INTEGER, b INTEGER, PRIMARY KEY(b DESC)",
        "a INTEGER, b INTEGER, PRIMARY KEY(a, b)",
        "a INTEGER, b TEXT, CONSTRAINT k PRIMARY KEY( [a] )",
        "a INTEGER, b TEXT, UNIQUE(b), PRIMARY KEY(\"A\" ASC)",
        "a INTEGER, b TEXT, PRIMARY KEY(b)",
        "a TEXT PRIMARY KEY, b INTEGER",
        "a TEXT, b INTEGER",
        "a DEFAULT 'INTEGER PRIMARY KEY', b",
        "a /* INTEGER PRIMARY KEY */, b -- PRIMARY KEY\n INTEGER",
        "a CHECK(a IN (1,(2),')')), \"b\"\"(\" \"INTEGER\" PRIMARY KEY",
        "\"primary\" INTEGER, \"key\" INTEGER PRIMARY KEY",
        "a INTEGER CHECK (a > 0) PRIMARY KEY, b",
        "a INTEGER DEFAULT -1 PRIMARY KEY, b",
    ] {
        let file = Database::new(&format!(
            "CREATE TABLE \"t(\" ({columns});
             INSERT INTO \"t(\"(rowid) VALUES (77);"
        ));
        let table = Image::new(&file.bytes()).unwrap().table("t(").unwrap().unwrap();
        let expected = (0..2).find(|column| {
            let value =
                file.connection.query_row("SELECT * FROM \"t(\"", [], |row| row.get::<_, SqlValue>(*column));
            value.unwrap() == SqlValue::Integer(77)
        });
        assert_eq!(table.rowid_column(), expected, "{columns}");
    }
}

#[test]
fn catalog_forgets_when_the_schema_changes() {
    let file = Database::new("CREATE TABLE a(x); INSERT INTO a VALUES (1)");
    let mut catalog = Catalog::new();
    let root = |catalog: &mut Catalog, name: &str| {
        let bytes = file.bytes();
        let image = Image::new(&bytes).unwrap();
        let table = catalog.schema(&image).unwrap().table(name);
        assert_eq!(table, image.table(name).unwrap());
        table.map(|table| table.root())
    };
    assert_eq!(root(&mut catalog, "A"), Some(2));
    assert_eq!(root(&mut catalog, "b"), None);
    file.connection.execute_batch("DROP TABLE a; CREATE TABLE b(x)").unwrap();
    assert_eq!(root(&mut catalog, "a"), None);
    assert_eq!(root(&mut catalog, "b"), Some(2));
    // Now a definition that overflows page 1, and then one that splits it.
    let columns = vec!["/* a long definition */"; 200].join(" ");
    file.connection.execute_batch(&format!("CREATE TABLE c({columns} x INTEGER PRIMARY KEY)")).unwrap();
    assert!(root(&mut catalog, "c").is_some());
    for number in 0..60 {
        file.connection
            .execute_batch(&format!("CREATE TABLE t{number}(x {})", "INTEGER ".repeat(30)))
            .unwrap();
    }
    assert!(root(&mut catalog, "t59").is_some());
    // Page 1 holds only pointers now: it stays the same when a leaf changes.
    file.connection.execute_batch("ALTER TABLE t30 RENAME TO u30").unwrap();
    assert_eq!(root(&mut catalog, "t30"), None);
    assert!(root(&mut catalog, "u30").is_some());
}

#[test]
fn what_cannot_be_read_is_refused() {
    let refused = |bytes: &[u8]| Image::new(bytes).unwrap_err().to_string();
    assert_eq!(refused(&[0; 50]), "page 1: the file's length is 50, allowed: 0, or at least 100 bytes");
    assert_eq!(refused(&[b'x'; 4096]), "page 1: byte 0 is 120, allowed: the text \"SQLite format 3\"");
    let wal = Database::new("PRAGMA journal_mode=WAL; CREATE TABLE t(a)");
    assert_eq!(refused(&wal.bytes()), "page 1: the read version is 2, allowed: 1 (a rollback journal)");
    let utf16 = Database::new("PRAGMA encoding='UTF-16'; CREATE TABLE t(a)");
    assert_eq!(refused(&utf16.bytes()), "page 1: the text encoding is 2, allowed: 1 (UTF-8)");
    let without_rowid = Database::new("CREATE TABLE t(a PRIMARY KEY) WITHOUT ROWID");
    let error = without_rowid.read("t").unwrap_err().to_string();
    assert_eq!(error, "page 2: the page's type is 10, allowed: 5 or 13 (a table's page)");
}

/// Random bytes changed, runs zeroed, the file cut: never a panic, never an endless walk.
#[test]
fn corrupt_bytes_never_panic() {
    let file = Database::new(
        "PRAGMA page_size=512;
         CREATE TABLE t(a, id INTEGER PRIMARY KEY, b);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<300)
         INSERT INTO t SELECT i, i, CASE WHEN i%20 THEN 'short' ELSE hex(zeroblob(900)) END FROM n;",
    );
    let whole = file.bytes();
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let (mut refused, mut read) = (0, 0);
    for _ in 0..30_000 {
        let mut bytes = whole.clone();
        for _ in 0..=random.next_u32() % 6 {
            // Structure sits at the start of pages; one mutation in two goes there.
            let page = random.next_u32() as usize % (bytes.len() / 512) * 512;
            let at = page + random.next_u32() as usize % if random.next_u32() & 1 == 0 { 16 } else { 512 };
            bytes[at] = random.next_u32() as u8;
        }
        if random.next_u32().is_multiple_of(8) {
            bytes.truncate(random.next_u32() as usize % bytes.len());
        }
        match Image::new(&bytes).and_then(|image| count_rows(&image, "t")) {
            Ok(_) => read += 1,
            Err(_) => refused += 1,
        }
        if let Ok(image) = Image::new(&bytes) {
            let _ = Catalog::new().schema(&image);
        }
    }
    assert!(refused > 1000 && read > 1000, "refused {refused}, read {read}");
}

#[test]
fn a_tree_that_points_at_itself_ends() {
    let file = Database::new(
        "PRAGMA page_size=512; CREATE TABLE t(a);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<500) INSERT INTO t SELECT i FROM n;",
    );
    let mut bytes = file.bytes();
    // The root (page 2) is interior; let its last child be itself.
    assert_eq!(bytes[512], 5);
    bytes[520..524].copy_from_slice(&2_u32.to_be_bytes());
    let image = Image::new(&bytes).unwrap();
    let table = image.table("t").unwrap().unwrap();
    let error = image.for_each_row(table, |_, _| Ok::<_, Malformed>(())).unwrap_err();
    assert!(error.to_string().contains("a rowid is"), "{error}");
}

fn count_rows(image: &Image<'_>, name: &str) -> Result<usize, Malformed> {
    let Some(table) = image.table(name)? else { return Ok(0) };
    let mut rows = 0;
    image.for_each_row(table, |_, _| {
        rows += 1;
        Ok::<_, Malformed>(())
    })?;
    Ok(rows)
}

/// Pages that each point many times at the next one make more paths than anybody can walk.
#[test]
fn a_tree_whose_pages_are_shared_ends() {
    let file =
        Database::new("PRAGMA page_size=512; CREATE TABLE t(a); INSERT INTO t VALUES (zeroblob(9000))");
    let mut bytes = file.bytes();
    let pages = 15_u32;
    assert!(bytes.len() >= pages as usize * 512);
    for number in 2..=pages {
        let page = &mut bytes[(number as usize - 1) * 512..][..512];
        page.fill(0);
        page[0] = if number < pages { 5 } else { 13 };
        if number < pages {
            // 30 cells, all of them the one at 500, and the right child: the next page.
            page[4] = 30;
            page[8..12].copy_from_slice(&(number + 1).to_be_bytes());
            page[12..72].copy_from_slice(&500_u16.to_be_bytes().repeat(30));
            page[500..504].copy_from_slice(&(number + 1).to_be_bytes());
        }
    }
    let image = Image::new(&bytes).unwrap();
    let error = image.table("t").and_then(|table| {
        let mut nothing = |_: i64, _: &[ValueRef<'_>]| Ok::<_, Malformed>(());
        image.for_each_row(table.unwrap(), &mut nothing)
    });
    assert!(error.unwrap_err().to_string().contains("the pages of one tree"));
}

/// SQLite stores no NaN, and reads one that it finds as NULL.
#[test]
fn nan_is_null() {
    let file = Database::new("CREATE TABLE t(a); INSERT INTO t VALUES (1234.5)");
    let mut bytes = file.bytes();
    let real = 1234.5_f64.to_be_bytes();
    let at = bytes.windows(8).position(|window| window == real).unwrap();
    bytes[at..at + 8].copy_from_slice(&f64::NAN.to_be_bytes());
    std::fs::write(file.directory.path().join("t.db"), bytes).unwrap();
    let again = Connection::open(file.directory.path().join("t.db")).unwrap();
    let sqlite: SqlValue = again.query_row("SELECT a FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(sqlite, SqlValue::Null);
    assert_eq!(file.read("t").unwrap(), [(1, vec![Value::Null])]);
}

/// A real database file and SQLite's view of it.
struct Database {
    connection: Connection,
    directory: tempfile::TempDir,
}

impl Database {
    fn new(sql: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let connection = Connection::open(directory.path().join("t.db")).unwrap();
        connection.execute_batch("PRAGMA synchronous=OFF").unwrap();
        connection.execute_batch(sql).unwrap();
        Self { connection, directory }
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(Path::join(self.directory.path(), "t.db")).unwrap()
    }

    fn read(&self, table: &str) -> Result<Rows, Malformed> {
        let bytes = self.bytes();
        let image = Image::new(&bytes)?;
        let mut rows = Vec::new();
        let table = image.table(table)?.expect("the table exists");
        image.for_each_row(table, |rowid, values: &[ValueRef<'_>]| {
            rows.push((rowid, values.iter().map(|value| Value::from(*value)).collect()));
            Ok::<_, Malformed>(())
        })?;
        Ok(rows)
    }

    fn rows(&self, table: &str) -> Rows {
        let mut statement =
            self.connection.prepare(&format!("SELECT rowid, * FROM {table} ORDER BY rowid")).unwrap();
        let columns = statement.column_count();
        let row = |row: &rusqlite::Row<'_>| {
            let values = (1..columns).map(|column| match row.get(column)? {
                SqlValue::Null => Ok(Value::Null),
                SqlValue::Integer(number) => Ok(Value::Int(number)),
                SqlValue::Real(number) => Ok(Value::Real(number)),
                SqlValue::Text(text) => Ok(Value::Text(text)),
                SqlValue::Blob(bytes) => Ok(Value::Blob(bytes)),
            });
            Ok((row.get(0)?, values.collect::<rusqlite::Result<_>>()?))
        };
        statement.query_map([], row).unwrap().map(Result::unwrap).collect()
    }

    fn check(&self, table: &str) {
        assert_eq!(self.read(table).unwrap(), self.rows(table));
    }
}
