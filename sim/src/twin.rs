//! Broken twins of the queue, the sender and the receiver's inbox, and the way from a scenario to the system that it
//! names: the real one, or a twin with one mistake. A simulator that does not catch its twins proves nothing.

mod inbox;
mod queue;
mod sender;
mod steps;

use std::cell::RefCell;
use std::rc::Rc;

use crate::choice::Chooser;
use crate::scenario::{Flaw, Scenario};
use crate::scene::{Real, Report, RunOptions, SceneChooser, run_with};

pub use inbox::InboxTwin;
pub use queue::{Twin, Twins, make};
pub use sender::SenderTwin;

/// Runs a scenario's world with one seed, on the system that it names.
#[must_use]
pub fn run(scenario: &Rc<Scenario>, seed: u64, options: impl Into<RunOptions>) -> Report {
    let chooser = Rc::new(RefCell::new(SceneChooser::new(scenario, seed)));
    let mut report = run_choosing(scenario, seed, options, Rc::clone(&chooser));
    report.unmet = chooser.borrow().unmet();
    report
}

/// Runs a scenario's world with any chooser, on the system that it names.
#[must_use]
pub fn run_choosing<C: Chooser + 'static>(
    scenario: &Rc<Scenario>,
    seed: u64,
    options: impl Into<RunOptions>,
    chooser: C,
) -> Report {
    match scenario.system {
        Flaw::None => run_with::<Real, C>(scenario, seed, options, chooser),
        flaw => {
            make(flaw);
            run_with::<Twins, C>(scenario, seed, options, chooser)
        }
    }
}
