//! What stands before the receiver, as a proxy would: by choice it refuses a request, or answers it with nonsense,
//! before the receiver has seen anything of it, or puts nonsense in the place of the receiver's answer.

use std::io;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, ready};

use ackward::port::{Listener, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::choice::{Kind, Offer, Phase, REFUSALS, Role};
use crate::computer::{Context, SimListener, SimStream};

/// How many wrong answers there are.
const WAYS: i64 = 9;
/// The status that comes with a `Retry-After`.
const WITH_RETRY_AFTER: i64 = 429;

/// A listener whose connections pass the front.
pub(super) struct Front {
    inner: SimListener,
    context: Context,
}

impl Front {
    pub(super) const fn new(inner: SimListener, context: Context) -> Self {
        Self { inner, context }
    }
}

impl Listener for Front {
    type Stream = FrontStream;

    async fn accept(&mut self) -> io::Result<(FrontStream, String)> {
        let (inner, peer) = self.inner.accept().await?;
        let stream =
            FrontStream { inner, context: self.context.clone(), step: Step::Listening, instead: Vec::new() };
        Ok((stream, peer))
    }

    fn local_address(&self) -> String {
        self.inner.local_address()
    }
}

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Nothing of a request has come.
    Listening,
    /// The receiver does not get to see the request; the front's own answer is being sent.
    Refusing,
    /// The receiver has the request, and has not answered.
    Asked,
    /// Something else is being sent in the place of its answer.
    Replacing,
    /// Nothing more is chosen here.
    Over,
}

/// A connection that passes the front.
pub(super) struct FrontStream {
    inner: SimStream,
    context: Context,
    step: Step,
    /// What is sent by the front itself; the rest of it.
    instead: Vec<u8>,
}

impl FrontStream {
    /// The beginning of a request is there: whether the receiver gets to see it.
    fn arrive(&mut self) {
        let last = i64::try_from(REFUSALS.len()).unwrap_or(1) - 1;
        let offers = [
            Offer { kind: Kind::Refused, low: 0, high: last },
            Offer { kind: Kind::WrongReply, low: 1, high: WAYS },
            Offer::plain(Kind::Kill),
        ];
        let world = self.context.world();
        let decision = world.choose(Phase::Message, Role::Serve, &offers);
        self.step = Step::Asked;
        match decision.kind {
            Kind::Refused => {
                world.had_effect(Kind::Refused);
                self.step = Step::Refusing;
                self.instead = refusal(decision.value);
            }
            Kind::WrongReply => {
                world.had_effect(Kind::WrongReply);
                self.step = Step::Refusing;
                self.instead = wrong(decision.value);
            }
            Kind::Kill => {
                world.kill_running();
                world.had_effect(Kind::Kill);
            }
            _ => {}
        }
    }

    /// The receiver answers: whether that is what is sent.
    fn answer(&mut self) {
        let offer = [Offer { kind: Kind::WrongReply, low: 1, high: WAYS }];
        let world = self.context.world();
        let decision = world.choose(Phase::Message, Role::Serve, &offer);
        self.step = Step::Over;
        if decision.kind == Kind::WrongReply {
            world.had_effect(Kind::WrongReply);
            self.step = Step::Replacing;
            self.instead = wrong(decision.value);
        }
    }

    fn poll_instead(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        while !self.instead.is_empty() {
            let written = ready!(Pin::new(&mut self.inner).poll_write(cx, &self.instead))?;
            self.instead.drain(..written);
        }
        self.step = Step::Over;
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for FrontStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        if self.step == Step::Listening {
            ready!(Pin::new(&mut self.inner).poll_read(cx, into))?;
            if into.filled().len() == before {
                return Poll::Ready(Ok(()));
            }
            self.arrive();
            if !self.context.is_alive() {
                return Poll::Pending;
            }
            if self.step == Step::Asked {
                return Poll::Ready(Ok(()));
            }
        }
        if self.step == Step::Refusing {
            // To the receiver it looks like a connection that was closed without a request.
            into.set_filled(before);
            return self.poll_instead(cx);
        }
        Pin::new(&mut self.inner).poll_read(cx, into)
    }
}

impl AsyncWrite for FrontStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.step == Step::Asked && self.context.is_alive() {
            self.answer();
        }
        if self.step == Step::Replacing {
            ready!(self.poll_instead(cx))?;
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl Stream for FrontStream {
    fn abort(self) {
        self.inner.abort();
    }
}

/// A refusal for now (W2).
fn refusal(place: i64) -> Vec<u8> {
    let status = usize::try_from(place).ok().and_then(|place| REFUSALS.get(place)).unwrap_or(&REFUSALS[0]);
    let retry_after = if *status == WITH_RETRY_AFTER { "retry-after: 1\r\n" } else { "" };
    format!("HTTP/1.1 {status} Not Now\r\n{retry_after}connection: close\r\ncontent-length: 0\r\n\r\n").into()
}

/// An answer that acknowledges nothing (W2).
fn wrong(way: i64) -> Vec<u8> {
    const TOO_LONG: usize = 20_000;
    let ok = |body: &str| format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    match way {
        1 => ok(r#"{"ok":false}"#),
        2 => ok(""),
        3 => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        4 => "HTTP/1.1 302 Found\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n".to_owned(),
        5 => "HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{\"ok\"".to_owned(),
        6 => ok(&" ".repeat(TOO_LONG)),
        7 => "this is not HTTP\r\n\r\n".to_owned(),
        8 => "HTTP/1.1 103 Early Hints\r\n\r\n".to_owned(),
        _ => ok(r#"{"ok":true,"more":1}"#),
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_answer_is_another() {
        let mut ways: Vec<_> = (1..=WAYS).map(wrong).collect();
        ways.sort();
        ways.dedup();
        assert_eq!(ways.len(), usize::try_from(WAYS).unwrap());
    }
}
