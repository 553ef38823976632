//! The receiver against a client that was not written here (`curl`) and against raw sockets: W3, part Y.

use std::io::Read;
use std::net::{Shutdown, TcpStream};
use std::process::Stdio;

use super::*;

const KEY: &str = "Idempotency-Key: \"cake\"";
const JSON: &str = "Content-Type: application/json";
const BODY: &str = r#"{"id":"cake","qty":3}"#;

fn curl_is_here() -> bool {
    let found = Command::new("curl")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !found {
        eprintln!("skipped: there is no curl here");
    }
    found
}

/// Status, content type and body as curl sees them.
fn curl(url: &str, arguments: &[&str]) -> (String, String, String) {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "20", "--output", "-"]);
    command.args(["--write-out", "\n%{http_code} %{content_type}"]).args(arguments).arg(url);
    let (code, out, err) = run(&mut command);
    assert_eq!(code, Some(0), "{arguments:?}: {err}");
    let (body, head) = out.rsplit_once('\n').unwrap();
    let (status, content_type) = head.split_once(' ').unwrap();
    (status.to_owned(), content_type.to_owned(), body.to_owned())
}

/// A plain POST, and what is different about it.
fn post(address: &str, headers: &[&str], body: &str) -> (String, String, String) {
    let mut arguments = Vec::new();
    for header in headers {
        arguments.extend(["-H", header]);
    }
    arguments.extend(["--data-binary", body]);
    curl(&format!("http://{address}/jobs"), &arguments)
}

#[track_caller]
fn assert_refused(reply: (String, String, String), status: &str, code: &str, part: &str) {
    let (got, content_type, body) = reply;
    assert_eq!((got.as_str(), content_type.as_str()), (status, "application/json"), "{body}");
    let json: serde_json::Value = serde_json::from_str(&body).unwrap();
    let keys: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["error", "message"]);
    assert_eq!(json["error"], code, "{body}");
    let message = json["message"].as_str().unwrap();
    assert!(message.contains(part), "{message}");
}

