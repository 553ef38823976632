//! turmoil's TCP streams as a simulated process has them, and what each fault does to them.
//!
//! | fault | on turmoil |
//! |---|---|
//! | `slow` | the link between the two hosts is held, then released |
//! | `partition` | the two machines are partitioned, then repaired: what was under way is lost, and its streams are dead |
//! | `half_open`, `request_lost`, `reply_lost` | a partition of one direction for this one message: its stream never delivers in that direction again, and what else was on its way there is lost, too |
//! | `fragment` | two segments, each with a latency of its own |
//! | `reset` | the stream is dropped: turmoil tells the peer of a reset only where bytes were unread, or once it writes |
//! | `connect_refused`, `connect_lost` | before turmoil sees the connect |

use std::future::{Future, pending};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context as TaskContext, Poll, ready};

use ::turmoil::net::{TcpListener, TcpStream};
use ackward::port::{Listener, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Hosts, Link, TICK_US};
use crate::choice::{Decision, Kind};
use crate::computer::network::{ConnectChoice, Side};
use crate::computer::process::Context;
use crate::computer::world::{MachineId, ProcessId, Timer};

/// Ports of a host that may be lost; the others are more than a process ever holds at a time.
const LOST_PORTS_MAX: usize = 60_000;

/// A stream over turmoil.
pub struct HostStream {
    context: Context,
    side: Side,
    peer: ProcessId,
    /// `None` once it was reset.
    inner: Option<TcpStream>,
    has_sent_end: bool,
}

/// A listener on a host.
pub struct HostListener {
    context: Context,
    inner: TcpListener,
    address: String,
}

impl Context {
    /// Connects to a machine's port over turmoil.
    pub(in crate::computer) async fn connect_host(
        &self,
        machine: MachineId,
        port: u16,
    ) -> io::Result<HostStream> {
        let ConnectChoice { is_refused, extra_us } = self.choose_connect().await;
        self.sleep_us(extra_us).await;
        let Some((peer, name)) = self.host_at(machine, port).filter(|_| !is_refused) else {
            self.sleep_us(TICK_US).await;
            return Err(io::ErrorKind::ConnectionRefused.into());
        };
        let connect = Connecting::new(self)?;
        let connected = TcpStream::connect((name.as_str(), port)).await;
        if connected.is_ok() {
            connect.succeeds();
        }
        if connected.is_err() && self.is_off(machine) {
            // A machine without power answers nothing.
            pending::<()>().await;
        }
        Ok(HostStream::new(self, Side::Client, peer, connected?))
    }

    /// Listens on a port of the process's host.
    pub(in crate::computer) async fn listen_host(
        &self,
        machine: MachineId,
        port: u16,
    ) -> io::Result<HostListener> {
        let inner = TcpListener::bind(("0.0.0.0", port)).await?;
        let port = inner.local_addr()?.port();
        let mut state = self.world.state.borrow_mut();
        let address = format!("{}:{port}", state.machines[machine].name);
        if let Some(hosts) = &mut state.hosts {
            hosts.listeners.insert((machine, port), self.process);
        }
        Ok(HostListener { context: self.clone(), inner, address })
    }

    /// Who listens at a machine's port, or else whoever runs there and will refuse.
    fn host_at(&self, machine: MachineId, port: u16) -> Option<(ProcessId, String)> {
        let state = self.world.state.borrow();
        let hosts = state.hosts.as_ref()?;
        let somebody = || state.processes.iter().position(|process| process.machine == machine);
        let process = hosts.listeners.get(&(machine, port)).copied().or_else(somebody)?;
        Some((process, hosts.names.get(&process)?.clone()))
    }

    fn with_hosts<T>(&self, body: impl FnOnce(&mut Hosts) -> T) -> Option<T> {
        // Dropped in the middle of a borrow only where a run is taken apart: then nobody counts any more.
        self.world.state.try_borrow_mut().ok()?.hosts.as_mut().map(body)
    }
}

/// A connect under way; where it is refused or given up, turmoil keeps its port for ever.
struct Connecting<'c>(&'c Context);

impl<'c> Connecting<'c> {
    /// An error where no port is left, as an operating system would have it; turmoil panics there.
    fn new(context: &'c Context) -> io::Result<Self> {
        let lost = context.with_hosts(|hosts| hosts.lost_ports.get(&context.process).copied()).flatten();
        if lost.unwrap_or_default() >= LOST_PORTS_MAX {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        Ok(Self(context))
    }

    fn succeeds(self) {
        std::mem::forget(self);
    }
}

impl Drop for Connecting<'_> {
    fn drop(&mut self) {
        self.0.with_hosts(|hosts| *hosts.lost_ports.entry(self.0.process).or_default() += 1);
    }
}

impl Listener for HostListener {
    type Stream = HostStream;

