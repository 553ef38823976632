//! R7 to R19, R25 and R26 on real files, seen from a second connection.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::port::{Fault, FaultPoint, Injected, NoFault};
use crate::rules::StreamEvent;
use crate::storage::Durability;

/// A hook that calls a closure with the number of calls before.
struct Hook<F>(usize, F);

impl<F: FnMut(usize) -> Result<(), Injected>> Fault for Hook<F> {
    fn at(&mut self, point: FaultPoint) -> Result<(), Injected> {
        assert_eq!(point, FaultPoint::BeforeCursor);
        self.0 += 1;
        (self.1)(self.0 - 1)
    }
}

fn injected() -> Injected {
    Injected("told to fail".into())
}

struct File {
    _dir: TempDir,
    path: PathBuf,
}

impl File {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        Self { path: dir.path().join("store.db"), _dir: dir }
    }

    fn open(&self) -> Store {
        Store::open(&self.path, &OpenOptions::new(Durability::Extra)).unwrap()
    }

    fn other(&self) -> Connection {
        Connection::open(&self.path).unwrap()
    }

    /// How many transactions have changed the file, as its header counts them.
    fn change_counter(&self) -> u32 {
        let bytes = std::fs::read(&self.path).unwrap();
        u32::from_be_bytes(bytes[24..28].try_into().unwrap())
    }

    /// Cursor, total and ledger as another connection sees them.
    fn seen(&self) -> (i64, i64, Vec<(i64, i64)>) {
        let other = self.other();
        let (last, total) = other
            .query_row("SELECT last, total FROM checkpoint", [], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap();
        let mut ledger = other.prepare("SELECT seq, delta FROM ledger ORDER BY seq").unwrap();
        let rows = ledger.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        (last, total, rows.map(Result::unwrap).collect())
    }
}

fn event(seq: i64, delta: i64) -> StreamEvent {
    StreamEvent::new(seq, delta).unwrap()
}

fn apply(store: &mut Store, seq: i64, delta: i64) -> Result<Applied, ApplyError> {
    store.apply_event(event(seq, delta), &mut NoFault)
}

/// R7, R8, R12.
#[test]
fn a_new_store_starts_before_the_first_event() {
    let file = File::new();
    let store = file.open();
    assert_eq!(store.state().unwrap(), State { last: Cursor::START, total: 0 });
    assert_eq!(file.seen(), (-1, 0, vec![]));
    let columns = |table: &str| -> Vec<(String, String)> {
        let other = file.other();
        let mut info = other.prepare(&format!("PRAGMA table_info({table})")).unwrap();
        let rows = info.query_map([], |row| Ok((row.get(1)?, row.get(2)?))).unwrap();
        rows.map(Result::unwrap).collect()
    };
    let pairs = |names: &[&str]| names.iter().map(|n| ((*n).into(), "INTEGER".into())).collect::<Vec<_>>();
    assert_eq!(columns("checkpoint"), pairs(&["id", "last", "total"]));
    assert_eq!(columns("ledger"), pairs(&["seq", "delta"]));
    assert!(file.other().execute("INSERT INTO checkpoint VALUES (2, 0, 0)", []).is_err());
}

/// R9: opening a complete store changes no byte and takes no write lock.
#[test]
fn reopening_writes_nothing() {
    let file = File::new();
    apply(&mut file.open(), 0, 5).unwrap();
    let before = std::fs::read(&file.path).unwrap();
    let other = file.other();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(file.open().state().unwrap().total, 5);
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(std::fs::read(&file.path).unwrap(), before);
}

/// R7, R8: a missing table or row is added, the rest kept.
#[test]
fn what_is_missing_is_added() {
    for missing in ["DROP TABLE checkpoint", "DELETE FROM checkpoint", "DROP TABLE ledger"] {
        let file = File::new();
        apply(&mut file.open(), 0, 5).unwrap();
        file.other().execute_batch(missing).unwrap();
        let kept = if missing.contains("ledger") { (0, 5, vec![]) } else { (-1, 0, vec![(0, 5)]) };
        drop(file.open());
        assert_eq!(file.seen(), kept, "{missing}");
    }
}

/// R11: no database, no directory, a table of another shape.
#[test]
fn what_is_no_store_is_refused() {
    let file = File::new();
    let options = OpenOptions::new(Durability::Extra);
    assert!(Store::open(&file.path.join("below"), &options).is_err());
    std::fs::write(&file.path, b"this is no database, whatever its name may say").unwrap();
    assert!(Store::open(&file.path, &options).is_err());
    let file = File::new();
    file.other().execute_batch("CREATE TABLE ledger(id TEXT)").unwrap();
    let error = Store::open(&file.path, &options).unwrap_err();
    assert!(error.to_string().contains("no such column"), "{error}");
}

