//! The ports: all that the outside world is to a shell. Real implementations live in
//! [`adapter`](crate::adapter), simulated ones in the simulator.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::rules::{Invalid, Millis};

/// Tells the time and waits.
pub trait Clock: Clone + 'static {
    /// The time now.
    ///
    /// # Errors
    /// [`Invalid`] where the reading lies outside the range of Q3; nothing is done with it.
    fn now(&self) -> Result<Millis, Invalid>;

    /// Waits for `duration` on this clock's timer.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()>;
}

/// Opens connections and listens for them.
pub trait Network: Clone + 'static {
    /// A two-way stream of bytes.
    type Stream: Stream;
    /// A bound listener.
    type Listener: Listener<Stream = Self::Stream>;

    /// Connects to `address` (`host:port`). No limit on the time: the caller sets one with a [`Clock`].
    fn connect(&self, address: &str) -> impl Future<Output = io::Result<Self::Stream>>;

    /// Listens on `address` (`host:port`; port 0 picks a free one).
    fn listen(&self, address: &str) -> impl Future<Output = io::Result<Self::Listener>>;
}

/// Opens connections, possibly with something on top of TCP (TLS). Every [`Network`] is one.
pub trait Connect: Clone + 'static {
    /// A two-way stream of bytes.
    type Stream: Stream;

    /// Connects to `host` and `port`; no limit on the time: the caller sets one with a [`Clock`]. `host` is a name
    /// or an address, an IPv6 address in brackets.
    fn connect_to(&self, host: &str, port: u16) -> impl Future<Output = io::Result<Self::Stream>>;
}

impl<N: Network> Connect for N {
    type Stream = N::Stream;

    async fn connect_to(&self, host: &str, port: u16) -> io::Result<N::Stream> {
        self.connect(&format!("{host}:{port}")).await
    }
}

/// A stream of bytes that can be cut off.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + 'static {
    /// Closes at once, without waiting for what was written to arrive (on TCP: a reset).
    fn abort(self);
}

/// Accepts connections.
pub trait Listener: 'static {
    /// What is accepted.
    type Stream: Stream;

    /// Waits for the next connection; returns it with its peer's address as text. Dropping the future
    /// loses no connection.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Stream, String)>>;

    /// Where it listens (`host:port`, the real port).
    fn local_address(&self) -> String;
}

/// Runs blocking work (SQLite) apart from the futures.
///
/// The executor behind it owns the resource and the job; a future is only a handle. Dropping the future of
/// a running job neither aborts nor drains it: the job detaches and runs to its end, and when the
/// [`Lane`] is gone too, the resource is closed behind it.
pub trait Blocking: Clone + 'static {
    /// The handle of an opened resource.
    type Lane<R: 'static>: Lane<R>;

    /// Opens a resource on a lane of its own. `label` names the operation (`open`).
    ///
    /// # Errors
    /// What `open` returned.
    fn open<R, E, F>(&self, label: &'static str, open: F) -> impl Future<Output = Result<Self::Lane<R>, E>>
    where
        R: 'static,
        E: Send + 'static,
        F: FnOnce() -> Result<R, E> + Send + 'static;
}

/// One resource and the thread (or coroutine) that owns it. Dropping the handle closes the resource after
/// the job that runs.
pub trait Lane<R: 'static>: 'static {
    /// Runs `job` on the resource, after the jobs before it. `label` names the operation (`claim`). A panic
    /// of the job goes on unwinding here.
    fn call<T, F>(&self, label: &'static str, job: F) -> impl Future<Output = T>
    where
        T: Send + 'static,
        F: FnOnce(&mut R) -> T + Send + 'static;

    /// Closes the resource and waits until it is closed.
    fn close(self) -> impl Future<Output = ()>;
}

/// Where a fault hook is called (Q9, M3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultPoint {
    /// In claim, after the update, inside the transaction (Q33).
    AfterClaim,
    /// In finish, after the update, inside the transaction (Q41).
    AfterFinish,
    /// In redrive, after the audit row, before the job changes (Q46).
    AfterAudit,
    /// In redrive, after the job changed, inside the transaction (Q46).
    AfterRedrive,
    /// In renew, after the update, inside the transaction (M10).
    AfterRenew,
    /// In release, after the update, inside the transaction (M10).
    AfterRelease,
    /// In the receiver's inbox, row, effect and totals written, inside the transaction (W3).
    AfterAccept,
    /// After COMMIT, outside the transaction (Q8).
    AfterCommit,
    /// In apply_event, ledger and total changed, the cursor still old (R19).
    BeforeCursor,
    /// In the consumer, committed, before the ACK is written (R30).
    BeforeAck,
}

impl FaultPoint {
    /// Every point.
    pub const ALL: &'static [Self] = &[
        Self::AfterClaim,
        Self::AfterFinish,
        Self::AfterAudit,
        Self::AfterRedrive,
        Self::AfterRenew,
        Self::AfterRelease,
        Self::AfterAccept,
        Self::AfterCommit,
        Self::BeforeCursor,
        Self::BeforeAck,
    ];

    /// The point's name in text (M3).
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AfterClaim => "after-claim",
            Self::AfterFinish => "after-finish",
            Self::AfterAudit => "after-audit",
            Self::AfterRedrive => "after-redrive",
            Self::AfterRenew => "after-renew",
            Self::AfterRelease => "after-release",
            Self::AfterAccept => "after-accept",
            Self::AfterCommit => "after-commit",
            Self::BeforeCursor => "before-cursor",
            Self::BeforeAck => "before-ack",
        }
    }
}

impl fmt::Display for FaultPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The error that a hook injected; the very object comes out of the operation (Q7, Q8, R18).
#[derive(Debug)]
pub struct Injected(pub Box<dyn Error + Send + Sync>);

impl fmt::Display for Injected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "injected: {}", self.0)
    }
}

impl Error for Injected {}

/// Called at named points of an operation: in production it does nothing.
pub trait Fault {
    /// Called at `point`. An error before COMMIT rolls the transaction back, one after COMMIT leaves it in
    /// place; either comes out of the operation unchanged. A panic counts as an error.
    ///
    /// # Errors
    /// Whatever is to be injected.
    fn at(&mut self, point: FaultPoint) -> Result<(), Injected>;
}

/// No faults: the production implementation.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFault;

impl Fault for NoFault {
    fn at(&mut self, _point: FaultPoint) -> Result<(), Injected> {
        Ok(())
    }
}
