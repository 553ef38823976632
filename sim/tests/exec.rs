//! What the vectors do not hold of `exec` (contract, part X and M2): bad lines, the operations of M10, a
//! directory that is kept.

use std::cell::RefCell;
use std::fs;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

#[test]
fn m2_a_bad_line_is_a_value_error_and_the_next_one_is_answered() {
    let bad = [
        "{",
        "[]",
        "null",
        "{}",
        r#"{"op":1}"#,
        r#"{"op":"nothing"}"#,
        r#"{"op":"dump","op":"dump"}"#,
        r#"{"op":"dump","x":1}"#,
        r#"{"op":"reopen","op\u0000":1}"#,
        r#"{"op":"claim","owner":"w","now_ms":0,"lease":1}"#,
        r#"{"op":"claim","owner":"w","now_ms":0,"now_ms":0}"#,
        r#"{"op":"claim","owner":"w"}"#,
        r#"{"op":"claim","owner":"\ud800","now_ms":0}"#,
        r#"{"op":"claim","owner":"w","now_ms":1.0}"#,
        r#"{"op":"claim","owner":"w","now_ms":1e3}"#,
        r#"{"op":"claim","owner":"w","now_ms":true}"#,
        r#"{"op":"claim","owner":"w","now_ms":"1"}"#,
        r#"{"op":"claim","owner":"w","now_ms":null}"#,
        r#"{"op":"claim","owner":"w","now_ms":9223372036854775808}"#,
        r#"{"op":"claim","owner":"w","now_ms":NaN}"#,
        r#"{"op":"claim","owner":"w","now_ms":{"$float":"nan"}}"#,
        r#"{"op":"enqueue","event":{"id":"a","qty":1,"x":1},"now_ms":0,"ttl_ms":1}"#,
        r#"{"op":"enqueue","event":{"id":"a","qty":1,"qty":1},"now_ms":0,"ttl_ms":1}"#,
        r#"{"op":"enqueue","event":{"id":"a","qty":1},"id":"a","now_ms":0,"ttl_ms":1}"#,
        r#"{"op":"enqueue","event":[["id","a"],["qty",1]],"now_ms":0,"ttl_ms":1}"#,
    ];
    for line in bad {
        let lines = format!(
            "{line}\n{{\"op\":\"retry_delay\",\"attempt\":1,\"base_ms\":1,\"cap_ms\":1,\"jitter\":1}}"
        );
        assert_eq!(exec(&lines), [r#"{"error":"ValueError"}"#, r#"{"ok":1}"#], "{line}");
    }
}

#[test]
fn bytes_that_are_no_text_deep_nesting_and_long_lines_crash_nothing() {
    let mut input = b"\xff\xfe\n".to_vec();
    input.extend("[".repeat(500_000).bytes());
    input.push(b'\n');
    let deep = format!(
        r#"{{"op":"run_once","owner":"w","clock":[0,0],"jitter":0,"send":{}{}}}"#,
        "[".repeat(500),
        "]".repeat(500)
    );
    input.extend(deep.bytes());
    input.push(b'\n');
    let long = format!(r#"{{"op":"claim","owner":"{}","now_ms":0}}"#, "a".repeat(2_000_000));
    input.extend(long.bytes());
    input.extend(b"\n\n   \n\r\n{\"op\":\"reopen\"}");
    let mut expected = vec![r#"{"error":"ValueError"}"#; 4];
    expected.push(r#"{"ok":true}"#);
    assert_eq!(exec_bytes(None, &input), expected);
}

#[test]
fn m2_minus_zero_is_an_integer_and_minus_zero_point_zero_is_none() {
    let replies = exec(
        r#"{"op":"claim","owner":"w","now_ms":-0}
           {"op":"claim","owner":"w","now_ms":-0.0}
           {"op":"retry_delay","attempt":1,"base_ms":100,"cap_ms":100,"jitter":-0}"#,
    );
    assert_eq!(replies, [r#"{"ok":null}"#, r#"{"error":"ValueError"}"#, r#"{"ok":0}"#]);
}

#[test]
fn x_a_bad_argument_still_reports_hooks_and_calls() {
    let replies = exec(
        r#"{"op":"claim","owner":"","now_ms":0,"fault":""}
           {"op":"claim","owner":"w","now_ms":0,"fault":5}
           {"op":"claim","owner":"w","now_ms":0,"fault":"nowhere"}
           {"op":"run_once","owner":"w","clock":[0],"jitter":0,"send":true}
           {"op":"run_once","owner":"w","clock":[0,0],"jitter":2,"send":true}
           {"op":"run_once","owner":"","clock":[0,0],"jitter":0,"send":true}"#,
    );
    let expected = [
        r#"{"error":"ValueError","hooks":[]}"#,
        r#"{"error":"ValueError","hooks":[]}"#,
        r#"{"hooks":[],"ok":null}"#,
        r#"{"calls":[],"error":"ValueError"}"#,
        r#"{"calls":[],"error":"ValueError"}"#,
        r#"{"calls":["clock"],"error":"ValueError"}"#,
    ];
    assert_eq!(replies, expected);
}

#[test]
fn m10_renew_and_release_are_operations_too() {
    let replies = exec(
        r#"{"op":"enqueue","id":"a","qty":1,"now_ms":0,"ttl_ms":100}
           {"op":"claim","owner":"w","now_ms":0,"lease_ms":10}
           {"op":"renew","ticket":{"id":"a","qty":1,"owner":"w","token":1,"attempt":1,"lease_until":10},"now_ms":5,"lease_ms":10,"fault":"after-renew"}
           {"op":"renew","ticket":{"id":"a","qty":1,"owner":"w","token":1,"attempt":1,"lease_until":10},"now_ms":5,"lease_ms":10,"fault":""}
           {"op":"release","ticket":{"id":"a","qty":1,"owner":"w","token":1,"attempt":1,"lease_until":10},"now_ms":6,"fault":""}
           {"op":"release","ticket":{"id":"a","qty":1,"owner":"w","token":1,"attempt":1,"lease_until":15},"now_ms":6,"fault":""}
           {"op":"dump"}"#,
    );
    let expected = [
        r#"{"ok":true}"#,
        r#"{"ok":{"attempt":1,"id":"a","lease_until":10,"owner":"w","qty":1,"token":1}}"#,
        r#"{"error":"Fault","hooks":["after-renew"]}"#,
        r#"{"hooks":["after-renew","after-commit"],"ok":{"attempt":1,"id":"a","lease_until":15,"owner":"w","qty":1,"token":1}}"#,
        r#"{"hooks":[],"ok":false}"#,
        r#"{"hooks":["after-release","after-commit"],"ok":"pending"}"#,
    ];
    assert_eq!(replies[..6], expected);
    assert!(
        replies[6].contains(r#""jobs":[[1,"a",1,"pending",0,3,1,6,100,null,null,null]]"#),
        "{}",
        replies[6]
    );
}

#[test]
fn x_a_directory_is_kept_and_reused_and_a_locked_file_is_an_operational_error() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("made/for/this");
    let enqueue = r#"{"op":"enqueue","id":"a","qty":1,"now_ms":0,"ttl_ms":100}"#;
    assert_eq!(exec_bytes(Some(&home), enqueue.as_bytes()), [r#"{"ok":true}"#]);
    assert_eq!(exec_bytes(Some(&home), enqueue.as_bytes()), [r#"{"ok":false}"#]);
    let peer = rusqlite::Connection::open(home.join("queue.db")).unwrap();
    peer.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(exec_bytes(Some(&home), enqueue.as_bytes()), [r#"{"error":"OperationalError"}"#]);
}

/// Whoever drives `exec` can wait for each result before writing the next line.
#[test]
fn x_each_result_is_flushed_before_the_next_line_is_read() {
    let replies = converse(None, &mut [(&|| {}, "\n"), (&|| {}, ENQUEUE), (&|| {}, "{"), (&|| {}, STATE)]);
    assert_eq!(replies, ["", r#"{"ok":true}"#, r#"{"error":"ValueError"}"#, r#"{"ok":[-1,0]}"#]);
}

#[test]
fn x_reopen_closes_and_reopens_both_files() {
    let dir = tempfile::tempdir().unwrap();
    let (queue, store) = (dir.path().join("queue.db"), dir.path().join("store.db"));
    let delete = || [&queue, &store].map(fs::remove_file).into_iter().collect::<Result<(), _>>().unwrap();
    let spoil = || fs::write(&queue, "this is no database, whatever its name may say").unwrap();
    let repair = || fs::remove_file(&queue).unwrap();
    let nothing = || {};
    let replies = converse(
        Some(dir.path()),
        &mut [
            (&nothing, ENQUEUE),
            (&nothing, APPLY),
            (&nothing, r#"{"op":"reopen"}"#),
            (&nothing, APPLY),
            (&delete, r#"{"op":"reopen"}"#),
            (&nothing, r#"{"op":"dump"}"#),
            (&nothing, APPLY),
            (&spoil, r#"{"op":"reopen"}"#),
            (&nothing, ENQUEUE),
            (&nothing, STATE),
            (&repair, ENQUEUE),
        ],
    );
    let expected = [
        r#"{"ok":true}"#,
        r#"{"ok":true}"#,
        r#"{"ok":true}"#,
        r#"{"ok":false}"#,
        r#"{"ok":true}"#,
        r#"{"ok":{"checkpoint":[[1,-1,0]],"jobs":[],"ledger":[],"redrives":[]}}"#,
        r#"{"ok":true}"#,
        r#"{"error":"OperationalError"}"#,
        r#"{"error":"OperationalError"}"#,
        r#"{"ok":[0,5]}"#,
        r#"{"ok":true}"#,
    ];
    assert_eq!(replies, expected);
}

const ENQUEUE: &str = r#"{"op":"enqueue","id":"a","qty":1,"now_ms":0,"ttl_ms":100}"#;
const APPLY: &str = r#"{"op":"apply_event","seq":0,"delta":5}"#;
const STATE: &str = r#"{"op":"state"}"#;

/// A line, and what happens just before it is written.
type Turn<'t> = (&'t dyn Fn(), &'t str);

/// Writes each line only when the one before it has been answered and flushed; the answers, in order.
fn converse(dir: Option<&Path>, turns: &mut [Turn]) -> Vec<String> {
    let output = Output::default();
    let mut replies = Vec::new();
    let mut take = || replies.push(output.0.take().flushed.trim_end().to_owned());
    let mut turns = turns.iter().enumerate();
    let input = Input(|| {
        let turn = turns.next();
        if turn.is_none_or(|(at, _)| at > 0) {
            take();
        }
        turn.map_or(String::new(), |(_, (before, line))| {
            before();
            format!("{}\n", line.trim_end())
        })
    });
    ackward_sim::exec::run(dir, BufReader::new(input), &output).unwrap();
    replies
}

/// Each read gives the next text; an empty one is the end.
struct Input<F>(F);

impl<F: FnMut() -> String> Read for Input<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let text = (self.0)();
        buffer[..text.len()].copy_from_slice(text.as_bytes());
        Ok(text.len())
    }
}

/// What was written, and as much of it as was flushed.
#[derive(Default)]
struct Output(RefCell<Written>);

#[derive(Default)]
struct Written {
    pending: String,
    flushed: String,
}

impl Write for &Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().pending.push_str(str::from_utf8(bytes).unwrap());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let Written { pending, flushed } = &mut *self.0.borrow_mut();
        flushed.push_str(&std::mem::take(pending));
        Ok(())
    }
}

fn exec(input: &str) -> Vec<String> {
    exec_bytes(None, input.as_bytes())
}

fn exec_bytes(dir: Option<&Path>, input: &[u8]) -> Vec<String> {
    let mut output = Vec::new();
    ackward_sim::exec::run(dir, input, &mut output).unwrap();
    String::from_utf8(output).unwrap().lines().map(str::to_owned).collect()
}
