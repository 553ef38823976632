//! Lines of the stream and of the log, and the JSON of events.

use std::cell::Cell;

use ackward::rules::{
    Event, Json, ack_line, log_line, parse_ack, parse_line, parse_log_line, parse_resume, parse_resync,
    resume_line,
};

use crate::input::{fuzz, patchwork};

const DRAWN: usize = 20_000;

const LINE: [&str; 8] = ["EVENT", " ", "1", "7", " ", "-", "3", "\n"];
const OTHERS: [&str; 8] = ["ACK", " ", "1", "0", "\n", "RESUME", " ", "-1\n"];
const RESYNC: [&str; 6] = ["RESYNC", " ", "4", " ", "9", "\n"];
const JSON: [&str; 12] = ["{", "\"id\"", ":", "\"ca", "\\u006b", "e\"", ",", "\"qty\"", ":", "3", "}", " "];

/// R1 to R6: what is taken is taken to the letter, so it is written back as the very same bytes.
#[test]
fn stream_lines() {
    let taken = Cell::new(0);
    let check = |bytes: &[u8]| {
        if let Ok(event) = parse_line(bytes) {
            taken.set(taken.get() + 1);
            assert_eq!(event.to_line().as_bytes(), bytes);
        }
        if let Ok(seq) = parse_ack(bytes) {
            assert_eq!(ack_line(seq).as_bytes(), bytes);
        }
        if let Ok(last) = parse_resume(bytes) {
            assert_eq!(resume_line(last).as_bytes(), bytes);
        }
        if let Ok(held) = parse_resync(bytes) {
            assert_eq!(held.to_line().as_bytes(), bytes);
        }
    };
    fuzz!(DRAWN, |bytes: &[u8]| {
        check(bytes);
        for pieces in [&LINE[..], &OTHERS[..5], &OTHERS[5..], &RESYNC[..]] {
            check(&patchwork(pieces, bytes));
        }
    });
    assert!(taken.get() > DRAWN / 100, "the inputs are too wild: {} taken", taken.get());
}

/// W4: the same for the lines of the publisher's log.
#[test]
fn log_lines() {
    fuzz!(DRAWN, |bytes: &[u8]| {
        for line in [bytes, &patchwork(&LINE[2..], bytes)] {
            if let Ok(event) = parse_log_line(line) {
                assert_eq!(log_line(event).as_bytes(), line);
            }
        }
    });
}

/// W3: an event that is read is the event that is written; what is no JSON is no event.
#[test]
fn event_json() {
    let taken = Cell::new(0);
    fuzz!(DRAWN, |bytes: &[u8]| {
        for text in [bytes, &patchwork(&JSON, bytes)] {
            let Ok(text) = str::from_utf8(text) else { continue };
            let json = Json::parse(text);
            if let Ok(event) = Event::from_json(text) {
                taken.set(taken.get() + 1);
                assert!(json.is_ok(), "{text}");
                assert_eq!(Event::from_json(&event.to_json()), Ok(event));
            }
        }
    });
    assert!(taken.get() > DRAWN / 100, "the inputs are too wild: {} taken", taken.get());
}
