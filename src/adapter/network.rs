//! TCP by tokio.

#![expect(clippy::disallowed_methods, reason = "the adapter is the real thing")]

use std::io;

use tokio::net::{TcpListener, TcpStream};

use crate::port::{Listener, Network, Stream};

/// The operating system's TCP. Nagle's algorithm is off: each write is a whole message.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokioNetwork;

impl Network for TokioNetwork {
    type Stream = TcpStream;
    type Listener = TcpListener;

    async fn connect(&self, address: &str) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    fn listen(&self, address: &str) -> impl Future<Output = io::Result<TcpListener>> {
        TcpListener::bind(address.to_owned())
    }
}

impl Stream for TcpStream {
    fn abort(self) {
        // Where the option is refused the socket is closed all the same, only less abruptly.
        let _ = self.set_zero_linger();
    }
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<(TcpStream, String)> {
        let (stream, peer) = TcpListener::accept(self).await?;
        stream.set_nodelay(true)?;
        Ok((stream, peer.to_string()))
    }

    fn local_address(&self) -> String {
        TcpListener::local_addr(self).map_or_else(|error| format!("unknown: {error}"), |at| at.to_string())
    }
}
