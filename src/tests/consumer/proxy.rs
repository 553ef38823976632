//! A TCP proxy between consumer and publisher that misbehaves by plan, and writes down what passes.

#![expect(clippy::disallowed_methods, reason = "a test on real threads, clocks and sockets")]

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What happens to a connection's bytes.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// The most bytes that pass at once, both ways.
    pub piece: usize,
    /// How late each piece is.
    pub delay: Duration,
    /// After so many bytes from the publisher, what happens.
    pub after: Option<(usize, End)>,
}

/// How a connection stops passing bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum End {
    /// Both sides are closed.
    Cut,
    /// Nothing comes any more, and both sides stay.
    Stall,
    /// As `Stall`, and the test is told.
    Freeze,
}

impl Manner {
    pub const PLAIN: Self = Self { piece: 4096, delay: Duration::ZERO, after: None };

    pub const fn after(bytes: usize, end: End) -> Self {
        Self { after: Some((bytes, end)), ..Self::PLAIN }
    }
}

/// A proxy with a stable address of its own.
pub struct Proxy {
    pub address: String,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    upstream: String,
    plan: VecDeque<Manner>,
    frozen: usize,
    /// Per connection, what the consumer said and what the publisher said.
    passed: Vec<(Vec<u8>, Vec<u8>)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Consumer,
    Publisher,
}

impl Proxy {
    /// The nth connection goes by the nth manner, all later ones plainly.
    pub fn start(upstream: &str, plan: impl IntoIterator<Item = Manner>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let plan = plan.into_iter().collect();
        let shared = Arc::new(Mutex::new(Shared {
            upstream: upstream.to_owned(),
            plan,
            frozen: 0,
            passed: Vec::new(),
        }));
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let serving = Arc::clone(&serving);
                thread::spawn(move || serve(stream.unwrap(), &serving));
            }
        });
        Self { address, shared }
    }

    pub fn to(&self, upstream: &str, plan: impl IntoIterator<Item = Manner>) {
        let mut shared = self.shared.lock().unwrap();
        shared.upstream = upstream.to_owned();
        shared.plan = plan.into_iter().collect();
    }

    /// What passed on the nth connection: the consumer's bytes and the publisher's.
    pub fn passed(&self, nth: usize) -> (String, String) {
        let shared = self.shared.lock().unwrap();
        let (consumer, publisher) = shared.passed[nth].clone();
        (String::from_utf8(consumer).unwrap(), String::from_utf8(publisher).unwrap())
    }

    pub fn connections(&self) -> usize {
        self.shared.lock().unwrap().passed.len()
    }

    /// Waits until the consumer's last words on the nth connection have passed.
    pub fn wait_said(&self, nth: usize, end: &str) {
        for _ in 0..6000 {
            if self.passed(nth).0.ends_with(end) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("{:?} was not said: {:?}", end, self.passed(nth).0);
    }

    /// Waits until `count` connections have been frozen.
    pub fn wait_frozen(&self, count: usize) {
        for _ in 0..3000 {
            if self.shared.lock().unwrap().frozen >= count {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("no connection was frozen");
    }
}

fn serve(consumer: TcpStream, shared: &Arc<Mutex<Shared>>) {
    let (upstream, manner, nth) = {
        let mut shared = shared.lock().unwrap();
        shared.passed.push(Default::default());
        let manner = shared.plan.pop_front().unwrap_or(Manner::PLAIN);
        (shared.upstream.clone(), manner, shared.passed.len() - 1)
    };
    let Ok(publisher) = TcpStream::connect(upstream) else { return };
    consumer.set_nodelay(true).unwrap();
    publisher.set_nodelay(true).unwrap();
    let there = (consumer.try_clone().unwrap(), publisher.try_clone().unwrap(), Arc::clone(shared));
    let asking = thread::spawn(move || pass(&there.0, &there.1, Side::Consumer, manner, nth, &there.2));
    pass(&publisher, &consumer, Side::Publisher, manner, nth, shared);
    let _ = asking.join();
}

/// Passes bytes on until one side ends; then ends the other.
fn pass(from: &TcpStream, to: &TcpStream, side: Side, manner: Manner, nth: usize, shared: &Mutex<Shared>) {
    let (mut left, end) = match manner.after {
        Some((bytes, end)) if side == Side::Publisher => (bytes, end),
        _ => (usize::MAX, End::Cut),
    };
    let mut buffer = [0; 4096];
    while left > 0 {
        let Ok(count @ 1..) = (&*from).read(&mut buffer[..manner.piece]) else { break };
        thread::sleep(manner.delay);
        let passing = count.min(left);
        left -= passing;
        if (&*to).write_all(&buffer[..passing]).is_err() {
            break;
        }
        note(side, nth, &buffer[..passing], shared);
    }
    if left == 0 && end != End::Cut {
        shared.lock().unwrap().frozen += usize::from(end == End::Freeze);
        // Swallow what still comes, until one of the two gives up.
        let _ = std::io::copy(&mut &*from, &mut std::io::sink());
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

fn note(side: Side, nth: usize, bytes: &[u8], shared: &Mutex<Shared>) {
    let (consumer, publisher) = &mut shared.lock().unwrap().passed[nth];
    let noted = if side == Side::Consumer { consumer } else { publisher };
    noted.extend_from_slice(bytes);
}
