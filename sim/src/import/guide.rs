//! A chooser that knows how the story goes: it lets each worker claim when it is its turn, and lets strike what struck
//! then. All else is left to the seed. What it answers are deviations as any other, so the run replays without it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::diary;
use super::plan::{Answer, Cue, End};
use super::{Draft, Line, What};
use crate::choice::{Chooser, Decision, Kind, Offer, Phase, Point, Random, Role};
use crate::computer::EPOCH_MS;

/// How often a worker is made to wait for one and the same turn.
const WAITS_MAX: u32 = 60;
/// The shortest of these waits, in ms.
const WAIT_MIN_MS: i64 = 20;
/// How much longer than its lease a worker stands still that is to be late, in ms.
const LATE_MS: i64 = 50;
const RECEIVER: usize = 0;

pub(super) struct Guide {
    names: Vec<String>,
    /// Lease and slots of the workers.
    workers: BTreeMap<String, (i64, i64)>,
    cues: Vec<Cue>,
    /// When the last of them ends, in ms.
    last_ms: i64,
    /// The first cues of an owner, a job and a token.
    places: BTreeMap<(String, String, i64), usize>,
    /// All cues before this one are claimed.
    first: usize,
    /// Whether a worker that is to die dies before its request is sent.
    dies_early: bool,
    rest: Option<Random>,
    seen: usize,
    /// When something was last told, since the beginning, in ms; and until when each process stood still.
    now_ms: i64,
    awake_ms: BTreeMap<usize, i64>,
    claimed: BTreeSet<usize>,
    /// Claims that are under way, by worker.
    open: BTreeMap<String, Vec<usize>>,
    /// Cues that were given.
    given: BTreeSet<(usize, Role)>,
    waits: BTreeMap<(usize, Option<usize>), u32>,
    /// The last operation of each process that was looked at.
    turns: BTreeMap<usize, (u32, u32)>,
    /// What the receiver does to the requests that come next.
    replies: VecDeque<Decision>,
}

impl Guide {
    pub(super) fn new(draft: &Draft, dies_early: bool, rest: Option<Random>) -> Self {
        let workers = draft.scenario.worker_processes();
        let workers =
            workers.iter().map(|(name, worker)| (name.to_string(), (worker.lease_ms.get(), worker.slots)));
        Self {
            names: draft.scenario.process_names(),
            workers: workers.collect(),
            last_ms: draft.cues.iter().map(|cue| cue.last_ms).max().unwrap_or(0),
            // Of equal ones the first counts, which is put in last.
            places: draft.cues.iter().enumerate().rev().map(|(at, cue)| (key(cue), at)).collect(),
            first: 0,
            cues: draft.cues.clone(),
            dies_early,
            rest,
            seen: 0,
            now_ms: 0,
            awake_ms: BTreeMap::new(),
            claimed: BTreeSet::new(),
            open: BTreeMap::new(),
            given: BTreeSet::new(),
            waits: BTreeMap::new(),
            turns: BTreeMap::new(),
            replies: VecDeque::new(),
        }
    }

    /// Follows what the workers have told since.
    fn catch_up(&mut self) {
        let news = diary::so_far(|lines| lines.get(self.seen..).unwrap_or_default().to_vec());
        self.seen += news.len();
        self.now_ms = news.last().map_or(self.now_ms, |line| line.at_ms - EPOCH_MS);
        for line in &news {
            let Some(cue) = self.cue_of(line) else { continue };
            let open = self.open.entry(line.ticket.owner.to_string()).or_default();
            if line.what == What::Claimed {
                self.claimed.insert(cue);
                open.push(cue);
            } else if line.what.is_last() {
                self.claimed.insert(cue);
                open.retain(|known| *known != cue);
            }
        }
    }

    fn cue_of(&self, line: &Line) -> Option<usize> {
        let (owner, job) = (line.ticket.owner.to_string(), line.job().to_owned());
        self.places.get(&(owner, job, line.token())).copied()
    }

