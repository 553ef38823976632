//! The built-in network: streams of bytes between processes, as TCP gives them, in virtual time.
//!
//! An address is `machine:port`. Each direction of a connection is a pipe with a window; what is written
//! travels in segments that arrive in order after a latency. By choice a connect is refused or gets no
//! answer, a segment is split or late, a connection is reset, a direction falls silent for good (half-open),
//! or two machines cannot reach each other for a while (what was sent meanwhile arrives afterwards, as TCP
//! sends again).
//!
//! By choice a process is killed, or its machine loses power, as it is about to write: so a process that never
//! calls SQLite can die too, and a consumer between its commit and its ACK.
//!
//! A killed process's queued bytes still arrive, then the end of the stream, or a reset where it had left
//! bytes unread. A power cut is silence: its peers notice nothing until they write to a machine that is back.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll, Waker};

use ackward::port::{Listener, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::process::Context;
use super::world::{MachineId, ProcessId, State, Timer, World};
use crate::choice::{Decision, Kind, Offer, Phase, Role};

/// How long a segment takes where nothing slows it, in microseconds.
const LATENCY_US: i64 = 500;
/// How much later the second part of a split segment arrives, in microseconds.
const SPLIT_US: i64 = 700;
/// Bytes that a pipe takes before its reader has taken some.
const WINDOW_BYTES: usize = 65_536;
/// Connections that a listener keeps for its process.
const BACKLOG_MAX: usize = 128;
/// First port given out for port 0.
const PORTS_FROM: u16 = 49_152;

pub(super) type ConnectionId = usize;

/// Which end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

impl Side {
    const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// All connections and listeners of a world.
#[derive(Default)]
pub(super) struct Net {
    connections: Vec<Connection>,
    listeners: Vec<ListenerState>,
    partitions: Vec<(MachineId, MachineId, i64)>,
    next_port: u16,
}

struct Connection {
    ends: [End; 2],
}

/// One end: who holds it, and what arrives there.
struct End {
    process: ProcessId,
    incarnation: u32,
    machine: MachineId,
    is_open: bool,
    /// Bytes that have arrived and were not read.
    buffer: VecDeque<u8>,
    /// Segments on their way here.
    flying: VecDeque<(i64, Segment)>,
    flying_bytes: usize,
    last_arrival_us: i64,
    /// Nothing that is sent here arrives any more.
    silent: bool,
    ended: bool,
    reset: bool,
    reader: Option<Waker>,
    /// The writer at the other end, which waits for room here.
    writer: Option<Waker>,
    /// A power cut took the machine while it held this end.
    forgotten: bool,
    sent_end: bool,
}

enum Segment {
    Bytes(Vec<u8>),
    End,
    Reset,
}

struct ListenerState {
    machine: MachineId,
    port: u16,
    process: ProcessId,
    incarnation: u32,
    is_open: bool,
    backlog: VecDeque<ConnectionId>,
    waker: Option<Waker>,
}

impl Connection {
    fn end(&mut self, side: Side) -> &mut End {
        &mut self.ends[side as usize]
    }
}

impl End {
    fn new(process: ProcessId, incarnation: u32, machine: MachineId) -> Self {
        Self {
            process,
            incarnation,
            machine,
            is_open: true,
            buffer: VecDeque::new(),
            flying: VecDeque::new(),
            flying_bytes: 0,
            last_arrival_us: 0,
            silent: false,
            ended: false,
            reset: false,
            reader: None,
            writer: None,
            forgotten: false,
            sent_end: false,
        }
    }

    fn room(&self) -> usize {
        WINDOW_BYTES.saturating_sub(self.buffer.len() + self.flying_bytes)
    }

    fn wake(&mut self) {
        for waker in [self.reader.take(), self.writer.take()].into_iter().flatten() {
            waker.wake();
        }
    }

    fn take_in(&mut self, segment: Segment) {
        match segment {
            Segment::Bytes(bytes) => {
                self.flying_bytes -= bytes.len();
                self.buffer.extend(bytes);
            }
            Segment::End => self.ended = true,
            Segment::Reset => {
                self.reset = true;
                self.buffer.clear();
            }
        }
        self.wake();
    }
}

impl State {
    /// Puts a segment on its way to one end.
    fn send_segment(&mut self, connection: ConnectionId, to: Side, segment: Segment, extra_us: i64) {
        let now_us = self.now_us;
        let [client, server] = &self.net.connections[connection].ends;
        let open_us = self.net.reachable_from_us(client.machine, server.machine, now_us);
        let end = self.net.connections[connection].end(to);
        if end.silent {
            return;
        }
        if let Segment::Bytes(bytes) = &segment {
            end.flying_bytes += bytes.len();
        }
        let at_us = (open_us + LATENCY_US + extra_us).max(end.last_arrival_us);
        end.last_arrival_us = at_us;
        end.flying.push_back((at_us, segment));
        self.add_timer(at_us, Timer::Segment(connection, to as usize));
    }

    /// Segments arrive whose time has come.
    pub(super) fn deliver(&mut self, connection: ConnectionId, to: usize) {
        let now_us = self.now_us;
        let to = if to == Side::Client as usize { Side::Client } else { Side::Server };
        let end = self.net.connections[connection].end(to);
        while end.flying.front().is_some_and(|(at_us, _)| *at_us <= now_us) {
            let Some((_, segment)) = end.flying.pop_front() else { break };
            let was_bytes = matches!(segment, Segment::Bytes(_));
            end.take_in(segment);
            if was_bytes && !end.is_open && !end.forgotten {
                // Nobody reads here any more: the sender is told.
                self.send_segment(connection, to.other(), Segment::Reset, 0);
                return;
            }
            if end.forgotten {
                return;
            }
        }
    }

    /// An end is closed by its process, or by its death.
    fn close_end(&mut self, connection: ConnectionId, side: Side) {
        let end = self.net.connections[connection].end(side);
        if !std::mem::replace(&mut end.is_open, false) {
            return;
        }
        let has_unread = !end.buffer.is_empty();
        let has_sent_end = std::mem::replace(&mut end.sent_end, true);
        if has_unread {
            self.send_segment(connection, side.other(), Segment::Reset, 0);
        } else if !has_sent_end {
            self.send_segment(connection, side.other(), Segment::End, 0);
        }
    }

    fn abort_end(&mut self, connection: ConnectionId, side: Side) {
        let end = self.net.connections[connection].end(side);
        if std::mem::replace(&mut end.is_open, false) {
            self.send_segment(connection, side.other(), Segment::Reset, 0);
        }
    }

    /// The connections and listeners of a dead process: closed by its operating system, or forgotten with it.
    pub(super) fn drop_sockets(&mut self, process: ProcessId, is_power_cut: bool) {
        let incarnation = self.processes[process].incarnation;
        for listener in &mut self.net.listeners {
            if (listener.process, listener.incarnation) == (process, incarnation) {
                listener.is_open = false;
                listener.backlog.clear();
            }
        }
        for connection in 0..self.net.connections.len() {
            for side in [Side::Client, Side::Server] {
                let end = self.net.connections[connection].end(side);
                if !end.is_open || (end.process, end.incarnation) != (process, incarnation) {
                    continue;
                }
                if is_power_cut {
                    end.is_open = false;
                    end.forgotten = true;
                    self.net.connections[connection].end(side.other()).flying.clear();
                    self.net.connections[connection].end(side.other()).flying_bytes = 0;
                } else {
                    self.close_end(connection, side);
                }
            }
        }
    }

    fn write(&mut self, connection: ConnectionId, side: Side, bytes: &[u8]) -> io::Result<usize> {
        let end = self.net.connections[connection].end(side);
        if end.reset {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if end.sent_end || !end.is_open {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let process = end.process;
        let peer = self.net.connections[connection].end(side.other());
        let len = bytes.len().min(peer.room());
        if len == 0 {
            return Ok(0);
        }
        if peer.forgotten {
            // The machine lost power: silence, until it is back and knows nothing of this connection.
            let machine = peer.machine;
            if !self.machines[machine].is_off {
                self.send_segment(connection, side, Segment::Reset, LATENCY_US);
            }
            return Ok(len);
        }
        let bytes = &bytes[..len];
        let Some(decision) = self.choose_message(process, side, bytes) else { return Ok(0) };
        self.send_as(connection, side, bytes, decision)?;
        Ok(len)
    }

    /// What becomes of bytes that a process is about to write; `None` where it dies before anything is written.
    pub(super) fn choose_message(
        &mut self,
        process: ProcessId,
        side: Side,
        bytes: &[u8],
    ) -> Option<Decision> {
        let len = bytes.len();
        self.trace.fold_bytes(bytes);
        let (low, high) = self.options.slow_ms;
        let mut offers = vec![
            Offer { kind: Kind::Slow, low, high },
            Offer::plain(Kind::Reset),
            Offer::plain(Kind::HalfOpen),
            Offer { kind: Kind::Partition, low, high },
        ];
        if len > 1 {
            offers.push(Offer { kind: Kind::Fragment, low: 1, high: len as i64 - 1 });
        }
        offers.push(Offer::plain(Kind::Kill));
        offers.push(Offer::plain(Kind::PowerCut));
        self.offer_terminate(process, &mut offers);
        let (role, lost) = match side {
            Side::Client => (Role::Request, Kind::RequestLost),
            Side::Server => (Role::Reply, Kind::ReplyLost),
        };
        offers.push(Offer::plain(lost));
        let decision = self.choose_in_process(process, Phase::Message, role, &offers);
        if matches!(decision.kind, Kind::Kill | Kind::PowerCut) {
            self.die_writing(process, decision.kind);
            return None;
        }
        if decision.kind == Kind::Terminate {
            self.terminate(process);
        } else if !decision.is_go() {
            self.struck.effective[decision.kind as usize] += 1;
        }
        self.note(Some(process), || format!("sends {}", shown(bytes)));
        Some(decision)
    }

    /// A process dies before it has written anything of what it was about to write.
    fn die_writing(&mut self, process: ProcessId, kind: Kind) {
        let before = self.struck.effective[kind as usize];
        if kind == Kind::Kill {
            self.kill(process);
        } else {
            self.cut_power(self.processes[process].machine);
        }
        // Its message never leaves, whether or not a call into SQLite was under way as well.
        self.struck.effective[kind as usize] = before + 1;
    }

    /// How many connections a process holds open now.
    fn open_connections(&self, process: ProcessId) -> usize {
        let incarnation = self.processes[process].incarnation;
        let ends = self.net.connections.iter().flat_map(|connection| &connection.ends);
        ends.filter(|end| end.is_open && (end.process, end.incarnation) == (process, incarnation)).count()
    }

    fn send_as(
        &mut self,
        connection: ConnectionId,
        side: Side,
        bytes: &[u8],
        decision: Decision,
    ) -> io::Result<()> {
        let to = side.other();
        match decision.kind {
            Kind::Reset => {
                self.send_segment(connection, to, Segment::Reset, 0);
                self.net.connections[connection].end(side).take_in(Segment::Reset);
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            Kind::HalfOpen | Kind::RequestLost | Kind::ReplyLost => {
                self.net.connections[connection].end(to).silent = true
            }
            Kind::Partition => {
                let [client, server] = &self.net.connections[connection].ends;
                let until_us = self.now_us + decision.value.max(0) * 1_000;
                self.net.partitions.push((client.machine, server.machine, until_us));
                self.send_segment(connection, to, Segment::Bytes(bytes.to_vec()), 0);
            }
            Kind::Fragment => {
                let at = usize::try_from(decision.value).unwrap_or(1).clamp(1, bytes.len() - 1);
                self.send_segment(connection, to, Segment::Bytes(bytes[..at].to_vec()), 0);
                self.send_segment(connection, to, Segment::Bytes(bytes[at..].to_vec()), SPLIT_US);
            }
            Kind::Slow => {
                self.send_segment(connection, to, Segment::Bytes(bytes.to_vec()), decision.value * 1_000);
            }
            _ => self.send_segment(connection, to, Segment::Bytes(bytes.to_vec()), 0),
        }
        Ok(())
    }
}

impl Net {
    /// The time from which two machines reach each other: now, or the end of a partition.
    fn reachable_from_us(&self, a: MachineId, b: MachineId, now_us: i64) -> i64 {
        let between = |(x, y, _): &&(MachineId, MachineId, i64)| (*x, *y) == (a, b) || (*x, *y) == (b, a);
        self.partitions
            .iter()
            .filter(between)
            .map(|(_, _, until_us)| *until_us)
            .max()
            .unwrap_or(now_us)
            .max(now_us)
    }

    /// A port that nobody has yet.
    fn free_port(&mut self) -> u16 {
        self.next_port = self.next_port.max(PORTS_FROM);
        self.next_port += 1;
        self.next_port - 1
    }
}

/// A stream of the built-in network.
pub struct PipeStream {
    context: Context,
    connection: ConnectionId,
    side: Side,
}

/// A listener of the built-in network.
pub struct PipeListener {
    context: Context,
    index: usize,
    address: String,
}

impl Context {
    /// Connects to a machine's port over the built-in network.
    pub(super) async fn connect_pipe(&self, machine: MachineId, port: u16) -> io::Result<PipeStream> {
        let ConnectChoice { is_refused, extra_us } = self.choose_connect().await;
        let reachable_us = {
            let state = self.world.state.borrow();
            let mine = state.processes[self.process].machine;
            state.net.reachable_from_us(mine, machine, state.now_us) - state.now_us
        };
        self.sleep_us(LATENCY_US + extra_us + reachable_us).await;
        let connection = (!is_refused).then(|| self.reach(machine, port)).flatten();
        // From here on there is a stream to be closed, also where nobody waits for this any more.
        let stream =
            connection.map(|connection| PipeStream { context: self.clone(), connection, side: Side::Client });
        if stream.is_none() && self.is_off(machine) {
            // A machine without power answers nothing.
            std::future::pending::<()>().await;
        }
        self.sleep_us(LATENCY_US).await;
        let stream = stream.ok_or(io::ErrorKind::ConnectionRefused)?;
        Ok(stream)
    }

    /// Listens on a port of the process's own machine, on the built-in network.
    pub(super) fn listen_pipe(&self, machine: MachineId, port: u16) -> io::Result<PipeListener> {
        let mut state = self.world.state.borrow_mut();
        let port = if port == 0 { state.net.free_port() } else { port };
        if state.net.listeners.iter().any(|l| l.is_open && (l.machine, l.port) == (machine, port)) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let (process, incarnation) = (self.process, self.incarnation);
        let backlog = VecDeque::new();
        let waker = None;
        state.net.listeners.push(ListenerState {
            machine,
            port,
            process,
            incarnation,
            is_open: true,
            backlog,
            waker,
        });
        let address = format!("{}:{port}", state.machines[machine].name);
        Ok(PipeListener { context: self.clone(), index: state.net.listeners.len() - 1, address })
    }
}

/// What becomes of a connect.
pub(super) struct ConnectChoice {
    pub(super) is_refused: bool,
    /// How much later it arrives, in microseconds.
    pub(super) extra_us: i64,
}

impl Context {
    /// The choice at a connect; one that gets no answer never returns.
    pub(super) async fn choose_connect(&self) -> ConnectChoice {
        let slow = self.world.state.borrow().options.slow_ms;
        let offers = [
            Offer::plain(Kind::ConnectRefused),
            Offer::plain(Kind::ConnectLost),
            Offer { kind: Kind::Slow, low: slow.0, high: slow.1 },
        ];
        let decision = self.world.choose(Phase::Message, Role::Connect, &offers);
        if !decision.is_go() {
            self.world.had_effect(decision.kind);
        }
        if decision.kind == Kind::ConnectLost {
            std::future::pending::<()>().await;
        }
        let extra_us = if decision.kind == Kind::Slow { decision.value * 1_000 } else { 0 };
        ConnectChoice { is_refused: decision.kind == Kind::ConnectRefused, extra_us }
    }
}

impl World {
    /// How many connections a process holds open now, both those that it made and those that it accepted.
    #[must_use]
    pub fn open_connections(&self, process: ProcessId) -> usize {
        let state = self.state.borrow();
        match &state.hosts {
            Some(hosts) => hosts.open_streams(process, state.processes[process].incarnation),
            None => state.open_connections(process),
        }
    }
}

impl Context {
    /// A connection in the backlog of whoever listens there.
    fn reach(&self, machine: MachineId, port: u16) -> Option<ConnectionId> {
        let mut state = self.world.state.borrow_mut();
        let mine = state.processes[self.process].machine;
        let net = &mut state.net;
        let listener =
            net.listeners.iter_mut().find(|l| l.is_open && (l.machine, l.port) == (machine, port))?;
        if listener.backlog.len() >= BACKLOG_MAX {
            return None;
        }
        let connection = net.connections.len();
        listener.backlog.push_back(connection);
        let waker = listener.waker.take();
        let ends = [
            End::new(self.process, self.incarnation, mine),
            End::new(listener.process, listener.incarnation, machine),
        ];
        net.connections.push(Connection { ends });
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        Some(connection)
    }

    pub(super) fn is_off(&self, machine: MachineId) -> bool {
        self.world.state.borrow().machines[machine].is_off
    }
}

impl Listener for PipeListener {
    type Stream = PipeStream;

    async fn accept(&mut self) -> io::Result<(PipeStream, String)> {
        let (context, index) = (self.context.clone(), self.index);
        let connection = poll_fn(|cx| {
            let mut state = context.world.state.borrow_mut();
            let listener = &mut state.net.listeners[index];
            let Some(connection) = listener.backlog.pop_front() else {
                listener.waker = Some(cx.waker().clone());
                return Poll::Pending;
            };
            Poll::Ready(connection)
        })
        .await;
        let state = context.world.state.borrow();
        let client = &state.net.connections[connection].ends[Side::Client as usize];
        let peer = format!("{}:{}", state.machines[client.machine].name, connection);
        drop(state);
        Ok((PipeStream { context, connection, side: Side::Server }, peer))
    }

    fn local_address(&self) -> String {
        self.address.clone()
    }
}

impl Drop for PipeListener {
    fn drop(&mut self) {
        if !self.context.is_alive() {
            return;
        }
        let mut state = self.context.world.state.borrow_mut();
        let listener = &mut state.net.listeners[self.index];
        listener.is_open = false;
        for connection in std::mem::take(&mut listener.backlog) {
            state.abort_end(connection, Side::Server);
        }
    }
}

impl PipeStream {
    fn world(&self) -> Rc<World> {
        Rc::clone(&self.context.world)
    }
}

impl AsyncRead for PipeStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.context.is_alive() {
            return Poll::Pending;
        }
        let world = self.world();
        let mut state = world.state.borrow_mut();
        let end = state.net.connections[self.connection].end(self.side);
        if end.reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if into.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if !end.buffer.is_empty() {
            let len = end.buffer.len().min(into.remaining());
            let (front, back) = end.buffer.as_slices();
            let from_front = len.min(front.len());
            into.put_slice(&front[..from_front]);
            into.put_slice(&back[..len - from_front]);
            end.buffer.drain(..len);
            if let Some(waker) = end.writer.take() {
                waker.wake();
            }
            return Poll::Ready(Ok(()));
        }
        if end.ended {
            return Poll::Ready(Ok(()));
        }
        end.reader = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl AsyncWrite for PipeStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut TaskContext<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if !self.context.is_alive() {
            return Poll::Pending;
        }
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let world = self.world();
        let mut state = world.state.borrow_mut();
        match state.write(self.connection, self.side, bytes) {
            Ok(0) => {
                let peer = state.net.connections[self.connection].end(self.side.other());
                peer.writer = Some(cx.waker().clone());
                Poll::Pending
            }
            Ok(len) => {
                let at_us = state.now_us;
                drop(state);
                world.observer.borrow_mut().wrote(self.context.process, &bytes[..len], at_us);
                Poll::Ready(Ok(len))
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        if !self.context.is_alive() {
            return Poll::Pending;
        }
        let world = self.world();
        let mut state = world.state.borrow_mut();
        let end = state.net.connections[self.connection].end(self.side);
        if end.reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if !std::mem::replace(&mut end.sent_end, true) {
            state.send_segment(self.connection, self.side.other(), Segment::End, 0);
        }
        Poll::Ready(Ok(()))
    }
}

impl Stream for PipeStream {
    fn abort(self) {
        if self.context.is_alive() {
            self.context.world.state.borrow_mut().abort_end(self.connection, self.side);
        }
    }
}

impl Drop for PipeStream {
    fn drop(&mut self) {
        if self.context.is_alive() {
            self.context.world.state.borrow_mut().close_end(self.connection, self.side);
        }
    }
}

/// Text on one line; quotes are as they are, for there are many in JSON.
fn escaped(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '"' | '\'' => line.push(char),
            char => line.extend(char.escape_debug()),
        }
    }
    line
}

/// Bytes for the story: text where it is text, cut where it is long.
fn shown(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 60;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_MAX)]);
    let more = if bytes.len() > SHOWN_MAX { format!(" … ({} bytes)", bytes.len()) } else { String::new() };
    format!("\"{}\"{more}", escaped(&text))
}

#[cfg(test)]
mod tests {
    #[test]
    fn bytes_are_told_on_one_line_with_their_quotes_as_they_are() {
        assert_eq!(super::shown(b"\r\n{\"ok\":true}\xff"), "\"\\r\\n{\"ok\":true}\u{fffd}\"");
        assert_eq!(super::shown(&[b'a'; 61]), format!("\"{}\" … (61 bytes)", "a".repeat(60)));
    }
}
