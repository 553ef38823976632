//! What a client may send to the receiver, and what a receiver may answer to the sender: any bytes.

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use ackward::adapter::Threads;
use ackward::port::{Blocking, Clock, Connect, Lane, Listener, NoFault, Stream};
use ackward::rules::{Event, Invalid, Millis, Name, Qty, Timeout};
use ackward::shell::{
    HttpSender, HttpSenderOptions, Received, ReceiverOptions, SendError, Sender, Target, receive,
};
use ackward::storage::{Durability, Inbox, OpenOptions};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};

use crate::input::{fuzz, patchwork};

const DRAWN: usize = 2_000;
/// More than any input or answer here.
const BUFFER: usize = 1 << 20;

const REQUEST: [&str; 10] = [
    "POST /jobs HTTP/1.1\r\n",
    "host: receiver\r\n",
    "content-type: application/json\r\n",
    "idempotency-key: \"cake\"\r\n",
    "content-length: 21\r\n",
    "\r\n",
    "{\"id\":\"cake\",",
    "\"qty\":3}",
    "GET / HTTP/1.0\r\n\r\n",
    "transfer-encoding: chunked\r\n",
];
/// What of the request is there before pieces that replace others.
const WHOLE_REQUEST: usize = 8;
const REPLY: [&str; 7] = [
    "HTTP/1.1 200 OK\r\n",
    "content-length: 11\r\n",
    "\r\n",
    "{\"ok\":true}",
    "HTTP/1.1 404 Not Found\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "retry-after: 1\r\n",
];
const WHOLE_REPLY: usize = 4;

/// W3: whatever arrives, the receiver answers in HTTP or closes, and says ok only for an event that took effect or
/// had been there before.
#[test]
fn requests() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("inbox.db");
    let lane = runtime
        .block_on(Threads.open("open", move || Inbox::open(&path, &OpenOptions::new(Durability::Full))))
        .unwrap();
    let taken = Cell::new(0);
    fuzz!(DRAWN, |bytes: &[u8]| {
        for bytes in [bytes, &framed(&REQUEST, WHOLE_REQUEST, bytes)] {
            let (received, answer) = runtime.block_on(serve(&lane, bytes));
            let told = String::from_utf8_lossy(&answer);
            assert_eq!(received.connections, 1);
            let oks = count(&answer, b"HTTP/1.1 200 OK\r\n") + count(&answer, b"HTTP/1.0 200 OK\r\n");
            assert_eq!(received.applied + received.repeats, oks, "{told}");
            assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{told}");
            taken.set(taken.get() + received.applied + received.repeats);
        }
    });
    runtime.block_on(lane.close());
    assert!(taken.get() > DRAWN as u64 / 100, "the inputs are too wild: {} taken", taken.get());
}

/// W2: a reply counts as an acknowledgement only where its body is `{"ok":true}`.
#[test]
fn replies() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let taken = Cell::new(0);
    fuzz!(DRAWN, |bytes: &[u8]| {
        for bytes in [bytes, &framed(&REPLY, WHOLE_REPLY, bytes)] {
            let told = String::from_utf8_lossy(bytes);
            match runtime.block_on(exchange(bytes)) {
                Ok(()) => {
                    taken.set(taken.get() + 1);
                    assert!(told.contains("HTTP/1.1 200") || told.contains("HTTP/1.0 200"), "{told}");
                    assert!(told.contains(r#"{"ok":true}"#), "{told}");
                }
                Err(SendError::Permanent { .. }) => assert!(told.contains(" 4"), "{told}"),
                Err(SendError::Retryable { .. } | SendError::BadAck { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
    });
    assert!(taken.get() > DRAWN / 100, "the inputs are too wild: {} taken", taken.get());
}

/// The first `whole` pieces as the recipe says; the others are there to replace some of them.
fn framed(pieces: &[&str], whole: usize, recipe: &[u8]) -> Vec<u8> {
    let (first, recipe) = recipe.split_first().unwrap_or((&0, &[]));
    let mut pieces = pieces.to_vec();
    let (kept, others) = pieces.split_at_mut(whole);
    if *first > 127 {
        kept[usize::from(*first) % whole] = others[usize::from(*first) / whole % others.len()];
    }
    patchwork(kept, recipe)
}

/// One connection that sends these bytes and closes its side; what the receiver did, and what it answered.
async fn serve<L: Lane<Inbox>>(lane: &L, bytes: &[u8]) -> (Received, Vec<u8>) {
    let (mut client, server) = tokio::io::duplex(BUFFER);
    let options = ReceiverOptions {
        head_timeout: seconds(1.0),
        body_timeout: seconds(1.0),
        grace: seconds(1.0),
        connections_max: 4,
        group_max: 4,
        secrets: None,
        tolerance: Duration::from_secs(300),
    };
    let (hang_up, hung_up) = tokio::sync::oneshot::channel::<()>();
    let shutdown = async {
        // An end of the channel that is gone means the same.
        let _ = hung_up.await;
    };
    let serving = receive(Once(Some(Wire(server))), lane, &Still, &options, NoFault, shutdown);
    let asking = async {
        client.write_all(bytes).await.unwrap();
        client.shutdown().await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        drop(hang_up);
        answer
    };
    tokio::join!(serving, asking)
}

/// One attempt of the sender, answered with these bytes.
async fn exchange(bytes: &[u8]) -> Result<(), SendError> {
    let (client, mut server) = tokio::io::duplex(BUFFER);
    let options = HttpSenderOptions {
        target: Target::parse("http://receiver:7410/jobs").unwrap(),
        timeout: seconds(1.0),
        secrets: None,
    };
    let network = Prepared(Rc::new(RefCell::new(Some(client))));
    let mut sender = HttpSender::new(network, Still, options);
    let event = Event { id: Name::new("id", "cake").unwrap(), qty: Qty::new(3).unwrap() };
    let answering = async move {
        let mut head = [0; 16];
        server.read_exact(&mut head).await.unwrap();
        // The sender may be gone before it has everything.
        let _ = server.write_all(bytes).await;
    };
    tokio::join!(sender.send(event), answering).0
}

fn count(bytes: &[u8], part: &[u8]) -> u64 {
    bytes.windows(part.len()).filter(|window| *window == part).count() as u64
}

fn seconds(seconds: f64) -> Timeout {
    Timeout::from_seconds(seconds).unwrap()
}

/// A clock that stands still, and whose timers never run out.
#[derive(Clone)]
struct Still;

impl Clock for Still {
    fn now(&self) -> Result<Millis, Invalid> {
        Millis::new(1_000_000)
    }

    async fn sleep(&self, _duration: Duration) {
        pending::<()>().await;
    }
}

struct Wire(DuplexStream);

impl Stream for Wire {
    fn abort(self) {}
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// A listener with one connection.
struct Once(Option<Wire>);

impl Listener for Once {
    type Stream = Wire;

    async fn accept(&mut self) -> io::Result<(Wire, String)> {
        match self.0.take() {
            Some(wire) => Ok((wire, "peer:1".to_owned())),
            None => pending().await,
        }
    }

    fn local_address(&self) -> String {
        "here:1".to_owned()
    }
}

/// Hands out the one connection that was made before.
#[derive(Clone)]
struct Prepared(Rc<RefCell<Option<DuplexStream>>>);

impl Connect for Prepared {
    type Stream = Wire;

    async fn connect_to(&self, _host: &str, _port: u16) -> io::Result<Wire> {
        self.0.borrow_mut().take().map(Wire).ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
    }
}
