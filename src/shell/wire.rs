//! Doubles of the ports for the shells' tests: a scripted stream, a store on the caller's own thread.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::port::{Blocking, Fault, FaultPoint, Injected, Lane, Listener, Network, Stream};

/// What a stream does next when it is read.
pub(super) enum Read {
    Bytes(Vec<u8>),
    /// A line for each read, without ever suspending; a thousand of them.
    Eager(i64),
    Error(ErrorKind),
    Stuck,
}

/// What a stream does when it is written or closed.
#[derive(Clone, Copy)]
pub(super) enum Then {
    Well,
    Error(ErrorKind),
    Stuck,
}

/// A stream by script; it writes down what is done to it.
#[derive(Clone)]
pub(super) struct Wire {
    reads: Rc<RefCell<VecDeque<Read>>>,
    write: Then,
    close: Then,
    pub(super) seen: Rc<RefCell<Vec<String>>>,
}

impl Wire {
    /// Gives these pieces, then the end of the stream.
    pub(super) fn new(reads: impl IntoIterator<Item = Read>) -> Self {
        let reads = Rc::new(RefCell::new(reads.into_iter().collect()));
        Self { reads, write: Then::Well, close: Then::Well, seen: Rc::default() }
    }

    pub(super) fn text(text: &str) -> Self {
        Self::new([Read::Bytes(text.as_bytes().to_vec())])
    }

    pub(super) fn write(mut self, then: Then) -> Self {
        self.write = then;
        self
    }

    pub(super) fn close(mut self, then: Then) -> Self {
        self.close = then;
        self
    }

    pub(super) fn saw(&self, what: impl Into<String>) {
        self.seen.borrow_mut().push(what.into());
    }

    pub(super) fn seen(&self) -> Vec<String> {
        self.seen.borrow().clone()
    }

    /// What hangs is polled more than once, and done once.
    fn did(&self, then: Then, what: String) {
        let again = matches!(then, Then::Stuck) && self.seen().last() == Some(&what);
        if !again {
            self.saw(what);
        }
    }

    fn then<T>(then: Then, value: T) -> Poll<io::Result<T>> {
        match then {
            Then::Well => Poll::Ready(Ok(value)),
            Then::Error(kind) => Poll::Ready(Err(kind.into())),
            Then::Stuck => Poll::Pending,
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut reads = self.reads.borrow_mut();
        match reads.pop_front() {
            None => Poll::Ready(Ok(())),
            Some(Read::Bytes(mut bytes)) => {
                let rest = bytes.split_off(bytes.len().min(buffer.remaining()));
                buffer.put_slice(&bytes);
                if !rest.is_empty() {
                    reads.push_front(Read::Bytes(rest));
                }
                Poll::Ready(Ok(()))
            }
            Some(Read::Eager(seq)) => {
                buffer.put_slice(format!("EVENT {seq} 1\n").as_bytes());
                if seq < 1000 {
                    reads.push_front(Read::Eager(seq + 1));
                }
                Poll::Ready(Ok(()))
            }
            Some(Read::Error(kind)) => Poll::Ready(Err(kind.into())),
            Some(Read::Stuck) => {
                reads.push_front(Read::Stuck);
                Poll::Pending
            }
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.did(self.write, format!("write {}", bytes.escape_ascii()));
        Self::then(self.write, bytes.len())
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.saw("flush");
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A close that hangs is polled more than once.
        let again =
            matches!(self.close, Then::Stuck) && self.seen().last().is_some_and(|last| last == "close");
        if !again {
            self.saw("close");
        }
        Self::then(self.close, ())
    }
}

impl Stream for Wire {
    fn abort(self) {
        self.saw("abort");
    }
}

/// A network whose connections are scripted, one after the other.
#[derive(Clone)]
pub(super) struct Wires {
    wires: Rc<RefCell<VecDeque<Result<Wire, Then>>>>,
    pub(super) connects: Rc<RefCell<Vec<String>>>,
}

impl Wires {
    pub(super) fn new(wires: impl IntoIterator<Item = Result<Wire, Then>>) -> Self {
        Self { wires: Rc::new(RefCell::new(wires.into_iter().collect())), connects: Rc::default() }
    }
}

impl Network for Wires {
    type Stream = Wire;
    type Listener = NoListener;

    async fn connect(&self, address: &str) -> io::Result<Wire> {
        self.connects.borrow_mut().push(address.to_owned());
        let next = self.wires.borrow_mut().pop_front();
        match next {
            Some(Ok(wire)) => Ok(wire),
            Some(Err(Then::Error(kind))) => Err(kind.into()),
            _ => std::future::pending().await,
        }
    }

    async fn listen(&self, _address: &str) -> io::Result<NoListener> {
        Err(ErrorKind::Unsupported.into())
    }
}

pub(super) enum NoListener {}

impl Listener for NoListener {
    type Stream = Wire;

    async fn accept(&mut self) -> io::Result<(Wire, String)> {
        match *self {}
    }

    fn local_address(&self) -> String {
        match *self {}
    }
}

/// Runs jobs where they are called, without ever suspending.
#[derive(Clone, Copy)]
pub(super) struct Inline;

pub(super) struct InlineLane<R>(pub(super) RefCell<R>);

impl Blocking for Inline {
    type Lane<R: 'static> = InlineLane<R>;

    async fn open<R, E, F>(&self, _label: &'static str, open: F) -> Result<InlineLane<R>, E>
    where
        R: 'static,
        E: Send + 'static,
        F: FnOnce() -> Result<R, E> + Send + 'static,
    {
        open().map(|resource| InlineLane(RefCell::new(resource)))
    }
}

impl<R: 'static> Lane<R> for InlineLane<R> {
    async fn call<T, F>(&self, _label: &'static str, job: F) -> T
    where
        T: Send + 'static,
        F: FnOnce(&mut R) -> T + Send + 'static,
    {
        job(&mut self.0.borrow_mut())
    }

    async fn close(self) {}
}

/// Fails at one point.
#[derive(Clone, Copy)]
pub(super) struct FailAt(pub(super) FaultPoint);

impl Fault for FailAt {
    fn at(&mut self, point: FaultPoint) -> Result<(), Injected> {
        if point == self.0 { Err(Injected("told to fail".into())) } else { Ok(()) }
    }
}
