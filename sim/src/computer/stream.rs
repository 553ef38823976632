//! The network port of a simulated process: its connections run over the built-in network or over turmoil, as the run
//! is set. What can happen to a message is chosen alike on both; what that does is each arm's own.

use std::io;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use ackward::port::{Listener, Network, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::network::{PipeListener, PipeStream};
use super::process::Context;
use super::turmoil_arm::{HostListener, HostStream};
use super::world::MachineId;

/// A stream of a simulated process.
pub struct SimStream(Carrier);

enum Carrier {
    BuiltIn(PipeStream),
    Turmoil(HostStream),
}

/// A listener of a simulated process.
pub struct SimListener(Ear);

enum Ear {
    BuiltIn(PipeListener),
    Turmoil(HostListener),
}

impl Network for Context {
    type Stream = SimStream;
    type Listener = SimListener;

    async fn connect(&self, address: &str) -> io::Result<SimStream> {
        let (machine, port) = self.resolve(address)?;
        let carrier = if self.is_on_turmoil() {
            Carrier::Turmoil(self.connect_host(machine, port).await?)
        } else {
            Carrier::BuiltIn(self.connect_pipe(machine, port).await?)
        };
        let (open, at_us) = (self.world.open_connections(self.process), self.world.now_us());
        self.world.observer.borrow_mut().connected(self.process, open, at_us);
        Ok(SimStream(carrier))
    }

    async fn listen(&self, address: &str) -> io::Result<SimListener> {
        let (machine, port) = self.resolve(address)?;
        if machine != self.world.state.borrow().processes[self.process].machine {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        if self.is_on_turmoil() {
            return Ok(SimListener(Ear::Turmoil(self.listen_host(machine, port).await?)));
        }
        Ok(SimListener(Ear::BuiltIn(self.listen_pipe(machine, port)?)))
    }
}

impl Context {
    fn is_on_turmoil(&self) -> bool {
        self.world.state.borrow().hosts.is_some()
    }

    fn resolve(&self, address: &str) -> io::Result<(MachineId, u16)> {
        let (host, port) = address.rsplit_once(':').ok_or(io::ErrorKind::InvalidInput)?;
        let port = port.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
        let state = self.world.state.borrow();
        let machine = state.machines.iter().position(|machine| machine.name == host);
        Ok((machine.ok_or(io::ErrorKind::NotFound)?, port))
    }
}

impl Listener for SimListener {
    type Stream = SimStream;

    async fn accept(&mut self) -> io::Result<(SimStream, String)> {
        match &mut self.0 {
            Ear::BuiltIn(ear) => {
                let (stream, peer) = ear.accept().await?;
                Ok((SimStream(Carrier::BuiltIn(stream)), peer))
            }
            Ear::Turmoil(ear) => {
                let (stream, peer) = ear.accept().await?;
                Ok((SimStream(Carrier::Turmoil(stream)), peer))
            }
        }
    }

    fn local_address(&self) -> String {
        match &self.0 {
            Ear::BuiltIn(ear) => ear.local_address(),
            Ear::Turmoil(ear) => ear.local_address(),
        }
    }
}

impl AsyncRead for SimStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Carrier::BuiltIn(stream) => Pin::new(stream).poll_read(cx, into),
            Carrier::Turmoil(stream) => Pin::new(stream).poll_read(cx, into),
        }
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Carrier::BuiltIn(stream) => Pin::new(stream).poll_write(cx, bytes),
            Carrier::Turmoil(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Carrier::BuiltIn(stream) => Pin::new(stream).poll_flush(cx),
            Carrier::Turmoil(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Carrier::BuiltIn(stream) => Pin::new(stream).poll_shutdown(cx),
            Carrier::Turmoil(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

impl Stream for SimStream {
    fn abort(self) {
        match self.0 {
            Carrier::BuiltIn(stream) => stream.abort(),
            Carrier::Turmoil(stream) => stream.abort(),
        }
    }
}
