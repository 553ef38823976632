//! What keeps a file in order: counts, pruning, the doctor, and looking without touching.

use ackward::storage::{Depth, PruneOptions, StorageError};

use super::*;

const ROWS: &[&str] = &[
    "'ready', 1, 'pending', 0, 3, 0, 50, 500, NULL, NULL, NULL",
    "'waits', 1, 'pending', 1, 3, 1, 200, 400, NULL, NULL, 'retry'",
    "'over', 1, 'leased', 1, 3, 1, 0, 500, 'v', 100, NULL",
    "'old', 1, 'done', 1, 3, 1, 10, 500, NULL, NULL, NULL",
    "'new', 1, 'done', 1, 3, 1, 90, 500, NULL, NULL, NULL",
    "'refused', 1, 'dead', 1, 3, 1, 10, 60, NULL, NULL, 'permanent'",
    "'late', 1, 'dead', 0, 3, 0, 10, 20, NULL, NULL, 'deadline'",
];

#[test]
fn stats_count_every_kind_once() {
    let bed = Bed::with(ROWS);
    let stats = bed.queue.stats(at(100)).unwrap();
    assert_eq!((stats.pending, stats.leased, stats.done, stats.dead), (2, 1, 2, 2));
    assert_eq!((stats.ready, stats.overdue, stats.redrives), (1, 1, 0));
    assert_eq!((stats.ready_since_ms, stats.next_ready_ms), (Some(50), Some(200)));
    assert_eq!(stats.next_deadline_ms, Some(400));
    let reasons: Vec<_> =
        stats.dead_by_reason.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    assert_eq!(reasons, ["deadline 1", "permanent 1"]);
    assert_eq!(bed.queue.depth().unwrap(), Depth { pending: 2, leased: 1 });
}

/// Q26: what the next claim moves to the dead is pending still, and neither ready nor waiting. M12: what is no time
/// does not count as one.
#[test]
fn stats_tell_the_doomed_from_the_ready() {
    let rows = [
        "'ready', 1, 'pending', 2, 3, 2, 50, 500, NULL, NULL, NULL",
        "'late', 1, 'pending', 0, 3, 0, 10, 100, NULL, NULL, NULL",
        "'spent', 1, 'pending', 3, 3, 3, 20, 500, NULL, NULL, NULL",
        "'both', 1, 'pending', 3, 3, 3, 30, 40, NULL, NULL, NULL",
        "'late-later', 1, 'pending', 0, 3, 0, 150, 60, NULL, NULL, NULL",
        "'waits', 1, 'pending', 1, 3, 1, 200, 400, NULL, NULL, 'retry'",
        "'real', 1, 'pending', 0, 3, 0, 0.5, 101.5, NULL, NULL, NULL",
        "'real-late', 1, 'pending', 0, 3, 0, 60, 0.5, NULL, NULL, NULL",
        "'text', 1, 'pending', 0, 3, 0, 'soon', 'never', NULL, NULL, NULL",
    ];
    let bed = Bed::with(&rows);
    for indexes in ["with", "without"] {
        let stats = bed.queue.stats(at(100)).unwrap();
        assert_eq!(
            (stats.pending, stats.ready, stats.doomed),
            (9, 2, 4),
            "{indexes}: ready, and real-late, which is bad"
        );
        assert_eq!((stats.ready_since_ms, stats.next_ready_ms), (Some(50), Some(200)), "{indexes}");
        assert_eq!(stats.next_deadline_ms, Some(400), "{indexes}");
        bed.peer.execute_batch("DROP INDEX IF EXISTS ackward_jobs_spent").unwrap();
    }
    let none = Bed::with(&["'text', 1, 'pending', 0, 3, 0, 'soon', 1.5, NULL, NULL, NULL"]);
    let stats = none.queue.stats(at(100)).unwrap();
    assert_eq!((stats.ready_since_ms, stats.next_ready_ms, stats.next_deadline_ms), (None, None, None));
}

