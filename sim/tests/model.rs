//! What the vectors do not reach: renewal and release, the inbox, differences, and the invariants.

use ackward::rules::{Attempts, Event, Limits, Millis, Name, Outcome, Qty, Status, Ticket};
use ackward::storage::{Enqueued, Finished, Released, Renewed};
use ackward_sim::model::{
    Applied, ConsumerModel, ConsumerOp, InboxModel, InboxOp, InboxResult, QueueModel, QueueOp, QueueResult,
};
use ackward_sim::sqlite_file::{Image, Schema};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use rusqlite::Connection;

/// M10: the same token and attempt, a new end, and the old ticket is stale.
#[test]
fn renewal_makes_the_old_ticket_stale() {
    let mut queue = queue_with_job(5000);
    let old = claim(&mut queue, 0, 1000).unwrap();
    let Renewed::Until(new) = renew(&mut queue, &old, 999) else { panic!("the ticket holds") };
    assert_eq!((new.token, new.attempt, new.lease_until_ms()), (old.token, old.attempt, 1999));
    assert_eq!(finish(&mut queue, &old, 999), Finished::Stale);
    assert_eq!(finish(&mut queue, &new, 1998), Finished::Now(Status::Done));
}

/// M10, Q36: the end of the lease itself is too late; the deadline bounds the new end.
#[test]
fn renewal_ends_at_the_lease_and_at_the_deadline() {
    let mut queue = queue_with_job(1500);
    let ticket = claim(&mut queue, 0, 1000).unwrap();
    let before = queue.clone();
    assert_eq!(renew(&mut queue, &ticket, 1000), Renewed::Stale);
    assert_eq!(queue, before);
    let Renewed::Until(ticket) = renew(&mut queue, &ticket, 900) else { panic!("the ticket holds") };
    assert_eq!(ticket.lease_until_ms(), 1500);
}

/// M10: the attempt is given back, the token is not.
#[test]
fn release_gives_the_attempt_back_but_not_the_token() {
    let mut queue = queue_with_job(5000);
    let ticket = claim(&mut queue, 0, 1000).unwrap();
    assert_eq!(release(&mut queue, &ticket, 10), Released::Pending);
    let job = queue.job(&name("cake")).unwrap();
    assert_eq!((job.status, job.attempts, job.token, job.available_at), (Status::Pending, 0, 1, 10));
    assert_eq!(release(&mut queue, &ticket, 11), Released::Stale);
    let again = claim(&mut queue, 10, 1000).unwrap();
    assert_eq!((again.token.get(), again.attempt.get()), (2, 1));
}

/// Q34, Q36: operations that share a transaction see what those before them did, and each answers for itself.
#[test]
fn operations_that_share_a_transaction_answer_each_for_itself() {
    let mut queue = queue_with_job(5000);
    let enqueue = |id: &str, qty| QueueOp::Enqueue {
        event: event(id, qty),
        now: Millis::new(0).unwrap(),
        ttl: Limits::CONTRACT.ttl(5000).unwrap(),
        max_attempts: Attempts::DEFAULT,
    };
    let applied = queue.apply(&QueueOp::Batch(vec![enqueue("tea", 1), enqueue("tea", 2), enqueue("tea", 1)]));
    let answers = [
        QueueResult::Enqueued(Enqueued::New),
        QueueResult::Conflict,
        QueueResult::Enqueued(Enqueued::Duplicate),
    ];
    assert_eq!(applied, Applied { result: QueueResult::Batch(answers.into()), changed: true });

    let mut claim_many = |now_ms| {
        let (owner, now) = (name("w"), Millis::new(now_ms).unwrap());
        let lease = Limits::CONTRACT.lease(1000).unwrap();
        queue.apply(&QueueOp::ClaimMany { owner, now, lease, max: 3 })
    };
    let QueueResult::Batch(claimed) = claim_many(0).result else { panic!("claims answer with a list") };
    let ids = claimed.iter().map(|result| match result {
        QueueResult::Claimed(Some(ticket)) => ticket.id.as_str(),
        other => panic!("{other:?}"),
    });
    assert_eq!(ids.collect::<Vec<_>>(), ["cake", "tea"], "all that there are, in order");
    assert_eq!(claim_many(1), Applied { result: QueueResult::Batch(Vec::new()), changed: false });
    let dying = claim_many(5000);
    assert_eq!(dying, Applied { result: QueueResult::Batch(Vec::new()), changed: true }, "Q28");
}