/// W3: every refusal has its status and a JSON error, and changes nothing.
#[test]
fn w3_curl_gets_every_refusal() {
    if !curl_is_here() {
        return;
    }
    let site = Site::new();
    let receiver = Receiver::start(&site, &["--body-timeout", "2"]);
    let at = receiver.address.as_str();
    let url = format!("http://{at}/jobs");
    let send = |url: &str, arguments: &[&str]| {
        let mut all = vec!["-H", KEY, "-H", JSON, "--data-binary", BODY];
        all.extend(arguments);
        curl(url, &all)
    };

    assert_refused(send(&format!("http://{at}/elsewhere"), &[]), "404", "not-found", "/jobs");
    assert_refused(send(&format!("http://{at}/jobs/"), &[]), "404", "not-found", "/jobs");
    assert_refused(send(&format!("http://{at}/jobs?x=1"), &[]), "404", "not-found", "/jobs");
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS"] {
        assert_refused(send(&url, &["-X", method]), "405", "method-not-allowed", "POST");
    }
    assert_refused(curl(&url, &[]), "405", "method-not-allowed", "POST");

    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json; charset=latin1",
        "application/jsonx",
    ] {
        let header = format!("Content-Type: {kind}");
        assert_refused(post(at, &[KEY, &header], BODY), "415", "unsupported-media-type", "application/json");
    }
    assert_refused(
        post(at, &[KEY, "Content-Type:"], BODY),
        "415",
        "unsupported-media-type",
        "application/json",
    );
    assert_refused(send(&url, &["-H", "Content-Encoding: gzip"]), "415", "unsupported-media-type", "plain");

    assert_refused(post(at, &[JSON], BODY), "400", "idempotency-key", "missing");
    for key in ["cake", "\"cake", "\"\"", "\"ca ke\"", "\"cake\", \"cake\"", "\"c\u{e9}\""] {
        let header = format!("Idempotency-Key: {key}");
        assert_refused(post(at, &[&header, JSON], BODY), "400", "idempotency-key", "Idempotency-Key");
    }
    assert_refused(post(at, &["Idempotency-Key: \"tea\"", JSON], BODY), "400", "idempotency-key", "another");
    assert_refused(post(at, &[KEY, KEY, JSON], BODY), "400", "idempotency-key", "more than once");

    let bad = [
        ("", "event"),
        ("cake", "event"),
        ("[]", "event"),
        (r#"{"id":"cake"}"#, "without qty"),
        (r#"{"qty":3}"#, "without id"),
        (r#"{"id":"cake","qty":3,"x":1}"#, "\"x\""),
        (r#"{"id":"cake","qty":3,"qty":3}"#, "twice"),
        (r#"{"id":"cake","qty":0}"#, "qty is 0, allowed: a whole number from 1 to 1000"),
        (r#"{"id":"cake","qty":1001}"#, "qty is 1001"),
        (r#"{"id":"cake","qty":3.0}"#, "qty is 3.0"),
        (r#"{"id":"cake","qty":true}"#, "qty is true"),
        (r#"{"id":"cake","qty":"3"}"#, "qty is \"3\""),
        (r#"{"id":"cake","qty":18446744073709551616}"#, "qty is"),
        (r#"{"id":"ca/ke","qty":3}"#, "id is"),
        ("{\"id\":\"cake\",\"qty\":3}x", "event"),
    ];
    for (body, part) in bad {
        assert_refused(post(at, &[KEY, JSON], body), "400", "invalid", part);
    }
    let latin = site.path("latin");
    std::fs::write(&latin, b"{\"id\":\"c\xe9\",\"qty\":3}").unwrap();
    let latin = format!("@{}", latin.display());
    assert_refused(post(at, &[KEY, JSON], &latin), "400", "invalid", "UTF-8");

    let large = site.write("large", &format!("{BODY}{}", " ".repeat(300_000)));
    let large = format!("@{}", large.display());
    assert_refused(post(at, &[KEY, JSON], &large), "413", "body-too-large", "large");
    let chunked = "Transfer-Encoding: chunked";
    assert_refused(post(at, &[KEY, JSON, chunked], &large), "413", "body-too-large", "large");
    let long = format!("X-Long: {}", "x".repeat(9_000));
    assert_refused(post(at, &[KEY, JSON, &long], BODY), "431", "head-too-large", "head");

    assert_eq!(site.effects(), [""; 0], "nothing was changed");

    let ok = ("200".to_owned(), "application/json".to_owned(), "{\"ok\":true}".to_owned());
    assert_eq!(send(&url, &[]), ok);
    assert_eq!(send(&format!("http://{at}/"), &[]), ok, "part Y: / as well; a repeat");
    assert_eq!(post(at, &[KEY, "content-type: Application/JSON; charset=UTF-8", chunked], BODY), ok);
    assert_refused(
        post(at, &[KEY, JSON], r#"{"id":"cake","qty":4}"#),
        "422",
        "conflict",
        "with qty 3, not 4",
    );
    assert_eq!(site.effects(), ["inbox cake 3", "effect cake 3", "total 1 3"]);
}

/// W3: 503 where the inbox is locked for longer than its patience; then the same request goes through.
#[test]
fn w3_a_commit_that_fails_is_503_and_can_be_repeated() {
    if !curl_is_here() {
        return;
    }
    let site = Site::new();
    let receiver = Receiver::start(&site, &[]);
    let locker = open(&site.inbox());
    locker.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_refused(post(&receiver.address, &[KEY, JSON], BODY), "503", "unavailable", "locked");
    locker.execute_batch("COMMIT").unwrap();
    assert_eq!(site.effects(), [""; 0]);
    assert_eq!(post(&receiver.address, &[KEY, JSON], BODY).0, "200");
}

const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// Part Y: missing and wrong signatures and strange times are 401, which the sender takes as retryable; once the
/// secrets are mended the job goes through. Both know two secrets during a rotation.
#[test]
fn y_a_signed_receiver_takes_signed_requests_only() {
    if !curl_is_here() {
        return;
    }
    let site = Site::new();
    let (old, new) = (site.write("old", OLD), site.write("new", NEW));
    let both = site.write("both", &format!("{OLD}\n{NEW}\n"));
    let receiver = Receiver::start(&site, &["--secret-file", new.to_str().unwrap()]);
    assert_refused(post(&receiver.address, &[KEY, JSON], BODY), "401", "signature", "webhook-signature");
    let forged = ["webhook-id: cake", "webhook-signature: v1,AAAA"];
    for (at, code, part) in [("1614265330", "signature", "right"), ("soon", "signature", "number of seconds")]
    {
        let at = format!("webhook-timestamp: {at}");
        let reply = post(&receiver.address, &[KEY, JSON, forged[0], forged[1], &at], BODY);
        assert_refused(reply, "401", code, part);
    }
    // Right, and years old: computed by Python's hmac.
    let stale = [
        "webhook-id: cake",
        "webhook-timestamp: 1614265330",
        "webhook-signature: v1,V8w6jNIHJ1Q5pMac3J0iewgPX+drf8qZ1umM7KgUYEI=",
    ];
    let reply = post(&receiver.address, &[KEY, JSON, stale[0], stale[1], stale[2]], BODY);
    assert_refused(reply, "401", "timestamp", "away from this clock");
    assert_eq!(site.effects(), [""; 0]);

    site.enqueue("cake", 3);
    let work = |file: &PathBuf| Process::start(site.worker(&receiver.address).arg("--secret-file").arg(file));
    let mut worker = work(&old);
    worker.says("answered 401");
    assert_eq!(worker.stop().0, Some(0));
    assert!(site.jobs()[0].starts_with("cake pending"), "{:?}", site.jobs());
    let worker = work(&both);
    site.wait_settled();
    worker.stop();
    assert!(site.jobs()[0].starts_with("cake done"), "{:?}", site.jobs());
    assert_eq!(site.effects(), ["inbox cake 3", "effect cake 3", "total 1 3"]);
}

/// What is answered to these bytes and then the end.
pub(super) fn asked(address: &str, bytes: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(bytes.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    rest(stream)
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

fn request(id: &str, qty: i64) -> String {
    let body = format!("{{\"id\":\"{id}\",\"qty\":{qty}}}");
    format!(
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nIdempotency-Key: \"{id}\"\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// However long a body claims to be, the answer is the same: also where the length is more than can be counted to, and
/// behind a request that is answered as ever.
#[test]
fn w3_a_body_of_any_claimed_length_is_413() {
    let site = Site::new();
    let receiver = Receiver::start(&site, &[]);
    for length in ["4097", "18446744073709551613", "18446744073709551614", "18446744073709551615"] {
        let head = request("tea", 1).replace("Content-Length: 20", &format!("Content-Length: {length}"));
        assert!(head.contains(length), "{head}");
        let mut stream = connect(&receiver.address);
        stream.write_all((request("cake", 3) + &head).as_bytes()).unwrap();
        let replies = rest(stream);
        assert!(replies.starts_with("HTTP/1.1 200 OK\r\n"), "{length}: {replies}");
        let (_, second) = replies.split_once("{\"ok\":true}").unwrap();
        assert!(second.starts_with("HTTP/1.1 413 Payload Too Large\r\n"), "{length}: {replies}");
        assert!(
            second.ends_with("{\"error\":\"body-too-large\",\"message\":\"the body is too large\"}"),
            "{length}: {replies}"
        );
    }
    assert_eq!(site.effects(), ["inbox cake 3", "effect cake 3", "total 1 3"]);
}

/// RFC 9112, 3.2: HTTP/1.1 has exactly one Host, HTTP/1.0 at most one; the connection goes on behind a refusal.
#[test]
fn a_request_without_one_host_is_400() {
    let site = Site::new();
    let receiver = Receiver::start(&site, &[]);
    for (hosts, version, status) in [
        ("", "1.1", "400"),
        ("Host: x\r\nHost: x\r\n", "1.1", "400"),
        ("Host: x\r\nHost: y\r\n", "1.0", "400"),
        ("Host: x y\r\n", "1.1", "400"),
        ("Host: \r\n", "1.1", "200"),
        ("", "1.0", "200"),
    ] {
        let text =
            request("cake", 3).replace("Host: x\r\n", hosts).replace("HTTP/1.1", &format!("HTTP/{version}"));
        let reply = asked(&receiver.address, &text);
        assert!(reply.starts_with(&format!("HTTP/{version} {status} ")), "{hosts:?}: {reply}");
        assert_eq!(
            reply.contains("{\"error\":\"host\",\"message\":\"Host must stand exactly once"),
            status == "400",
            "{reply}"
        );
    }
    let both = request("tea", 1).replace("Host: x\r\n", "") + &request("scone", 1);
    let replies = asked(&receiver.address, &both);
    assert!(replies.starts_with("HTTP/1.1 400 ") && replies.contains("HTTP/1.1 200 OK"), "{replies}");
    assert_eq!(
        site.effects(),
        ["inbox cake 3", "inbox scone 1", "effect cake 3", "effect scone 1", "total 2 4"]
    );
}

/// A client that ends its side of the connection behind its last request, as `nc -N` does, gets every answer, and then the
/// connection ends; so it does for one that ends its side and has asked for nothing, or not to the end.
#[test]
fn a_client_that_ends_its_side_gets_its_answers() {
    let site = Site::new();
    let receiver = Receiver::with(&site, &["--head-timeout", "600"], "after-accept:0=pause-300");
    let ask = |bytes: &str| asked(&receiver.address, bytes);
    let replies = ask(&(request("cake", 3) + &request("tea", 1)));
    assert_eq!(replies.matches("HTTP/1.1 200 OK\r\n").count(), 2, "{replies}");
    assert_eq!((ask("").as_str(), ask("POST / HT").as_str()), ("", ""));
    let cut = ask(&request("scone", 1)[..request("scone", 1).len() - 3]);
    // Not for good (W2): a network may have cut it.
    assert!(cut.starts_with("HTTP/1.1 408 ") && cut.contains("body-cut"), "{cut}");
    let chunks = request("scone", 1).replace("Content-Length: 22", "Transfer-Encoding: chunked");
    let malformed = ask(&(chunks + "zz\r\n"));
    assert!(malformed.starts_with("HTTP/1.1 400 ") && malformed.contains("body-framing"), "{malformed}");
    site.enqueue("job", 1);
    open(&site.queue()).execute("UPDATE jobs SET status = 'done'", []).unwrap();
    let (_worker, page) = status::start(&site, &receiver.address, &[]);
    let mut stream = connect(&page);
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(rest(stream).ends_with("ok\n"));
    assert_eq!(receiver.process.stop().1, "stopped: applied 2, repeats 0, refused 2");
}

/// What comes until the other side closes.
fn rest(mut stream: TcpStream) -> String {
    let mut all = String::new();
    // A reset is an end too.
    let _ = stream.read_to_string(&mut all);
    all
}

/// Heads that come byte by byte for ever: closed in time, and meanwhile others are served.
#[test]
fn slow_loris_is_cut_off() {
    let site = Site::new();
    let receiver = Receiver::start(&site, &["--head-timeout", "2", "--body-timeout", "2"]);
    let started = Instant::now();
    let mut idle = connect(&receiver.address);
    idle.write_all(b"").unwrap();
    let mut slow = connect(&receiver.address);
    let dripping = slow.try_clone().unwrap();
    let drip = std::thread::spawn(move || {
        let mut dripping = dripping;
        for byte in request("slow", 1).bytes() {
            if dripping.write_all(&[byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let mut quick = connect(&receiver.address);
    quick.write_all(request("quick", 1).as_bytes()).unwrap();
    let reply = rest(quick);
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    assert_eq!((rest(idle), rest(slow.try_clone().unwrap())), (String::new(), String::new()));
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    let _ = slow.shutdown(Shutdown::Both);
    slow.flush().unwrap();
    drip.join().unwrap();
    assert_eq!(site.effects(), ["inbox quick 1", "effect quick 1", "total 1 1"]);
}

/// A head in time with a body that does not come: 408 and a JSON error.
#[test]
fn w3_a_body_that_does_not_come_is_408() {
    let site = Site::new();
    let receiver = Receiver::start(&site, &["--head-timeout", "5", "--body-timeout", "0.3"]);
    let mut stream = connect(&receiver.address);
    let request = request("cake", 3);
    stream.write_all(&request.as_bytes()[..request.len() - 1]).unwrap();
    let reply = rest(stream);
    assert!(reply.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{reply}");
    assert!(reply.contains("content-type: application/json"), "{reply}");
    assert!(
        reply.ends_with(r#"{"error":"body-timeout","message":"the body did not come in time"}"#),
        "{reply}"
    );
    assert_eq!(site.effects(), [""; 0]);
}

/// RFC 9112, 6.3: a request with both Transfer-Encoding and Content-Length, in either order, is refused, and so is what
/// was hidden behind it; the connection ends. One before it is answered as ever.
#[test]
fn a_request_with_two_lengths_is_refused_with_what_follows() {
    let site = Site::new();
    let receiver = Receiver::start(&site, &["--head-timeout", "5"]);
    let lengths = [
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 4",
    ];
    for (nth, lengths) in lengths.iter().enumerate() {
        let body = r#"{"id":"two","qty":3}"#;
        let two = format!(
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nIdempotency-Key: \"two\"\r\n\
             {lengths}\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        );
        let mut stream = connect(&receiver.address);
        let all = format!("{}{two}{}", request(&format!("before-{nth}"), 1), request("hidden", 1));
        stream.write_all(all.as_bytes()).unwrap();
        let replies = rest(stream);
        let (first, second) = replies.split_at(replies.rfind("HTTP/1.1").unwrap());
        assert!(
            first.starts_with("HTTP/1.1 200 OK\r\n") && first.matches("HTTP/1.1").count() == 1,
            "{replies}"
        );
        assert!(second.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{replies}");
        assert!(
            second.contains("content-type: application/json\r\n") && second.contains("connection: close"),
            "{second}"
        );
        assert!(
            second.contains(r#"{"error":"two-lengths","message":"Transfer-Encoding and Content-Length"#),
            "{second}"
        );
    }
    assert_eq!(strings(&site.inbox(), "SELECT id FROM inbox ORDER BY id"), ["before-0", "before-1"]);
}

/// More connections than are served at once wait for their turn; none is refused.
#[test]
fn the_number_of_connections_is_limited() {
    let site = Site::new();
    let receiver = Receiver::start(&site, &["--connections-max", "1", "--head-timeout", "3"]);
    let idle = connect(&receiver.address);
    std::thread::sleep(Duration::from_millis(100));
    let mut waiting = connect(&receiver.address);
    waiting.write_all(request("cake", 3).as_bytes()).unwrap();
    waiting.set_read_timeout(Some(Duration::from_millis(150))).unwrap();
    assert!(waiting.read(&mut [0]).is_err(), "served beside the other one");
    waiting.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(rest(idle), "");
    assert!(rest(waiting).starts_with("HTTP/1.1 200"));
}

/// Several requests on one connection, pipelined.
#[test]
fn a_connection_carries_many_requests() {
    let site = Site::new();
    let receiver = Receiver::start(&site, &["--head-timeout", "3"]);
    let mut stream = connect(&receiver.address);
    let all: String = (0..5).map(|nth| request(&format!("job-{nth}"), 1)).collect();
    stream.write_all(all.as_bytes()).unwrap();
    assert_eq!(rest(stream).matches("HTTP/1.1 200 OK\r\n").count(), 5);
    assert_eq!(number(&site.inbox(), "SELECT count FROM totals"), 5);
}

/// W3: concurrent requests of one id have one effect and are all acknowledged, in shared transactions and apart; those of
/// another quantity are refused.
#[test]
fn w3_concurrent_requests_of_one_id_have_one_effect() {
    for group_max in ["1", "256"] {
        let site = Site::new();
        let receiver = Receiver::start(&site, &["--group-max", group_max, "--head-timeout", "3"]);
        let streams: Vec<_> = (0..40).map(|_| connect(&receiver.address)).collect();
        for (nth, stream) in streams.iter().enumerate() {
            let qty = if nth % 4 == 3 { 4 } else { 3 };
            (&*stream).write_all(request("cake", qty).as_bytes()).unwrap();
        }
        let replies: Vec<_> = streams.into_iter().map(rest).collect();
        let count = |status: &str| replies.iter().filter(|reply| reply.starts_with(status)).count();
        // The first to come decides which quantity is right.
        let counts = (count("HTTP/1.1 200"), count("HTTP/1.1 422"));
        assert!(counts == (30, 10) || counts == (10, 30), "{counts:?}");
        assert_eq!(number(&site.inbox(), "SELECT count(*) FROM effects"), 1);
        assert_eq!(number(&site.inbox(), "SELECT count FROM totals"), 1);
    }
}

/// SIGTERM while a request is being committed: it is answered; idle connections are closed; then it ends.
#[test]
fn sigterm_answers_what_has_begun() {
    let site = Site::new();
    let mut receiver = Receiver::with(&site, &["--head-timeout", "20"], "after-accept:0=pause-500");
    let idle = connect(&receiver.address);
    let mut busy = connect(&receiver.address);
    busy.write_all(request("cake", 3).as_bytes()).unwrap();
    receiver.process.says("held at after-accept");
    let started = Instant::now();
    receiver.process.terminate();
    assert!(rest(busy).starts_with("HTTP/1.1 200"));
    assert_eq!(rest(idle), "");
    let (code, out) = receiver.process.ends();
    assert_eq!((code, out.as_str()), (Some(0), "stopped: applied 1, repeats 0, refused 0"));
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    assert!(TcpStream::connect(&receiver.address).is_err(), "it listens no more");
}

/// SIGTERM with a request that does not end: cut off at the grace time, with a code of its own.
#[test]
fn sigterm_takes_no_longer_than_the_grace_time() {
    let site = Site::new();
    let receiver = Receiver::start(&site, &["--body-timeout", "20", "--grace", "0.3"]);
    let mut stuck = connect(&receiver.address);
    let request = request("cake", 3);
    stuck.write_all(&request.as_bytes()[..request.len() - 1]).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let started = Instant::now();
    assert_eq!(receiver.process.stop().0, Some(9));
    assert!(started.elapsed() < Duration::from_secs(15));
    assert_eq!(site.effects(), [""; 0]);
}
