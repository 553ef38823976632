//! How a connection comes about: connecting, listening, and which machines reach each other.

use std::collections::VecDeque;
use std::io;

use super::super::process::Context;
use super::super::world::{MachineId, ProcessId, World};
use super::connection::{Connection, End, ListenerState};
use super::pipe::{PipeListener, PipeStream};
use super::{BACKLOG_MAX, ConnectionId, LATENCY_US, Side};
use crate::choice::{Kind, Offer, Phase, Role};

impl Context {
    /// Connects to a machine's port over the built-in network.
    pub(in crate::computer) async fn connect_pipe(
        &self,
        machine: MachineId,
        port: u16,
    ) -> io::Result<PipeStream> {
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
    pub(in crate::computer) fn listen_pipe(&self, machine: MachineId, port: u16) -> io::Result<PipeListener> {
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
pub(in crate::computer) struct ConnectChoice {
    pub(in crate::computer) is_refused: bool,
    /// How much later it arrives, in microseconds.
    pub(in crate::computer) extra_us: i64,
}

impl Context {
    /// The choice at a connect; one that gets no answer never returns.
    pub(in crate::computer) async fn choose_connect(&self) -> ConnectChoice {
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
    pub(super) fn reach(&self, machine: MachineId, port: u16) -> Option<ConnectionId> {
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

    pub(in crate::computer) fn is_off(&self, machine: MachineId) -> bool {
        self.world.state.borrow().machines[machine].is_off
    }
}