/// M11: only wide limits can leave the range of instants.
#[test]
fn a_deadline_beyond_the_last_instant_is_refused() {
    let now = Millis::new(999_999_999_940_000).unwrap();
    let enqueue = |ttl_ms| {
        let ttl = Limits::WIDE.ttl(ttl_ms).unwrap();
        let op = QueueOp::Enqueue { event: event("cake", 1), now, ttl, max_attempts: Attempts::DEFAULT };
        QueueModel::new().apply(&op).result
    };
    assert_eq!(enqueue(60_000), QueueResult::Enqueued(Enqueued::New));
    assert_eq!(enqueue(60_001), QueueResult::Invalid);
}

/// M12: a row out of range is left as it is, and does not block the next one.
#[test]
fn a_bad_stored_row_is_skipped() {
    let mut queue = read_queue(
        "INSERT INTO jobs VALUES (1,'bad',1001,'pending',0,3,0,0,9,NULL,NULL,NULL),
                                 (2,'good',1,'pending',0,3,0,0,9,NULL,NULL,NULL)",
    );
    assert_eq!(queue.check_rows().unwrap_err().property, "row-range");
    let bad = queue.job(&name("bad")).cloned();
    assert_eq!(claim(&mut queue, 0, 5).unwrap().id, name("good"));
    assert_eq!(claim(&mut queue, 9, 5), None);
    assert_eq!(queue.job(&name("bad")).cloned(), bad);
    assert_eq!(queue.job(&name("good")).unwrap().status, Status::Dead);
}

/// A6: a live lease on a row whose deadline has passed (made by hand) is left alone, and cannot be finished.
#[test]
fn a_live_lease_past_its_deadline_is_left_alone() {
    let mut queue = read_queue("INSERT INTO jobs VALUES (1,'cake',1,'leased',3,3,3,0,5,'w',10,NULL)");
    let ticket = queue.job(&name("cake")).unwrap().ticket().unwrap();
    assert_eq!(finish(&mut queue, &ticket, 9), Finished::Stale);
    assert_eq!(claim(&mut queue, 9, 5), None);
    assert_eq!(queue.job(&name("cake")).unwrap().status, Status::Leased);
    assert_eq!(claim(&mut queue, 10, 5), None);
    assert_eq!(queue.job(&name("cake")).unwrap().reason.unwrap().as_str(), "deadline");
}

/// W3.
#[test]
fn inbox_takes_an_id_once() {
    let mut inbox = InboxModel::new();
    let mut receive = |id, qty, now_ms| {
        let op = InboxOp::Receive { event: event(id, qty), now: Millis::new(now_ms).unwrap() };
        inbox.apply(&op).result
    };
    assert_eq!(receive("cake", 3, 5), InboxResult::Applied);
    assert_eq!(receive("cake", 3, 6), InboxResult::Duplicate);
    assert_eq!(receive("cake", 4, 7), InboxResult::Conflict);
    assert_eq!(receive("tea", 4, 8), InboxResult::Applied);
    assert_eq!(inbox.totals(), (2, 7));
    assert!(inbox.agrees());
    let rows = "INSERT INTO inbox VALUES ('tea',4,8),('cake',3,5);
         INSERT INTO effects VALUES (1,'cake',3,5),(2,'tea',4,8);
         INSERT INTO totals VALUES (1,2,7)";
    with_file(rows, |image, schema| {
        inbox.matches(image, schema).unwrap();
        let read = InboxModel::from_image(image, schema).unwrap();
        assert_eq!((read.effects(), read.totals()), (inbox.effects(), inbox.totals()));
        assert!(read.agrees());
    });
    for (change, difference) in [
        ("DELETE FROM inbox WHERE id='tea'", "inbox: row 'tea' is missing, expected ('tea', 4, 8)"),
        ("INSERT INTO inbox VALUES ('bun',1,9)", "inbox: row 'bun' is not expected: ('bun', 1, 9)"),
        ("UPDATE effects SET at_ms=6 WHERE seq=1", "effects, row 1: at_ms is 6, expected 5"),
        ("UPDATE totals SET qty=10", "totals, row 1: qty is 10, expected 7"),
    ] {
        with_file(&format!("{rows};{change}"), |image, schema| {
            assert_eq!(inbox.matches(image, schema).unwrap_err().to_string(), difference);
            assert!(change.contains("at_ms") || !InboxModel::from_image(image, schema).unwrap().agrees());
        });
    }
}

