//! The receiver's inbox: W3, part Y.

use std::thread;

use ackward::port::NoFault;
use ackward::storage::{AcceptError, Accepted, Inbox, Totals};

use super::*;

fn open(dir: &TempDir) -> Inbox {
    Inbox::open(&dir.path().join("inbox.db"), &OpenOptions::new(Durability::Extra)).unwrap()
}

fn everything(inbox: &Inbox) -> Vec<String> {
    ["inbox", "effects", "totals"]
        .iter()
        .flat_map(|table| query(inbox.connection(), &format!("SELECT '{table}', * FROM {table}")))
        .collect()
}

#[test]
fn w3_an_event_takes_effect_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut inbox = open(&dir);
    assert_eq!(inbox.totals().unwrap(), Totals::default());
    assert_eq!(inbox.accept(&event("a", 5), at(10), &mut NoFault).unwrap(), Accepted::Applied);
    assert_eq!(inbox.accept(&event("b", 2), at(11), &mut NoFault).unwrap(), Accepted::Applied);
    let mut hook = Hook::none();
    assert_eq!(inbox.accept(&event("a", 5), at(12), &mut hook).unwrap(), Accepted::Repeat);
    assert_eq!(hook.called, [""; 0]);
    assert_eq!(inbox.totals().unwrap(), Totals { count: 2, qty: 7 });
    let expected = ["inbox a 5 10", "inbox b 2 11", "effects 1 a 5 10", "effects 2 b 2 11", "totals 1 2 7"];
    assert_eq!(everything(&inbox), expected);
    drop(inbox);
    assert_eq!(everything(&open(&dir)), expected, "after reopening");
}

#[test]
fn w3_another_qty_is_a_conflict_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut inbox = open(&dir);
    inbox.accept(&event("a", 5), at(10), &mut NoFault).unwrap();
    let before = everything(&inbox);
    let error = inbox.accept(&event("a", 6), at(11), &mut NoFault).unwrap_err();
    assert!(matches!(error, AcceptError::Conflict { .. }), "{error}");
    assert_eq!(everything(&inbox), before);
}

#[test]
fn w3_row_effect_and_totals_are_one_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let mut inbox = open(&dir);
    inbox.accept(&event("a", 5), at(10), &mut Hook::fails_at(FaultPoint::AfterAccept)).unwrap_err();
    assert_eq!(everything(&inbox), [""; 0]);
    inbox.accept(&event("a", 5), at(10), &mut Hook::fails_at(FaultPoint::AfterCommit)).unwrap_err();
    assert_eq!(inbox.totals().unwrap(), Totals { count: 1, qty: 5 });
    assert_eq!(inbox.accept(&event("a", 5), at(10), &mut NoFault).unwrap(), Accepted::Repeat);
}

#[test]
fn w3_concurrent_requests_of_one_id_have_one_effect() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(&dir));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| open(&dir).accept(&event("a", 5), at(10), &mut NoFault).unwrap());
        }
    });
    assert_eq!(open(&dir).totals().unwrap(), Totals { count: 1, qty: 5 });
}

#[test]
fn m9_the_inbox_can_be_opened_with_extra() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(query(open(&dir).connection(), "PRAGMA synchronous"), ["3"]);
}
