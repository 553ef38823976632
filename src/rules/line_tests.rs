//! R1 to R6 clause by clause, and the other lines of the protocol.

use super::*;

fn parsed(line: &[u8]) -> Option<(i64, i64)> {
    parse_line(line).ok().map(|event| (event.seq.get(), event.delta.get()))
}

#[track_caller]
fn refused(line: &[u8]) {
    assert_eq!(parsed(line), None, "{}", line.escape_ascii());
}

/// R3, R6.
#[test]
fn an_event_line_gives_its_two_numbers() {
    assert_eq!(parsed(b"EVENT 0 0\n"), Some((0, 0)));
    assert_eq!(parsed(b"EVENT 7 -3\n"), Some((7, -3)));
    assert_eq!(parsed(b"EVENT 10 20\n"), Some((10, 20)));
}

/// R4.
#[test]
fn numbers_hold_at_their_boundaries() {
    assert_eq!(parsed(b"EVENT 2147483647 -1000\n"), Some((2_147_483_647, -1000)));
    assert_eq!(parsed(b"EVENT 0 1000\n"), Some((0, 1000)));
    for line in [
        "EVENT 2147483648 0\n",
        "EVENT -1 0\n",
        "EVENT 0 1001\n",
        "EVENT 0 -1001\n",
        "EVENT 9223372036854775808 0\n",
        "EVENT 0 -9223372036854775809\n",
        "EVENT 99999999999999999999999999999999999999999999999999999 0\n",
    ] {
        refused(line.as_bytes());
    }
}

/// R4: the error names the field, the value as it was written and the range.
#[test]
fn a_refused_number_is_named() {
    let error = parse_line(b"EVENT 0 -9223372036854775809\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "delta is -9223372036854775809, allowed: a whole number from -1000 to 1000"
    );
    let error = parse_line(b"EVENT 01 1\n").unwrap_err();
    assert_eq!(error.to_string(), r#"line is "EVENT 01 1\n", allowed: EVENT <seq> <delta> and LF"#);
}

/// R5: every refused spelling, in the place of either number.
#[test]
fn refused_spellings_fail_for_either_number() {
    for number in [
        "00",
        "01",
        "-01",
        "-00",
        "+1",
        "+0",
        "-0",
        "--1",
        "1_0",
        "1.0",
        "1e2",
        "0x1",
        "",
        "-",
        "\u{661}",
        "\u{ff11}",
        "\u{2212}1",
        "1\u{a0}",
        "\0",
        "1\0",
        "\u{feff}1",
        "1-",
        "a",
        "1,0",
    ] {
        refused(format!("EVENT {number} 1\n").as_bytes());
        refused(format!("EVENT 1 {number}\n").as_bytes());
    }
}

/// R3, R5: the word, the spaces, the end.
#[test]
fn anything_around_the_numbers_is_refused() {
    for line in [
        "",
        "\n",
        "EVENT 1 1",
        "EVENT 1 1\r\n",
        "EVENT 1 1\r",
        "EVENT 1 1\u{b}",
        "EVENT 1 1\u{c}",
        "EVENT 1 1\u{85}",
        "EVENT 1 1\u{2028}",
        "EVENT 1 1\n\n",
        "EVENT 1 1\nEVENT 2 1\n",
        "\nEVENT 1 1\n",
        "EVENT 1 1\0\n",
        "EVENT 1 1\n\0",
        "\u{feff}EVENT 1 1\n",
        "event 1 1\n",
        "Event 1 1\n",
        "EVENT  1 1\n",
        "EVENT 1  1\n",
        " EVENT 1 1\n",
        "EVENT 1 1 \n",
        "EVENT\t1 1\n",
        "EVENT 1\t1\n",
        "EVENT\u{a0}1 1\n",
        "EVENT 1\n",
        "EVENT 1 \n",
        "EVENT 1 1 1\n",
        "EVENT1 1\n",
        "ACK 1 1\n",
        "1 1\n",
    ] {
        refused(line.as_bytes());
    }
    refused(b"EVENT 1 1\x85");
    refused(b"EVENT 1 1\xff\n");
    refused(b"EVENT \xb2 1\n");
}

/// R2: 64 bytes with the LF are read (and refused for what they say), 65 for their length.
#[test]
fn the_length_limit_counts_the_lf() {
    let line = |len: usize| format!("EVENT {} 0\n", "9".repeat(len - 9));
    assert_eq!(parse_line(line(64).as_bytes()).unwrap_err().field, "seq");
    let error = parse_line(line(65).as_bytes()).unwrap_err();
    assert_eq!((error.field.as_ref(), error.allowed.as_ref()), ("line", "at most 64 bytes, LF counted"));
}

/// R25, R38, W4: what is written is read back, and nothing else is.
#[test]
fn the_other_lines_are_read_as_they_are_written() {
    let seq = Seq::new(2_147_483_647).unwrap();
    assert_eq!(parse_ack(ack_line(seq).as_bytes()), Ok(seq));
    assert_eq!(resume_line(Cursor::START), "RESUME -1\n");
    assert_eq!(parse_resume(b"RESUME -1\n"), Ok(Cursor::START));
    let resync = Resync::new(Seq::new(0).unwrap(), Cursor::START).unwrap();
    assert_eq!(resync.to_line(), "RESYNC 0 -1\n");
    assert_eq!(parse_resync(b"RESYNC 0 -1\n"), Ok(resync));
    let event = StreamEvent::new(3, -4).unwrap();
    assert_eq!(parse_log_line(log_line(event).as_bytes()), Ok(event));
    assert_eq!(parse_line(event.to_line().as_bytes()), Ok(event));
}

/// R25, R38, W4.
#[test]
fn the_other_lines_are_as_strict() {
    for line in ["ACK -1\n", "ACK 01\n", "ACK 1", "ACK 1 1\n", "ACK 2147483648\n", "ack 1\n", "ACK  1\n"] {
        assert!(parse_ack(line.as_bytes()).is_err(), "{line:?}");
    }
    for line in ["RESUME -2\n", "RESUME -0\n", "RESUME\n", "RESUME 1\r\n", "RESUME 2147483648\n"] {
        assert!(parse_resume(line.as_bytes()).is_err(), "{line:?}");
    }
    for line in ["RESYNC 5 3\n", "RESYNC -1 3\n", "RESYNC 5\n", "RESYNC 0 -2\n", "RESYNC 1 2 3\n"] {
        assert!(parse_resync(line.as_bytes()).is_err(), "{line:?}");
    }
    for line in ["1\n", " 1 1\n", "1 1", "01 1\n", "1 1001\n", "EVENT 1 1\n"] {
        assert!(parse_log_line(line.as_bytes()).is_err(), "{line:?}");
    }
}
