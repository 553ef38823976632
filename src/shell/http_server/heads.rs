//! Reads along what a connection's peer sends, up to each request's head: hyper takes Content-Length away where
//! Transfer-Encoding stands beside it (RFC 9112, 6.3), so that nobody after it can tell.
//!
//! A Content-Length beyond what hyper can count to is not passed on: hyper would answer it as a head that is too large,
//! and without a body.
//!
//! Heads are read by the parser that hyper has. What comes after a body in chunks is not looked at: the connection must
//! be closed then.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The most header fields of a head; hyper refuses more.
const HEADERS_MAX: usize = 100;
/// The longest body that hyper can count, in bytes.
const LENGTH_MAX: u64 = u64::MAX - 2;
const LENGTH_TOO_LONG: u64 = LENGTH_MAX + 1;

/// How the length of a request's body is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// By Content-Length, or there is none.
    Length(u64),
    /// By Transfer-Encoding.
    Chunked,
    /// By both.
    Both,
}

/// The framing of each request whose head has come and that is not answered yet.
#[derive(Debug, Default)]
pub(super) struct Framings {
    heads: RefCell<VecDeque<Framing>>,
    /// Requests that have been handed out and not been answered.
    answering: Cell<usize>,
    is_too_long: Cell<bool>,
}

impl Framings {
    /// That of the request that is answered next.
    pub(super) fn next(&self) -> Option<Framing> {
        self.answering.set(self.answering.get() + 1);
        self.heads.borrow_mut().pop_front()
    }

    /// The request that was handed out last has its answer.
    pub(super) fn answered(&self) {
        self.answering.set(self.answering.get() - 1);
    }

    /// Whether a request that has come has no answer yet.
    fn is_any_open(&self) -> bool {
        self.answering.get() > 0 || !self.heads.borrow().is_empty()
    }

    /// Whether the connection ends because of a head whose body would be too long to count.
    pub(super) const fn is_too_long(&self) -> bool {
        self.is_too_long.get()
    }
}

/// A stream that is read along.
pub(super) struct Heads<'a, S> {
    stream: S,
    scan: Scan,
    framings: &'a Framings,
}

impl<'a, S> Heads<'a, S> {
    pub(super) const fn new(stream: S, head_bytes_max: usize, framings: &'a Framings) -> Self {
        let scan = Scan { head: Vec::new(), head_bytes_max, place: Place::Head };
        Self { stream, scan, framings }
    }