/// A clock that shows less than this has been set back. M12: what is no time does not count as one.
#[test]
fn the_latest_time_is_that_of_the_last_job_done() {
    assert_eq!(Bed::new().queue.latest_ms(&mut || ()).unwrap(), None);
    let bed = Bed::with(ROWS);
    bed.insert("'bad', 1, 'done', 1, 3, 1, 'soon', 500, NULL, NULL, NULL");
    bed.insert("'never', 1, 'done', 1, 3, 1, 9223372036854775807, 500, NULL, NULL, NULL");
    assert_eq!(bed.queue.latest_ms(&mut || ()).unwrap(), Some(90));
}

/// The count goes on behind the first piece of 20,000 rows.
#[test]
fn stats_count_a_large_table_to_its_end() {
    let bed = Bed::new();
    let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 45000)
        INSERT INTO jobs (id, qty, status, attempts, max_attempts, token, available_at, deadline)
        SELECT 'job-' || i, 1, iif(i % 3, 'done', 'dead'), 1, 3, 1, 0, 60000 FROM n";
    bed.peer.execute(sql, []).unwrap();
    let stats = bed.queue.stats(at(0)).unwrap();
    assert_eq!((stats.done, stats.dead), (30_000, 15_000));
}

/// Only what finished before the time goes; the dead only where it is asked for, and not before their deadline.
#[test]
fn prune_removes_old_finished_jobs_and_nothing_else() {
    let mut bed = Bed::with(ROWS);
    let options = PruneOptions { before: at(50), dead: true, dry_run: true };
    let before = bed.everything();
    assert_eq!(pruned(&mut bed, options), (2, 1), "old and late");
    assert_eq!(bed.everything(), before, "a dry run changes nothing");
    let options = PruneOptions { dry_run: false, dead: false, ..options };
    assert_eq!(pruned(&mut bed, options), (1, 1));
    assert_eq!(pruned(&mut bed, PruneOptions { dead: true, ..options }), (1, 1));
    let left = query(&bed.peer, "SELECT id FROM jobs ORDER BY seq");
    assert_eq!(left, ["ready", "waits", "over", "new", "refused"]);
    bed.enqueue("old", 1, 100, 50).unwrap();
    assert_eq!(query(&bed.peer, "SELECT seq, token FROM jobs WHERE id = 'old'"), ["8 0"], "anew, part Y");
}

/// M12: a row that breaks a range is left as it is and told, whichever column it is; the others of its piece go.
#[test]
fn m12_prune_passes_over_what_breaks_a_range() {
    let mut bed = Bed::with(&[
        "'sound', 1, 'done', 1, 3, 1, 0, 500, NULL, NULL, NULL",
        "'much', 1001, 'done', 1, 3, 1, 0, 500, NULL, NULL, NULL",
        "'b d', 1, 'dead', 1, 3, 1, 0, 40, NULL, NULL, 'exhausted'",
        "'why', 1, 'dead', 1, 3, 1, 0, 40, NULL, NULL, 'bored'",
        "'too', 1, 'dead', 1, 3, 1, 0, 40, NULL, NULL, 'exhausted'",
    ]);
    for dry_run in [true, false] {
        let options = PruneOptions { before: at(50), dead: true, dry_run };
        let piece = bed.queue.prune(&options, 0, 100).unwrap().unwrap();
        let bad: Vec<_> = piece.bad.iter().map(|row| (row.seq, &*row.invalid.field)).collect();
        assert_eq!((piece.jobs, bad), (2, vec![(2, "qty"), (3, "id"), (4, "reason")]), "{dry_run}");
    }
    assert_eq!(query(&bed.peer, "SELECT id FROM jobs ORDER BY seq"), ["much", "b d", "why"]);
}

