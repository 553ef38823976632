//! Which alternatives need not be run because another one that is run stands for them.
//!
//! Inside one SQLite operation, between two of its calls that lie next to each other in the run, nobody else runs and
//! no time passes. So two answers at neighbouring calls give the same run if the call between them does not matter
//! to them:
//!
//! - **A kill or a power cut** before a call and the one before the next are the same where the call only looks at
//!   something: nothing durable, no lock and no message has changed, and what the process has learnt dies with it.
//!   The first stands for the later ones.
//! - **SIGTERM** is only noticed when the operation is over or waits: the first call stands for those after it, up to
//!   a wait.
//! - **Preemption** (another process first, or a stall) before a call and after it are the same where the call
//!   commutes with everything that others can do meanwhile: reading under the lock that keeps writers out. The last
//!   stands for those before it. Writing and syncing under the lock that keeps others out commutes as well, but only where
//!   nothing can follow that asks what is on the disk at that moment (a kill, a cut): where it is the last deviation.
//!
//! Errors are never left out: each makes SQLite take another path.

use super::walker::Met;
use crate::choice::{Kind, Phase, Role};

/// Whether another alternative stands for answering `kind` at the point `at`; `remaining` is how many deviations may
/// follow.
#[must_use]
pub fn is_covered(met: &[Met], at: usize, kind: Kind, remaining: u32) -> bool {
    let role = met[at].point.role;
    match kind {
        Kind::Kill | Kind::PowerCut => {
            at > 0 && is_next(met, at) && offers(&met[at - 1], kind) && only_looks(met[at - 1].point.role)
        }
        Kind::Terminate => {
            at > 0 && is_next(met, at) && offers(&met[at - 1], kind) && met[at - 1].point.role != Role::Sleep
        }
        Kind::Switch | Kind::Stall => {
            let commutes = reads(role) || (remaining == 0 && writes(role));
            commutes && at + 1 < met.len() && is_next(met, at + 1) && offers(&met[at + 1], kind)
        }
        _ => false,
    }
}

/// Whether the point follows the one before it in the same operation, so that nothing lies between them.
fn is_next(met: &[Met], at: usize) -> bool {
    let (before, here) = (&met[at - 1].point, &met[at].point);
    let operation = |at: &crate::choice::Point| {
        (at.process, at.incarnation, at.operation, at.ordinal, is_inside(at.phase))
    };
    met[at - 1].position + 1 == met[at].position
        && is_inside(here.phase)
        && operation(before) == operation(here)
}

/// Whether a phase lies inside SQLite.
const fn is_inside(phase: Phase) -> bool {
    matches!(phase, Phase::Begin | Phase::Write | Phase::Commit | Phase::End)
}

fn offers(met: &Met, kind: Kind) -> bool {
    met.offers.iter().any(|offer| offer.kind == kind)
}

/// Calls that change nothing at all.
const fn only_looks(role: Role) -> bool {
    reads(role) || matches!(role, Role::JournalAccess | Role::DbAccess | Role::DbCheckReserved)
}

/// Calls that only look at what a lock protects from others.
const fn reads(role: Role) -> bool {
    matches!(role, Role::DbRead | Role::DbSize | Role::JournalRead | Role::JournalSize)
}

/// Calls that only change what a lock hides from others, or what is durable of it.
const fn writes(role: Role) -> bool {
    matches!(role, Role::DbWrite | Role::JournalWrite | Role::DbSync | Role::JournalSync | Role::DirSync)
}
