//! W4, over loopback TCP: windows, ACKs in order, refusals, several consumers, the end.

#![expect(clippy::disallowed_methods, reason = "a test on real threads, clocks and sockets")]

use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use super::*;
use crate::adapter::{SystemClock, TokioNetwork};
use crate::port::Network;

#[derive(Debug, Clone, Default)]
struct Bytes(Rc<RefCell<Vec<u8>>>);

impl LogBytes for Bytes {
    fn len(&mut self) -> std::io::Result<u64> {
        Ok(self.0.borrow().len() as u64)
    }

    fn read_at(&mut self, offset: u64, mut buffer: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.0.borrow();
        std::io::Write::write(&mut buffer, bytes.get(usize::try_from(offset).unwrap()..).unwrap_or(&[]))
    }
}

struct Bench {
    log: Bytes,
    address: String,
    stop: oneshot::Sender<()>,
    publisher: tokio::task::JoinHandle<Result<Published, PublishError>>,
}

const SHORT: f64 = 0.15;

fn options() -> PublishOptions {
    let seconds = |seconds| Timeout::from_seconds(seconds).unwrap();
    PublishOptions {
        timeout: seconds(10.0),
        idle_timeout: seconds(10.0),
        poll_interval: seconds(0.005),
        follow: true,
        connections_max: 10,
    }
}

impl Bench {
    async fn start(events: std::ops::Range<i64>, options: PublishOptions) -> Self {
        let log = Bytes::default();
        append(&log, events);
        let listener: TcpListener = TokioNetwork.listen("127.0.0.1:0").await.unwrap();
        let address = Listener::local_address(&listener);
        let (stop, stopped) = oneshot::channel::<()>();
        let opened = Log::open(log.clone()).unwrap();
        let publisher = tokio::task::spawn_local(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            publish(listener, opened, &SystemClock, options, stopped).await
        });
        Self { log, address, stop, publisher }
    }

    async fn connect(&self, resume: &str) -> Peer {
        let mut stream = BufReader::new(TcpStream::connect(&self.address).await.unwrap());
        stream.write_all(resume.as_bytes()).await.unwrap();
        Peer(stream)
    }

    async fn stop(self) -> Published {
        self.stop.send(()).unwrap();
        self.publisher.await.unwrap().unwrap()
    }
}

fn append(log: &Bytes, events: std::ops::Range<i64>) {
    let text = events.fold(String::new(), |mut text, seq| {
        writeln!(text, "{seq} {}", seq % 7).unwrap();
        text
    });
    log.0.borrow_mut().extend_from_slice(text.as_bytes());
}

struct Peer(BufReader<TcpStream>);

impl Peer {
    async fn events(&mut self, events: std::ops::Range<i64>) {
        for seq in events {
            assert_eq!(self.line().await, format!("EVENT {seq} {}\n", seq % 7));
        }
    }

    async fn ack(&mut self, events: std::ops::Range<i64>) {
        let acks: String = events.map(|seq| format!("ACK {seq}\n")).collect();
        self.0.write_all(acks.as_bytes()).await.unwrap();
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap();
        line
    }

    /// Nothing more comes for a while.
    async fn silent(&mut self) {
        let wait = std::time::Duration::from_millis(60);
        assert!(tokio::time::timeout(wait, self.0.read_u8()).await.is_err());
    }

    /// The publisher closes, without another byte.
    async fn closed(&mut self) {
        let wait = std::time::Duration::from_secs(5);
        let read = tokio::time::timeout(wait, self.0.read_u8()).await.expect("closed in time");
        assert!(read.is_err(), "another byte");
    }
}

fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, test)
}

/// W4: at most 16 events without ACK; the next window follows when all of one are acknowledged.
#[test]
fn a_window_holds_sixteen_unacknowledged_events() {
    run(async {
        let bench = Bench::start(0..100, options()).await;
        let mut peer = bench.connect("RESUME -1\n").await;
        peer.events(0..16).await;
        peer.silent().await;
        peer.ack(0..15).await;
        peer.silent().await;
        peer.ack(15..16).await;
        peer.events(16..32).await;
        peer.silent().await;
        drop(peer);
        assert_eq!(bench.stop().await, Published { connections: 1, sent: 32, acknowledged: 16 });
    });
}

/// W4, R42: after a lost ACK the event is sent again, although the consumer says that it has it.
#[test]
fn an_event_that_lacks_its_ack_is_sent_again() {
    run(async {
        let bench = Bench::start(0..4, options()).await;
        let mut peer = bench.connect("RESUME -1\n").await;
        peer.events(0..4).await;
        peer.ack(0..1).await;
        drop(peer);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        let mut peer = bench.connect("RESUME 1\n").await;
        peer.events(1..4).await;
        peer.ack(1..4).await;
        peer.silent().await;
        drop(peer);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        let mut peer = bench.connect("RESUME 2\n").await;
        peer.events(3..4).await;
    });
}

