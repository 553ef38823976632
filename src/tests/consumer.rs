//! Consumer and publisher as real processes over loopback TCP: killed at every event, cut off, delayed,
//! fragmented and stalled (R42 to R44, W4), and each against a peer in Python.

#![expect(clippy::disallowed_methods, reason = "a test on real threads, clocks and sockets")]

#[path = "consumer/process.rs"]
mod process;
#[path = "consumer/proxy.rs"]
mod proxy;
#[path = "consumer/python.rs"]
mod python;
mod watchdog;

use std::io::{BufRead, Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread;
use std::time::Duration;

use process::{Process, Publisher, Site, delta, run};
use proxy::{End, Manner, Proxy};

const QUICK_RETRY: [&str; 4] = ["--retry-base-ms", "1", "--retry-cap-ms", "20"];

/// R29, W4: everything once, then the end; a second run has nothing to do.
#[test]
fn a_consumer_catches_up_and_ends() {
    let site = Site::new(100);
    let publisher = Publisher::start(&site, &["--no-follow"]);
    for commit in ["group", "line"] {
        let (code, out) = run(site.consumer(&publisher.address).args(["--once", "--commit", commit]));
        let total: i64 = (0..100).map(delta).sum();
        assert_eq!(code, Some(0));
        assert_eq!(out, format!("{{\"end\":\"caught-up\",\"last\":99,\"total\":{total}}}\n"));
        site.holds(99);
    }
    let (code, out) = publisher.process.terminate();
    assert_eq!((code, out.as_str()), (Some(0), "stopped: connections 2, sent 100, acknowledged 100\n"));
}

/// R42: killed between commit 1 and ACK 1. The next process says `RESUME 1`; event 1 comes again, is
/// acknowledged and not counted twice; 2 follows.
#[test]
fn a_consumer_killed_between_commit_and_ack_counts_once() {
    let site = Site::new(3);
    let mut publisher = Publisher::start(&site, &["--no-follow"]);
    let proxy = Proxy::start(&publisher.address, []);
    let mut command = site.consumer(&proxy.address);
    command.args(["--once", "--commit", "line"]);
    let mut consumer = Process::start(command.env("ACKWARD_FAULT", "before-ack:1=hold"));
    consumer.says("held at before-ack");
    consumer.kill();
    site.holds(1);
    publisher.process.says("connection ");
    assert_eq!(proxy.passed(0).0, "RESUME -1\nACK 0\n");

    assert_eq!(run(command.env_remove("ACKWARD_FAULT")).0, Some(0));
    site.holds(2);
    // The consumer may have ended before its last word has passed the proxy.
    proxy.wait_said(1, "ACK 2\n");
    let (said, heard) = proxy.passed(1);
    assert_eq!(said, "RESUME 1\nACK 1\nACK 2\n");
    assert_eq!(heard, format!("EVENT 1 {}\nEVENT 2 {}\n", delta(1), delta(2)));
}

/// R44: killed between commit and ACK of every event in turn, the totals come out exact.
#[test]
fn a_consumer_killed_at_every_event_is_exact() {
    let site = Site::new(200);
    let mut publisher = Publisher::start(&site, &["--no-follow"]);
    let mut command = site.consumer(&publisher.address);
    command.args(["--once", "--commit", "line"]);
    for seq in 0..200 {
        // From the second run on, the first ACK is that of the event that comes again.
        let fault = format!("before-ack:{}=hold", i32::from(seq > 0));
        let mut consumer = Process::start(command.env("ACKWARD_FAULT", fault));
        consumer.says("held at before-ack");
        consumer.kill();
        site.holds(seq);
        publisher.process.says("connection ");
    }
    assert_eq!(run(command.env_remove("ACKWARD_FAULT")).0, Some(0));
    site.holds(199);
}

/// R18, R44: killed inside the transaction, in a group of events: none of it remains.
#[test]
fn a_consumer_killed_inside_a_transaction_leaves_nothing() {
    let site = Site::new(40);
    let publisher = Publisher::start(&site, &["--no-follow"]);
    let mut command = site.consumer(&publisher.address);
    command.arg("--once");
    for (call, last) in [(0, -1), (15, -1), (20, 15)] {
        let fault = format!("before-cursor:{call}=hold");
        let mut consumer = Process::start(command.env("ACKWARD_FAULT", fault));
        consumer.says("held at before-cursor");
        consumer.kill();
        site.holds(last);
    }
    assert_eq!(run(command.env_remove("ACKWARD_FAULT")).0, Some(0));
    site.holds(39);
}

/// R43: the publisher killed at any byte of what it sends; the consumer goes on with the next one.
#[test]
fn a_publisher_killed_at_any_event_loses_nothing() {
    const KILLS: usize = 60;
    let site = Site::new(200);
    let proxy = Proxy::start("127.0.0.1:9", []);
    let mut publisher = Publisher::start(&site, &[]);
    let freeze = |kill: usize| (kill < KILLS).then(|| Manner::after(5 + 7 * (kill % 9), End::Freeze));
    proxy.to(&publisher.address, freeze(0));
    let consumer = Process::start(site.consumer(&proxy.address).args(QUICK_RETRY));
    for kill in 1..=KILLS {
        proxy.wait_frozen(kill);
        let next = Publisher::start(&site, &[]);
        proxy.to(&next.address, freeze(kill));
        std::mem::replace(&mut publisher, next).kill();
    }
    site.wait_for(199);
    site.holds(199);
    let (code, out) = consumer.terminate();
    assert_eq!(code, Some(0));
    assert!(out.starts_with(r#"{"end":"stopped","last":199,"#), "{out}");
}

/// W4, R28, R29, M5: cut anywhere, late, byte by byte, or silent: every event once.
#[test]
fn a_bad_network_costs_no_event() {
    let site = Site::new(400);
    let publisher = Publisher::start(&site, &["--timeout", "1", "--poll-interval", "0.01"]);
    let mut plan: Vec<_> = (0..40).map(|nth| Manner::after(1 + 7 * nth, End::Cut)).collect();
    plan.iter_mut().step_by(3).for_each(|manner| manner.piece = 1);
    plan.iter_mut().step_by(4).for_each(|manner| manner.delay = Duration::from_millis(1));
    plan[7].after = Some((17, End::Stall));
    plan[20].after = Some((100, End::Stall));
    let proxy = Proxy::start(&publisher.address, plan);
    let consumer = Process::start(site.consumer(&proxy.address).args(QUICK_RETRY).args(["--timeout", "0.3"]));
    site.wait_for(399);
    site.holds(399);
    assert!(proxy.connections() > 40, "the plan was not used up");
    assert_eq!(consumer.terminate().0, Some(0));
}

/// R28, W4: slow but steady is fine for longer than the timeout in all; the log grows meanwhile.
#[test]
fn a_slow_network_is_no_failure() {
    let crumbs = Manner { piece: 1, ..Manner::PLAIN };
    let late = Manner { delay: Duration::from_millis(100), ..Manner::PLAIN };
    for (manner, events) in [(crumbs, 200), (late, 160)] {
        let site = Site::new(events);
        let publisher = Publisher::start(&site, &["--no-follow"]);
        let proxy = Proxy::start(&publisher.address, [manner]);
        let mut consumer = site.consumer(&proxy.address);
        assert_eq!(run(consumer.args(["--once", "--timeout", "2"])).0, Some(0), "{manner:?}");
        site.holds(events - 1);
        assert_eq!(proxy.connections(), 1);
    }
}

/// W4: several consumers at once, a growing log, and SIGTERM on both sides.
#[test]
fn consumers_follow_a_growing_log() {
    let site = Site::new(50);
    let others = [Site::new(0), Site::new(0)];
    let publisher = Publisher::start(&site, &["--poll-interval", "0.01"]);
    let consumers: Vec<_> =
        others.iter().map(|other| Process::start(&mut other.consumer(&publisher.address))).collect();
    others.iter().for_each(|other| other.wait_for(49));
    let mut log = std::fs::OpenOptions::new().append(true).open(site.log()).unwrap();
    for piece in [format!("50 {}\n51 ", delta(50)), format!("{}\n", delta(51))] {
        log.write_all(piece.as_bytes()).unwrap();
        thread::sleep(Duration::from_millis(50));
    }
    others.iter().for_each(|other| other.wait_for(51));
    for consumer in consumers {
        let (code, out) = consumer.terminate();
        assert_eq!((code, out.contains(r#""last":51"#)), (Some(0), true), "{out}");
    }
    others.iter().for_each(|other| other.holds(51));
    assert_eq!(publisher.process.terminate().0, Some(0));
}

/// A closed terminal is an end like any other: there are no settings to read anew.
#[test]
fn sighup_ends_publisher_and_consumer_cleanly() {
    let site = Site::new(3);
    let publisher = Publisher::start(&site, &[]);
    let consumer = Process::start(&mut site.consumer(&publisher.address));
    site.wait_for(2);
    let (code, out) = consumer.ends_by("-HUP");
    assert_eq!((code, out.contains("\"end\":\"stopped\"")), (Some(0), true), "{out}");
    let (code, out) = publisher.process.ends_by("-HUP");
    assert_eq!((code, out.starts_with("stopped: connections 1, sent 3")), (Some(0), true), "{out}");
}

/// The documented exit codes, each by its cause.
#[test]
fn exit_codes_tell_the_causes_apart() {
    let code = |stream: &'static str, site: &Site| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            let (mut peer, _) = listener.accept().unwrap();
            peer.write_all(stream.as_bytes()).unwrap();
            let _ = peer.shutdown(std::net::Shutdown::Write);
            let _ = std::io::copy(&mut peer, &mut std::io::sink());
        });
        run(site.consumer(&address).arg("--once"))
    };
    let site = Site::new(0);
    let (exit, out) = code("RESYNC 5 9\n", &site);
    assert_eq!((exit, out.contains(r#""end":"resync""#)), (Some(3), true), "{out}");
    assert_eq!(code("EVENT 1 1\n", &site).0, Some(4));
    assert_eq!(code("EVENT 0 1\nEVENT 0 2\n", &site).0, Some(4));
    assert_eq!(code("EVENT 0 1", &site).0, Some(6));
    assert_eq!(run(site.consumer("127.0.0.1:9").args(["--once", "--timeout", "0"])).0, Some(2));
    assert_eq!(run(site.consumer("127.0.0.1:9").env("ACKWARD_FAULT", "x")).0, Some(2));
    let mut refused = site.consumer("127.0.0.1:9");
    assert_eq!(run(refused.args(["--failures-max", "2"]).args(QUICK_RETRY)).0, Some(6));
    std::fs::write(site.store(), "this is not a database, and long enough to be seen as none").unwrap();
    assert_eq!(run(site.consumer("127.0.0.1:9").arg("--once")).0, Some(5));
    std::fs::write(site.log(), "0 1\n2 1\n").unwrap();
    let mut publish = Command::new(env!("CARGO_BIN_EXE_ackward"));
    assert_eq!(
        run(publish.args(["publish", "--listen", "127.0.0.1:0", "--log-file"]).arg(site.log())).0,
        Some(7)
    );
}

/// W4: a publisher that was not written here feeds our consumer.
#[test]
fn a_python_publisher_feeds_our_consumer() {
    if !python::is_here() {
        return;
    }
    let site = Site::new(0);
    let mut publisher = Process::start(Command::new("python3").args(["-c", python::PUBLISHER, "300"]));
    let mut port = String::new();
    publisher.stdout.read_line(&mut port).unwrap();
    assert_eq!(run(site.consumer(&format!("127.0.0.1:{}", port.trim())).arg("--once")).0, Some(0));
    site.holds(299);
    let mut said = String::new();
    publisher.stdout.read_to_string(&mut said).unwrap();
    assert_eq!(said, "RESUME -1 300\n");
}

/// W4: our publisher feeds a consumer that was not written here.
#[test]
fn our_publisher_feeds_a_python_consumer() {
    if !python::is_here() {
        return;
    }
    let site = Site::new(300);
    let publisher = Publisher::start(&site, &["--no-follow"]);
    let (_, port) = publisher.address.rsplit_once(':').unwrap();
    let (code, out) = run(Command::new("python3").args(["-c", python::CONSUMER, port]));
    assert_eq!((code, out), (Some(0), format!("299 {}\n", (0..300).map(delta).sum::<i64>())));
}