/// Each transaction is bounded, and each begins where the last one ended.
#[test]
fn prune_goes_through_the_table_in_pieces() {
    let mut bed = Bed::with(ROWS);
    let options = PruneOptions { before: at(1_000), dead: true, dry_run: false };
    let (mut after, mut pieces) = (0, Vec::new());
    while let Some(piece) = bed.queue.prune(&options, after, 3).unwrap() {
        bed.assert_free();
        pieces.push(piece.jobs);
        after = piece.last;
    }
    assert_eq!(pieces, [0, 3, 1]);
}

/// M12: each fault that a row can have is found under its name; a sound file has none.
#[test]
fn m12_the_doctor_names_what_is_wrong() {
    let cases: &[(&str, &str)] = &[
        ("null-lease", "'a', 1, 'leased', 1, 3, 1, 0, 500, 'v', NULL, NULL"),
        ("lease-left-over", "'a', 1, 'pending', 0, 3, 0, 0, 500, 'v', NULL, NULL"),
        ("lease-left-over", "'a', 1, 'done', 1, 3, 1, 0, 500, NULL, 7, NULL"),
        ("impossible", "'a', 1, 'leased', 1, 3, 1, 0, 500, 'v', 501, NULL"),
        ("impossible", "'a', 1, 'pending', 4, 3, 4, 0, 500, NULL, NULL, NULL"),
        ("impossible", "'a', 1, 'pending', 2, 3, 1, 0, 500, NULL, NULL, NULL"),
        ("impossible", "'a', 1, 'dead', 2, 3, 2, 0, 500, NULL, NULL, NULL"),
        ("impossible", "'a', 1, 'done', 1, 3, 1, 0, 500, NULL, NULL, 'retry'"),
        ("impossible", "'a', 1, 'done', 0, 3, 1, 0, 500, NULL, NULL, NULL"),
        ("impossible", "'a', 1, 'pending', 0, 3, 1, 0, 500, NULL, NULL, 'exhausted'"),
        ("range", "'a b', 1, 'pending', 0, 3, 0, 0, 500, NULL, NULL, NULL"),
        ("range", "'a', 1, 'pending', 0, 3, 1000000000000000, 0, 500, NULL, NULL, NULL"),
    ];
    for (check, row) in cases {
        let bed = Bed::with(&[row]);
        let found: Vec<_> =
            bed.queue.examine(false, &mut || ()).unwrap().into_iter().map(|finding| finding.check).collect();
        assert!(found.contains(check), "{row}: {found:?}");
    }
    assert_eq!(Bed::with(ROWS).queue.examine(false, &mut || ()).unwrap(), []);
}

/// M12, Q44: every column of the audit, by type and range; the job's own row does not show what is wrong there.
#[test]
fn m12_the_doctor_looks_at_the_audit_column_by_column() {
    let sound = "'a', 7, 0, 'note'";
    for (row, said) in [
        ("'a b', 7, 0, 'note'", "id is \"a b\""),
        ("x'61', 7, 0, 'note'", "id is a blob of 1 bytes, allowed: text"),
        ("'a', 'x', 0, 'note'", "token is \"x\", allowed: a whole number from 0 to 1000000000000000"),
        ("'a', -1, 0, 'note'", "token is -1"),
        ("'a', 1.5, 0, 'note'", "token is 1.5"),
        ("'a', 1000000000000001, 0, 'note'", "token is 1000000000000001"),
        ("'a', 9223372036854775807, 0, 'note'", "token is 9223372036854775807"),
        ("'a', 7, -1, 'note'", "at_ms is -1, allowed: a whole number from 0 to 999999999940000"),
        ("'a', 7, 999999999940001, 'note'", "at_ms is 999999999940001"),
        ("'a', 7, 'soon', 'note'", "at_ms is \"soon\""),
        ("'a', 7, 0, x'6e6f'", "note is a blob of 2 bytes, allowed: text"),
        ("'a', 7, 0, ''", "note is \"\""),
    ] {
        let bed = Bed::with(&["'a', 1, 'pending', 0, 3, 7, 0, 500, NULL, NULL, NULL"]);
        let insert = |row| format!("INSERT INTO redrives (id, token, at_ms, note) VALUES ({row})");
        bed.peer.execute_batch(&insert(sound)).unwrap();
        assert_eq!(bed.queue.examine(false, &mut || ()).unwrap(), [], "{row}");
        bed.peer.execute_batch(&insert(row)).unwrap();
        let findings = bed.queue.examine(false, &mut || ()).unwrap();
        let [finding] = &findings[..] else { panic!("{row}: {findings:?}") };
        assert_eq!((finding.check, finding.seq, finding.mendable), ("audit-range", Some(2), false), "{row}");
        assert!(finding.what.starts_with(&format!("in redrives, {said}")), "{row}: {}", finding.what);
    }
}