#[test]
fn new_models_match_a_file_that_is_not_set_up() {
    let image = Image::new(&[]).unwrap();
    let schema = Schema::read(&image).unwrap();
    QueueModel::new().matches(&image, &schema).unwrap();
    ConsumerModel::new().matches(&image, &schema).unwrap();
    InboxModel::new().matches(&image, &schema).unwrap();
    assert_eq!(
        queue_with_job(9).matches(&image, &schema).unwrap_err().to_string(),
        "jobs: row 1 is missing, expected (1, 'cake', 3, 'pending', 0, 3, 0, 0, 9, NULL, NULL, NULL)"
    );
    with_file(
        "INSERT INTO checkpoint VALUES (1,-1,0); INSERT INTO totals VALUES (1,0,0)",
        |image, schema| {
            ConsumerModel::new().matches(image, schema).unwrap();
            InboxModel::new().matches(image, schema).unwrap();
        },
    );
}

#[test]
fn a_difference_names_table_row_column_expected_and_found() {
    let rows = "INSERT INTO jobs VALUES (1,'cake',3,'pending',0,3,0,0,9,NULL,NULL,NULL)";
    let queue = read_queue(rows);
    for (change, difference) in [
        ("UPDATE jobs SET token=1", "jobs, row 1: token is 1, expected 0"),
        ("UPDATE jobs SET token='0'", "jobs, row 1: token is '0', expected 0"),
        ("UPDATE jobs SET owner='NULL'", "jobs, row 1: owner is 'NULL', expected NULL"),
        (
            "DELETE FROM jobs",
            "jobs: row 1 is missing, expected (1, 'cake', 3, 'pending', 0, 3, 0, 0, 9, NULL, NULL, NULL)",
        ),
        (
            "UPDATE jobs SET seq=2",
            "jobs: row 1 is missing, expected (1, 'cake', 3, 'pending', 0, 3, 0, 0, 9, NULL, NULL, NULL)",
        ),
        (
            "INSERT INTO jobs VALUES (0,'tea',1,'done',1,3,1,0,9,NULL,NULL,NULL)",
            "jobs: row 0 is not expected: (0, 'tea', 1, 'done', 1, 3, 1, 0, 9, NULL, NULL, NULL)",
        ),
        (
            "INSERT INTO redrives VALUES (1,'cake',0,0,'n')",
            "redrives: row 1 is not expected: (1, 'cake', 0, 0, 'n')",
        ),
        ("UPDATE sqlite_sequence SET seq=7", "sqlite_sequence, row 'jobs': seq is 7, expected 1"),
        ("DELETE FROM sqlite_sequence", "sqlite_sequence: row 'jobs' is missing, expected ('jobs', 1)"),
    ] {
        with_file(&format!("{rows};{change}"), |image, schema| {
            assert_eq!(queue.matches(image, schema).unwrap_err().to_string(), difference);
        });
    }
    with_file(&format!("{rows};UPDATE jobs SET id='a b'"), |image, schema| {
        let error = QueueModel::from_image(image, schema).unwrap_err().to_string();
        assert_eq!(error, "jobs, row 1: id is 'a b', expected an identifier");
    });
    let mut consumer = ConsumerModel::new();
    let _ = consumer.apply(&ConsumerOp::ApplyEvent { seq: 0, delta: 5 });
    with_file("INSERT INTO checkpoint VALUES (1,0,5)", |image, schema| {
        let error = consumer.matches(image, schema).unwrap_err().to_string();
        assert_eq!(error, "ledger: row 0 is missing, expected (0, 5)");
        assert!(!ConsumerModel::from_image(image, schema).unwrap().agrees());
    });
}

