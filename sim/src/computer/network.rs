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

mod connection;
mod dial;
mod pipe;
mod traffic;

use super::world::MachineId;
use connection::{Connection, ListenerState};

pub(super) use dial::ConnectChoice;
pub use pipe::{PipeListener, PipeStream};

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
