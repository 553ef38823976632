//! What travels: segments that arrive in order, the end of a stream, resets, and the choices that are made as a process writes.

use std::io;

use super::super::world::{ProcessId, State, Timer};
use super::connection::Segment;
use super::{ConnectionId, LATENCY_US, SPLIT_US, Side};
use crate::choice::{Decision, Kind, Offer, Phase, Role};

impl State {
    /// Puts a segment on its way to one end.
    pub(super) fn send_segment(
        &mut self,
        connection: ConnectionId,
        to: Side,
        segment: Segment,
        extra_us: i64,
    ) {
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
    pub(in crate::computer) fn deliver(&mut self, connection: ConnectionId, to: usize) {
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
    pub(super) fn close_end(&mut self, connection: ConnectionId, side: Side) {
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

    pub(super) fn abort_end(&mut self, connection: ConnectionId, side: Side) {
        let end = self.net.connections[connection].end(side);
        if std::mem::replace(&mut end.is_open, false) {
            self.send_segment(connection, side.other(), Segment::Reset, 0);
        }
    }

    /// The connections and listeners of a dead process: closed by its operating system, or forgotten with it.
    pub(in crate::computer) fn drop_sockets(&mut self, process: ProcessId, is_power_cut: bool) {
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

    pub(super) fn write(&mut self, connection: ConnectionId, side: Side, bytes: &[u8]) -> io::Result<usize> {
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
    pub(in crate::computer) fn choose_message(
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
    pub(super) fn die_writing(&mut self, process: ProcessId, kind: Kind) {
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
    pub(super) fn open_connections(&self, process: ProcessId) -> usize {
        let incarnation = self.processes[process].incarnation;
        let ends = self.net.connections.iter().flat_map(|connection| &connection.ends);
        ends.filter(|end| end.is_open && (end.process, end.incarnation) == (process, incarnation)).count()
    }

    pub(super) fn send_as(
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

/// Text on one line; quotes are as they are, for there are many in JSON.
pub(super) fn escaped(text: &str) -> String {
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
pub(super) fn shown(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 60;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_MAX)]);
    let more = if bytes.len() > SHOWN_MAX { format!(" … ({} bytes)", bytes.len()) } else { String::new() };
    format!("\"{}\"{more}", escaped(&text))
}

#[cfg(test)]
mod tests {
    #[test]
    pub(super) fn bytes_are_told_on_one_line_with_their_quotes_as_they_are() {
        assert_eq!(super::shown(b"\r\n{\"ok\":true}\xff"), "\"\\r\\n{\"ok\":true}\u{fffd}\"");
        assert_eq!(super::shown(&[b'a'; 61]), format!("\"{}\" … (61 bytes)", "a".repeat(60)));
    }
}