    pub(super) fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heads<'_, S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let too_long = || Poll::Ready(Err(io::Error::other("a Content-Length beyond all counting")));
        if self.framings.is_too_long() {
            // An error here would take the answers that are still to come with it. Each of them is a reason to ask again.
            return if self.framings.is_any_open() { Poll::Pending } else { too_long() };
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let Self { scan, framings, .. } = &mut *self;
        let Some(kept) = scan.take(&buffer.filled()[before..], &mut framings.heads.borrow_mut()) else {
            return read;
        };
        // What came before that head is a matter of its own.
        framings.is_too_long.set(true);
        buffer.set_filled(before + kept);
        if kept == 0 { too_long() } else { read }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Heads<'_, S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// Where the bytes stand that have come.
struct Scan {
    /// What has come of a head.
    head: Vec<u8>,
    head_bytes_max: usize,
    place: Place,
}

enum Place {
    Head,
    /// In a body of which so many bytes are still to come.
    Body(u64),
    /// Behind everything that is looked at.
    Over,
}

impl Scan {
    /// Where a head has a body that is too long to count: how many of these bytes stand before that head.
    fn take(&mut self, all: &[u8], framings: &mut VecDeque<Framing>) -> Option<usize> {
        let mut bytes = all;
        while !bytes.is_empty() {
            match self.place {
                Place::Over => break,
                Place::Body(left) => {
                    let count = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    bytes = &bytes[count..];
                    self.place = match left - count as u64 {
                        0 => Place::Head,
                        left => Place::Body(left),
                    };
                }
                Place::Head => {
                    let before = self.head.len();
                    self.head.extend_from_slice(bytes);
                    let Some((len, framing)) = self.head_so_far(before) else { break };
                    if matches!(framing, Framing::Length(LENGTH_TOO_LONG..)) {
                        self.place = Place::Over;
                        return Some(all.len() - bytes.len());
                    }
                    bytes = &bytes[len - before..];
                    self.head.clear();
                    framings.push_back(framing);
                    self.place = match framing {
                        Framing::Length(0) => Place::Head,
                        Framing::Length(len) => Place::Body(len),
                        Framing::Chunked | Framing::Both => Place::Over,
                    };
                }
            }
        }
        None
    }

    /// The head's length and framing, once it is there. It is parsed only where it may have ended in what was added.
    fn head_so_far(&mut self, before: usize) -> Option<(usize, Framing)> {
        let added = &self.head[before.saturating_sub(3)..];
        let may_end =
            added.windows(2).any(|two| two == b"\n\n") || added.windows(3).any(|three| three == b"\n\r\n");
        let parsed = if may_end { framing(&self.head) } else { Ok(None) };
        match parsed {
            Ok(Some((len, framing))) if len > before => return Some((len, framing)),
            Ok(None) if self.head.len() <= self.head_bytes_max => {}
            // hyper refuses it.
            _ => {
                self.head.clear();
                self.place = Place::Over;
            }
        }
        None
    }
}

/// The length and the framing of a head; `None` where it is not whole yet.
fn framing(bytes: &[u8]) -> Result<Option<(usize, Framing)>, Malformed> {
    let mut fields = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    let httparse::Status::Complete(len) = request.parse(bytes).map_err(|_| Malformed)? else {
        return Ok(None);
    };
    let (mut length, mut is_chunked) = (None, false);
    for field in request.headers.iter() {
        if field.name.eq_ignore_ascii_case("transfer-encoding") {
            is_chunked = true;
        } else if field.name.eq_ignore_ascii_case("content-length") {
            length = Some(field.value);
        }
    }
    let framing = match (is_chunked, length) {
        (true, Some(_)) => Framing::Both,
        (true, None) => Framing::Chunked,
        (false, None) => Framing::Length(0),
        (false, Some(digits)) => {
            let number = str::from_utf8(digits).ok().and_then(|digits| digits.trim().parse().ok());
            Framing::Length(number.ok_or(Malformed)?)
        }
    };
    Ok(Some((len, framing)))
}

/// No head that hyper would take.
struct Malformed;

#[cfg(test)]
mod tests {
    use super::*;

    fn framings(pieces: impl Iterator<Item = Vec<u8>>) -> Vec<Framing> {
        let mut scan = Scan { head: Vec::new(), head_bytes_max: 200, place: Place::Head };
        let mut framings = VecDeque::new();
        pieces.for_each(|piece| assert_eq!(scan.take(&piece, &mut framings), None));
        framings.into()
    }

    #[track_caller]
    fn check(text: &str, expected: &[Framing]) {
        for size in [1, 2, 3, 7, 1_000] {
            let pieces = text.as_bytes().chunks(size).map(<[u8]>::to_vec);
            assert_eq!(framings(pieces), expected, "in pieces of {size}: {text:?}");
        }
    }

    /// RFC 9112, 6.3: both, in any order and spelling, also behind other requests; however the bytes come.
    #[test]
    fn two_lengths_are_seen_wherever_they_stand() {
        use Framing::{Both, Chunked, Length};
        check("GET / HTTP/1.1\r\n\r\n\r\nGET / HTTP/1.1\n\n", &[Length(0), Length(0)]);
        let plain = "POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\n\n\r\n\n";
        let both =
            "POST / HTTP/1.1\r\ntransfer-ENCODING: chunked\r\nX: y\r\ncontent-length: 4\r\n\r\n0\r\n\r\n";
        check(&format!("{plain}{plain}{both}{plain}"), &[Length(4), Length(4), Both]);
        check("POST / HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n", &[Both]);
        check("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", &[Chunked]);
        check("POST / HTTP/1.1\r\nX: Content-Length: 4\r\n\r\n", &[Length(0)]);
    }

    /// Requests before it are passed on whole, of its own head at most a beginning.
    #[test]
    fn a_body_too_long_to_count_ends_the_looking() {
        let sound = "POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody";
        for (length, is_too_long) in [(LENGTH_MAX, false), (LENGTH_TOO_LONG, true), (u64::MAX, true)] {
            let head = format!("POST / HTTP/1.1\r\nContent-Length: {length}\r\n\r\n");
            let text = format!("{sound}{head}{sound}");
            for size in [1, 2, 3, 7, 1_000] {
                let mut scan = Scan { head: Vec::new(), head_bytes_max: 200, place: Place::Head };
                let (mut framings, mut passed) = (VecDeque::new(), 0);
                let ended = text.as_bytes().chunks(size).find_map(|piece| {
                    let kept = scan.take(piece, &mut framings);
                    passed += kept.unwrap_or(piece.len());
                    kept
                });
                assert_eq!(ended.is_some(), is_too_long, "{length} in pieces of {size}");
                let (whole, most) = (sound.len(), sound.len() + head.len());
                assert!(!is_too_long || (whole..most).contains(&passed), "{passed} in pieces of {size}");
                assert_eq!(framings[0], Framing::Length(4));
            }
        }
    }

    /// What is no head, or none that ends, ends the looking.
    #[test]
    fn what_is_no_head_is_left_to_the_server() {
        for text in ["\0\0\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", &"x".repeat(300)] {
            check(&format!("{text}\r\n\r\nGET / HTTP/1.1\r\n\r\n"), &[]);
        }
    }
}