/// R15, R17: 0 comes first, each event once, in order.
#[test]
fn events_apply_in_order() {
    let file = File::new();
    let mut store = file.open();
    assert!(matches!(apply(&mut store, 1, 5), Err(ApplyError::Gap { .. })));
    assert_eq!(apply(&mut store, 0, 5).unwrap(), Applied::New);
    assert_eq!(apply(&mut store, 1, -1000).unwrap(), Applied::New);
    let gap = apply(&mut store, 3, 1).unwrap_err();
    assert_eq!(gap.to_string(), "event 3 leaves a gap after 1");
    assert_eq!(file.seen(), (1, -995, vec![(0, 5), (1, -1000)]));
}

/// R15: the highest number can be applied, and nothing after it.
#[test]
fn the_highest_number_is_the_last() {
    let file = File::new();
    let mut store = file.open();
    file.other().execute("UPDATE checkpoint SET last = 2147483646", []).unwrap();
    assert_eq!(apply(&mut store, 2_147_483_647, 1).unwrap(), Applied::New);
    assert_eq!(apply(&mut store, 2_147_483_647, 1).unwrap(), Applied::Repeat);
}

/// R16, B4: same content is a repeat, other content or none a conflict; neither calls the hook (R19).
#[test]
fn an_old_event_is_compared_with_the_ledger() {
    let file = File::new();
    let mut store = file.open();
    apply(&mut store, 0, 5).unwrap();
    apply(&mut store, 1, 6).unwrap();
    let mut never = Hook(0, |_| unreachable!("no hook without a change"));
    assert_eq!(store.apply_event(event(0, 5), &mut never).unwrap(), Applied::Repeat);
    let conflict = store.apply_event(event(0, 4), &mut never).unwrap_err();
    assert_eq!(conflict.to_string(), "event 0 has delta 4, the ledger has 5");
    assert!(matches!(store.apply_event(event(9, 1), &mut never), Err(ApplyError::Gap { .. })));
    file.other().execute("DELETE FROM ledger WHERE seq = 1", []).unwrap();
    let conflict = store.apply_event(event(1, 6), &mut never).unwrap_err();
    assert_eq!(conflict.to_string(), "event 1 has delta 6, the ledger has no row for it");
    file.other().execute("INSERT INTO ledger VALUES (1, 'six')", []).unwrap();
    let conflict = store.apply_event(event(1, 6), &mut never).unwrap_err();
    assert!(matches!(conflict, ApplyError::Conflict { .. }), "{conflict}");
    assert_eq!(store.state().unwrap(), State { last: Cursor::new(1).unwrap(), total: 11 });
}

/// R15, R19: at the hook nothing shows outside, and the write lock is held.
#[test]
fn the_hook_runs_inside_the_transaction() {
    let file = File::new();
    let mut store = file.open();
    let seen = RefCell::new(None);
    let mut hook = Hook(0, |_| {
        let other = file.other();
        other.busy_timeout(std::time::Duration::ZERO).unwrap();
        assert!(other.execute_batch("BEGIN IMMEDIATE").is_err());
        *seen.borrow_mut() = Some(file.seen());
        Ok(())
    });
    store.apply_event(event(0, 5), &mut hook).unwrap();
    assert_eq!(hook.0, 1);
    assert_eq!(seen.take(), Some((-1, 0, vec![])));
    assert_eq!(file.seen(), (0, 5, vec![(0, 5)]));
}

/// R19: ledger and total are changed before the hook, the cursor after it. A trigger records the order.
#[test]
fn the_cursor_moves_last() {
    let file = File::new();
    let mut store = file.open();
    file.other()
        .execute_batch(
            "CREATE TABLE steps(step TEXT);
             CREATE TRIGGER a AFTER INSERT ON ledger BEGIN INSERT INTO steps VALUES ('ledger'); END;
             CREATE TRIGGER b AFTER UPDATE OF total ON checkpoint BEGIN
               INSERT INTO steps VALUES ('total ' || new.total || ' at ' || new.last); END;
             CREATE TRIGGER c AFTER UPDATE OF last ON checkpoint BEGIN
               INSERT INTO steps VALUES ('cursor ' || new.last); END;",
        )
        .unwrap();
    apply(&mut store, 0, 5).unwrap();
    let other = file.other();
    let mut steps = other.prepare("SELECT step FROM steps ORDER BY rowid").unwrap();
    let steps: Vec<String> = steps.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(steps, ["ledger", "total 5 at -1", "cursor 0"]);
}

