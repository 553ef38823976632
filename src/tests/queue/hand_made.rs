//! Rows that another program made and that break a range (M12): passed over, left as they are, never in the
//! way, and listed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

use super::*;

const GOOD: &str = "'good', 1, 'pending', 0, 3, 0, 0, 500, NULL, NULL, NULL";

/// Rows that would be claimed or die at 100 if they were sound, and the column that is not.
const BAD: &[(&str, &str)] = &[
    ("id", "'a b', 1, 'pending', 0, 3, 0, 0, 500, NULL, NULL, NULL"),
    ("id", "'', 1, 'pending', 0, 3, 0, 0, 500, NULL, NULL, NULL"),
    ("id", "x'61', 1, 'pending', 0, 3, 0, 0, 500, NULL, NULL, NULL"),
    ("id", "'a' || char(0) || 'b', 1, 'pending', 0, 3, 0, 0, 500, NULL, NULL, NULL"),
    ("id", "CAST(x'ff' AS TEXT), 1, 'pending', 0, 3, 0, 0, 500, NULL, NULL, NULL"),
    ("qty", "'a', 'many', 'pending', 0, 3, 0, 0, 500, NULL, NULL, NULL"),
    ("qty", "'a', 1.5, 'pending', 0, 3, 0, 0, 500, NULL, NULL, NULL"),
    ("qty", "'a', 0, 'pending', 0, 3, 0, 0, 500, NULL, NULL, NULL"),
    ("qty", "'a', 1001, 'pending', 0, 3, 0, 0, 500, NULL, NULL, NULL"),
    ("qty", "'a', 0, 'pending', 0, 3, 0, 0, 100, NULL, NULL, NULL"),
    ("qty", "'a', 0, 'pending', 3, 3, 0, 0, 500, NULL, NULL, NULL"),
    ("attempts", "'a', 1, 'pending', -1, 3, 0, 0, 500, NULL, NULL, NULL"),
    ("attempts", "'a', 1, 'pending', 17, 3, 0, 0, 500, NULL, NULL, NULL"),
    ("attempts", "'a', 1, 'pending', 'x', 3, 0, 0, 500, NULL, NULL, NULL"),
    ("max_attempts", "'a', 1, 'pending', 0, 0, 0, 0, 500, NULL, NULL, NULL"),
    ("max_attempts", "'a', 1, 'pending', 0, 17, 0, 0, 500, NULL, NULL, NULL"),
    ("max_attempts", "'a', 1, 'pending', 0, 'x', 0, 0, 500, NULL, NULL, NULL"),
    ("token", "'a', 1, 'pending', 0, 3, -1, 0, 500, NULL, NULL, NULL"),
    ("token", "'a', 1, 'pending', 0, 3, 1000000000000001, 0, 500, NULL, NULL, NULL"),
    ("available_at", "'a', 1, 'pending', 0, 3, 0, -1, 500, NULL, NULL, NULL"),
    ("available_at", "'a', 1, 'pending', 0, 3, 0, 'x', 500, NULL, NULL, NULL"),
    ("deadline", "'a', 1, 'pending', 0, 3, 0, 0, 'x', NULL, NULL, NULL"),
    ("deadline", "'a', 1, 'pending', 0, 3, 0, 0, -1, NULL, NULL, NULL"),
    ("deadline", "'a', 1, 'pending', 0, 3, 0, 0, 1000000000000001, NULL, NULL, NULL"),
    ("deadline", "'a', 1, 'pending', 0, 3, 0, 0, 99.5, NULL, NULL, NULL"),
    ("owner", "'a', 1, 'pending', 0, 3, 0, 0, 500, 'a b', NULL, NULL"),
    ("owner", "'a', 1, 'leased', 1, 3, 1, 0, 500, NULL, 100, NULL"),
    ("lease_until", "'a', 1, 'leased', 1, 3, 1, 0, 500, 'v', NULL, NULL"),
    ("lease_until", "'a', 1, 'leased', 1, 3, 1, 0, 500, 'v', 'x', NULL"),
    ("lease_until", "'a', 1, 'leased', 1, 3, 1, 0, 500, 'v', 99.5, NULL"),
    ("lease_until", "'a', 1, 'leased', 1, 3, 1, 0, 500, 'v', -1, NULL"),
    ("lease_until", "'a', 1, 'leased', 3, 3, 1, 0, 50, 'v', NULL, NULL"),
    ("reason", "'a', 1, 'pending', 0, 3, 0, 0, 500, NULL, NULL, 'because'"),
    ("reason", "'a', 1, 'pending', 0, 3, 0, 0, 500, NULL, NULL, 7.5"),
];

