//! Panics of simulated code are results of a run, not noise on the terminal.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// The last panic inside a simulation on this thread, with its place.
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// From now on a panic inside a simulation is kept for [`guarded`] and not printed.
pub(crate) fn keep_quiet() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if ackward_sim::computer::current().is_none() {
            return usual(panic);
        }
        let _ = LAST.try_with(|last| last.try_borrow_mut().map(|mut last| *last = Some(panic.to_string())));
    }));
}

/// Runs simulations; a panic that comes out of them (the simulator's own, since those of simulated code are
/// caught where they happen) is an error with its text.
pub(crate) fn guarded<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|panic| {
        let text = LAST.take().or_else(|| panic.downcast_ref::<String>().cloned());
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        format!("the simulator panics: {}", text.unwrap_or_else(|| "without a text".to_owned()))
    })
}
