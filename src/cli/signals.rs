//! The signals that end a command cleanly, have it read its settings anew, or must not end it.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::exit::Exit;
use super::logging;

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// SIGTERM or Ctrl-C: to end.
    Stop,
    /// SIGHUP: to go on with the settings read anew.
    Reload,
}

/// The handlers, in place from the making on.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Puts the handlers in place.
    ///
    /// # Errors
    /// Where the system refuses one.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for one that ends. A wish to read the settings anew is passed over.
    pub async fn stop(&mut self) {
        while self.next().await != Wish::Stop {}
    }

    /// Waits for the next one. Where several have come, the one that ends counts.
    pub async fn next(&mut self) -> Wish {
        poll_fn(|context| {
            for (signal, name) in [(&mut self.terminate, "SIGTERM"), (&mut self.interrupt, "Ctrl-C")] {
                if signal.poll_recv(context).is_ready() {
                    stopping(name);
                    return Poll::Ready(Wish::Stop);
                }
            }
            if self.hangup.poll_recv(context).is_ready() {
                tracing::info!("SIGHUP: reading the settings anew");
                return Poll::Ready(Wish::Reload);
            }
            Poll::Pending
        })
        .await
    }
}

/// From now on a file that would outgrow its limit (`ulimit -f`) fails the write, as a full disk does: SIGXFSZ no longer
/// ends the process.
///
/// # Errors
/// Where the system refuses the handler.
pub fn outlive_file_limit() -> io::Result<()> {
    // tokio leaves its handler in place when the stream of signals is dropped.
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())).map(drop)
}

/// Completes at SIGTERM, Ctrl-C or SIGHUP: for commands that have no settings to read anew. The handlers are in place
/// when this returns.
///
/// # Errors
/// Where the system refuses a handler.
pub fn stop() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "Ctrl-C",
            _ = hangup.recv() => "SIGHUP",
        };
        stopping(name);
    })
}

/// A signal has asked for the end, and it may take a while: from now on SIGTERM or Ctrl-C ends the process at once, as a
/// kill would, with the exit code that a shell gives to one.
#[expect(clippy::disallowed_methods, reason = "it is heard wherever the command waits, and ends all else")]
fn stopping(name: &str) {
    tracing::info!("{name}: stopping; SIGTERM or Ctrl-C once more ends at once");
    // Where the system refuses a handler, the end takes as long as it takes.
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return;
    };
    tokio::spawn(async move {
        let (name, exit) = tokio::select! {
            _ = terminate.recv() => ("SIGTERM", Exit::Terminated),
            _ = interrupt.recv() => ("Ctrl-C", Exit::Interrupted),
        };
        let message = format!("{name} once more: ended at once; what was under way is as after a kill");
        logging::fatal(exit, &message);
        std::process::exit(exit as i32);
    });
}
