//! Where a run left the default. Most runs are never asked, so that points get their names only when somebody looks.

use std::cell::OnceCell;
use std::fmt;
use std::ops::Deref;

use crate::choice::{Decision, Deviation, Point};
use crate::computer::{Ending, named};

/// The deviations of a run, in the order of their points.
#[derive(Clone, Default)]
pub struct Deviations {
    raw: Vec<(Point, Decision)>,
    /// The processes by number, with their names.
    processes: Vec<(String, Option<Ending>)>,
    named: OnceCell<Vec<Deviation>>,
}

impl Deviations {
    pub(super) fn new(raw: Vec<(Point, Decision)>, processes: Vec<(String, Option<Ending>)>) -> Self {
        Self { raw, processes, named: OnceCell::new() }
    }

    /// The deviations as a list of its own.
    #[must_use]
    pub fn into_vec(self) -> Vec<Deviation> {
        self.named.into_inner().unwrap_or_else(|| named(&self.raw, &self.processes))
    }
}

impl Deref for Deviations {
    type Target = [Deviation];

    fn deref(&self) -> &[Deviation] {
        self.named.get_or_init(|| named(&self.raw, &self.processes))
    }
}

impl PartialEq for Deviations {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl PartialEq<Vec<Deviation>> for Deviations {
    fn eq(&self, other: &Vec<Deviation>) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Deviations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
