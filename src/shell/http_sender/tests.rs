//! W1 and W2 over a scripted connection, to the byte.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::Notify;

use super::class::{Class, of_status};
use super::*;
use crate::port::Stream;
use crate::rules::{Invalid, Millis, Name, Qty};
use crate::shell::signature::{Secret, TOLERANCE_DEFAULT};

impl Stream for DuplexStream {
    fn abort(self) {}
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{\"ok\":true}";
const NOW_MS: i64 = 784_111_770_000;

/// A clock that stands still; its timers run out when the peer says so.
#[derive(Clone, Default)]
struct Still(Rc<Notify>);

impl Clock for Still {
    fn now(&self) -> Result<Millis, Invalid> {
        Millis::new(NOW_MS)
    }

    async fn sleep(&self, _duration: Duration) {
        self.0.notified().await;
    }
}

/// Hands out the client's ends of connections that were made before.
#[derive(Clone, Default)]
struct Prepared(Rc<RefCell<Vec<DuplexStream>>>);

impl Connect for Prepared {
    type Stream = DuplexStream;

    async fn connect_to(&self, host: &str, port: u16) -> io::Result<DuplexStream> {
        assert_eq!((host, port), ("receiver", 7410));
        self.0.borrow_mut().pop().ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
    }
}

/// How a connection goes on after the reply's last byte.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Close,
    TimeOut,
}

/// What came of an attempt, in one word.
#[derive(Debug, PartialEq, Clone, Copy)]
enum Word {
    Ok,
    Retry(Option<u64>),
    Permanent,
    BadAck,
}

fn word(result: &Result<(), SendError>) -> Word {
    match result {
        Ok(()) => Word::Ok,
        Err(SendError::Retryable { retry_after, .. }) => Word::Retry(retry_after.map(|wait| wait.as_secs())),
        Err(SendError::Permanent { .. }) => Word::Permanent,
        Err(SendError::BadAck { .. }) => Word::BadAck,
        Err(SendError::Other(error)) => panic!("{error}"),
    }
}

fn options() -> HttpSenderOptions {
    let target = Target::parse("http://receiver:7410/jobs?from=a").unwrap();
    HttpSenderOptions { target, timeout: Timeout::from_seconds(5.0).unwrap(), secrets: None }
}

fn event() -> Event {
    Event { id: Name::new("id", "cake").unwrap(), qty: Qty::new(3).unwrap() }
}

/// One attempt against a peer that reads the request, replies, and then goes on as told. Returns the result and
/// the request.
fn attempt(options: HttpSenderOptions, reply: &[u8], then: Then) -> (Result<(), SendError>, String) {
    let (client, mut peer) = tokio::io::duplex(1 << 20);
    let connections = Prepared(Rc::new(RefCell::new(vec![client])));
    let clock = Still::default();
    let mut sender = HttpSender::new(connections.clone(), clock.clone(), options);
    let peer = async move {
        let mut request = vec![0; 4096];
        let mut length = 0;
        while !request[..length].ends_with(b"}") {
            length += peer.read(&mut request[length..]).await.unwrap();
        }
        peer.write_all(reply).await.unwrap();
        if then == Then::TimeOut {
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
            clock.0.notify_waiters();
            tokio::task::yield_now().await;
        } else {
            peer.shutdown().await.unwrap();
        }
        // What else comes, up to the end: there is no second request on this connection.
        let mut rest = Vec::new();
        peer.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"");
        String::from_utf8(request[..length].to_vec()).unwrap()
    };
    let sending = async {
        let result = sender.send(event()).await;
        drop(sender);
        result
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (result, request) = runtime.block_on(async { tokio::join!(sending, peer) });
    assert!(connections.0.borrow().is_empty());
    (result, request)
}

#[track_caller]
fn check(reply: &str, then: Then, expected: Word) {
    let (result, _) = attempt(options(), reply.as_bytes(), then);
    assert_eq!(word(&result), expected, "{reply:?}: {result:?}");
}

#[test]
fn w1_the_request_is_exactly_this() {
    let (result, request) = attempt(options(), OK.as_bytes(), Then::Close);
    assert_eq!(word(&result), Word::Ok);
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!(
        "POST /jobs?from=a HTTP/1.1\r\nhost: receiver:7410\r\ncontent-type: application/json\r\n\
         idempotency-key: \"cake\"\r\naccept: application/json\r\nuser-agent: ackward/{version}\r\n\
         connection: close\r\ncontent-length: 21\r\n\r\n{{\"id\":\"cake\",\"qty\":3}}"
    );
    assert_eq!(request, expected);
}

#[test]
fn a_signed_request_verifies() {
    let secrets = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"].map(|text| Secret::parse(text).unwrap());
    let secrets = Secrets::new(secrets.to_vec()).unwrap();
    let options = HttpSenderOptions { secrets: Some(secrets.clone()), ..options() };
    let (_, request) = attempt(options, OK.as_bytes(), Then::Close);
    let header = |name: &str| {
        let line = request.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_once(": ").unwrap().1.to_owned()
    };
    let (id, at, signature) = (header(WEBHOOK_ID), header(WEBHOOK_TIMESTAMP), header(WEBHOOK_SIGNATURE));
    assert_eq!((id.as_str(), at.as_str()), ("cake", "784111770"));
    let body = request.split_once("\r\n\r\n").unwrap().1.as_bytes();
    let now = Millis::new(NOW_MS).unwrap();
    assert_eq!(secrets.verify(&id, &at, &signature, body, now, TOLERANCE_DEFAULT), Ok(()));
}

/// W2's lists, once more and to the letter.
fn class_by_the_contract(status: u16) -> Class {
    const RETRYABLE: [u16; 10] = [401, 403, 408, 409, 425, 429, 500, 502, 503, 504];
    if status == 200 {
        Class::AskBody
    } else if RETRYABLE.contains(&status) {
        Class::Retryable
    } else if (400..500).contains(&status) {
        Class::Permanent
    } else {
        Class::BadAck
    }
}

#[test]
fn w2_every_status_has_its_class() {
    for status in 100..=999 {
        let class = class_by_the_contract(status);
        assert_eq!(of_status(status), class, "{status}");
        if status < 200 {
            continue;
        }
        let expected = match class {
            Class::AskBody => Word::Ok,
            Class::Retryable => Word::Retry(None),
            Class::Permanent => Word::Permanent,
            Class::BadAck => Word::BadAck,
        };
        // 204 and 304 have no body, whatever their length says.
        let body = if matches!(status, 204 | 304) { "" } else { "content-length: 11\r\n\r\n{\"ok\":true}" };
        let end = if body.is_empty() { "\r\n" } else { body };
        check(&format!("HTTP/1.1 {status} Whatever\r\nlocation: /there\r\n{end}"), Then::Close, expected);
    }
}

#[test]
fn w2_only_this_body_is_an_acknowledgement() {
    let good = ["{\"ok\":true}", " { \"ok\" : true }\r\n", "{\"\\u006fk\":true}"];
    let bad = [
        "",
        "ok",
        "true",
        "{}",
        "{\"ok\":false}",
        "{\"ok\":1}",
        "{\"ok\":\"true\"}",
        "{\"ok\":null}",
        "{\"OK\":true}",
        "{\"ok\":true,\"id\":\"cake\"}",
        "{\"ok\":true,\"ok\":true}",
        "[{\"ok\":true}]",
        "{\"ok\":true}{\"ok\":true}",
        "{\"ok\":true",
        "\u{feff}{\"ok\":true}",
    ];
    for (bodies, expected) in [(&good[..], Word::Ok), (&bad[..], Word::BadAck)] {
        for body in bodies {
            let length = body.len();
            check(
                &format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}"),
                Then::TimeOut,
                expected,
            );
            check(&format!("HTTP/1.0 200 OK\r\n\r\n{body}"), Then::Close, expected);
            let chunk = if length == 0 { String::new() } else { format!("{length:x}\r\n{body}\r\n") };
            let chunked = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunk}0\r\n\r\n");
            check(&chunked, Then::TimeOut, expected);
        }
    }
}

