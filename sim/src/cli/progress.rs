//! The progress bar: on a terminal, and only for what takes longer than a second.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const PATIENCE: Duration = Duration::from_secs(1);
const TEMPLATE: &str = "{bar:24} {percent:>3}%  {wide_msg}";

/// How far a campaign has come. A clone is the same bar.
#[derive(Clone)]
pub(crate) struct Progress {
    bar: ProgressBar,
    began: Instant,
    /// Whether there is somebody to see it.
    is_wanted: bool,
    is_shown: Arc<AtomicBool>,
}

impl Progress {
    /// A bar that nobody sees yet; `length` is what [`Progress::set`] counts up to.
    pub(crate) fn new(length: u64, began: Instant, is_wanted: bool) -> Self {
        let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style.progress_chars("=> "));
        }
        let is_wanted = is_wanted && io::stdout().is_terminal() && io::stderr().is_terminal();
        Self { bar, began, is_wanted, is_shown: Arc::default() }
    }

    /// Moves the bar. It is shown by the first call after [`PATIENCE`]: what takes long calls this often, not only where
    /// the bar moves.
    pub(crate) fn set(&self, position: u64, message: impl FnOnce() -> String) {
        if !self.is_wanted {
            return;
        }
        if self.began.elapsed() > PATIENCE && !self.is_shown.swap(true, Ordering::Relaxed) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_message(message());
        self.bar.set_position(position);
    }

    /// Takes the bar away.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
