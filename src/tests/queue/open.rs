//! Queue::open: Q16 to Q19, A5, M7.

use std::fs;
use std::path::Path;
use std::thread;

use ackward::rules::Attempts;
use ackward::storage::{Durability, OpenOptions, StorageError};
use rusqlite::{Connection, ErrorCode};

use super::*;

const TABLES: &str = "
    CREATE TABLE jobs (seq INTEGER PRIMARY KEY AUTOINCREMENT,
      id TEXT NOT NULL UNIQUE, qty INTEGER NOT NULL,
      status TEXT NOT NULL CHECK(status IN ('pending','leased','done','dead')),
      attempts INTEGER NOT NULL, max_attempts INTEGER NOT NULL, token INTEGER NOT NULL,
      available_at INTEGER NOT NULL, deadline INTEGER NOT NULL,
      owner TEXT, lease_until INTEGER, reason TEXT);
    CREATE TABLE redrives (seq INTEGER PRIMARY KEY AUTOINCREMENT,
      id TEXT NOT NULL, token INTEGER NOT NULL, at_ms INTEGER NOT NULL, note TEXT NOT NULL);";

#[test]
fn q16_both_tables_have_exactly_the_columns_of_the_contract() {
    let bed = Bed::new();
    let other = Connection::open_in_memory().unwrap();
    other.execute_batch(TABLES).unwrap();
    for table in ["jobs", "redrives"] {
        let columns = format!("SELECT * FROM pragma_table_info('{table}')");
        assert_eq!(query(&bed.peer, &columns), query(&other, &columns), "{table}");
    }
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
    assert_eq!(query(&bed.peer, tables), ["jobs", "redrives", "sqlite_sequence"]);
    let bad_status = bed.peer.execute("INSERT INTO jobs VALUES (1,'a',1,'x',0,3,0,0,9,NULL,NULL,NULL)", []);
    assert!(bad_status.is_err(), "the CHECK holds");
}

#[test]
fn q16_a_deleted_seq_is_never_reused() {
    let mut bed = Bed::new();
    bed.enqueue("a", 1, 0, 10).unwrap();
    bed.peer.execute("DELETE FROM jobs", []).unwrap();
    bed.enqueue("b", 1, 0, 10).unwrap();
    assert_eq!(query(&bed.peer, "SELECT seq, id FROM jobs"), ["2 b"]);
}

#[test]
fn q16_two_openings_of_a_new_file_at_once_both_succeed() {
    for _ in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("queue.db");
        thread::scope(|scope| {
            let openings: Vec<_> =
                (0..4).map(|_| scope.spawn(|| Queue::open(&path, &full()).map(drop))).collect();
            for opening in openings {
                opening.join().unwrap().unwrap();
            }
        });
    }
}

#[test]
fn q16_if_one_creation_fails_neither_stays() {
    for clash in [
        "CREATE TABLE other (x); CREATE INDEX redrives ON other(x)",
        "CREATE TABLE other (x); CREATE INDEX jobs ON other(x)",
        "CREATE VIEW redrives AS SELECT 1",
        "CREATE VIEW jobs AS SELECT 1",
        "CREATE TABLE jobs (x)",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("queue.db");
        let other = Connection::open(&path).unwrap();
        other.execute_batch(clash).unwrap();
        let schema = "SELECT type, name FROM sqlite_schema ORDER BY 1, 2";
        let before = query(&other, schema);
        Queue::open(&path, &full()).expect_err(clash);
        assert_eq!(query(&other, schema), before, "{clash}");
        other.execute_batch("BEGIN EXCLUSIVE; ROLLBACK").expect("no lock is held");
    }
}

#[test]
fn q17_rows_survive_and_a_missing_table_is_added() {
    for (dropped, kept) in [("jobs", "redrives"), ("redrives", "jobs")] {
        let mut bed = Bed::with(&["'a', 1, 'dead', 1, 3, 1, 0, 9, NULL, NULL, 'permanent'"]);
        bed.redrive_with("a", 5, 10, &mut Hook::none()).unwrap();
        bed.peer.execute_batch(&format!("DROP TABLE {dropped}")).unwrap();
        let rows = format!("SELECT * FROM {kept}");
        let before = query(&bed.peer, &rows);
        drop(Queue::open(&bed.path(), &full()).unwrap());
        assert_eq!(query(&bed.peer, &rows), before, "{kept}");
        assert_eq!(query(&bed.peer, &format!("SELECT count(*) FROM {dropped}")), ["0"], "{dropped}");
    }
}

#[test]
fn q17_opening_a_complete_file_writes_nothing_and_needs_no_write_lock() {
    let mut bed = Bed::new();
    bed.enqueue("a", 1, 0, 10).unwrap();
    let before = fs::read(bed.path()).unwrap();
    bed.peer.execute_batch("BEGIN IMMEDIATE").unwrap();
    drop(Queue::open(&bed.path(), &full()).expect("a writer elsewhere is no hindrance"));
    bed.peer.execute_batch("ROLLBACK").unwrap();
    assert_eq!(fs::read(bed.path()).unwrap(), before);
}