/// M7: another program's column at the end is its own affair.
#[test]
fn an_added_column_is_ignored() {
    let rows = "INSERT INTO ledger VALUES (0,5); INSERT INTO checkpoint VALUES (1,0,5);
        ALTER TABLE ledger ADD COLUMN note DEFAULT 'x'; UPDATE ledger SET note='y'";
    let mut consumer = ConsumerModel::new();
    let _ = consumer.apply(&ConsumerOp::ApplyEvent { seq: 0, delta: 5 });
    with_file(rows, |image, schema| consumer.matches(image, schema).unwrap());
}

/// Random operations, tickets kept for ever: every state keeps the invariants, what changed is said, and of
/// all tickets of a job at most one holds.
#[test]
fn random_histories_keep_the_invariants() {
    for seed in 0..300 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut queue = QueueModel::new();
        let mut tickets = Vec::new();
        for _ in 0..200 {
            let before = queue.clone();
            let (op, now_ms) = any_op(&mut random, &tickets);
            let Applied { result, changed } = queue.apply(&op);
            assert_eq!(changed, queue != before, "{op:?}");
            if let QueueResult::Claimed(Some(ticket)) | QueueResult::Renewed(Renewed::Until(ticket)) = result
            {
                tickets.push(ticket);
            }
            queue.check_rows().unwrap();
            queue.check_step(&before).unwrap();
            for (seq, job) in queue.jobs() {
                let mut holding: Vec<_> =
                    tickets.iter().filter(|ticket| job.accepts(ticket, now_ms)).collect();
                holding.dedup();
                assert!(holding.len() <= 1, "job {seq}: {holding:?}");
            }
        }
    }
}

fn any_op(random: &mut ChaCha8Rng, tickets: &[Ticket]) -> (QueueOp, i64) {
    let mut up_to = |max: i64| i64::from(random.next_u32()) % (max + 1);
    let now_ms = up_to(40);
    let now = Millis::new(now_ms).unwrap();
    let lease = Limits::CONTRACT.lease(1 + up_to(10)).unwrap();
    let ttl = Limits::CONTRACT.ttl(1 + up_to(30)).unwrap();
    let id = name(["a", "b", "c"][up_to(2) as usize]);
    let ticket = (!tickets.is_empty()).then(|| tickets[up_to(tickets.len() as i64 - 1) as usize].clone());
    let op = match (up_to(9), ticket) {
        (0, _) => {
            let max_attempts = Attempts::new(1 + up_to(3)).unwrap();
            QueueOp::Enqueue { event: Event { id, qty: Qty::new(1).unwrap() }, now, ttl, max_attempts }
        }
        (1..=2, Some(ticket)) => {
            let outcome = Outcome::ALL[up_to(2) as usize];
            QueueOp::Finish { ticket, outcome, now, delay: Limits::CONTRACT.delay(up_to(10)).unwrap() }
        }
        (3..=4, Some(ticket)) => QueueOp::Renew { ticket, now, lease },
        (5, Some(ticket)) => QueueOp::Release { ticket, now },
        (6, _) => QueueOp::Redrive { id, now, ttl, note: name("note") },
        _ => QueueOp::Claim { owner: name(["w", "v"][up_to(1) as usize]), now, lease },
    };
    (op, now_ms)
}