/// Twenty findings of a check are told one by one, more are counted; each says what is wrong, for people.
#[test]
fn the_doctor_tells_twenty_and_counts_the_rest() {
    for (rows, more) in [(19, None), (20, None), (21, Some("and 1 more")), (23, Some("and 3 more"))] {
        let bed = Bed::new();
        for row in 1..=rows {
            bed.insert(&format!("'j{row}', 1, 'pending', 0, 3, 0, 0, 500, 'v', NULL, NULL"));
        }
        let findings = bed.queue.examine(false, &mut || ()).unwrap();
        let told = findings.iter().filter(|finding| finding.seq.is_some()).count();
        assert_eq!(told, rows.min(20));
        let first = "job j1 is pending and has an owner or the end of a lease";
        assert_eq!((findings[0].seq, findings[0].what.as_str()), (Some(1), first));
        let last = findings.last().filter(|finding| finding.seq.is_none());
        assert_eq!(last.map(|finding| finding.what.as_str()), more);
        assert!(findings.iter().all(|finding| finding.check == "lease-left-over" && finding.mendable));
        bed.peer.execute_batch("UPDATE jobs SET qty = 0, owner = NULL").unwrap();
        let findings = bed.queue.examine(false, &mut || ()).unwrap();
        assert_eq!(findings.iter().filter(|finding| finding.seq.is_some()).count(), rows.min(20));
        let last = findings.last().filter(|finding| finding.seq.is_none());
        assert_eq!(last.map(|finding| finding.what.as_str()), more, "rows out of range are counted as well");
    }
}

/// M12: what another program has made unreadable is told all the same.
#[test]
fn m12_the_doctor_tells_of_a_row_that_has_no_words() {
    let bed = Bed::new();
    bed.peer
        .execute_batch(
            "DROP TABLE jobs; CREATE TABLE jobs (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT, \
        qty, status, attempts, max_attempts, token, available_at, deadline, owner, lease_until, reason)",
        )
        .unwrap();
    bed.insert("NULL, 1, 'leased', 1, 3, 1, 0, 500, 'v', NULL, NULL");
    let findings = bed.queue.examine(false, &mut || ()).unwrap();
    let found = findings.iter().find(|finding| finding.check == "null-lease").unwrap();
    assert_eq!((found.seq, found.what.as_str()), (Some(1), "a row with NULL where the contract allows none"));
}

/// Q18, M7: the file as a whole is looked at, too: its journal mode and its indexes.
#[test]
fn q18_the_doctor_looks_at_the_files_settings() {
    let bed = Bed::with(ROWS);
    bed.peer.execute_batch("DROP INDEX ackward_jobs_spent").unwrap();
    let found = bed.queue.examine(false, &mut || ()).unwrap();
    assert_eq!(found.iter().map(|finding| finding.check).collect::<Vec<_>>(), ["indexes"]);
    assert!(found[0].mendable && found[0].what.starts_with("3 of 4 indexes"), "{}", found[0].what);
    let Bed { queue, peer, dir } = bed;
    drop(queue);
    query(&peer, "PRAGMA journal_mode=WAL");
    drop(peer);
    let reader = Queue::open(&dir.path().join("queue.db"), &full().read_only()).unwrap();
    let found = reader.examine(false, &mut || ()).unwrap();
    assert_eq!(found.iter().map(|finding| finding.check).collect::<Vec<_>>(), ["journal-mode", "indexes"]);
    assert_eq!(found[0].what, "the journal mode is wal, the contract asks for delete");
}

