//! A second SIGTERM or Ctrl-C while a command is stopping: it ends at once, with a code of its own, and nothing is lost.

use std::io::Read;
use std::net::TcpStream;

use super::*;

/// How long the ends would take that are not waited for here.
const LONG: &str = "600";

/// Sends a signal, waits until it is heard, and sends another one; the exit code.
#[track_caller]
fn impatient(mut process: Process, first: &str, heard: &str, second: &str, said: &str) -> Option<i32> {
    let started = Instant::now();
    process.signal(first);
    process.says_both(heard, "once more ends at once");
    process.signal(second);
    process.says(said);
    let (code, _) = process.ends();
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    code
}

/// M10, Q60: the job that was being sent is left to its lease, and is sent again; the inbox takes it once.
#[test]
fn a_worker_ends_at_once_and_its_job_is_sent_again() {
    let site = Site::new();
    site.enqueue("cake", 3);
    let mut held = Receiver::with(&site, &[], "after-accept:0=hold");
    let mut worker = site.worker(&held.address);
    worker.args(["--lease", "2", "--timeout", LONG, "--grace", LONG, "--log-format", "text"]);
    let worker = Process::start(&mut worker);
    held.process.says("held at after-accept");
    let said = "ackward: Ctrl-C once more: ended at once";
    assert_eq!(impatient(worker, "-TERM", "SIGTERM: stopping", "-INT", said), Some(130));
    assert!(site.jobs()[0].starts_with("cake leased 1 1"), "{:?}", site.jobs());
    held.process.kill();
    let receiver = Receiver::start(&site, &[]);
    let worker = Process::start(&mut site.worker(&receiver.address));
    site.wait_settled();
    assert_eq!(worker.stop().0, Some(0));
    assert_eq!(site.jobs(), ["cake done 2 2"]);
    assert_eq!(site.effects(), ["inbox cake 3", "effect cake 3", "total 1 3"]);
}

/// W3: what was not committed is not there, and was not answered.
#[test]
fn a_receiver_ends_at_once_with_a_request_that_is_not_committed() {
    let site = Site::new();
    let mut receiver = Receiver::with(&site, &["--grace", LONG], "after-accept:0=hold");
    let mut stream = TcpStream::connect(&receiver.address).unwrap();
    let head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nIdempotency-Key: \"cake\"\r\n\
                Content-Length: 21\r\n\r\n{\"id\":\"cake\",\"qty\":3}";
    stream.write_all(head.as_bytes()).unwrap();
    receiver.process.says("held at after-accept");
    let said = "ackward: SIGTERM once more: ended at once";
    assert_eq!(impatient(receiver.process, "-TERM", "SIGTERM: stopping", "-TERM", said), Some(143));
    let mut reply = String::new();
    let _ = stream.read_to_string(&mut reply);
    assert_eq!(reply, "");
    assert_eq!(site.effects(), [""; 0]);
}

/// W4: a consumer that owes its ACK is not waited for.
#[test]
fn a_publisher_ends_at_once_with_acks_that_are_due() {
    let site = Site::new();
    let log = site.write("events.log", "0 5\n1 -3\n");
    let mut publish = ackward("publish");
    publish.args(["--listen", "127.0.0.1:0", "--timeout", LONG, "--log-file"]).arg(log);
    let mut publisher = Process::start(&mut publish);
    let mut consumer = TcpStream::connect(publisher.address()).unwrap();
    consumer.write_all(b"RESUME -1\n").unwrap();
    let mut event = [0; 10];
    consumer.read_exact(&mut event).unwrap();
    assert_eq!(&event, b"EVENT 0 5\n");
    let said = "ackward: SIGTERM once more: ended at once";
    assert_eq!(impatient(publisher, "-HUP", "SIGHUP: stopping", "-TERM", said), Some(143));
}

/// A worker whose only job is held by its receiver, and that is ending for a reload.
fn reloading(site: &Site) -> (Process, Receiver) {
    site.enqueue("cake", 3);
    let mut held = Receiver::with(site, &[], "after-accept:0=hold");
    let mut worker = site.worker(&held.address);
    worker.args(["--lease", "2", "--timeout", LONG, "--grace", LONG]);
    let mut worker = Process::start(&mut worker);
    held.process.says("held at after-accept");
    worker.hang_up();
    worker.says("SIGHUP: reading the settings anew");
    (worker, held)
}

/// Part W: a reload waits for what is being sent; a signal to end is heard meanwhile, and the next one does not wait.
#[test]
fn a_worker_that_ends_for_a_reload_ends_at_once() {
    let site = Site::new();
    let (worker, _held) = reloading(&site);
    let said = "ackward: Ctrl-C once more: ended at once";
    assert_eq!(impatient(worker, "-INT", "Ctrl-C: stopping", "-INT", said), Some(130));
    assert!(site.jobs()[0].starts_with("cake leased 1 1"), "{:?}", site.jobs());
}

/// One signal alone: what is being sent is waited for, and the worker does not start anew.
#[test]
fn a_signal_to_end_turns_a_reload_into_an_end() {
    let site = Site::new();
    let (mut worker, held) = reloading(&site);
    worker.terminate();
    worker.says("SIGTERM: stopping");
    held.process.kill();
    let mut rest = worker.says_to_its_end();
    rest.retain(|line| line.contains("working"));
    assert_eq!(rest, [""; 0]);
    let (code, out) = worker.ends();
    assert!(code == Some(0) && out.contains("\"claimed\":1,"), "{code:?} {out}");
}

/// The same for a receiver with a body that does not come.
#[test]
fn a_receiver_that_ends_for_a_reload_ends_at_once() {
    let site = Site::new();
    let mut receiver = Receiver::start(&site, &["--body-timeout", LONG, "--grace", LONG]);
    let mut stuck = TcpStream::connect(&receiver.address).unwrap();
    let head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nIdempotency-Key: \"a\"\r\n\
                Content-Length: 9\r\nExpect: 100-continue\r\n\r\n";
    stuck.write_all(head.as_bytes()).unwrap();
    let mut go_on = [0; 12];
    stuck.read_exact(&mut go_on).unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100", "the body is being waited for");
    receiver.process.hang_up();
    receiver.process.says("SIGHUP: reading the settings anew");
    let said = "ackward: SIGTERM once more: ended at once";
    assert_eq!(impatient(receiver.process, "-TERM", "SIGTERM: stopping", "-TERM", said), Some(143));
}

/// The same for a worker that ends because its file was replaced.
#[test]
fn a_worker_whose_file_was_replaced_ends_at_once() {
    let site = Site::new();
    site.enqueue("cake", 3);
    let mut held = Receiver::with(&site, &[], "after-accept:0=hold");
    let mut worker = site.worker(&held.address);
    let worker = Process::start(worker.args(["--timeout", LONG, "--grace", LONG]));
    held.process.says("held at after-accept");
    std::fs::rename(site.queue(), site.path("old.db")).unwrap();
    // It looks once a second; nothing tells when it has.
    std::thread::sleep(Duration::from_secs(3));
    let said = "ackward: SIGTERM once more: ended at once";
    assert_eq!(impatient(worker, "-TERM", "SIGTERM: stopping", "-TERM", said), Some(143));
}