/// Each kind of broken row is found.
#[test]
fn a_broken_row_is_named() {
    for (row, property) in [
        ("'pending',0,3,0,0,9,'w',NULL,NULL", "row-status"),
        ("'pending',3,3,3,0,9,NULL,NULL,NULL", "row-status"),
        ("'pending',0,3,0,0,9,NULL,NULL,'retry'", "row-status"),
        ("'pending',0,3,0,9,9,NULL,NULL,NULL", "row-status"),
        ("'pending',0,3,0,0,9,NULL,NULL,'deadline'", "row-status"),
        ("'leased',1,3,1,0,9,NULL,5,NULL", "row-status"),
        ("'leased',1,3,1,0,9,'w',10,NULL", "row-status"),
        ("'leased',0,3,1,0,9,'w',5,NULL", "row-status"),
        ("'leased',4,3,4,0,9,'w',5,NULL", "row-status"),
        ("'leased',2,3,1,0,9,'w',5,NULL", "row-status"),
        ("'leased',1,3,1,0,9,'w',5,'retry'", "row-status"),
        ("'done',1,3,1,0,9,NULL,5,NULL", "row-status"),
        ("'dead',1,3,1,0,9,NULL,NULL,NULL", "row-status"),
        ("'dead',1,3,1,0,9,NULL,NULL,'exhausted'", "row-status"),
        ("'dead',0,3,0,0,9,NULL,NULL,'permanent'", "row-status"),
        ("'dead',1,17,1,0,9,NULL,NULL,'permanent'", "row-range"),
        ("'done',1,3,-1,0,9,NULL,NULL,NULL", "row-range"),
    ] {
        let queue = read_queue(&format!("INSERT INTO jobs VALUES (1,'cake',1,{row})"));
        assert_eq!(queue.check_rows().map_err(|broken| broken.property), Err(property), "{row}");
    }
}

/// Each kind of broken step is found.
#[test]
fn a_broken_step_is_named() {
    let leased = "(1,'cake',1,'leased',1,3,4,0,9,'w',5,NULL)";
    let done = "(1,'cake',1,'done',1,3,4,0,9,NULL,NULL,NULL)";
    let dead = "(1,'cake',1,'dead',1,3,4,0,9,NULL,NULL,'permanent')";
    let pending = "(1,'cake',1,'pending',0,3,4,0,9,NULL,NULL,NULL)";
    let audit = ";INSERT INTO redrives VALUES (1,'cake',4,0,'n')";
    let jobs = |row: &str| read_queue(&format!("INSERT INTO jobs VALUES {row}"));
    for (before, after, expected) in [
        (leased, "(1,'cake',1,'leased',1,3,3,0,9,'w',5,NULL)", Err("token-falls")),
        (leased, "(1,'cake',1,'leased',1,3,4,0,9,'w',7,NULL)", Ok(())),
        (leased, "(1,'cake',1,'leased',1,3,4,0,9,'v',7,NULL)", Err("token-repeats")),
        (leased, "(1,'cake',1,'leased',2,3,4,0,9,'w',7,NULL)", Err("token-repeats")),
        (leased, "(1,'cake',1,'leased',2,3,5,0,9,'w',7,NULL)", Ok(())),
        (pending, "(1,'cake',1,'leased',1,3,4,0,9,'w',5,NULL)", Err("token-repeats")),
        (leased, "(2,'cake',1,'leased',1,3,4,0,9,'w',5,NULL)", Err("row-kept")),
        (leased, "(1,'cake',2,'leased',1,3,4,0,9,'w',5,NULL)", Err("row-kept")),
        (leased, "(1,'cake',1,'leased',1,3,4,0,10,'w',5,NULL)", Err("row-kept")),
        (done, pending, Err("finished-stays")),
        (dead, done, Err("finished-stays")),
        (dead, pending, Err("finished-stays")),
        (dead, &format!("{pending}{audit}"), Ok(())),
        (&format!("{pending}{audit}"), pending, Err("row-kept")),
    ] {
        let step = jobs(after).check_step(&jobs(before)).map_err(|broken| broken.property);
        assert_eq!(step, expected, "from {before} to {after}");
    }
}

fn name(text: &str) -> Name {
    Name::new("name", text).unwrap()
}