/// Q29: the job with the least seq of all is the first one, sound or passed over, by itself and in a batch; the doctor
/// tells it, since whoever walks through the table begins behind it.
#[test]
fn q29_the_least_seq_that_there_is_comes_first() {
    const LEAST: &str = "UPDATE jobs SET seq = -9223372036854775808 WHERE seq = 2";
    for (qty, expected) in [(1, ["least", "good"]), (0, ["good", "good"])] {
        let least = format!("'least', {qty}, 'pending', 0, 3, 0, 0, 500, NULL, NULL, NULL");
        let mut bed = Bed::with(&[GOOD, &least]);
        bed.peer.execute(LEAST, []).unwrap();
        for now in [0, 200] {
            assert_eq!(bed.claim(now, 100).unwrap().id.as_str(), expected[0], "qty {qty} at {now}");
        }
        let found = bed.queue.examine(true, &mut || ()).unwrap();
        assert!(
            found.iter().any(|found| found.check == "least-seq" && found.seq == Some(i64::MIN)),
            "{found:?}"
        );
        if qty == 1 {
            assert_eq!(bed.claim(200, 100).unwrap().id.as_str(), expected[1]);
        }
    }
}

#[test]
fn m12_a_bad_row_is_passed_over_left_alone_and_listed() {
    for (column, row) in BAD {
        let mut bed = Bed::with(&[row, GOOD]);
        let before = query(&bed.peer, "SELECT * FROM jobs WHERE seq = 1");
        for now in [100, 200] {
            let claimed = bed.claim(now, 100).unwrap_or_else(|| panic!("{row} is in the way"));
            assert_eq!(claimed.id.as_str(), "good", "{row}");
        }
        assert_eq!(query(&bed.peer, "SELECT * FROM jobs WHERE seq = 1"), before, "{row}");
        let bad = bed.queue.bad_rows(10).unwrap();
        assert_eq!(bad.len(), 1, "{row}");
        assert_eq!((bad[0].seq, bad[0].invalid.field.as_ref()), (1, *column), "{row}");
    }
}

#[test]
fn m12_all_of_them_together_block_nothing() {
    let mut bed = Bed::new();
    for (number, (_, row)) in BAD.iter().enumerate() {
        bed.insert(&row.replacen("'a',", &format!("'a{number}',"), 1));
    }
    bed.insert(GOOD);
    assert_eq!(bed.claim(100, 10).unwrap().id.as_str(), "good");
    assert_eq!(bed.claim(100, 10), None);
    assert_eq!(bed.queue.bad_rows(100).unwrap().len(), BAD.len());
    assert_eq!(bed.queue.bad_rows(2).unwrap().len(), 2);
}

#[test]
fn m12_the_last_token_can_be_finished_but_not_followed() {
    let mut bed = Bed::with(&[
        "'a', 1, 'pending', 0, 3, 1000000000000000, 0, 500, NULL, NULL, NULL",
        "'b', 1, 'pending', 0, 3, 999999999999999, 0, 500, NULL, NULL, NULL",
    ]);
    let claimed = bed.claim(100, 10).unwrap();
    assert_eq!(claimed, ticket("b", 1, "w", 1_000_000_000_000_000, 1, 110));
    assert_eq!(bed.finish(&claimed, Outcome::Ok, 100, 0), Finished::Now(ackward::rules::Status::Done));
    bed.assert_job("a", "pending 0/3 1000000000000000 0 500 - - -");
}

