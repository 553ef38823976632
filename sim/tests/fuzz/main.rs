//! Fuzz targets for what the simulator reads: scenario files, names of points, the exec protocol and SQLite's files.
//! Under `cargo test` each replays its corpus (below `__fuzz__`) and inputs drawn from a fixed seed, as those of the
//! core do.

#[path = "../../../src/tests/fuzz/input.rs"]
mod input;

use ackward_sim::choice::{Action, PointName};
use ackward_sim::exec;
use ackward_sim::scenario::Scenario;
use ackward_sim::sqlite_file::{Catalog, Image};
use input::{fuzz, patchwork};

const SCENARIO: [&str; 14] = [
    "about = \"Small.\"\n",
    "duration_ms = ",
    "5000\n",
    "[[job]]\n",
    "id = \"cake\"\n",
    "count = 2\n",
    "[[worker]]\n",
    "name = \"w\"\n",
    "[faults]\n",
    "kill = 0.1\n",
    "stall_ms = [1, 20]\n",
    "[[deviation]]\n",
    "at = \"w/1/claim#1/commit/db.write#1\"\n",
    "do = \"stall:5ms\"\n",
];
const POINT: [&str; 11] = ["w", "/", "1", "/", "claim", "#2", "/", "commit", "/", "journal.sync", "#1"];
const OPERATION: [&str; 8] =
    ["{\"op\":\"enqueue\"", ",\"id\":", "\"cake\"", ",\"qty\":", "3", ",\"now_ms\":", "1000", "}"];
const CLAIM: [&str; 6] = ["{\"op\":\"claim\"", ",\"owner\":", "\"w\"", ",\"now_ms\":", "1000", "}"];

/// What is read is written back as the same; an error has a place inside the file.
#[test]
fn scenarios() {
    fuzz!(3_000, |bytes: &[u8]| {
        for bytes in [bytes, &patchwork(&SCENARIO, bytes)] {
            match Scenario::parse("x.toml", bytes) {
                Ok(scenario) => {
                    let text = scenario.to_toml();
                    assert_eq!(Scenario::parse("x.toml", text.as_bytes()).as_ref(), Ok(&scenario), "{text}");
                }
                Err(error) => {
                    let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
                    assert!((1..=lines).contains(&error.line) && error.column >= 1, "{error}");
                }
            }
        }
    });
}

/// Names of points and actions are written back to the letter.
#[test]
fn points() {
    fuzz!(20_000, |bytes: &[u8]| {
        for text in [bytes, &patchwork(&POINT, bytes)] {
            let Ok(text) = str::from_utf8(text) else { continue };
            if let Ok(point) = text.parse::<PointName>() {
                assert_eq!(point.to_string(), text);
            }
            if let Ok(action) = Action::parse(text) {
                assert_eq!(Action::parse(&action.to_string()), Ok(action));
            }
        }
    });
}

/// Part X: every line that is not blank is answered with one line of JSON, whatever it holds.
#[test]
fn protocol() {
    fuzz!(150, |bytes: &[u8]| {
        let mut text = bytes.to_vec();
        for pieces in [&OPERATION[..], &CLAIM[..]] {
            text.push(b'\n');
            text.extend(patchwork(pieces, bytes));
        }
        let mut answers = Vec::new();
        exec::run(None, text.as_slice(), &mut answers).expect("memory does not fail");
        let answers = str::from_utf8(&answers).expect("JSON is UTF-8");
        let asked = text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        assert_eq!(answers.lines().count(), asked.count());
        for answer in answers.lines() {
            assert!(serde_json::from_str::<serde_json::Value>(answer).is_ok_and(|json| json.is_object()));
        }
    });
}

/// A database file with damage is malformed or has other rows; reading it ends, and does not panic.
#[test]
fn database_files() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    let schema = "CREATE TABLE jobs (seq INTEGER PRIMARY KEY, id TEXT, qty INTEGER); \
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) \
        INSERT INTO jobs SELECT i, 'cake-' || i, i FROM n;";
    connection.execute_batch(schema).unwrap();
    drop(connection);
    let whole = std::fs::read(&path).unwrap();
    assert_eq!(rows(&whole), Some(300));
    fuzz!(2_000, |bytes: &[u8]| {
        let mut damaged = whole.clone();
        for change in bytes.chunks_exact(3).take(8) {
            let at = usize::from(change[0]) << 8 | usize::from(change[1]);
            let at = at % damaged.len();
            damaged[at] = change[2];
        }
        // Every row takes more than a byte: one that were read twice would show.
        assert!(rows(&damaged).is_none_or(|rows| rows < damaged.len()));
        assert_eq!(rows(bytes), None);
    });
}

/// How many rows the table has; none where the file is malformed.
fn rows(bytes: &[u8]) -> Option<usize> {
    let image = Image::new(bytes).ok()?;
    let mut catalog = Catalog::new();
    let table = catalog.schema(&image).ok()?.table("jobs")?;
    let mut rows = 0;
    let counting = image.for_each_row(table, |_, _| {
        rows += 1;
        Ok::<_, ackward_sim::sqlite_file::Malformed>(())
    });
    counting.ok().map(|()| rows)
}