/// A file is mended so that nothing is found any more, and the job with the endless lease can be claimed again.
#[test]
fn the_doctor_mends_what_needs_no_guess() {
    let mut bed = Bed::with(&[
        "'a', 1, 'leased', 1, 3, 1, 0, 500, 'v', NULL, NULL",
        "'b', 1, 'pending', 0, 3, 0, 0, 500, 'v', 9, NULL",
        "'c', 1, 'dead', 1, 3, 1, 0, 500, NULL, NULL, 'permanent'",
    ]);
    bed.peer.execute("INSERT INTO redrives (id, token, at_ms, note) VALUES ('c', 7, 0, 'n')", []).unwrap();
    bed.peer.execute("UPDATE sqlite_sequence SET seq = 1 WHERE name = 'jobs'", []).unwrap();
    let names: Vec<_> =
        bed.queue.examine(false, &mut || ()).unwrap().into_iter().map(|finding| finding.check).collect();
    assert_eq!(names, ["range", "null-lease", "lease-left-over", "token-below-audit", "sequence"]);
    assert_eq!(bed.queue.mend(at(100)).unwrap(), 4);
    bed.assert_free();
    assert_eq!(bed.queue.examine(false, &mut || ()).unwrap(), []);
    let claimed = bed.claim(100, 10).unwrap();
    assert_eq!((claimed.id.as_str(), claimed.token.get()), ("a", 2));
    bed.assert_job("b", "pending 0/3 0 0 500 - - -");
    bed.assert_job("c", "dead 1/3 7 0 500 - - permanent");
}

/// What mending leaves is what the contract allows: no lease ends after its deadline (Q31), and a token stays a number
/// (Q11) although the audit holds something else.
#[test]
fn the_doctor_mends_nothing_into_another_fault() {
    let mut bed = Bed::with(&[
        "'late', 1, 'leased', 1, 3, 1, 0, 60, 'v', NULL, NULL",
        "'text', 1, 'dead', 1, 3, 1, 0, 500, NULL, NULL, 'permanent'",
        "'both', 1, 'dead', 1, 3, 1, 0, 500, NULL, NULL, 'permanent'",
    ]);
    let audit = "INSERT INTO redrives (id, token, at_ms, note) VALUES \
        ('text', 'x', 0, 'n'), ('both', 'x', 0, 'n'), ('both', 1e300, 0, 'n'), ('both', 4, 0, 'n')";
    bed.peer.execute(audit, []).unwrap();
    assert_eq!(bed.queue.mend(at(100)).unwrap(), 2);
    // What stands in the audit is told, and stays as it is.
    let found: Vec<_> = bed
        .queue
        .examine(false, &mut || ())
        .unwrap()
        .into_iter()
        .map(|found| (found.check, found.seq))
        .collect();
    assert_eq!(found, [1, 2, 3].map(|seq| ("audit-range", Some(seq))));
    bed.assert_job("late", "leased 1/3 1 0 60 v 60 -");
    bed.assert_job("text", "dead 1/3 1 0 500 - - permanent");
    bed.assert_job("both", "dead 1/3 4 0 500 - - permanent");
    assert_eq!(bed.claim(100, 10), None);
    bed.assert_job("late", "dead 1/3 1 0 60 - - deadline");
}