/// R15, R19: the hook is called after the total changed and before the cursor does: it is reached where only
/// the cursor's update fails, and not where the total's does.
#[test]
fn the_hook_lies_between_total_and_cursor() {
    for (column, calls) in [("total", 0), ("last", 1)] {
        let file = File::new();
        let mut store = file.open();
        let refuse = "BEGIN SELECT RAISE(ABORT, 'refused'); END";
        let trigger = format!("CREATE TRIGGER t BEFORE UPDATE OF {column} ON checkpoint {refuse}");
        file.other().execute_batch(&trigger).unwrap();
        let mut hook = Hook(0, |_| Ok(()));
        let error = store.apply_event(event(0, 5), &mut hook).unwrap_err();
        assert!(error.to_string().contains("refused"), "{error}");
        assert_eq!(hook.0, calls, "{column}");
        assert_eq!(file.seen(), (-1, 0, vec![]));
    }
}

/// R18: an error and a panic of the hook roll everything back, and the same event then applies.
#[test]
fn a_failing_hook_leaves_nothing_behind() {
    let file = File::new();
    let mut store = file.open();
    let error = store.apply_event(event(0, 5), &mut Hook(0, |_| Err(injected()))).unwrap_err();
    assert_eq!(error.to_string(), "injected: told to fail");
    assert_eq!(file.seen(), (-1, 0, vec![]));
    let mut hook = Hook(0, |_| panic!("told to panic"));
    let panic = catch_unwind(AssertUnwindSafe(|| store.apply_event(event(0, 5), &mut hook))).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"told to panic"));
    file.other().execute_batch("BEGIN EXCLUSIVE; COMMIT").unwrap();
    assert_eq!(file.seen(), (-1, 0, vec![]));
    assert_eq!(apply(&mut store, 0, 5).unwrap(), Applied::New);
}

/// R18: a COMMIT that a reader blocks leaves nothing, and the same event then applies.
#[test]
fn a_blocked_commit_leaves_nothing_behind() {
    let file = File::new();
    let mut store = file.open();
    let reader = file.other();
    reader.execute_batch("BEGIN; SELECT * FROM ledger; SELECT * FROM checkpoint").unwrap();
    let error = apply(&mut store, 0, 5).unwrap_err();
    assert!(matches!(&error, ApplyError::Storage(error) if error.is_busy()), "{error}");
    assert!(store.connection.is_autocommit());
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(file.seen(), (-1, 0, vec![]));
    assert_eq!(apply(&mut store, 0, 5).unwrap(), Applied::New);
}

/// M12: rows that break a range give errors, not panics and not sums in floating point.
#[test]
fn broken_rows_are_reported() {
    let file = File::new();
    let mut store = file.open();
    for (row, shown) in [
        ("last = -2", "last is -2"),
        ("last = -1, total = 9223372036854775807", "total is 9223372036854775807"),
        ("last = 'x'", "Text"),
    ] {
        file.other().execute(&format!("UPDATE checkpoint SET {row}"), []).unwrap();
        let error = apply(&mut store, 0, 5).unwrap_err();
        assert!(matches!(&error, ApplyError::Storage(_)) && error.to_string().contains(shown), "{error}");
    }
    file.other().execute("DELETE FROM checkpoint", []).unwrap();
    assert!(matches!(store.state(), Err(StorageError::Row(_))));
}

/// R25: an applied line and its repeat get the same ACK, and the result shows outside.
#[test]
fn a_line_is_acknowledged_when_it_shows() {
    let file = File::new();
    let mut store = file.open();
    for applied in [Applied::New, Applied::Repeat] {
        let consumed = store.consume_line(b"EVENT 0 5\n", &mut NoFault).unwrap();
        assert_eq!((consumed.ack_line().as_str(), consumed.applied), ("ACK 0\n", applied));
        assert_eq!(file.seen(), (0, 5, vec![(0, 5)]));
    }
}

/// R26.
#[test]
fn a_failing_line_gets_no_ack() {
    let file = File::new();
    let mut store = file.open();
    let mut consume = |line: &[u8]| store.consume_line(line, &mut NoFault).map(drop);
    assert!(matches!(consume(b"EVENT 00 5\n"), Err(ConsumeError::Invalid(_))));
    assert!(matches!(consume(b"EVENT 1 5\n"), Err(ConsumeError::Apply(ApplyError::Gap { .. }))));
    consume(b"EVENT 0 5\n").unwrap();
    assert!(matches!(consume(b"EVENT 0 6\n"), Err(ConsumeError::Apply(ApplyError::Conflict { .. }))));
    assert_eq!(file.seen(), (0, 5, vec![(0, 5)]));
}

