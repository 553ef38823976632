//! A connection of the built-in network: its two ends, and what is under way to each.

use std::collections::VecDeque;
use std::task::Waker;

use super::super::world::{MachineId, ProcessId};
use super::{ConnectionId, Side, WINDOW_BYTES};

pub(super) struct Connection {
    pub(super) ends: [End; 2],
}

/// One end: who holds it, and what arrives there.
pub(super) struct End {
    pub(super) process: ProcessId,
    pub(super) incarnation: u32,
    pub(super) machine: MachineId,
    pub(super) is_open: bool,
    /// Bytes that have arrived and were not read.
    pub(super) buffer: VecDeque<u8>,
    /// Segments on their way here.
    pub(super) flying: VecDeque<(i64, Segment)>,
    pub(super) flying_bytes: usize,
    pub(super) last_arrival_us: i64,
    /// Nothing that is sent here arrives any more.
    pub(super) silent: bool,
    pub(super) ended: bool,
    pub(super) reset: bool,
    pub(super) reader: Option<Waker>,
    /// The writer at the other end, which waits for room here.
    pub(super) writer: Option<Waker>,
    /// A power cut took the machine while it held this end.
    pub(super) forgotten: bool,
    pub(super) sent_end: bool,
}

pub(super) enum Segment {
    Bytes(Vec<u8>),
    End,
    Reset,
}

pub(super) struct ListenerState {
    pub(super) machine: MachineId,
    pub(super) port: u16,
    pub(super) process: ProcessId,
    pub(super) incarnation: u32,
    pub(super) is_open: bool,
    pub(super) backlog: VecDeque<ConnectionId>,
    pub(super) waker: Option<Waker>,
}

impl Connection {
    pub(super) fn end(&mut self, side: Side) -> &mut End {
        &mut self.ends[side as usize]
    }
}

impl End {
    pub(super) fn new(process: ProcessId, incarnation: u32, machine: MachineId) -> Self {
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

    pub(super) fn room(&self) -> usize {
        WINDOW_BYTES.saturating_sub(self.buffer.len() + self.flying_bytes)
    }

    pub(super) fn wake(&mut self) {
        for waker in [self.reader.take(), self.writer.take()].into_iter().flatten() {
            waker.wake();
        }
    }

    pub(super) fn take_in(&mut self, segment: Segment) {
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
