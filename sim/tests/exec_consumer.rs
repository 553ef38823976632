//! What the vectors do not hold of the consumer's operations of `exec` (contract, part X, M2 and part R): odd
//! input, each point of the hook, files that other programs hold or change.

use std::path::Path;

const VALUE_ERROR: &str = r#"{"error":"ValueError"}"#;

#[test]
fn x_line_hex_that_is_no_string_of_hex_digits_is_a_value_error() {
    let bad = [
        // Of odd length: no reading of the last digit makes it a line.
        r#""4556454e5420302035a""#,
        r#""4556454e54203020350a0""#,
        r#""4556454e54203020350az""#,
        r#""0x4556454e54203020350a""#,
        r#"" 4556454e54203020350a""#,
        r#""4556454e54 203020350a""#,
        r#""4556454e54203020350a\n""#,
        r#""4556454e5420302035\u0660a""#,
        r#""\ud800""#,
        r#""""#,
        "4556454",
        "null",
        "true",
        r#"["4556454e54203020350a"]"#,
        r#"{"$float":"nan"}"#,
    ];
    for op in ["parse_line", "consume_line"] {
        refused(bad.map(|value| format!(r#"{{"op":"{op}","line_hex":{value}}}"#)));
    }
    refused([r#"{"op":"parse_line"}"#, r#"{"op":"parse_line","line":"4556454e54203020350a"}"#]);
}

#[test]
fn x_hex_digits_may_be_of_either_case() {
    let replies = exec(
        r#"{"op":"parse_line","line_hex":"4556454E54203020350A"}
           {"op":"consume_line","line_hex":"4556454E54203020350a"}"#,
    );
    assert_eq!(replies, [r#"{"ok":[0,5]}"#, r#"{"ok":"41434b20300a"}"#]);
}

/// R5: neither are bytes that are no text, a BOM or a line of megabytes.
#[test]
fn r5_bytes_that_are_no_line_are_a_value_error() {
    let mut bad: Vec<Vec<u8>> = vec![
        b"EVENT 0 5\xff\n".into(),
        b"\xffEVENT 0 5\n".into(),
        b"\xef\xbb\xbfEVENT 0 5\n".into(),
        b"EVENT 0 \xed\xa0\x80\n".into(),
        b"EVENT 0 5\0\n".into(),
        b"EVENT 0 -0\n".into(),
        b"EVENT 0 5\r\n".into(),
        b"EVENT 0 5".into(),
        b"\x00".into(),
    ];
    bad.push([b"EVENT 0 5".as_slice(), &vec![b'0'; 5_000_000], b"\n"].concat());
    for op in ["parse_line", "consume_line"] {
        refused(bad.iter().map(|line| operation_on(op, line)));
    }
}

/// R14: exact integers, wherever the event would stand.
#[test]
fn m2_numbers_of_an_event_are_exact() {
    for bad in ODD_NUMBERS {
        refused([
            format!(r#"{{"op":"apply_event","seq":{bad},"delta":1}}"#),
            format!(r#"{{"op":"apply_event","seq":0,"delta":{bad}}}"#),
            format!(r#"{{"op":"replay","events":[[{bad},1]],"last":-1,"limit":1}}"#),
            format!(r#"{{"op":"replay","events":[[0,{bad}]],"last":-1,"limit":1}}"#),
            format!(r#"{{"op":"replay","events":[[0,1],[1,1]],"last":{bad},"limit":1}}"#),
            format!(r#"{{"op":"replay","events":[[0,1]],"last":-1,"limit":{bad}}}"#),
        ]);
    }
    refused([
        r#"{"op":"apply_event","seq":0}"#,
        r#"{"op":"apply_event","delta":0}"#,
        r#"{"op":"apply_event","seq":-1,"delta":0}"#,
        r#"{"op":"apply_event","seq":2147483648,"delta":0}"#,
        r#"{"op":"apply_event","seq":0,"delta":1001}"#,
        r#"{"op":"apply_event","seq":0,"delta":-1001}"#,
        r#"{"op":"apply_event","seq":0,"delta":0,"x":0}"#,
        r#"{"op":"apply_event","seq":0,"seq":0,"delta":0}"#,
        r#"{"op":"apply_event","seq":0,"delta":0,"d\u0065lta":0}"#,
        r#"{"op":"apply_event","seq":0,"delta":0,"line_hex":""}"#,
        r#"{"op":"state","x":1}"#,
        r#"{"op":"state","fault":""}"#,
        r#"{"op":"parse_line","line_hex":"4556454e54203020350a","fault":""}"#,
    ]);
}

const ODD_NUMBERS: [&str; 12] = [
    "true",
    "false",
    "null",
    "1.0",
    "0e0",
    "-0.0",
    r#""1""#,
    "[1]",
    r#"{"$float":"inf"}"#,
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551616",
];

#[test]
fn m2_minus_zero_is_the_integer_zero() {
    let replies = exec(
        r#"{"op":"apply_event","seq":-0,"delta":-0}
           {"op":"replay","events":[[-0,-0]],"last":-1,"limit":1}
           {"op":"state"}"#,
    );
    assert_eq!(replies, [r#"{"ok":true}"#, r#"{"ok":[[0,0]]}"#, r#"{"ok":[0,0]}"#]);
}

/// R20, R21.
#[test]
fn r20_a_history_is_a_list_of_1_to_128_pairs() {
    let replay = |events: &str, last: i64, limit: i64| {
        format!(r#"{{"op":"replay","events":{events},"last":{last},"limit":{limit}}}"#)
    };
    let history = |length: i64| {
        let pairs: Vec<String> = (0..length).map(|seq| format!("[{seq},1]")).collect();
        format!("[{}]", pairs.join(","))
    };
    let bad = [
        "[]",
        "null",
        "{}",
        r#""[[0,1]]""#,
        "[0,1]",
        "[[]]",
        "[[0]]",
        "[[0,1,2]]",
        "[[[0],1]]",
        "[null]",
        r#"["01"]"#,
        r#"[{"seq":0,"delta":1}]"#,
        "[[0,1],[0,1]]",
        "[[0,1],[2,1]]",
        "[[0,1],[1,1001]]",
    ];
    refused(bad.map(|events| replay(events, -1, 1)));
    refused([replay(&history(129), -1, 1)]);
    let positions = [(-2, 1), (128, 1), (2_147_483_648, 1), (-1, 0), (-1, 17), (-1, -1)];
    refused(positions.map(|(last, limit)| replay(&history(128), last, limit)));
    refused([r#"{"op":"replay","last":0,"limit":1}"#, r#"{"op":"replay","events":[[0,1]],"last":0}"#]);
    let lines = [replay(&history(128), 126, 16), replay(&history(128), 127, 1)].join("\n");
    assert_eq!(exec(&lines), [r#"{"ok":[[127,1]]}"#, r#"{"ok":[]}"#]);
}

/// R22, R23.
#[test]
fn r22_a_value_error_wins_over_a_resync() {
    let replies = exec(
        r#"{"op":"replay","events":[[10,1]],"last":8,"limit":1}
           {"op":"replay","events":[[10,1]],"last":8,"limit":17}
           {"op":"replay","events":[[10,1],[11,1001]],"last":8,"limit":1}
           {"op":"replay","events":[[10,1]],"last":9,"limit":1}"#,
    );
    assert_eq!(replies, [r#"{"error":"ResyncRequired"}"#, VALUE_ERROR, VALUE_ERROR, r#"{"ok":[[10,1]]}"#]);
}

#[test]
fn bytes_that_are_no_text_deep_nesting_and_ten_megabytes_crash_nothing() {
    let deep = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        format!(r#"{{"op":"replay","events":{open}{close},"last":0,"limit":1}}"#)
    };
    let pairs = "[0,1],".repeat(1_700_000);
    let lines: [Vec<u8>; 7] = [
        b"{\"op\":\"state\",\"\xff\":1}".into(),
        b"{\"op\":\"parse_line\",\"line_hex\":\"\xed\xa0\x80\"}".into(),
        br#"{"op":"\ud800"}"#.into(),
        deep(60).into(),
        deep(100_000).into(),
        format!(r#"{{"op":"parse_line","line_hex":"{}"}}"#, "45".repeat(5_000_000)).into(),
        format!(r#"{{"op":"replay","events":[{pairs}[0,1]],"last":0,"limit":1}}"#).into(),
    ];
    let input = [lines.join(&b'\n'), b"\r\n\t \n{\"op\":\"state\"}".into()].concat();
    let mut expected = vec![VALUE_ERROR; 7];
    expected.push(r#"{"ok":[-1,0]}"#);
    assert_eq!(exec_in(None, &input), expected);
}

/// R18, R19, R25, R26: `hooks` stands wherever a fault was given, and the point is called only by the path
/// that applies.
#[test]
fn r19_the_one_point_is_called_fault_and_an_unknown_point_never_fires() {
    let line = |line: &[u8], fault: &str| {
        operation_on("consume_line", line).replace('}', &format!(r#","fault":"{fault}"}}"#))
    };
    let lines = [
        r#"{"op":"apply_event","seq":0,"delta":5,"fault":"fault"}"#.into(),
        line(b"EVENT 0 5\n", "fault"),
        r#"{"op":"state"}"#.into(),
        r#"{"op":"apply_event","seq":0,"delta":5,"fault":"before-cursor"}"#.into(),
        line(b"EVENT 1 5\n", ""),
        r#"{"op":"apply_event","seq":1,"delta":5,"fault":"fault"}"#.into(),
        r#"{"op":"apply_event","seq":1,"delta":4,"fault":"fault"}"#.into(),
        line(b"EVENT 3 5\n", "fault"),
        line(b"EVENT 2 05\n", "fault"),
        r#"{"op":"apply_event","seq":2.0,"delta":5,"fault":"fault"}"#.into(),
        r#"{"op":"apply_event","seq":2,"delta":5,"fault":null}"#.into(),
        r#"{"op":"dump"}"#.into(),
    ];
    let expected = [
        r#"{"error":"Fault","hooks":["fault"]}"#,
        r#"{"error":"Fault","hooks":["fault"]}"#,
        r#"{"ok":[-1,0]}"#,
        r#"{"hooks":["fault"],"ok":true}"#,
        r#"{"hooks":["fault"],"ok":"41434b20310a"}"#,
        r#"{"hooks":[],"ok":false}"#,
        r#"{"error":"Conflict","hooks":[]}"#,
        r#"{"error":"Gap","hooks":[]}"#,
        r#"{"error":"ValueError","hooks":[]}"#,
        r#"{"error":"ValueError","hooks":[]}"#,
        r#"{"error":"ValueError","hooks":[]}"#,
        r#"{"ok":{"checkpoint":[[1,1,10]],"jobs":[],"ledger":[[0,5],[1,5]],"redrives":[]}}"#,
    ];
    assert_eq!(exec(&lines.join("\n")), expected);
}

/// R14: a bad argument is refused even while the file is locked, and leaves nothing behind.
#[test]
fn r14_a_locked_store_is_an_operational_error_after_the_arguments() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(exec_in(Some(dir.path()), br#"{"op":"apply_event","seq":0,"delta":5}"#), [r#"{"ok":true}"#]);
    let peer = rusqlite::Connection::open(dir.path().join("store.db")).unwrap();
    peer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let lines = r#"{"op":"apply_event","seq":1,"delta":5,"fault":""}
        {"op":"apply_event","seq":1,"delta":1001}
        {"op":"state"}"#;
    let expected = [r#"{"error":"OperationalError","hooks":[]}"#, VALUE_ERROR, r#"{"ok":[0,5]}"#];
    assert_eq!(exec_in(Some(dir.path()), lines.as_bytes()), expected);
}

/// B4: a ledger row that another program took away is a conflict; rows are shown as they are stored.
#[test]
fn b4_rows_changed_by_another_program_are_compared_and_shown() {
    let dir = tempfile::tempdir().unwrap();
    exec_in(Some(dir.path()), br#"{"op":"apply_event","seq":0,"delta":5}"#);
    let peer = rusqlite::Connection::open(dir.path().join("store.db")).unwrap();
    peer.execute_batch("DELETE FROM ledger; INSERT INTO ledger VALUES (7, x'0aff'), (-3, 1)").unwrap();
    let lines = "{\"op\":\"apply_event\",\"seq\":0,\"delta\":5}\n{\"op\":\"dump\"}";
    let expected = [
        r#"{"error":"Conflict"}"#,
        r#"{"ok":{"checkpoint":[[1,0,5]],"jobs":[],"ledger":[[-3,1],[7,{"$blob":"0aff"}]],"redrives":[]}}"#,
    ];
    assert_eq!(exec_in(Some(dir.path()), lines.as_bytes()), expected);
}

/// Each line is a value error, and after all of them the store is as it was.
fn refused<L: AsRef<str>>(lines: impl IntoIterator<Item = L>) {
    let lines: Vec<L> = lines.into_iter().collect();
    let mut input: String = lines.iter().map(|line| format!("{}\n", line.as_ref())).collect();
    input.push_str(r#"{"op":"state"}"#);
    let replies = exec(&input);
    for (line, reply) in lines.iter().zip(&replies) {
        assert_eq!(reply, VALUE_ERROR, "{:.120}", line.as_ref());
    }
    assert_eq!(replies[lines.len()..], [r#"{"ok":[-1,0]}"#]);
}

fn operation_on(op: &str, line: &[u8]) -> String {
    let hex: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(r#"{{"op":"{op}","line_hex":"{hex}"}}"#)
}

fn exec(input: &str) -> Vec<String> {
    exec_in(None, input.as_bytes())
}

fn exec_in(dir: Option<&Path>, input: &[u8]) -> Vec<String> {
    let mut output = Vec::new();
    ackward_sim::exec::run(dir, input, &mut output).unwrap();
    String::from_utf8(output).unwrap().lines().map(str::to_owned).collect()
}