/// R16, M9: a repeat that this connection has not committed itself is synced once before its ACK, whatever its number.
#[test]
fn a_repeat_found_after_opening_is_made_durable() {
    for last in [0, 1] {
        let file = File::new();
        let mut first = file.open();
        for seq in 0..=last {
            apply(&mut first, seq, 5).unwrap();
        }
        drop(first);
        let before = file.change_counter();
        let mut store = file.open();
        for _ in 0..2 {
            assert_eq!(apply(&mut store, last, 5).unwrap(), Applied::Repeat);
            assert_eq!(file.change_counter(), before + 1);
        }
        let ledger = (0..=last).map(|seq| (seq, 5)).collect();
        assert_eq!(file.seen(), (last, 5 * (last + 1), ledger));
    }
}

/// R25, M9: so are the repeats of a batch.
#[test]
fn a_batch_of_repeats_found_after_opening_is_made_durable() {
    let file = File::new();
    let lines = ["EVENT 0 1\n", "EVENT 1 2\n"];
    assert_eq!(seqs(&file.open().consume_lines(&lines, &mut NoFault)), [0, 1]);
    let before = file.change_counter();
    let mut store = file.open();
    for _ in 0..2 {
        assert_eq!(seqs(&store.consume_lines(&lines, &mut NoFault)), [0, 1]);
        assert_eq!(file.change_counter(), before + 1);
    }
}

/// R18, R26: where SQLite rolls back by itself (here a trigger, else a full disk), no line of the batch is in place.
#[test]
fn a_batch_that_sqlite_rolled_back_is_not_acknowledged() {
    let file = File::new();
    let mut store = file.open();
    let trigger =
        "CREATE TRIGGER t BEFORE INSERT ON ledger WHEN new.seq = 1 BEGIN SELECT RAISE(ROLLBACK, 'gone'); END";
    file.other().execute_batch(trigger).unwrap();
    let batch = store.consume_lines(&["EVENT 0 1\n", "EVENT 1 2\n"], &mut NoFault);
    assert_eq!(batch.error.as_ref().map(ToString::to_string), Some("gone".into()));
    assert_eq!((seqs(&batch), file.seen()), (vec![], (-1, 0, vec![])));
}

fn seqs(batch: &Batch) -> Vec<i64> {
    batch.consumed.iter().map(|line| line.seq.get()).collect()
}

/// R25: several lines are one commit.
#[test]
fn a_batch_commits_once() {
    let file = File::new();
    let mut store = file.open();
    let before = file.change_counter();
    let batch = store.consume_lines(&[b"EVENT 0 1\n", b"EVENT 1 2\n", b"EVENT 0 1\n"], &mut NoFault);
    assert!(batch.error.is_none());
    assert_eq!(seqs(&batch), [0, 1, 0]);
    assert_eq!(file.change_counter(), before + 1);
    assert_eq!(file.seen(), (1, 3, vec![(0, 1), (1, 2)]));
}

/// R26: whatever the third line fails of, the two before it are committed and it leaves nothing.
#[test]
fn a_failing_line_of_a_batch_leaves_its_prefix() {
    for (third, hook_fails) in
        [("EVENT x 3\n", false), ("EVENT 9 3\n", false), ("EVENT 0 9\n", false), ("EVENT 2 3\n", true)]
    {
        let file = File::new();
        let mut store = file.open();
        let mut hook = Hook(0, |nth| if hook_fails && nth == 2 { Err(injected()) } else { Ok(()) });
        let batch = store.consume_lines(&["EVENT 0 1\n", "EVENT 1 2\n", third, "EVENT 2 3\n"], &mut hook);
        assert!(batch.error.is_some(), "{third}");
        assert_eq!(seqs(&batch), [0, 1], "{third}");
        assert_eq!(file.seen(), (1, 3, vec![(0, 1), (1, 2)]), "{third}");
        assert!(store.connection.is_autocommit());
        assert_eq!(apply(&mut store, 2, 3).unwrap(), Applied::New);
    }
}

/// R18, M3: a panic takes the whole batch back; a blocked COMMIT too, and then nothing may be acknowledged.
#[test]
fn a_batch_that_is_not_committed_is_not_acknowledged() {
    let file = File::new();
    let mut store = file.open();
    let lines = ["EVENT 0 1\n", "EVENT 1 2\n"];
    let mut hook = Hook(0, |nth| if nth == 1 { panic!("told to panic") } else { Ok(()) });
    assert!(catch_unwind(AssertUnwindSafe(|| store.consume_lines(&lines, &mut hook))).is_err());
    assert_eq!(file.seen(), (-1, 0, vec![]));
    let reader = file.other();
    reader.execute_batch("BEGIN; SELECT * FROM ledger; SELECT * FROM checkpoint").unwrap();
    let batch = store.consume_lines(&lines, &mut NoFault);
    assert!(matches!(&batch.error, Some(ConsumeError::Apply(ApplyError::Storage(e))) if e.is_busy()));
    assert_eq!(seqs(&batch), Vec::<i64>::new());
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(seqs(&store.consume_lines(&lines, &mut NoFault)), [0, 1]);
}
