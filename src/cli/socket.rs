//! A listening socket that outlives the runs that accept from it: who connects between two of them waits.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;

use ackward::adapter::TokioNetwork;
use ackward::port::{Listener, Network};
use tokio::net::{TcpListener, TcpStream};

/// The socket; its clones are the same one.
#[derive(Clone)]
pub struct Kept(Rc<TcpListener>);

impl Kept {
    /// Listens.
    pub async fn listen(address: &str) -> io::Result<Self> {
        TokioNetwork.listen(address).await.map(|listener| Self(Rc::new(listener)))
    }
}

impl Listener for Kept {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<(TcpStream, String)> {
        let (stream, peer) = poll_fn(|context| self.0.poll_accept(context)).await?;
        stream.set_nodelay(true)?;
        Ok((stream, peer.to_string()))
    }

    fn local_address(&self) -> String {
        Listener::local_address(&*self.0)
    }
}
