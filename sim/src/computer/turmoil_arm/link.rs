//! The links between hosts, as the world wants them: open, held for a while, or cut. turmoil is told of changes between
//! two ticks only.

use std::collections::BTreeMap;

use ::turmoil::Sim;

use crate::computer::world::{Machine, MachineId, Process, ProcessId};

/// What a link does with messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Link {
    /// It carries them.
    #[default]
    Open,
    /// It keeps them, and delivers them once it is open again.
    Held,
    /// It loses them: a stream that loses one never delivers again.
    Cut,
}

/// All links that are not open, and why.
#[derive(Default)]
pub(super) struct Links {
    links: BTreeMap<(ProcessId, ProcessId), Link>,
    /// Machines that do not reach each other, and until when, in microseconds.
    partitions: Vec<(MachineId, MachineId, i64)>,
    /// Processes whose messages to each other are held, and until when, in microseconds.
    holds: Vec<(ProcessId, ProcessId, i64)>,
    has_changed: bool,
}

/// Where processes are, and which machines have power.
pub(super) struct Layout<'a> {
    pub(super) processes: &'a [Process],
    pub(super) machines: &'a [Machine],
    /// In microseconds of virtual time.
    pub(super) now_us: i64,
}

/// A link, and what it becomes.
pub(super) type Change = (ProcessId, ProcessId, Link, Link);

impl Links {
    /// Looks at all links anew before the next tick.
    pub(super) fn have_changed(&mut self) {
        self.has_changed = true;
    }

    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    pub(super) fn partition(&mut self, a: MachineId, b: MachineId, until_us: i64) {
        self.partitions.push((a, b, until_us));
        self.have_changed();
    }

    pub(super) fn hold(&mut self, a: ProcessId, b: ProcessId, until_us: i64) {
        self.holds.push((a, b, until_us));
        self.have_changed();
    }

    pub(super) fn between(&self, a: ProcessId, b: ProcessId) -> Link {
        self.links.get(&(a.min(b), a.max(b))).copied().unwrap_or_default()
    }

    /// The links that change now.
    pub(super) fn changes(
        &mut self,
        layout: &Layout<'_>,
        processes: impl Iterator<Item = ProcessId> + Clone,
    ) -> Vec<Change> {
        self.partitions.retain(|(_, _, until_us)| *until_us > layout.now_us);
        self.holds.retain(|(_, _, until_us)| *until_us > layout.now_us);
        let mut changes = Vec::new();
        for b in processes.clone() {
            for a in processes.clone().take_while(|a| *a < b) {
                let (before, after) = (self.between(a, b), self.wanted(layout, a, b));
                if before != after {
                    self.links.insert((a, b), after);
                    changes.push((a, b, before, after));
                }
            }
        }
        changes
    }

    fn wanted(&self, layout: &Layout<'_>, a: ProcessId, b: ProcessId) -> Link {
        let (here, there) = (layout.processes[a].machine, layout.processes[b].machine);
        let is_off = layout.machines[here].is_off || layout.machines[there].is_off;
        if is_off || self.partitions.iter().any(|(x, y, _)| is_pair((*x, *y), (here, there))) {
            Link::Cut
        } else if self.holds.iter().any(|(x, y, _)| is_pair((*x, *y), (a, b))) {
            Link::Held
        } else {
            Link::Open
        }
    }
}

/// Tells turmoil of a change.
pub(super) fn join(sim: &Sim<'_>, (a, b): (&str, &str), before: Link, after: Link) {
    match (before, after) {
        (_, Link::Cut) => sim.partition(a, b),
        (_, Link::Held) => sim.hold(a, b),
        (Link::Held, Link::Open) => sim.release(a, b),
        (_, Link::Open) => sim.repair(a, b),
    }
}

fn is_pair(one: (usize, usize), other: (usize, usize)) -> bool {
    one == other || (one.1, one.0) == other
}