    fn cued(&mut self, point: &Point) -> Option<Decision> {
        if point.process == RECEIVER {
            return if point.role == Role::Serve { self.replies.front().copied() } else { None };
        }
        let name = self.names.get(point.process)?.clone();
        let (lease_ms, slots) = *self.workers.get(&name)?;
        self.catch_up();
        if point.operation.starts_with("claim") && point.phase != Phase::Message && point.phase != Phase::Wait
        {
            return if slots == 1 { self.turn(point, &name) } else { None };
        }
        let at = *self.open.get(&name)?.last()?;
        let cue = self.cues.get(at)?.clone();
        let late = Decision { kind: Kind::Stall, value: lease_ms + LATE_MS };
        let kill = Decision { kind: Kind::Kill, value: 0 };
        let decision = match (point.operation, point.phase, point.role) {
            (_, Phase::Message, Role::Connect) if cue.answer == Answer::NoConnection => {
                plain(Kind::ConnectRefused)
            }
            (_, Phase::Message, Role::Request) if cue.end == End::Lost => {
                Decision { kind: Kind::Slow, value: lease_ms }
            }
            (_, Phase::Message, Role::Request) => self.request(&cue, at)?,
            (_, Phase::Message, Role::Reply) if cue.end == End::Killed && cue.answer == Answer::None => kill,
            ("finish", _, _) if cue.end == End::Killed => kill,
            ("finish", _, _) if cue.end == End::Late => late,
            ("renew", _, _) if cue.end == End::Lost => late,
            _ => return None,
        };
        self.given.insert((at, place(point.role))).then_some(decision)
    }

    /// What becomes of a request.
    fn request(&mut self, cue: &Cue, at: usize) -> Option<Decision> {
        if cue.end == End::Killed && cue.answer == Answer::None {
            return self.dies_early.then_some(plain(Kind::Kill));
        }
        let reply = match cue.answer {
            Answer::TimedOut => return Some(plain(Kind::RequestLost)),
            Answer::Broken => return Some(plain(Kind::Reset)),
            Answer::Refused(place) => Decision { kind: Kind::Refused, value: place },
            Answer::BadAck => Decision { kind: Kind::WrongReply, value: 1 },
            _ => return None,
        };
        if self.given.insert((at, Role::Serve)) {
            self.replies.push_back(reply);
        }
        None
    }

    /// A worker is about to claim: it stands still until its own time, and while another one comes first.
    fn turn(&mut self, point: &Point, name: &str) -> Option<Decision> {
        while self.claimed.contains(&self.first) {
            self.first += 1;
        }
        let first = self.first;
        let is_free = |at: &usize| !self.claimed.contains(at);
        let mut free = (first..self.cues.len()).filter(is_free);
        let own = free.find(|at| self.cues[*at].owner == name);
        if first >= self.cues.len() {
            return None;
        }
        let gives_back = own == Some(first) && self.cues[first].end == End::Released;
        if gives_back && point.phase == Phase::Commit && self.given.insert((first, Role::Resume)) {
            return Some(plain(Kind::Terminate));
        }
        let turn = (point.incarnation, point.ordinal);
        if self.turns.insert(point.process, turn) == Some(turn) {
            return None;
        }
        let waits = self.waits.entry((point.process, own)).or_default();
        *waits += 1;
        if *waits > WAITS_MAX {
            return None;
        }
        let now_ms = self.now_ms.max(self.awake_ms.get(&point.process).copied().unwrap_or(0));
        let until_ms = own.map_or(self.last_ms + LATE_MS, |own| self.cues[own].at_ms);
        let is_first = own == Some(first);
        if is_first && until_ms <= now_ms {
            return None;
        }
        let value = (until_ms - now_ms).max(if is_first { 1 } else { WAIT_MIN_MS });
        self.awake_ms.insert(point.process, now_ms + value);
        Some(Decision { kind: Kind::Stall, value })
    }

    /// Notes what an answer does to what was under way.
    fn apply(&mut self, point: &Point, decision: Decision) {
        if point.process == RECEIVER {
            self.replies.pop_front();
        } else if decision.kind == Kind::Kill
            && let Some(name) = self.names.get(point.process)
        {
            self.open.remove(name);
        }
    }
}

impl Chooser for Guide {
    fn choose(&mut self, point: &Point, offers: &[Offer]) -> Decision {
        let cued = self.cued(point);
        if let Some(decision) = cued.filter(|decision| offers.iter().any(|offer| offer.allows(*decision))) {
            self.apply(point, decision);
            return decision;
        }
        self.rest.as_mut().map_or(Decision::GO, |rest| rest.choose(point, offers))
    }
}

/// What of a cue is told by a line of its own.
fn key(cue: &Cue) -> (String, String, i64) {
    (cue.owner.clone(), cue.job.clone(), cue.token)
}

const fn plain(kind: Kind) -> Decision {
    Decision { kind, value: 0 }
}

/// Where a cue is given once: all calls of one operation on the disk count as one place.
const fn place(role: Role) -> Role {
    match role {
        Role::Connect | Role::Request | Role::Reply => role,
        _ => Role::Other,
    }
}