    async fn accept(&mut self) -> io::Result<(HostStream, String)> {
        let (inner, from) = self.inner.accept().await?;
        let name = ::turmoil::reverse_lookup(from.ip()).ok_or(io::ErrorKind::NotConnected)?;
        let peer = self.context.with_hosts(|hosts| hosts.process_of(&name)).flatten();
        let peer = peer.ok_or(io::ErrorKind::NotConnected)?;
        let text = {
            let state = self.context.world.state.borrow();
            format!("{}:{}", state.machines[state.processes[peer].machine].name, from.port())
        };
        Ok((HostStream::new(&self.context, Side::Server, peer, inner), text))
    }

    fn local_address(&self) -> String {
        self.address.clone()
    }
}

impl HostStream {
    fn new(context: &Context, side: Side, peer: ProcessId, inner: TcpStream) -> Self {
        let key = (context.process, context.incarnation);
        context.with_hosts(|hosts| *hosts.streams.entry(key).or_default() += 1);
        Self { context: context.clone(), side, peer, inner: Some(inner), has_sent_end: false }
    }

    /// Writes what was chosen; returns how many bytes count as written.
    fn write(&mut self, bytes: &[u8], decision: Decision) -> io::Result<usize> {
        let Some(inner) = &self.inner else { return Err(io::ErrorKind::ConnectionReset.into()) };
        match decision.kind {
            Kind::Reset => {
                self.inner = None;
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            Kind::HalfOpen | Kind::RequestLost | Kind::ReplyLost => return self.lose(inner, bytes),
            Kind::Fragment => {
                let at = usize::try_from(decision.value).unwrap_or(1).clamp(1, bytes.len() - 1);
                let written = inner.try_write(&bytes[..at])?;
                // Where there is no room for the second half, the caller writes it again.
                return Ok(written + inner.try_write(&bytes[at..]).unwrap_or_default());
            }
            Kind::Slow | Kind::Partition => self.disturb(decision),
            _ => {}
        }
        inner.try_write(bytes)
    }

    /// Holds the link, or cuts the machines apart, from the end of this tick on.
    fn disturb(&self, decision: Decision) {
        let mut state = self.context.world.state.borrow_mut();
        let until_us = state.now_us + decision.value.max(0) * 1_000 + TICK_US;
        let (me, peer) = (self.context.process, self.peer);
        let (here, there) = (state.processes[me].machine, state.processes[peer].machine);
        let Some(hosts) = &mut state.hosts else { return };
        match decision.kind {
            Kind::Slow => hosts.links.hold(me, peer, until_us),
            _ => hosts.links.partition(here, there, until_us),
        }
        state.add_timer(until_us, Timer::Links);
    }

    /// Sends bytes that never arrive, and with that nothing after them: their place in the sequence stays empty.
    fn lose(&self, inner: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
        let found = self.context.with_hosts(|hosts| {
            let names = [self.context.process, self.peer].map(|process| hosts.names.get(&process).cloned());
            (names, hosts.links.between(self.context.process, self.peer))
        });
        let Some(([Some(me), Some(peer)], link)) = found else { return inner.try_write(bytes) };
        if link == Link::Cut || me == peer {
            return inner.try_write(bytes);
        }
        ::turmoil::partition_oneway(me.as_str(), peer.as_str());
        let written = inner.try_write(bytes);
        ::turmoil::repair_oneway(me.as_str(), peer.as_str());
        if link == Link::Held {
            ::turmoil::hold(me.as_str(), peer.as_str());
        }
        written
    }
}

impl AsyncRead for HostStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.context.is_alive() {
            return Poll::Pending;
        }
        let Some(inner) = &mut self.inner else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        };
        if into.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        Pin::new(inner).poll_read(cx, into)
    }
}

impl AsyncWrite for HostStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !self.context.is_alive() {
            return Poll::Pending;
        }
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let Some(inner) = &self.inner else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        };
        // Chosen only where the bytes will go: a write that waits is asked again.
        ready!(pin!(inner.writable()).poll(cx))?;
        let world = self.context.world.clone();
        let chosen = world.state.borrow_mut().choose_message(self.context.process, self.side, bytes);
        let Some(decision) = chosen else { return Poll::Pending };
        let written = self.write(bytes, decision)?;
        let at_us = world.now_us();
        world.observer.borrow_mut().wrote(self.context.process, &bytes[..written], at_us);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        if !self.context.is_alive() {
            return Poll::Pending;
        }
        if std::mem::replace(&mut self.has_sent_end, true) {
            return Poll::Ready(Ok(()));
        }
        let Some(inner) = &mut self.inner else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        };
        Pin::new(inner).poll_shutdown(cx)
    }
}

impl Stream for HostStream {
    fn abort(self) {}
}

impl Drop for HostStream {
    fn drop(&mut self) {
        let key = (self.context.process, self.context.incarnation);
        self.context.with_hosts(|hosts| {
            if let Some(count) = hosts.streams.get_mut(&key) {
                *count = count.saturating_sub(1);
            }
        });
    }
}
