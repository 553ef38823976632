//! SIGINT, as by Ctrl-C, or SIGTERM, as by `timeout` or a cluster, in the middle of a command: it ends as though it had
//! been asked for no more than was done by then, says so, and the process ends with 130. A second one ends it at once.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::Exit;

/// How often it is looked for an interrupt.
const LOOK: Duration = Duration::from_millis(20);

/// Whether the user wants this command to end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on neither signal ends this process, unless one comes a second time.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            let listening = || format!("listening to signal {signal}");
            // In this order: the first one finds the flag down.
            flag::register_conditional_shutdown(signal, Exit::Interrupted as i32, Arc::clone(&flag))
                .with_context(listening)?;
            flag::register(signal, Arc::clone(&flag)).with_context(listening)?;
        }
        Ok(Self(flag))
    }

    /// From now on an interrupt ends this process at once, with these last words on standard error: for what cannot be
    /// asked to stop, starts no process and writes no file.
    pub(crate) fn end_with(&self, words: impl Fn() -> String + Send + 'static) {
        let interrupt = self.clone();
        // Not simulated code.
        std::thread::spawn(move || {
            while interrupt.goes_on() {
                std::thread::sleep(LOOK);
            }
            // Nothing is left to be done where even that cannot be written.
            let _ = writeln!(io::stderr(), "{}", words());
            std::process::exit(Exit::Interrupted as i32);
        });
    }

    /// The exit code of a command that would have ended with this one.
    pub(crate) fn or(&self, exit: Exit) -> Exit {
        if self.has_come() { Exit::Interrupted } else { exit }
    }

    /// Whether there was none so far.
    pub(crate) fn goes_on(&self) -> bool {
        !self.has_come()
    }

    /// Whether there was one.
    pub(crate) fn has_come(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// From now on neither signal does anything: a terminal sends them to the children of a campaign, too, and when they end is
/// up to their parent.
pub(crate) fn ignore() -> anyhow::Result<()> {
    for signal in [SIGTERM, SIGINT] {
        flag::register(signal, Arc::default()).with_context(|| format!("listening to signal {signal}"))?;
    }
    Ok(())
}