/// A status that is none of the four, which a foreign program can write without the CHECK, is in nobody's count, stops
/// no count of the others (M12), and the doctor does not guess what it was.
#[test]
fn a_status_that_is_none_of_the_four_is_told_and_left_alone() {
    for status in ["'Leased'", "x'00ff'", "7"] {
        let mut bed = Bed::with(&[
            "'odd', 1, 'leased', 1, 3, 1, 0, 500, 'v', 400, NULL",
            "'fine', 1, 'pending', 0, 3, 0, 0, 500, NULL, NULL, NULL",
        ]);
        bed.peer
            .execute("INSERT INTO redrives (id, token, at_ms, note) VALUES ('odd', 7, 0, 'n')", [])
            .unwrap();
        let damage = format!(
            "PRAGMA ignore_check_constraints = 1; UPDATE jobs SET status = {status} WHERE id = 'odd'"
        );
        bed.peer.execute_batch(&damage).unwrap();
        let stats = bed.queue.stats(at(100)).unwrap();
        assert_eq!((stats.pending, stats.leased, stats.done, stats.dead), (1, 0, 0, 0), "{status}");
        let found = bed.queue.examine(false, &mut || ()).unwrap();
        assert!(found.iter().any(|found| found.check == "range" && found.seq == Some(1)));
        // The CHECK of the table says so, too: it is asked, though claims and finishes do without.
        let broken = "CHECK constraint failed in jobs";
        assert!(found.iter().any(|found| found.check == "integrity" && found.what == broken), "{found:?}");
        assert_eq!(bed.queue.mend(at(100)).unwrap(), 0, "{status}");
        let kept =
            query(&bed.peer, "SELECT owner || ' ' || lease_until || ' ' || token FROM jobs WHERE id = 'odd'");
        assert_eq!(kept, ["v 400 1"], "{status}");
        assert_eq!(bed.claim(100, 10).unwrap().id.as_str(), "fine", "{status}");
    }
}

/// Where the last seq is given out SQLite says that the disk is full; the doctor knows better.
#[test]
fn a_used_up_sequence_is_found() {
    let bed = Bed::with(&["'a', 1, 'done', 1, 3, 1, 0, 500, NULL, NULL, NULL"]);
    assert_eq!(bed.queue.examine(false, &mut || ()).unwrap(), []);
    bed.peer.execute("UPDATE sqlite_sequence SET seq = 9223372036854775807 WHERE name = 'jobs'", []).unwrap();
    let found = bed.queue.examine(false, &mut || ()).unwrap();
    assert_eq!(found.iter().map(|found| found.check).collect::<Vec<_>>(), ["sequence-used-up"]);
    assert!(found[0].what.contains("jobs"), "{}", found[0].what);
}

/// A read-only queue looks and does not touch: it adds nothing to a file that is none, and cannot write.
#[test]
fn a_read_only_queue_changes_nothing() {
    let bed = Bed::with(ROWS);
    let mut reader = Queue::open(&bed.path(), &full().read_only()).unwrap();
    assert_eq!(reader.depth().unwrap().pending, 2);
    assert!(reader.mend(at(0)).is_err());
    assert!(reader.claim(&name("w"), at(0), ackward::rules::Lease::DEFAULT, &mut Hook::none()).is_err());

    let other = bed.dir.path().join("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    let error = Queue::open(&other, &full().read_only()).unwrap_err();
    assert!(matches!(error, StorageError::NoTables { .. }), "{error}");
    assert_eq!(query(&Connection::open(&other).unwrap(), "SELECT name FROM sqlite_schema"), ["t"]);
}

fn pruned(bed: &mut Bed, options: PruneOptions) -> (usize, usize) {
    let (mut jobs, mut pieces, mut after) = (0, 0, 0);
    while let Some(piece) = bed.queue.prune(&options, after, 100).unwrap() {
        bed.assert_free();
        (jobs, pieces, after) = (jobs + piece.jobs, pieces + 1, piece.last);
    }
    (jobs, pieces)
}