/// Before the head is complete: retryable; after it, before the body is: no acknowledgement.
#[test]
fn w2_cut_or_timed_out_at_every_byte() {
    let head = OK.find('{').unwrap();
    for length in 0..=OK.len() {
        let expected = if length == OK.len() {
            Word::Ok
        } else if length >= head {
            Word::BadAck
        } else {
            Word::Retry(None)
        };
        for then in [Then::Close, Then::TimeOut] {
            check(&OK[..length], then, expected);
        }
    }
}

#[test]
fn w2_what_is_not_http_leaves_the_outcome_open() {
    for reply in [
        "SSH-2.0-OpenSSH_9.6\r\n",
        "HTTP/3.0 200 OK\r\n\r\n",
        "HTTP/1.1 2x0 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
    ] {
        check(reply, Then::Close, Word::BadAck);
    }
}

#[test]
fn w2_a_reply_is_limited_in_size() {
    let head =
        format!("HTTP/1.1 200 OK\r\nx: {}\r\ncontent-length: 11\r\n\r\n{{\"ok\":true}}", "y".repeat(1 << 16));
    check(&head, Then::TimeOut, Word::BadAck);
    let fields = "x: y\r\n".repeat(HEADERS_MAX + 1);
    check(
        &format!("HTTP/1.1 200 OK\r\n{fields}content-length: 11\r\n\r\n{{\"ok\":true}}"),
        Then::TimeOut,
        Word::BadAck,
    );
    // Without the limit it would be a good one.
    let body = format!("HTTP/1.1 200 OK\r\n\r\n{{\"ok\":true}}{}", " ".repeat(1 << 16));
    check(&body, Then::Close, Word::BadAck);
    // A retryable status is one whatever its body does.
    check(&format!("HTTP/1.1 503 No\r\n\r\n{}", "x".repeat(1 << 16)), Then::TimeOut, Word::Retry(None));
    check("HTTP/1.1 422 No\r\ncontent-length: 9\r\n\r\ncut", Then::Close, Word::Permanent);
}

