//! The status page, metrics and probes: read only, escaped, unmoved by whoever asks how; and the event log.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::*;

/// A worker with a status page, and where that is.
pub fn start(site: &Site, receiver: &str, arguments: &[&str]) -> (Process, String) {
    serve(site.worker(receiver).args(arguments))
}

/// A process with a status page, and where that is.
pub fn serve(command: &mut Command) -> (Process, String) {
    let address = format!("127.0.0.1:{}", free_port());
    let mut process = Process::start(command.args(["--status-listen", &address]));
    process.says("status page");
    (process, address)
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Sends bytes and reads all that comes back.
pub fn exchange(address: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(bytes).unwrap();
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply);
    String::from_utf8_lossy(&reply).into_owned()
}

pub fn get(address: &str, path: &str) -> String {
    exchange(
        address,
        format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").as_bytes(),
    )
}

#[test]
fn the_page_shows_jobs_and_cannot_change_them() {
    let site = Site::new();
    let receiver = Receiver::start(&site, &[]);
    site.enqueue("cake", 3);
    site.enqueue("dead-one", 1);
    open(&site.queue())
        .execute_batch(
            "UPDATE jobs SET status = 'dead', reason = '<b>&' WHERE id = 'dead-one';
             INSERT INTO redrives (id, token, at_ms, note) VALUES ('x', 1, 0, '<script>')",
        )
        .unwrap();
    let (worker, address) = start(&site, &receiver.address, &[]);
    wait("the job is counted as done", || {
        get(&address, "/metrics").contains("ackward_jobs{status=\"done\"} 1\n")
    });
    let page = get(&address, "/");
    assert!(page.contains("content-security-policy: default-src 'none'; script-src 'self'"), "{page}");
    assert!(
        page.contains("<td>dead-one</td><td>&lt;b&gt;&amp;</td>") && page.contains("<td>&lt;script&gt;</td>")
    );
    assert!(get(&address, "/readyz").ends_with("ready\n"));
    assert!(get(&address, "/healthz").ends_with("ok\n"));
    let metrics = get(&address, "/metrics");
    for line in [
        "ackward_claims_total 1",
        "ackward_finishes_total{to=\"done\"} 1",
        "ackward_send_seconds_count{answer=\"ok\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    let before = site.jobs();
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let reply = exchange(
            &address,
            format!("{method} / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").as_bytes(),
        );
        assert!(reply.starts_with("HTTP/1.1 405 "), "{method}: {reply}");
    }
    assert!(get(&address, "/../etc/passwd").starts_with("HTTP/1.1 404 "));
    assert_eq!(site.jobs(), before);
    assert_eq!(worker.stop().0, Some(0));
}

