//! What the workers of a simulated run tell, kept as production writes it to its event log.

use std::cell::RefCell;

use ackward::shell::{Happening, Observer};

use super::Line;
use crate::computer::{Context, EPOCH_MS};

thread_local! {
    static LINES: RefCell<Option<Vec<Line>>> = const { RefCell::new(None) };
}

/// Runs simulations and returns what their workers told. Calls within one another: the inner one gets the lines.
pub fn keep<T>(body: impl FnOnce() -> T) -> (T, Vec<Line>) {
    let outer = LINES.replace(Some(Vec::new()));
    let result = body();
    let lines = LINES.replace(outer);
    (result, lines.unwrap_or_default())
}

/// Calls `body` with what was told so far; with nothing where nobody keeps it.
pub(super) fn so_far<T>(body: impl FnOnce(&[Line]) -> T) -> T {
    LINES.with_borrow(|lines| body(lines.as_deref().unwrap_or_default()))
}

/// A simulated worker's observer. It reads the true time, so that telling changes nothing.
pub struct Diary(pub Context);

impl Observer for Diary {
    fn saw(&self, happening: &Happening<'_>) {
        LINES.with_borrow_mut(|lines| {
            let Some(lines) = lines.as_mut().filter(|_| self.0.is_alive()) else { return };
            let at_ms = EPOCH_MS + self.0.world().now_us() / 1_000;
            lines.extend(Line::of(happening, at_ms));
        });
    }
}