#[test]
fn q18_settings() {
    let bed = Bed::new();
    let pragma = |queue: &Queue, name: &str| query(queue.connection(), &format!("PRAGMA {name}"));
    assert_eq!(pragma(&bed.queue, "journal_mode"), ["delete"]);
    assert_eq!(pragma(&bed.queue, "synchronous"), ["2"]);
    assert_eq!(pragma(&bed.queue, "busy_timeout"), ["1000"]);
    assert!(bed.queue.connection().is_autocommit());
    let extra = Queue::open(&bed.path(), &OpenOptions::new(Durability::Extra)).unwrap();
    assert_eq!(pragma(&extra, "synchronous"), ["3"]);
}

#[test]
fn q18_a_wal_file_is_switched_back() {
    let bed = Bed::with(&["'a', 1, 'pending', 0, 3, 0, 0, 9, NULL, NULL, NULL"]);
    let path = bed.path();
    let Bed { queue, peer, dir: _dir } = bed;
    drop(queue);
    assert_eq!(query(&peer, "PRAGMA journal_mode=WAL"), ["wal"]);
    drop(peer);
    let queue = Queue::open(&path, &full()).unwrap();
    assert_eq!(query(queue.connection(), "PRAGMA journal_mode"), ["delete"]);
    assert_eq!(query(queue.connection(), "SELECT id FROM jobs"), ["a"]);
}

#[test]
fn q18_a_peer_in_wal_mode_is_named_as_the_cause() {
    let bed = Bed::new();
    let path = bed.path();
    let Bed { queue, peer, dir: _dir } = bed;
    drop(queue);
    query(&peer, "PRAGMA journal_mode=WAL");
    query(&peer, "SELECT count(*) FROM jobs");
    let error = Queue::open(&path, &full()).unwrap_err();
    assert!(matches!(error, StorageError::WalInUse(_)), "{error}");
    assert!(error.is_busy());
}

#[test]
fn q19_what_is_no_database_or_has_no_directory_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("text");
    fs::write(&text, "not a database, but long enough to be looked at as one: ".repeat(100)).unwrap();
    let code = |path: &Path| Queue::open(path, &full()).unwrap_err().code();
    assert_eq!(code(&text), Some(ErrorCode::NotADatabase));
    assert_eq!(code(&dir.path().join("none/queue.db")), Some(ErrorCode::CannotOpen));
    assert_eq!(code(dir.path()), Some(ErrorCode::CannotOpen));
    assert!(!dir.path().join("none").exists());
}

#[test]
fn q19_a_file_that_stays_locked_is_busy() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("queue.db");
    let peer = Connection::open(&path).unwrap();
    peer.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let error = Queue::open(&path, &full()).unwrap_err();
    assert!(
        error.is_busy() && matches!(error, StorageError::Sqlite(_)),
        "locked, and in no WAL mode: {error}"
    );
    peer.execute_batch("ROLLBACK").unwrap();
    Queue::open(&path, &full()).unwrap();
}

#[test]
fn a5_a_path_that_names_no_file_is_refused() {
    for path in ["", ":memory:"] {
        let error = Queue::open(Path::new(path), &full()).unwrap_err();
        assert!(matches!(error, StorageError::Setting { .. }), "{path:?}: {error}");
    }
}

#[test]
fn m7_a_file_of_another_program_gets_the_indexes_and_works() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("queue.db");
    let other = Connection::open(&path).unwrap();
    other.execute_batch(TABLES).unwrap();
    let sql = "INSERT INTO jobs VALUES (7,'a',1,'pending',0,3,0,0,9,NULL,NULL,NULL)";
    other.execute(sql, []).unwrap();
    let mut queue = Queue::open(&path, &full()).unwrap();
    let indexes = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'ackward_jobs_%'";
    assert_eq!(query(&other, indexes), ["4"]);
    let lease = Limits::CONTRACT.lease(5).unwrap();
    let ticket = queue.claim(&name("w"), at(1), lease, &mut Hook::none()).unwrap().unwrap();
    assert_eq!(ticket.id.as_str(), "a");
    queue.enqueue(&event("b", 1), at(1), Limits::CONTRACT.ttl(5).unwrap(), Attempts::DEFAULT).unwrap();
    assert_eq!(query(&other, "SELECT seq, id, status FROM jobs"), ["7 a leased", "8 b pending"]);
}

/// Q18: SQLite waits for as long as a caller said who waits by itself.
#[test]
fn q18_another_busy_timeout_can_be_asked_for() {
    let bed = Bed::new();
    let options = full().busy_timeout(std::time::Duration::from_millis(20));
    let queue = Queue::open(&bed.path(), &options).unwrap();
    assert_eq!(query(queue.connection(), "PRAGMA busy_timeout"), ["20"]);
}

/// A14: a file that is to be there already and is empty is no queue yet; by default it becomes one.
#[test]
fn a14_an_empty_file_is_refused_where_none_is_to_be_made() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("queue.db");
    fs::write(&path, "").unwrap();
    for options in [full().create(false), full().read_only()] {
        assert!(matches!(Queue::open(&path, &options), Err(StorageError::Empty)));
        assert_eq!(fs::read(&path).unwrap(), b"");
    }
    Queue::open(&path, &full()).unwrap();
    Queue::open(&path, &full().create(false)).unwrap();
}