fn event(id: &str, qty: i64) -> Event {
    Event { id: name(id), qty: Qty::new(qty).unwrap() }
}

/// The job `cake`, enqueued at 0.
fn queue_with_job(ttl_ms: i64) -> QueueModel {
    let mut queue = QueueModel::new();
    let ttl = Limits::CONTRACT.ttl(ttl_ms).unwrap();
    let now = Millis::new(0).unwrap();
    let op = QueueOp::Enqueue { event: event("cake", 3), now, ttl, max_attempts: Attempts::DEFAULT };
    assert_eq!(queue.apply(&op), Applied { result: QueueResult::Enqueued(Enqueued::New), changed: true });
    queue
}

fn claim(queue: &mut QueueModel, now_ms: i64, lease_ms: i64) -> Option<Ticket> {
    let (now, lease) = (Millis::new(now_ms).unwrap(), Limits::CONTRACT.lease(lease_ms).unwrap());
    match queue.apply(&QueueOp::Claim { owner: name("w"), now, lease }).result {
        QueueResult::Claimed(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

fn renew(queue: &mut QueueModel, ticket: &Ticket, now_ms: i64) -> Renewed {
    let (now, lease) = (Millis::new(now_ms).unwrap(), Limits::CONTRACT.lease(1000).unwrap());
    match queue.apply(&QueueOp::Renew { ticket: ticket.clone(), now, lease }).result {
        QueueResult::Renewed(renewed) => renewed,
        other => panic!("{other:?}"),
    }
}

fn release(queue: &mut QueueModel, ticket: &Ticket, now_ms: i64) -> Released {
    let now = Millis::new(now_ms).unwrap();
    match queue.apply(&QueueOp::Release { ticket: ticket.clone(), now }).result {
        QueueResult::Released(released) => released,
        other => panic!("{other:?}"),
    }
}

fn finish(queue: &mut QueueModel, ticket: &Ticket, now_ms: i64) -> Finished {
    let (now, delay) = (Millis::new(now_ms).unwrap(), Limits::CONTRACT.delay(0).unwrap());
    let op = QueueOp::Finish { ticket: ticket.clone(), outcome: Outcome::Ok, now, delay };
    match queue.apply(&op).result {
        QueueResult::Finished(finished) => finished,
        other => panic!("{other:?}"),
    }
}

/// The model of a file that holds these rows.
fn read_queue(rows: &str) -> QueueModel {
    let mut queue = QueueModel::new();
    with_file(rows, |image, schema| {
        queue = QueueModel::from_image(image, schema).unwrap();
        queue.matches(image, schema).unwrap();
    });
    queue
}

/// A real file with all tables, in which some rows break the contract.
fn with_file(sql: &str, look: impl FnOnce(&Image<'_>, &Schema)) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.db");
    let connection = Connection::open(&path).unwrap();
    let tables = "PRAGMA synchronous=OFF;
        CREATE TABLE jobs (seq INTEGER PRIMARY KEY AUTOINCREMENT, id UNIQUE, qty, status, attempts,
          max_attempts, token, available_at, deadline, owner, lease_until, reason);
        CREATE TABLE redrives (seq INTEGER PRIMARY KEY AUTOINCREMENT, id, token, at_ms, note);
        CREATE TABLE checkpoint(id INTEGER PRIMARY KEY CHECK(id=1), last, total);
        CREATE TABLE ledger(seq INTEGER PRIMARY KEY, delta);
        CREATE TABLE inbox(id TEXT PRIMARY KEY, qty, at_ms);
        CREATE TABLE effects(seq INTEGER PRIMARY KEY, id, qty, at_ms);
        CREATE TABLE totals(id INTEGER PRIMARY KEY CHECK(id=1), count, qty);";
    connection.execute_batch(tables).unwrap();
    connection.execute_batch(sql).unwrap();
    let bytes = std::fs::read(path).unwrap();
    let image = Image::new(&bytes).unwrap();
    look(&image, &Schema::read(&image).unwrap());
}