#[test]
fn m12_finish_renew_and_release_leave_a_bad_row_alone() {
    for row in [
        "'a', 'x', 'leased', 1, 3, 1, 0, 500, 'w', 110, NULL",
        "'a', 1, 'leased', 1, 'x', 1, 0, 500, 'w', 110, NULL",
        "'a', 1, 'leased', 1, 1.5, 1, 0, 500, 'w', 110, NULL",
        "'a', 1, 'leased', 1, 99, 1, 0, 500, 'w', 110, NULL",
        "'a', 1, 'leased', 1, 3, 1, 'x', 500, 'w', 110, NULL",
        "'a', 1, 'leased', 1, 3, 1, 0, 'x', 'w', 110, NULL",
        "'a', 1, 'leased', 1, 3, 1, 0, 1e99, 'w', 110, NULL",
        "'a', 1, 'leased', 1, 3, 1, 0, 500, NULL, 110, NULL",
        "'a', 1, 'leased', 1, 3, 1, 0, 500, x'77', 110, NULL",
        "'a', 1, 'leased', 1, 3, 1, 0, 500, 'w', NULL, NULL",
    ] {
        let mut bed = Bed::with(&[row]);
        let before = bed.everything();
        let held = ticket("a", 1, "w", 1, 1, 110);
        for outcome in [Outcome::Ok, Outcome::Retry, Outcome::Permanent] {
            assert_eq!(bed.finish(&held, outcome, 100, 0), Finished::Stale, "{row}");
        }
        assert_eq!(bed.renew_with(&held, 100, 10, &mut Hook::none()).unwrap(), Renewed::Stale, "{row}");
        assert_eq!(bed.release_with(&held, 100, &mut Hook::none()).unwrap(), Released::Stale, "{row}");
        assert_eq!(bed.everything(), before, "{row}");
    }
}

/// Counts the warnings of one thread.
#[derive(Clone, Default)]
struct Warnings(Arc<AtomicUsize>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn warnings(work: impl FnOnce()) -> usize {
    let warnings = Warnings::default();
    tracing::subscriber::with_default(warnings.clone(), work);
    warnings.0.load(Ordering::Relaxed)
}

#[test]
fn m12_a_bad_row_is_logged_once_per_open_queue_and_a_thousand_at_most() {
    let mut bed = Bed::with(&["'bad', 0, 'pending', 0, 3, 0, 0, 500, NULL, NULL, NULL"]);
    assert_eq!(warnings(|| assert_eq!(bed.claim(100, 10), None)), 1);
    assert_eq!(warnings(|| assert_eq!(bed.claim(100, 10), None)), 0, "once");
    bed.queue = Queue::open(&bed.path(), &full()).unwrap();
    assert_eq!(warnings(|| assert_eq!(bed.claim(100, 10), None)), 1, "by each that opens the file");

    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1004)
        INSERT INTO jobs (id, qty, status, attempts, max_attempts, token, available_at, deadline)
        SELECT 'bad-' || i, 0, 'pending', 0, 3, 0, 0, 60000 FROM n";
    bed.peer.execute(many, []).unwrap();
    assert_eq!(warnings(|| assert_eq!(bed.claim(100, 10), None)), 999, "memory stays bounded");
    assert_eq!(warnings(|| assert_eq!(bed.claim(100, 10), None)), 0);
}

/// M12: rows that claim meets only while it looks for what is to die, or for leases without an end.
#[test]
fn m12_a_bad_row_is_logged_wherever_claim_meets_it() {
    for row in [
        "'late', 0, 'pending', 0, 3, 0, 900, 50, NULL, NULL, NULL",
        "'spent', 0, 'pending', 3, 3, 3, 900, 500, NULL, NULL, NULL",
        "'endless', 1, 'leased', 1, 3, 1, 0, 500, 'v', NULL, NULL",
        "'no number', 1, 'leased', 1, 3, 1, 0, 500, 'v', 'x', NULL",
        "'no token left', 1, 'pending', 0, 3, 1000000000000000, 0, 500, NULL, NULL, NULL",
    ] {
        let mut bed = Bed::with(&[row]);
        bed.insert("'over', 1, 'leased', 3, 3, 3, 0, 500, 'v', 100, NULL");
        assert_eq!(warnings(|| assert_eq!(bed.claim(100, 10), None)), 1, "{row}");
    }
}
