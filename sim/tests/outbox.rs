//! An example of checking one's own code: a small transactional outbox over plain rusqlite, which has nothing to do
//! with this workspace's queue.
//!
//! A shop writes each order and the message about it in one transaction; a relay hands the messages on and marks them
//! as sent. The first test is what you would write for your own code. The others plant the two classic mistakes and
//! show that they are found, shrunk and replayed.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use ackward::port::{Blocking, Clock, Lane};
use ackward_sim::check::{Check, Failure, Lab, REPLAY, Tables, connect};
use ackward_sim::choice::Kind;
use ackward_sim::computer::Context;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

const FILE: &str = "shop.db";
const ORDERS: i64 = 5;
const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS outbox (id INTEGER PRIMARY KEY, sent INTEGER NOT NULL DEFAULT 0);";

/// Which mistake the code makes.
#[derive(Clone, Copy, PartialEq)]
enum Mistake {
    None,
    /// The message is written in a transaction of its own.
    TwoTransactions,
    /// The message is marked as sent, and sent then.
    MarkedFirst,
    /// The directory is not synced after a commit, SQLite's default, and nothing else makes sure of the last one.
    FullIsEnough,
}

/// The code under test: opens the shop's file.
fn open(mistake: Mistake) -> rusqlite::Result<Connection> {
    let shop = connect(FILE)?;
    // Anything less than EXTRA does not sync the directory after a commit, and a power cut can take it back.
    let synchronous = if mistake == Mistake::FullIsEnough { "FULL" } else { "EXTRA" };
    shop.pragma_update(None, "synchronous", synchronous)?;
    shop.busy_timeout(Duration::from_secs(5))?;
    shop.execute_batch(SCHEMA)?;
    Ok(shop)
}

/// The code under test: takes the next order; false where there is none.
fn order(shop: &mut Connection, mistake: Mistake) -> rusqlite::Result<bool> {
    let transaction = shop.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let next: i64 = transaction.query_row("SELECT 1 + count(*) FROM orders", [], |row| row.get(0))?;
    if next > ORDERS && mistake == Mistake::FullIsEnough {
        return Ok(false);
    }
    if next > ORDERS {
        // The last order may be that of a process that was killed before it had synced the directory: everybody sees
        // it, and a power cut takes it back. A commit of one's own makes sure, one that SQLite does not leave out
        // for want of a change. (This check found both.)
        transaction.pragma_update(None, "user_version", next)?;
        transaction.commit()?;
        return Ok(false);
    }
    transaction.execute("INSERT INTO orders (id, item) VALUES (?1, 'cake')", [next])?;
    if mistake == Mistake::TwoTransactions {
        transaction.commit()?;
        shop.execute("INSERT INTO outbox (id) VALUES (?1)", [next])?;
        return Ok(true);
    }
    transaction.execute("INSERT INTO outbox (id) VALUES (?1)", [next])?;
    transaction.commit()?;
    Ok(true)
}

fn next_message(shop: &Connection) -> rusqlite::Result<Option<i64>> {
    let sql = "SELECT id FROM outbox WHERE sent = 0 ORDER BY id LIMIT 1";
    shop.query_row(sql, [], |row| row.get(0)).optional()
}

fn mark(shop: &Connection, id: i64) -> rusqlite::Result<usize> {
    shop.execute("UPDATE outbox SET sent = 1 WHERE id = ?1", [id])
}

/// The shop's process: takes orders until it has them all.
async fn sell(computer: Context, mistake: Mistake) -> rusqlite::Result<()> {
    let shop = computer.open("open", move || open(mistake)).await?;
    while shop.call("order", move |shop| order(shop, mistake)).await? {}
    Ok(())
}

/// The relay's process: hands messages on until every order's has been sent.
async fn relay(computer: Context, sent: Rc<RefCell<Vec<i64>>>, mistake: Mistake) -> rusqlite::Result<()> {
    let shop = computer.open("open", move || open(mistake)).await?;
    loop {
        let Some(id) = shop.call("next", |shop| next_message(shop)).await? else {
            let sql = "SELECT count(*) FROM outbox WHERE sent = 1";
            let done: i64 = shop.call("count", move |shop| shop.query_row(sql, [], |row| row.get(0))).await?;
            if done == ORDERS {
                return Ok(());
            }
            computer.sleep(Duration::from_millis(20)).await;
            continue;
        };
        if mistake == Mistake::MarkedFirst {
            shop.call("mark", move |shop| mark(shop, id)).await?;
        }
        // Whoever gets the messages removes duplicates.
        computer.sleep(Duration::from_millis(5)).await;
        sent.borrow_mut().push(id);
        shop.call("mark", move |shop| mark(shop, id)).await?;
    }
}

/// The world of the check: one machine, two processes, two properties.
fn build(lab: &mut Lab, mistake: Mistake) {
    let host = lab.machine("host");
    let sent = Rc::new(RefCell::new(Vec::new()));
    lab.process(host, "shop", move |computer| async move {
        // A file that is locked for longer than the busy timeout, say: begin again.
        while sell(computer.clone(), mistake).await.is_err() {
            computer.sleep(Duration::from_millis(50)).await;
        }
    });
    let delivered = Rc::clone(&sent);
    lab.process(host, "relay", move |computer| {
        let sent = Rc::clone(&sent);
        async move {
            while relay(computer.clone(), Rc::clone(&sent), mistake).await.is_err() {
                computer.sleep(Duration::from_millis(50)).await;
            }
        }
    });
    lab.always(host, FILE, "every-order-has-its-message", |tables: &Tables<'_>| {
        let ids = |table| -> BTreeSet<Option<i64>> {
            tables.rows(table).iter().map(|row| row.integer(0)).collect()
        };
        let (orders, messages) = (ids("orders"), ids("outbox"));
        if orders == messages { Ok(()) } else { Err(format!("orders {orders:?}, messages {messages:?}")) }
    });
    lab.at_end("every-message-is-delivered", move || {
        let delivered: BTreeSet<i64> = delivered.borrow().iter().copied().collect();
        if delivered.len() as i64 == ORDERS { Ok(()) } else { Err(format!("delivered {delivered:?}")) }
    });
}

