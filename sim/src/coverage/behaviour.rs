//! What a run did, seen from afar, without processes and ordinals: what was decided where (operation, phase, role); what
//! the databases roughly held there; and what followed what, by operation, phase and decision.

use std::collections::BTreeSet;

use crate::choice::{Chooser, Decision, Kind, Offer, Point, stable_hash};
use crate::judge::{self, Judges};

/// Numbers above this are "many".
const MANY: u64 = 2;

/// Behaviours by their hashes, which are the same on every machine.
pub type Behaviours = BTreeSet<u64>;

/// A point of a run, and one thing that may happen there.
pub(super) type Met = (Point, Offer);

/// Answers as another chooser does, and notes the behaviours on the way.
pub(super) struct Watcher<C> {
    inner: C,
    seen: Vec<u64>,
    before: u64,
    /// When the databases were looked at last, and what they held.
    looked_at: Option<[u64; 4]>,
    databases: u64,
    /// What may happen where, for those who want to know it; of these kinds.
    met: Option<(Vec<Kind>, Vec<Met>)>,
}

impl<C> Watcher<C> {
    pub(super) const fn new(inner: C) -> Self {
        Self { inner, seen: Vec::new(), before: 0, looked_at: None, databases: 0, met: None }
    }

    /// Also lists everything of these kinds that may happen.
    pub(super) fn listing(inner: C, kinds: Vec<Kind>) -> Self {
        Self { met: Some((kinds, Vec::new())), ..Self::new(inner) }
    }

    pub(super) fn behaviours(&self) -> Behaviours {
        self.seen.iter().copied().collect()
    }

    pub(super) fn met(&mut self) -> Vec<Met> {
        self.met.take().map(|(_, met)| met).unwrap_or_default()
    }

    fn see(&mut self, behaviour: [u64; 3]) {
        self.seen.push(stable_hash(behaviour.map(u64::to_le_bytes).as_flattened()));
    }

    /// The databases change with a commit or a power cut only: nothing is computed anew in between.
    fn look(&mut self) {
        let looked = judge::peek(|judges| {
            let version = version(judges);
            (self.looked_at != Some(version)).then(|| (version, databases(judges)))
        });
        if let Some(Some((version, databases))) = looked {
            self.looked_at = Some(version);
            self.databases = databases;
        }
    }
}

impl<C: Chooser> Chooser for Watcher<C> {
    fn choose(&mut self, point: &Point, offers: &[Offer]) -> Decision {
        let decision = self.inner.choose(point, offers);
        if let Some((kinds, met)) = &mut self.met {
            let wanted = offers.iter().filter(|offer| kinds.contains(&offer.kind));
            met.extend(wanted.map(|offer| (*point, *offer)));
        }
        self.look();
        // The role counts by itself only: with the databases or in a sequence of points, every run of a larger scenario
        // would be new in some way, and nothing would guide.
        let decided = decision.kind as u8;
        let operation = stable_hash(point.operation.as_bytes());
        let here = operation ^ stable_hash(&[point.phase as u8, decided]).rotate_left(1);
        let exact = operation ^ stable_hash(&[point.phase as u8, decided, point.role as u8]).rotate_left(1);
        self.see([exact, 0, 0]);
        self.see([here, self.databases, 1]);
        if here != self.before {
            self.see([self.before, here, 2]);
            self.before = here;
        }
        decision
    }
}

/// Changes whenever [`databases`] may.
fn version(judges: &Judges) -> [u64; 4] {
    let stores =
        judges.stores.iter().map(|store| store.file.commits() * 2 + u64::from(store.file.is_unsettled()));
    [
        judges.queue.commits(),
        judges.inbox.commits(),
        stores.sum(),
        u64::from(judges.queue.is_unsettled()) * 2 + u64::from(judges.inbox.is_unsettled()),
    ]
}

/// How many jobs there are of each status with so many attempts and so great a token, how many effects, and how far
/// each consumer has come; numbers up to [`MANY`] only.
fn databases(judges: &Judges) -> u64 {
    let few = |number: i64| u64::try_from(number).unwrap_or(0).min(MANY);
    let jobs = judges.queue.model().jobs().values();
    let mut jobs: Vec<_> = jobs
        .map(|job| [stable_hash(job.status.as_str().as_bytes()), few(job.attempts), few(job.token)])
        .collect();
    jobs.sort_unstable();
    let many = usize::try_from(MANY).unwrap_or(usize::MAX);
    // Of equal ones only the first few count.
    let is_one_of_few = |at: &usize| *at < many || jobs[*at] != jobs[*at - many];
    let jobs = (0..jobs.len()).filter(is_one_of_few).flat_map(|at| jobs[at]);
    let effects = judges.inbox.model().0.effects().len() as u64;
    let stores = judges.stores.iter().map(|store| few(store.file.model().0.state().0 + 1));
    let rest =
        [version(judges)[3], effects.min(MANY), judges.queue.model().redrives().len().min(many) as u64];
    let all: Vec<u8> = jobs.chain([u64::MAX]).chain(stores).chain(rest).flat_map(u64::to_le_bytes).collect();
    stable_hash(&all)
}