/// DNS rebinding: another name for this host is answered 421 and shown nothing, unless it was given.
#[test]
fn the_page_goes_by_its_own_names_only() {
    let site = Site::new();
    site.enqueue("cake", 3);
    let hosts = ["--status-host", "ops.example", "--status-host", "ops"];
    let (worker, address) = start(&site, "127.0.0.1:1", &hosts);
    let ask = |host: &str| {
        let request = format!("GET /status.json HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        exchange(&address, request.as_bytes())
    };
    for host in [&address, "localhost", "ops.example:80", "ops"] {
        assert!(ask(host).starts_with("HTTP/1.1 200 "), "{host}");
    }
    for host in ["evil.example", "ops.example.evil", "", "evil@localhost", "localhost:99999999"] {
        let reply = ask(host);
        assert!(reply.starts_with("HTTP/1.1 421 "), "{host}: {reply}");
        assert!(!reply.contains("at_ms"), "{host}: {reply}");
    }
    assert_eq!(worker.stop().0, Some(0));
}

/// Malformed requests, slow ones and readers that never read: the page answers the next one, and the work goes on.
#[test]
fn bad_peers_of_the_page_hold_up_nobody() {
    let site = Site::new();
    let receiver = Receiver::start(&site, &[]);
    site.enqueue("cake", 3);
    let (worker, address) = start(&site, &receiver.address, &[]);
    for bytes in [&b"\0\0\0\0\r\n\r\n"[..], b"GET\r\n\r\n", b"GET / HTTP/9\r\n\r\n", &[b'x'; 100_000][..]] {
        let reply = exchange(&address, bytes);
        assert!(reply.is_empty() || reply.starts_with("HTTP/1.1 4"), "{reply}");
    }
    // Nobody ends a head, nobody reads: fewer than are served at once, and then some that are never read.
    let idle: Vec<_> = (0..40).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let mut unread: Vec<_> = (0..10).map(|_| TcpStream::connect(&address).unwrap()).collect();
    for stream in &mut unread {
        for _ in 0..50 {
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
        }
    }
    assert!(get(&address, "/healthz").ends_with("ok\n"));
    site.wait_settled();
    drop((idle, unread));
    assert_eq!(worker.stop().0, Some(0));
}

/// 10,000 connections to the page and to the receiver, hundreds at once: each is answered or turned away in time, and
/// afterwards both still answer.
#[test]
fn ten_thousand_connections_are_outlived() {
    let site = Site::new();
    let receiver = Receiver::start(&site, &["--head-timeout", "2"]);
    site.enqueue("cake", 3);
    let (worker, page) = start(&site, &receiver.address, &[]);
    for address in [&page, &receiver.address] {
        for _ in 0..34 {
            let some: Vec<_> = (0..150).filter_map(|_| TcpStream::connect(address).ok()).collect();
            assert!(some.len() == 150, "connections are taken");
        }
    }
    assert!(get(&page, "/healthz").ends_with("ok\n"));
    site.enqueue("tea", 1);
    site.wait_settled();
    assert_eq!(worker.stop().0, Some(0));
    assert_eq!(number(&site.inbox(), "SELECT count FROM totals"), 2);
}

/// 10,000 connections open at the same time, fewer only where this system lets a process have fewer files: a job is
/// delivered beside them, and SIGTERM ends the receiver with all of them.
#[test]
fn ten_thousand_connections_are_open_at_once() {
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    let count = most.saturating_sub(1_000).min(10_000);
    let site = Site::new();
    let receiver = Receiver::start(&site, &["--connections-max", "10100", "--head-timeout", "600"]);
    let idle: Vec<_> = (0..count).map(|_| TcpStream::connect(&receiver.address).unwrap()).collect();
    site.enqueue("cake", 3);
    let worker = Process::start(&mut site.worker(&receiver.address));
    site.wait_settled();
    assert_eq!(worker.stop().0, Some(0));
    assert_eq!(receiver.process.stop(), (Some(0), "stopped: applied 1, repeats 0, refused 0".to_owned()));
    for mut stream in idle {
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0, "it is closed");
    }
}

/// Each job's steps stand in the event log, each line an object, in the order of the steps.
#[test]
fn the_event_log_has_every_step() {
    let site = Site::new();
    let receiver = Receiver::start(&site, &[]);
    site.enqueue("cake", 3);
    let events = site.path("events.jsonl");
    let mut command = site.worker(&receiver.address);
    let worker = Process::start(command.arg("--events").arg(&events).args(["--batch", "8", "--owner", "w"]));
    site.wait_settled();
    assert_eq!(worker.stop().0, Some(0));
    let text = std::fs::read_to_string(events).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // A wait for the lock is an event too, and on a busy machine it may come anywhere, the end included.
    let steps: Vec<_> = lines.iter().filter(|line| line["what"] != "lock-wait").collect();
    let names: Vec<_> = steps.iter().map(|line| line["what"].as_str().unwrap()).collect();
    assert_eq!(names, ["claimed", "answered", "finished"]);
    let last = steps.last().unwrap();
    assert_eq!(
        (&last["finished"], &last["ticket"]["owner"], &last["ticket"]["token"]),
        (&"done".into(), &"w".into(), &1.into())
    );
    assert!(lines.iter().all(|line| line["at_ms"].is_i64()));
}

/// A file that cannot be looked at for a while is looked at every two seconds, and told once; so is its end.
#[test]
fn a_file_that_cannot_be_looked_at_is_told_once() {
    let site = Site::new();
    let mut command = ackward("receive");
    command.args(["--listen", "127.0.0.1:0", "--inbox"]).arg(site.inbox());
    let (mut receiver, address) = serve(&mut command);
    wait("it has been looked at", || get(&address, "/readyz").starts_with("HTTP/1.1 200"));
    let rename = |from: &str, to: &str| {
        open(&site.inbox()).execute_batch(&format!("ALTER TABLE {from} RENAME TO {to}")).unwrap();
    };
    rename("totals", "hidden");
    receiver.says("the status page cannot look at the file");
    std::thread::sleep(Duration::from_secs(5));
    assert!(get(&address, "/readyz").starts_with("HTTP/1.1 503"));
    rename("hidden", "totals");
    let before = receiver.says_after("the status page can look at the file again", "failures=");
    assert!(!before.iter().any(|line| line.contains("cannot look at the file")), "{before:?}");
    assert_eq!(receiver.stop().0, Some(0));
}