/// W4: ACKs out of order, repeated, unasked for, malformed or over-long end the connection; so does a bad
/// `RESUME`.
#[test]
fn what_is_not_the_next_ack_is_refused() {
    run(async {
        let bench = Bench::start(0..4, options()).await;
        for bad in [
            "ACK 1\n",
            "ACK 0\nACK 0\n",
            "ACK 00\n",
            "RESUME 0\n",
            "ACK 0 \n",
            "ACK 4\n",
            "ACK 0\nACK 1\nACK 2\nACK 3\nACK 4\n",
        ] {
            let mut peer = bench.connect("RESUME -1\n").await;
            peer.events(0..4).await;
            peer.0.write_all(bad.as_bytes()).await.unwrap();
            peer.closed().await;
        }
        let bench = Bench::start(0..4, options()).await;
        let mut peer = bench.connect("RESUME 3\n").await;
        peer.0.write_all(b"ACK 3\n").await.unwrap();
        peer.closed().await;
        for bad in ["RESUME -2\n", "RESUME\n", "resume 1\n", "ACK 1\n", &"x".repeat(65)] {
            bench.connect(bad).await.closed().await;
        }
    });
}

/// W4: neither too far behind nor ahead.
#[test]
fn a_consumer_that_cannot_continue_is_told_to_resync() {
    run(async {
        let bench = Bench::start(5..9, options()).await;
        for resume in ["RESUME -1\n", "RESUME 3\n", "RESUME 9\n"] {
            let mut peer = bench.connect(resume).await;
            assert_eq!(peer.line().await, "RESYNC 5 8\n");
            peer.closed().await;
        }
        bench.connect("RESUME 4\n").await.events(5..9).await;
    });
}

/// W4: the log grows under a waiting consumer; an empty one may begin elsewhere than it expects.
#[test]
fn a_growing_log_is_followed() {
    run(async {
        let bench = Bench::start(0..2, options()).await;
        let mut peer = bench.connect("RESUME 1\n").await;
        peer.silent().await;
        append(&bench.log, 2..4);
        peer.events(2..4).await;
        let empty = Bench::start(0..0, options()).await;
        let mut peer = empty.connect("RESUME -1\n").await;
        peer.silent().await;
        append(&empty.log, 10..12);
        assert_eq!(peer.line().await, "RESYNC 10 11\n");
    });
}

/// W4: several consumers at once, none waiting for another; one too many waits for its turn.
#[test]
fn consumers_are_served_side_by_side_up_to_the_limit() {
    run(async {
        let bench = Bench::start(0..20, PublishOptions { connections_max: 2, ..options() }).await;
        let mut silent = bench.connect("").await;
        let mut first = bench.connect("RESUME -1\n").await;
        first.events(0..16).await;
        let mut third = bench.connect("RESUME 9\n").await;
        third.silent().await;
        first.ack(0..16).await;
        first.events(16..20).await;
        drop(first);
        third.events(10..20).await;
        silent.silent().await;
    });
}

/// W4: a consumer that owes something and is silent is given up; one that is idle too, in its own time.
#[test]
fn silent_consumers_are_given_up() {
    run(async {
        let short = Timeout::from_seconds(SHORT).unwrap();
        let bench = Bench::start(0..1, PublishOptions { timeout: short, ..options() }).await;
        bench.connect("").await.closed().await;
        let mut owes = bench.connect("RESUME -1\n").await;
        owes.events(0..1).await;
        owes.closed().await;
        let bench = Bench::start(0..1, PublishOptions { timeout: short, ..options() }).await;
        let mut idle = bench.connect("RESUME 0\n").await;
        tokio::time::sleep(short.duration() * 2).await;
        idle.silent().await;
        let bench = Bench::start(0..1, PublishOptions { idle_timeout: short, ..options() }).await;
        bench.connect("RESUME 0\n").await.closed().await;
    });
}

/// W4: without following, the end of the log is the end of the connection, once it is acknowledged.
#[test]
fn the_end_of_the_log_ends_the_connection() {
    run(async {
        let bench = Bench::start(0..3, PublishOptions { follow: false, ..options() }).await;
        let mut peer = bench.connect("RESUME -1\n").await;
        peer.events(0..3).await;
        peer.silent().await;
        peer.ack(0..3).await;
        peer.closed().await;
    });
}

/// W4: a shutdown waits for the ACKs that are due, and sends nothing more.
#[test]
fn a_shutdown_waits_for_due_acks() {
    run(async {
        let bench = Bench::start(0..100, options()).await;
        let mut peer = bench.connect("RESUME -1\n").await;
        peer.events(0..16).await;
        let mut waiting = bench.connect("RESUME 99\n").await;
        waiting.silent().await;
        let address = bench.address.clone();
        let stopped = tokio::task::spawn_local(bench.stop());
        waiting.closed().await;
        peer.ack(0..10).await;
        peer.silent().await;
        peer.ack(10..16).await;
        peer.closed().await;
        assert_eq!(stopped.await.unwrap(), Published { connections: 2, sent: 16, acknowledged: 16 });
        assert!(TcpStream::connect(&address).await.is_err());
    });
}

/// W4: a gap that appears in the log ends the publisher, not only a connection.
#[test]
fn a_log_that_goes_bad_ends_the_publisher() {
    run(async {
        let bench = Bench::start(0..2, options()).await;
        let mut peer = bench.connect("RESUME 1\n").await;
        peer.silent().await;
        append(&bench.log, 3..4);
        peer.closed().await;
        let error = bench.publisher.await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "log line 3: event 3 follows event 1");
    });
}