/// An interim reply is not the reply; where nothing follows, what the receiver did is open.
#[test]
fn w2_a_1xx_that_ends_the_exchange_is_no_acknowledgement() {
    check(
        &format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: x\r\n\r\n{OK}"),
        Then::Close,
        Word::Ok,
    );
    check("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 No\r\n\r\n", Then::Close, Word::Retry(None));
    for reply in ["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 2"] {
        check(reply, Then::Close, Word::BadAck);
        check(reply, Then::TimeOut, Word::BadAck);
    }
    let upgrade = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";
    check(upgrade, Then::Close, Word::BadAck);
}

#[test]
fn w2_retry_after_counts_on_retryable_replies_only() {
    let reply = |status: u16, value: &str| format!("HTTP/1.1 {status} No\r\nretry-after: {value}\r\n\r\n");
    for status in [401, 403, 408, 409, 425, 429, 500, 502, 503, 504] {
        check(&reply(status, "120"), Then::Close, Word::Retry(Some(120)));
    }
    check(&reply(503, "Sun, 06 Nov 1994 08:49:37 GMT"), Then::Close, Word::Retry(Some(7)));
    check(&reply(503, "later"), Then::Close, Word::Retry(None));
    check(&reply(422, "120"), Then::Close, Word::Permanent);
    check(&reply(301, "120"), Then::Close, Word::BadAck);
}

#[test]
fn w2_no_connection_is_retryable() {
    let mut sender = HttpSender::new(Prepared::default(), Still::default(), options());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let result = runtime.block_on(sender.send(event()));
    assert_eq!(word(&result), Word::Retry(None));
}
