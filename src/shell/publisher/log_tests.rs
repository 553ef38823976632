//! The log's checks, its index and its growth, on bytes in memory.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;

#[derive(Debug, Clone, Default)]
struct Bytes(Rc<RefCell<Vec<u8>>>);

impl Bytes {
    fn append(&self, text: &str) {
        self.0.borrow_mut().extend_from_slice(text.as_bytes());
    }
}

impl LogBytes for Bytes {
    fn len(&mut self) -> io::Result<u64> {
        Ok(self.0.borrow().len() as u64)
    }

    /// At most seven bytes at once, to show that pieces do not matter.
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.0.borrow();
        let rest = bytes.get(usize::try_from(offset).unwrap()..).unwrap_or(&[]);
        let count = rest.len().min(buffer.len()).min(7);
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

fn log(text: &str) -> (Bytes, Result<Log<Bytes>, LogError>) {
    let bytes = Bytes::default();
    bytes.append(text);
    (bytes.clone(), Log::open(bytes))
}

fn numbered(range: std::ops::Range<i64>) -> String {
    range.map(|seq| format!("{seq} {}\n", seq % 1000)).collect()
}

fn cursor(last: i64) -> Cursor {
    Cursor::new(last).unwrap()
}

fn seqs(log: &mut Log<Bytes>, position: LogPosition) -> (Vec<i64>, LogPosition) {
    let (events, position) = log.read(position, Limit::MAX).unwrap();
    assert!(events.iter().all(|event| event.delta.get() == event.seq.get() % 1000));
    (events.iter().map(|event| event.seq.get()).collect(), position)
}

/// W4: any place of a log much longer than a step of its index, read in windows to the end.
#[test]
fn a_log_is_read_in_windows_from_any_place() {
    let (_, log) = log(&numbered(7..5000));
    let mut log = log.unwrap();
    for last in [6, 7, 1029, 1030, 1031, 2054, 4990, 4998, 4999] {
        let mut position = log.seek(cursor(last)).unwrap();
        let mut found = Vec::new();
        loop {
            let (window, next) = seqs(&mut log, position);
            assert!(window.len() <= 16);
            if window.is_empty() {
                break;
            }
            found.extend(window);
            position = next;
        }
        assert_eq!(found, (last + 1..5000).collect::<Vec<_>>());
    }
}

/// W4: neither a consumer that is too far behind nor one that is ahead can go on.
#[test]
fn what_is_not_held_needs_a_resync() {
    let (_, log_held) = log(&numbered(10..20));
    let log_held = log_held.unwrap();
    for last in [-1, 8, 20] {
        assert_eq!(log_held.seek(cursor(last)).unwrap_err().to_line(), "RESYNC 10 19\n");
    }
    for last in [9, 19] {
        assert!(log_held.seek(cursor(last)).is_ok());
    }
    let (_, empty) = log("");
    let empty = empty.unwrap();
    assert!(empty.seek(cursor(-1)).is_ok());
    assert_eq!(empty.seek(cursor(0)).unwrap_err().to_line(), "RESYNC 0 -1\n");
}

/// W4: a torn last line is no error and no event; once it is whole it is one.
#[test]
fn a_torn_last_line_is_waited_for() {
    let (bytes, log) = log("0 0\n1 1\n2 ");
    let mut log = log.unwrap();
    let position = log.seek(cursor(-1)).unwrap();
    let (found, position) = seqs(&mut log, position);
    assert_eq!(found, [0, 1]);
    log.refresh().unwrap();
    assert_eq!(seqs(&mut log, position).0, Vec::<i64>::new());
    bytes.append("2\n3 3\n");
    log.refresh().unwrap();
    assert_eq!(seqs(&mut log, position).0, [2, 3]);
}

/// W4: an empty log that begins to grow.
#[test]
fn an_empty_log_can_start() {
    let (bytes, log) = log("");
    let mut log = log.unwrap();
    let position = log.seek(cursor(-1)).unwrap();
    assert_eq!(seqs(&mut log, position).0, Vec::<i64>::new());
    bytes.append("0 0\n");
    log.refresh().unwrap();
    assert_eq!(seqs(&mut log, position).0, [0]);
}

/// W4: gaps, repeats, descents and malformed lines are refused, with the line's number.
#[test]
fn a_log_with_a_gap_is_refused() {
    for (text, shown) in [
        ("0 0\n2 2\n", "log line 2: event 2 follows event 0"),
        ("0 0\n1 1\n1 1\n", "log line 3: event 1 follows event 1"),
        ("5 5\n4 4\n", "log line 2: event 4 follows event 5"),
        ("0 0\n01 1\n", r#"log line 2: line is "01 1\n", allowed: <seq> <delta> and LF"#),
        ("0 1001\n", "log line 1: delta is 1001, allowed: a whole number from -1000 to 1000"),
    ] {
        assert_eq!(log(text).1.unwrap_err().to_string(), shown);
    }
    let error = log(&"x".repeat(20_000)).1.unwrap_err();
    assert!(error.to_string().starts_with("log line 1: line is"), "{error}");
}

/// W4: a log that lost its tail would reuse numbers.
#[test]
fn a_log_that_shrinks_is_refused() {
    let (bytes, log) = log("0 0\n1 1\n");
    let mut log = log.unwrap();
    bytes.0.borrow_mut().truncate(4);
    assert_eq!(log.refresh().unwrap_err().to_string(), "the log shrank from 8 to 4 bytes");
    let position = log.seek(cursor(0)).unwrap();
    assert!(log.read(position, Limit::MAX).is_err());
}

/// W4: a log that was cut and has grown beyond where it was would pass another history off as the old one's end.
#[test]
fn a_log_that_is_cut_and_regrown_is_refused() {
    let (bytes, log) = log("0 0\n1 1\n");
    let mut log = log.unwrap();
    bytes.0.borrow_mut().truncate(4);
    bytes.append("1 2\n2 2\n");
    let error = log.refresh().unwrap_err().to_string();
    assert_eq!(error, "the log was rewritten before byte 8: its last line is no longer what it was");
}

/// W4: a log file that is rotated is no longer followed, whatever the new one holds.
#[test]
fn a_log_file_that_is_rotated_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.log");
    std::fs::write(&path, "0 0\n1 1\n").unwrap();
    let mut log = Log::open(crate::adapter::LogFile::open(&path).unwrap()).unwrap();
    log.refresh().unwrap();
    std::fs::rename(&path, dir.path().join("events.log.1")).unwrap();
    assert!(matches!(log.refresh(), Err(LogError::Moved)));
    std::fs::write(&path, "0 0\n1 1\n2 2\n").unwrap();
    assert!(matches!(log.refresh(), Err(LogError::Moved)));
}
