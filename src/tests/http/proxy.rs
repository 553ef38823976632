//! A TCP proxy between worker and receiver that misbehaves by plan, and counts the requests on the wire.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::wait;

/// What happens to a connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Manner {
    Plain,
    /// Passes so many bytes of the request, then closes both sides.
    CutRequest(usize),
    /// Waits for the reply, passes so many bytes of it, then closes both sides.
    CutReply(usize),
    /// Waits for the reply, passes so many bytes of it, and then nothing more.
    StallReply(usize),
    /// Passes both ways byte by byte.
    Drip,
}

/// A proxy with a stable address of its own.
pub struct Proxy {
    pub address: String,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    upstream: String,
    plan: VecDeque<Manner>,
    /// Per connection, what the worker said.
    requests: Vec<Vec<u8>>,
    /// Replies that have come and are not passed on in full.
    withheld: usize,
}

impl Proxy {
    /// The nth connection goes by the nth manner, all later ones plainly.
    pub fn start(upstream: &str, plan: impl IntoIterator<Item = Manner>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Shared {
            upstream: upstream.to_owned(),
            plan: plan.into_iter().collect(),
            requests: Vec::new(),
            withheld: 0,
        };
        let shared = Arc::new(Mutex::new(shared));
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let serving = Arc::clone(&serving);
                thread::spawn(move || serve(stream.unwrap(), &serving));
            }
        });
        Self { address, shared }
    }

    /// Later connections go there.
    pub fn to(&self, upstream: &str) {
        upstream.clone_into(&mut self.shared.lock().unwrap().upstream);
    }

    /// How many whole POSTs the worker put on the wire.
    pub fn posts(&self) -> usize {
        let shared = self.shared.lock().unwrap();
        let posts =
            |request: &Vec<u8>| String::from_utf8_lossy(request).matches("POST /jobs HTTP/1.1\r\n").count();
        shared.requests.iter().map(posts).sum()
    }

    pub fn connections(&self) -> usize {
        self.shared.lock().unwrap().requests.len()
    }

    /// Waits until `count` replies are held back: the receiver has committed, and the worker does not know.
    pub fn wait_withheld(&self, count: usize) {
        wait("a reply is held back", || self.shared.lock().unwrap().withheld >= count);
    }
}

fn serve(worker: TcpStream, shared: &Arc<Mutex<Shared>>) {
    let (upstream, manner, nth) = {
        let mut shared = shared.lock().unwrap();
        shared.requests.push(Vec::new());
        let manner = shared.plan.pop_front().unwrap_or(Manner::Plain);
        (shared.upstream.clone(), manner, shared.requests.len() - 1)
    };
    let Ok(receiver) = TcpStream::connect(upstream) else { return };
    worker.set_nodelay(true).unwrap();
    receiver.set_nodelay(true).unwrap();
    let ends = (worker.try_clone().unwrap(), receiver.try_clone().unwrap(), Arc::clone(shared));
    let asking = thread::spawn(move || {
        let left = if let Manner::CutRequest(left) = manner { left } else { usize::MAX };
        let note = |bytes: &[u8]| ends.2.lock().unwrap().requests[nth].extend_from_slice(bytes);
        let whole = pass(&ends.0, &ends.1, left, manner, note);
        let _ = ends.1.shutdown(Shutdown::Write);
        if !whole {
            close(&ends.0, &ends.1);
        }
    });
    let left = match manner {
        Manner::CutReply(left) | Manner::StallReply(left) => left,
        _ => usize::MAX,
    };
    if left == 0 {
        // The reply is there, but none of it passes.
        let _ = receiver.peek(&mut [0]);
    }
    let whole = pass(&receiver, &worker, left, manner, |_| {});
    if !whole {
        shared.lock().unwrap().withheld += 1;
        if matches!(manner, Manner::StallReply(_)) {
            let _ = asking.join();
            return;
        }
    }
    close(&worker, &receiver);
    let _ = asking.join();
}

/// Passes at most `left` bytes on; false where that was the end of it.
fn pass(from: &TcpStream, to: &TcpStream, mut left: usize, manner: Manner, note: impl Fn(&[u8])) -> bool {
    let mut buffer = [0; 4096];
    let piece = if manner == Manner::Drip { 1 } else { buffer.len() };
    while left > 0 {
        let Ok(count @ 1..) = (&*from).read(&mut buffer[..piece.min(left)]) else { return true };
        if manner == Manner::Drip {
            thread::sleep(Duration::from_micros(200));
        }
        left -= count;
        note(&buffer[..count]);
        if (&*to).write_all(&buffer[..count]).is_err() {
            return true;
        }
    }
    false
}

fn close(one: &TcpStream, other: &TcpStream) {
    let _ = one.shutdown(Shutdown::Both);
    let _ = other.shutdown(Shutdown::Both);
}
