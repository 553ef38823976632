//! SIGINT, as by Ctrl-C, in the middle of a campaign: what was done so far is told and written, and the process ends with
//! 130. A second one ends it at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use signal_hook::consts::SIGINT;
use signal_hook::flag;

use super::Exit;

/// Whether the user wants this campaign to end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on SIGINT no longer ends this process, unless it comes a second time.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        let listening = || "listening to SIGINT";
        // In this order: the first one finds the flag down.
        flag::register_conditional_shutdown(SIGINT, Exit::Interrupted as i32, Arc::clone(&flag))
            .with_context(listening)?;
        flag::register(SIGINT, Arc::clone(&flag)).with_context(listening)?;
        Ok(Self(flag))
    }

    /// Whether there was one.
    pub(crate) fn has_come(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// From now on SIGINT does nothing: a terminal sends it to the children of a campaign, too, and when they end is up to
/// their parent.
pub(crate) fn ignore() -> anyhow::Result<()> {
    flag::register(SIGINT, Arc::default()).context("listening to SIGINT")?;
    Ok(())
}
