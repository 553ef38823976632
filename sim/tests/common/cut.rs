//! Power cuts as a choice: where the power goes, and what of the unsynced parts survives.

use ackward_sim::choice::{Chooser, Decision, Kind, Offer, Point, Role};

/// Cuts the power at one point, and keeps of the unsynced parts those that `kept` says, in the order in which
/// they are asked for; the others are lost.
pub struct Cut {
    pub at: Option<u64>,
    pub kept: Vec<bool>,
    /// What was answered.
    pub answers: Vec<bool>,
}

impl Chooser for Cut {
    fn choose(&mut self, point: &Point, offers: &[Offer]) -> Decision {
        let decide = |kind, really: bool| if really { Decision { kind, value: 0 } } else { Decision::GO };
        if offers == [Offer::plain(Kind::Keep)] {
            let kept = self.kept.get(self.answers.len()).copied().unwrap_or(false);
            self.answers.push(kept);
            return decide(Kind::Keep, kept);
        }
        decide(Kind::PowerCut, self.at == Some(point.key()))
    }
}

/// Whether a call changes what a power cut finds: a cut before any other is the cut before the call after it.
pub const fn changes_disk(role: Role) -> bool {
    matches!(
        role,
        Role::DbWrite
            | Role::DbTruncate
            | Role::DbSync
            | Role::JournalOpen
            | Role::JournalWrite
            | Role::JournalTruncate
            | Role::JournalSync
            | Role::JournalDelete
            | Role::DirSync
    )
}
