//! A program's view of the built-in network: its listeners and its streams, as tokio's traits have them.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll};

use ackward::port::{Listener, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::super::process::Context;
use super::super::world::World;
use super::connection::Segment;
use super::{ConnectionId, Side};

/// A stream of the built-in network.
pub struct PipeStream {
    pub(super) context: Context,
    pub(super) connection: ConnectionId,
    pub(super) side: Side,
}

/// A listener of the built-in network.
pub struct PipeListener {
    pub(super) context: Context,
    pub(super) index: usize,
    pub(super) address: String,
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
