//! The receiver's inbox: W3, part Y.

use std::thread;

use ackward::port::NoFault;
use ackward::storage::{AcceptError, Accepted, Answer, Arrival, EventInbox, Inbox, Totals};

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

fn arrivals(events: &[(&str, i64)]) -> Vec<Arrival> {
    events.iter().map(|(id, qty)| Arrival { event: event(id, *qty), at: at(10) }).collect()
}

/// Answers as words: `applied`, `repeat`, `conflict`, or another error.
fn words(answers: Result<Vec<Answer>, AcceptError>) -> Vec<&'static str> {
    let word = |answer: Answer| match answer {
        Ok(Accepted::Applied) => "applied",
        Ok(Accepted::Repeat) => "repeat",
        Err(AcceptError::Conflict { .. }) => "conflict",
        Err(_) => "error",
    };
    answers.unwrap().into_iter().map(word).collect()
}

#[test]
fn w3_events_that_share_a_transaction_are_answered_each_on_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let mut inbox = open(&dir);
    inbox.accept(&event("old", 1), at(1), &mut NoFault).unwrap();
    let group = arrivals(&[("a", 5), ("old", 1), ("a", 5), ("old", 2), ("a", 6), ("b", 2)]);
    let mut hook = Hook::none();
    let answers = words(inbox.accept_many(&group, &mut hook));
    assert_eq!(answers, ["applied", "repeat", "repeat", "conflict", "conflict", "applied"]);
    assert_eq!(hook.called, ["after-accept", "after-accept", "after-commit"]);
    assert_eq!(inbox.totals().unwrap(), Totals { count: 3, qty: 8 });
    assert_eq!(inbox.accept_many(&[], &mut NoFault).unwrap().len(), 0);
}

#[test]
fn w3_an_event_that_fails_takes_no_other_with_it() {
    /// Fails at the second event.
    struct Second(u32);
    impl Fault for Second {
        fn at(&mut self, point: FaultPoint) -> Result<(), Injected> {
            self.0 += u32::from(point == FaultPoint::AfterAccept);
            if point == FaultPoint::AfterAccept && self.0 == 2 { Err(Injected("no".into())) } else { Ok(()) }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let mut inbox = open(&dir);
    let group = arrivals(&[("a", 5), ("b", 2), ("c", 1)]);
    assert_eq!(words(inbox.accept_many(&group, &mut Second(0))), ["applied", "error", "applied"]);
    let expected = ["inbox a 5 10", "inbox c 1 10", "effects 1 a 5 10", "effects 2 c 1 10", "totals 1 2 6"];
    assert_eq!(everything(&inbox), expected);
    assert_eq!(words(inbox.accept_many(&group, &mut NoFault)), ["repeat", "applied", "repeat"]);
}

#[test]
fn w3_a_group_whose_commit_fails_leaves_nothing_and_answers_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let mut inbox = open(&dir);
    inbox.connection().busy_timeout(std::time::Duration::ZERO).unwrap();
    inbox.accept(&event("old", 1), at(1), &mut NoFault).unwrap();
    let reader = Connection::open(dir.path().join("inbox.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM inbox").unwrap();
    let error = inbox.accept_many(&arrivals(&[("a", 5), ("old", 1)]), &mut NoFault).unwrap_err();
    assert!(matches!(&error, AcceptError::Storage(error) if error.is_busy()), "{error}");
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(inbox.totals().unwrap(), Totals { count: 1, qty: 1 });
    let error =
        inbox.accept_many(&arrivals(&[("a", 5), ("b", 1)]), &mut Hook::fails_at(FaultPoint::AfterCommit));
    assert!(matches!(error, Err(AcceptError::Hook(_))));
    assert_eq!(inbox.totals().unwrap(), Totals { count: 3, qty: 7 });
}

/// How many transactions have changed the file, as its header counts them.
fn commits(dir: &TempDir) -> u32 {
    let bytes = std::fs::read(dir.path().join("inbox.db")).unwrap();
    u32::from_be_bytes(bytes[24..28].try_into().unwrap())
}

/// M9: a repeat is answered like a first acceptance, so it is committed anew; a conflict is no promise and costs
/// no commit.
#[test]
fn m9_a_repeat_is_committed_anew_and_a_conflict_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let mut inbox = open(&dir);
    inbox.accept(&event("a", 5), at(10), &mut NoFault).unwrap();
    inbox.accept(&event("b", 5), at(10), &mut NoFault).unwrap();
    let before = commits(&dir);
    inbox.accept(&event("a", 5), at(11), &mut NoFault).unwrap();
    assert_eq!(commits(&dir), before + 1);
    assert_eq!(
        words(inbox.accept_many(&arrivals(&[("a", 5), ("b", 6)]), &mut NoFault)),
        ["repeat", "conflict"]
    );
    assert_eq!(commits(&dir), before + 2);
    assert_eq!(words(inbox.accept_many(&arrivals(&[("a", 6), ("b", 6)]), &mut NoFault)), ["conflict"; 2]);
    inbox.accept(&event("a", 6), at(11), &mut NoFault).unwrap_err();
    assert_eq!(commits(&dir), before + 2);
}

/// W3: through the seam an inbox does what it does by itself.
#[test]
fn w3_the_seam_is_the_inbox() {
    fn through(inbox: &mut impl EventInbox, arrivals: &[Arrival]) -> Vec<&'static str> {
        words(inbox.accept_many(arrivals, &mut NoFault))
    }
    let dir = tempfile::tempdir().unwrap();
    let mut inbox = open(&dir);
    assert_eq!(through(&mut inbox, &arrivals(&[("a", 5), ("a", 5)])), ["applied", "repeat"]);
    assert_eq!(inbox.totals().unwrap(), Totals { count: 1, qty: 5 });
}

/// W3: where SQLite rolls a group back by itself (here a trigger, else a full disk), no event of it is answered.
#[test]
fn w3_a_group_that_sqlite_rolled_back_is_answered_to_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let mut inbox = open(&dir);
    let trigger = "CREATE TRIGGER t BEFORE INSERT ON effects WHEN new.id = 'b' BEGIN SELECT RAISE(ROLLBACK, 'gone'); END";
    inbox.connection().execute_batch(trigger).unwrap();
    let error = inbox.accept_many(&arrivals(&[("a", 5), ("b", 2), ("c", 1)]), &mut NoFault).unwrap_err();
    assert_eq!(error.to_string(), "gone");
    assert_eq!(everything(&inbox), [""; 0]);
}
