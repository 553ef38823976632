//! The signals that end a command cleanly.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Completes at SIGTERM or Ctrl-C. The handlers are in place when this returns.
///
/// # Errors
/// Where the system refuses a handler.
pub fn stop() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "Ctrl-C",
        };
        tracing::info!("{name}: stopping");
    })
}
