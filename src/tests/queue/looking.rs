//! Looking at jobs and audit rows as they are stored, one by one and in lists.

use ackward::rules::{Reason, Status};
use ackward::storage::{JobFilter, JobRow};
use rusqlite::types::Value;

use super::*;

fn five() -> Bed {
    Bed::with(&[
        "'cake-1', 1, 'pending', 0, 3, 0, 0, 500, NULL, NULL, NULL",
        "'cake-2', 1, 'dead', 1, 3, 1, 0, 500, NULL, NULL, 'permanent'",
        "'pie', 1, 'leased', 1, 3, 1, 0, 500, 'v', 100, NULL",
        "'cak', 1, 'dead', 0, 3, 0, 0, 50, NULL, NULL, 'deadline'",
        "'cake-3', 1, 'done', 1, 3, 1, 0, 500, NULL, NULL, NULL",
    ])
}

fn ids<'r>(rows: impl IntoIterator<Item = &'r JobRow>) -> String {
    let id = |row: &JobRow| if let Value::Text(id) = row.get("id") { id.clone() } else { "-".into() };
    rows.into_iter().map(id).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_job_is_found_by_its_id_and_by_its_seq() {
    let bed = five();
    let pie = bed.queue.find(&name("pie")).unwrap().unwrap();
    assert_eq!(bed.queue.find_seq(3).unwrap().as_ref(), Some(&pie));
    assert_eq!((pie.get("seq"), pie.get("owner")), (&Value::Integer(3), &Value::Text("v".into())));
    assert_eq!((pie.get("reason"), pie.get("no such column")), (&Value::Null, &Value::Null));
    assert_eq!((bed.queue.find(&name("tart")).unwrap(), bed.queue.find_seq(6).unwrap()), (None, None));
}

#[test]
fn a_list_has_what_the_filter_lets_through_in_order() {
    let bed = five();
    let listed = |filter: &JobFilter, after, max| ids(&bed.queue.list(filter, after, max).unwrap());
    let last = |filter: &JobFilter, max| ids(&bed.queue.list_last(filter, max).unwrap());
    let all = JobFilter::default();
    assert_eq!(listed(&all, 0, 9), "cake-1 cake-2 pie cak cake-3");
    assert_eq!(
        (listed(&all, 2, 2), listed(&all, 5, 9), listed(&all, 0, 0)),
        ("pie cak".into(), "".into(), "".into())
    );
    assert_eq!((last(&all, 2), last(&all, 9)), ("cake-3 cak".into(), "cake-3 cak pie cake-2 cake-1".into()));
    let dead = JobFilter { status: Some(Status::Dead), ..JobFilter::default() };
    assert_eq!((listed(&dead, 0, 9), last(&dead, 1)), ("cake-2 cak".into(), "cak".into()));
    let late = JobFilter { reason: Some(Reason::Deadline), ..JobFilter::default() };
    assert_eq!(listed(&late, 0, 9), "cak");
    let cakes = JobFilter { id_prefix: Some("cake".into()), ..JobFilter::default() };
    assert_eq!(
        (listed(&cakes, 0, 9), listed(&cakes, 1, 1)),
        ("cake-1 cake-2 cake-3".into(), "cake-2".into())
    );
    let dead_cakes = JobFilter { status: Some(Status::Dead), ..cakes };
    assert_eq!(listed(&dead_cakes, 0, 9), "cake-2");
}

#[test]
fn the_live_jobs_are_those_that_are_not_finished() {
    let bed = five();
    let (live, end) = bed.queue.live(0, 100).unwrap();
    assert_eq!((ids(&live).as_str(), end), ("cake-1 pie", i64::MAX));
}

/// Q44: the audit of one job or of all, the newest first.
#[test]
fn the_audit_tells_the_newest_redrives_first() {
    let mut bed = five();
    for (id, now) in [("cak", 60), ("cake-2", 70)] {
        bed.redrive_with(id, now, 100, &mut Hook::none()).unwrap();
    }
    let audit = |id: Option<&str>, max| ids(&bed.queue.audit(id.map(name).as_ref(), max).unwrap());
    assert_eq!((audit(None, 9), audit(None, 1)), ("cake-2 cak".into(), "cake-2".into()));
    assert_eq!((audit(Some("cak"), 9), audit(Some("pie"), 9)), ("cak".into(), "".into()));
    assert_eq!(bed.queue.audit(None, 1).unwrap()[0].get("at_ms"), &Value::Integer(70));
}
