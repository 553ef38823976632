//! The operation that is under way, and the ordinals that name its points.

use crate::choice::{Phase, Role};

/// Counts the points of one operation.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) label: &'static str,
    pub(super) ordinal: u32,
    pub(super) phase: Phase,
    counts: [u16; Phase::COUNT * Role::COUNT],
}

impl Operation {
    pub(super) const fn new(label: &'static str, ordinal: u32, phase: Phase) -> Self {
        Self { label, ordinal, phase, counts: [0; Phase::COUNT * Role::COUNT] }
    }

    /// The next ordinal of `role` in the given phase, from 1.
    pub(super) fn count(&mut self, phase: Phase, role: Role) -> u32 {
        let count = &mut self.counts[phase as usize * Role::COUNT + role as usize];
        *count = count.saturating_add(1);
        u32::from(*count)
    }
}

/// How many operations of each label a process has begun.
#[derive(Debug, Default)]
pub(super) struct Ordinals(Vec<(&'static str, u32)>);

impl Ordinals {
    pub(super) fn next(&mut self, label: &'static str) -> u32 {
        if let Some((_, count)) = self.0.iter_mut().find(|(known, _)| *known == label) {
            *count += 1;
            return *count;
        }
        self.0.push((label, 1));
        1
    }
}