fn check(name: &str) -> Check {
    Check::new(name)
        .fault(Kind::Kill, 0.005)
        .fault(Kind::PowerCut, 0.001)
        .fault(Kind::Switch, 0.05)
        .fault(Kind::Stall, 0.001)
        .fault(Kind::IoError, 0.001)
}

#[test]
fn the_outbox_loses_no_message() {
    check("outbox").seeds(500).run(|lab| build(lab, Mistake::None));
}

#[test]
fn the_outbox_loses_none_in_any_run_with_one_kill_or_switch() {
    let runs = check("outbox-explored").explore(1, |lab| build(lab, Mistake::None));
    assert!(runs.as_ref().is_ok_and(|runs| *runs > 100), "{runs:?}");
}

/// What a failure says, but for the time it takes to tell its story.
fn told(failure: &Failure) -> String {
    let whole = failure.to_string();
    whole.lines().filter(|line| !line.contains(" ms  ")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_message_in_a_transaction_of_its_own_is_found() {
    let failure =
        check("two-transactions").find(|lab| build(lab, Mistake::TwoTransactions)).expect("it is found");
    assert_eq!(failure.property, "every-order-has-its-message");
    // It is broken by every first order: nothing has to go wrong.
    assert_eq!((failure.seed, failure.deviations.as_slice()), (Some(1), &[][..]), "{failure}");
}

#[test]
fn a_message_that_is_marked_first_is_found_shrunk_and_replayed() {
    let flawed = |lab: &mut Lab| build(lab, Mistake::MarkedFirst);
    let failure = check("marked-first").find(flawed).expect("it is found");
    assert_eq!(failure.property, "every-message-is-delivered");
    assert!(failure.deviations.len() <= 4, "{failure}");
    let text = told(&failure);
    assert!(text.contains("  replay: ACKWARD_REPLAY='marked-first: relay/"), "{text}");
    assert!(
        text.contains("cargo test a_message_that_is_marked_first_is_found_shrunk_and_replayed"),
        "{text}"
    );
    // The same mistake is the only thing that one deviation can bring to light.
    let explored = check("marked-first").explore(1, flawed).expect_err("it is found");
    assert_eq!((explored.property.as_str(), explored.deviations.len()), ("every-message-is-delivered", 1));
}

/// What nobody plants on purpose: the shop has all its orders and ends, and a power cut takes the last one back.
#[test]
fn a_commit_that_a_power_cut_takes_back_is_found() {
    let failure =
        check("full").seeds(500).find(|lab| build(lab, Mistake::FullIsEnough)).expect("it is found");
    assert!(
        failure.deviations.iter().any(|deviation| deviation.action.kind() == Kind::PowerCut),
        "{failure}"
    );
    let lost = failure.story.contains("the deletion of shop.db-journal is lost");
    assert!(lost && failure.deviations.len() <= 4, "{failure}");
}

/// The same seeds give the same failure, to the letter.
#[test]
fn a_failure_is_the_same_each_time() {
    let find = || check("marked-first").find(|lab| build(lab, Mistake::MarkedFirst)).expect("it is found");
    assert_eq!(find(), find());
}

/// Runs only as a child of the next test, told to replay.
#[test]
#[expect(clippy::disallowed_methods, reason = "a child is told by its environment")]
fn replay_target() {
    if std::env::var(REPLAY).is_ok() {
        check("marked-first").run(|lab| build(lab, Mistake::MarkedFirst));
    }
}

/// The printed variable has the failure again under `cargo test`, in a process of its own; so has the seed, and a
/// value that cannot be read says what is allowed.
#[test]
#[expect(clippy::disallowed_methods, reason = "a child process is what is tested")]
fn a_replay_runs_in_a_test_process() {
    let failure = check("marked-first").find(|lab| build(lab, Mistake::MarkedFirst)).expect("it is found");
    let seed = failure.seed.expect("a seed found it");
    let replay = |value: &str| {
        let mut child = std::process::Command::new(std::env::current_exe().expect("this test is a file"));
        child.args(["--exact", "replay_target", "--nocapture"]).env(REPLAY, value).env("RUST_BACKTRACE", "0");
        let output = child.output().expect("it starts");
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (output.status.success(), text.concat())
    };
    for value in [failure.replay(), format!("marked-first seed {seed}")] {
        let (passed, text) = replay(&value);
        assert!(!passed && text.contains("breaks every-message-is-delivered"), "{value}: {text}");
        assert!(text.contains(" ms  relay ") && text.contains("!! kill"), "{value}: {text}");
    }
    // Another check's replay runs nothing of this one but its seeds; no deviation, no failure.
    assert!(replay("marked-first:").0);
    let (passed, text) = replay("marked-first seed x");
    assert!(!passed && text.contains("allowed: NAME seed N, or NAME: POINT = ACTION"), "{text}");
}
