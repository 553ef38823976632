//! The one idea that carries the simulator: everything that could have gone otherwise is one call of
//! [`Chooser::choose`] at a named [`Point`]. "Go on" is always on offer and is the default; a run is fully
//! described by its scenario and its [`Deviation`]s, the few points where the answer was another.

mod action;
mod point;
mod random;
mod replay;
mod words;

pub use action::{Action, Decision, Kind, Offer, REFUSALS};
pub use point::{Phase, Point, PointName, PointNameError, Role, stable_hash};
pub use random::{Probabilities, Random, stream};
pub use replay::{Recorder, Replay};

/// Answers at every point of a run.
pub trait Chooser {
    /// Picks one of `offers`, or [`Decision::GO`]. The offers do not list "go on".
    fn choose(&mut self, point: &Point, offers: &[Offer]) -> Decision;

    /// Whether an answer other than "go on" is still possible; where not, points need not be computed.
    fn is_armed(&self) -> bool {
        true
    }
}

/// A chooser that somebody else still looks at after the run.
impl<C: Chooser> Chooser for std::rc::Rc<std::cell::RefCell<C>> {
    fn choose(&mut self, point: &Point, offers: &[Offer]) -> Decision {
        self.borrow_mut().choose(point, offers)
    }

    fn is_armed(&self) -> bool {
        self.borrow().is_armed()
    }
}

/// Any chooser, where which one is known only as the program runs.
impl Chooser for Box<dyn Chooser> {
    fn choose(&mut self, point: &Point, offers: &[Offer]) -> Decision {
        self.as_mut().choose(point, offers)
    }

    fn is_armed(&self) -> bool {
        self.as_ref().is_armed()
    }
}

/// A point at which a run left the default, and what happened there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deviation {
    /// Where.
    pub at: PointName,
    /// What.
    pub action: Action,
}

impl std::fmt::Display for Deviation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} = {}", self.at, self.action)
    }
}

/// The default everywhere: nothing special ever happens.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nothing;

impl Chooser for Nothing {
    fn choose(&mut self, _point: &Point, _offers: &[Offer]) -> Decision {
        Decision::GO
    }

    fn is_armed(&self) -> bool {
        false
    }
}
