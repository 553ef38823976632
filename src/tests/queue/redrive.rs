//! redrive: Q42 to Q46.

use ackward::rules::{Limits, NOW_MAX_MS, Status};
use ackward::storage::StorageError;

use super::*;

const DEAD: &str = "'a', 5, 'dead', 3, 3, 7, 90, 100, NULL, NULL, 'exhausted'";

#[test]
fn q44_q45_a_dead_job_gets_a_new_life_and_an_audit_row() {
    let mut bed = Bed::with(&[DEAD]);
    let mut hook = Hook::none();
    bed.redrive_with("a", 50, 25, &mut hook).unwrap();
    assert_eq!(hook.called, ["after-audit", "after-redrive", "after-commit"]);
    bed.assert_job("a", "pending 0/3 7 50 75 - - -");
    assert_eq!(query(&bed.peer, "SELECT * FROM redrives"), ["1 a 7 50 note"]);
    assert_eq!(bed.claim(50, 10).unwrap(), ticket("a", 5, "w", 8, 1, 60));
}

#[test]
fn q43_only_dead_jobs() {
    for status in ["pending", "leased", "done"] {
        let mut bed = Bed::with(&[&DEAD.replace("dead", status)]);
        let before = bed.everything();
        let mut hook = Hook::none();
        let error = bed.redrive_with("a", 50, 25, &mut hook).unwrap_err();
        assert_eq!(error.to_string(), format!("job a is {status}, only a dead job can be redriven"));
        assert_eq!(hook.called, [""; 0]);
        assert_eq!(bed.everything(), before);
    }
    let error = Bed::new().redrive_with("a", 50, 25, &mut Hook::none()).unwrap_err();
    assert!(matches!(error, RedriveError::NoSuchJob { .. }), "{error}");
}

/// M12: what no claim would take is left dead, with the reason, alone or among others.
#[test]
fn m12_a_row_that_no_claim_would_take_is_not_redriven() {
    for (column, row) in [
        (
            "qty is 0, allowed: a whole number from 1 to 1000",
            "'a', 0, 'dead', 3, 3, 7, 90, 100, NULL, NULL, 'exhausted'",
        ),
        ("max_attempts is 17", "'a', 5, 'dead', 3, 17, 7, 90, 100, NULL, NULL, 'exhausted'"),
        (
            "token is -7, allowed: a whole number from 0",
            "'a', 5, 'dead', 3, 3, -7, 90, 100, NULL, NULL, 'exhausted'",
        ),
        ("token is \"x\"", "'a', 5, 'dead', 3, 3, 'x', 90, 100, NULL, NULL, 'exhausted'"),
        (
            "allowed: less than 1000000000000000",
            "'a', 5, 'dead', 3, 3, 1000000000000000, 90, 100, NULL, NULL, 'exhausted'",
        ),
    ] {
        let mut bed = Bed::with(&[row, &DEAD.replacen("'a'", "'b'", 1)]);
        let before = bed.everything();
        let mut hook = Hook::none();
        let error = bed.redrive_with("a", 50, 25, &mut hook).unwrap_err();
        let said = error.to_string();
        assert!(said.starts_with("stored row: ") && said.contains(column), "{said}");
        assert_eq!((hook.called, bed.everything()), (vec![], before), "{row}");
        let ttl = Limits::CONTRACT.ttl(25).unwrap();
        let answers =
            bed.queue.redrive_many(&["a", "b"].map(name), at(50), ttl, &name("note"), &mut Hook::none());
        assert!(
            matches!(answers[..], [Err(RedriveError::Storage(StorageError::Row(_))), Ok(())]),
            "{answers:?}"
        );
        assert_eq!(query(&bed.peer, "SELECT * FROM redrives"), ["1 b 7 50 note"], "{row}");
    }
    // What a redrive puts right is no reason.
    let mut bed = Bed::with(&["'a', 5, 'dead', 99, 3, 7, 'x', -1, 'v', 5, 'whim'"]);
    bed.redrive_with("a", 50, 25, &mut Hook::none()).unwrap();
    assert_eq!(bed.claim(50, 10).unwrap(), ticket("a", 5, "w", 8, 1, 60));
}

#[test]
fn q43_a_second_redrive_is_refused() {
    let mut bed = Bed::with(&[DEAD]);
    bed.redrive_with("a", 50, 25, &mut Hook::none()).unwrap();
    let error = bed.redrive_with("a", 50, 25, &mut Hook::none()).unwrap_err();
    assert!(matches!(error, RedriveError::NotDead { status: Status::Pending, .. }), "{error}");
    assert_eq!(query(&bed.peer, "SELECT count(*) FROM redrives"), ["1"]);
}

#[test]
fn q46_an_error_before_commit_leaves_nothing_one_after_it_leaves_both() {
    for point in [FaultPoint::AfterAudit, FaultPoint::AfterRedrive] {
        let mut bed = Bed::with(&[DEAD]);
        let before = bed.everything();
        bed.redrive_with("a", 50, 25, &mut Hook::fails_at(point)).unwrap_err();
        assert_eq!(bed.everything(), before, "{point}");
    }
    let mut bed = Bed::with(&[DEAD]);
    bed.redrive_with("a", 50, 25, &mut Hook::fails_at(FaultPoint::AfterCommit)).unwrap_err();
    bed.assert_job("a", "pending 0/3 7 50 75 - - -");
    assert_eq!(query(&bed.peer, "SELECT * FROM redrives"), ["1 a 7 50 note"]);
}

#[test]
fn q46_at_after_audit_the_job_is_still_dead() {
    struct Look(std::path::PathBuf, Vec<(&'static str, u64)>);
    impl Fault for Look {
        fn at(&mut self, point: FaultPoint) -> Result<(), Injected> {
            // Nothing is visible from outside before the COMMIT.
            let peer = Connection::open(&self.0).unwrap();
            let audits = query(&peer, "SELECT count(*) FROM redrives")[0].parse().unwrap();
            self.1.push((point.as_str(), audits));
            Ok(())
        }
    }
    let mut bed = Bed::with(&[DEAD]);
    let mut look = Look(bed.path(), Vec::new());
    bed.redrive_with("a", 50, 25, &mut look).unwrap();
    assert_eq!(look.1, [("after-audit", 0), ("after-redrive", 0), ("after-commit", 1)]);
}

#[test]
fn q45_a_redriven_job_keeps_its_place() {
    let mut bed = Bed::with(&[DEAD, "'b', 1, 'pending', 0, 3, 0, 0, 500, NULL, NULL, NULL"]);
    bed.redrive_with("a", 60, 25, &mut Hook::none()).unwrap();
    assert_eq!(bed.claim(60, 10).unwrap().id.as_str(), "a");
}

#[test]
fn m11_a_wide_ttl_beyond_the_last_instant_is_refused() {
    let mut bed = Bed::with(&[DEAD]);
    let ttl = Limits::WIDE.ttl(60_001).unwrap();
    let result = bed.queue.redrive(&name("a"), at(NOW_MAX_MS), ttl, &name("n"), &mut Hook::none());
    assert!(matches!(result, Err(RedriveError::Invalid(_))), "{result:?}");
}
