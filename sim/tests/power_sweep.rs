//! The power goes at every instant of every operation, and after it until the next sync, with each way of
//! losing what was not synced: the file then holds the rows of before or of after. `synchronous=FULL` can
//! take back a commit that was acknowledged, EXTRA cannot (M9).

mod common;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::rc::Rc;

use ackward::storage::Durability;
use ackward_sim::choice::{Chooser, Decision, Kind, Offer, Phase, Point, Role, stream};
use common::acts::{self, Answer};
use common::bench::{Bench, State, Then, Trial, place};
use rand_chacha::rand_core::RngCore;

/// Up to so many unsynced parts every subset of them is tried as what was kept.
const PARTS_MAX: usize = 8;
/// Random subsets tried where there are more parts.
const SAMPLES: u64 = 200;

/// Cuts the power at one point, and keeps of the unsynced parts those that `kept` says, in the order in which
/// they are asked for; the others are lost.
struct Cut {
    at: Option<u64>,
    kept: Kept,
    /// What was answered.
    answers: Vec<bool>,
}

#[derive(Clone)]
enum Kept {
    These(Vec<bool>),
    All,
    Only(usize),
    AllBut(usize),
}

impl Kept {
    fn keeps(&self, part: usize) -> bool {
        match self {
            Self::These(parts) => parts.get(part).copied().unwrap_or(false),
            Self::All => true,
            Self::Only(one) => part == *one,
            Self::AllBut(one) => part != *one,
        }
    }
}

impl Chooser for Cut {
    fn choose(&mut self, point: &Point, offers: &[Offer]) -> Decision {
        let decide = |kind, really: bool| if really { Decision { kind, value: 0 } } else { Decision::GO };
        if offers == [Offer::plain(Kind::Keep)] {
            let kept = self.kept.keeps(self.answers.len());
            self.answers.push(kept);
            return decide(Kind::Keep, kept);
        }
        decide(Kind::PowerCut, self.at == Some(point.key()))
    }
}

/// An instant at which the power goes.
struct Instant {
    name: String,
    at: Option<u64>,
    then: Then,
}

/// What a sweep found.
#[derive(Default)]
struct Tally {
    instants: usize,
    runs: usize,
    before: usize,
    after: usize,
    /// Commits that were acknowledged and taken back: the instant and what was kept of what.
    taken_back: BTreeMap<(usize, String), Vec<String>>,
}

/// The instants of an operation that differ: a disk changes by writing calls only, so that a cut before a read
/// is the cut before the call after it.
fn instants(bench: &Bench) -> Vec<Instant> {
    let during = bench.points(Then::Idle);
    let after = bench.points(Then::Next);
    // The next sync, that of the directory included, makes everything durable.
    let synced = after.iter().position(|(point, _)| point.role == Role::DirSync).map_or(after.len(), |at| at + 1);
    let runs = [(during, Then::Idle), (after.into_iter().take(synced).collect(), Then::Next)];
    let mut instants = Vec::new();
    for (points, then) in runs {
        let mut is_new = true;
        for (point, _) in points.iter().filter(|(_, offers)| offers.contains(&Offer::plain(Kind::PowerCut))) {
            if is_new {
                instants.push(Instant { name: place(point), at: Some(point.key()), then });
            }
            is_new = changes_disk(point.role);
        }
        if then == Then::Idle {
            instants.push(Instant { name: "idle".to_owned(), at: None, then: Then::Cut });
        }
    }
    instants
}

const fn changes_disk(role: Role) -> bool {
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

fn cut(bench: &Bench, instant: &Instant, kept: Kept, recording: bool) -> (Trial, Vec<bool>) {
    let chooser = Rc::new(RefCell::new(Cut { at: instant.at, kept, answers: Vec::new() }));
    let trial = bench.run(Rc::clone(&chooser), instant.then, recording);
    let answers = std::mem::take(&mut chooser.borrow_mut().answers);
    (trial, answers)
}

/// Every way of losing what was not synced at an instant, or a fair sample; calls `judge` with each run.
fn each_way(bench: &Bench, instant: &Instant, mut judge: impl FnMut(Trial, Vec<bool>)) {
    let (_, all) = cut(bench, instant, Kept::All, false);
    if all.len() > PARTS_MAX {
        let single = (0..all.len()).flat_map(|part| [Kept::Only(part), Kept::AllBut(part)]);
        let mut random = stream(1, ackward_sim::choice::stable_hash(instant.name.as_bytes()));
        let sample = (0..SAMPLES).map(|_| Kept::These(all.iter().map(|_| random.next_u32() & 1 == 1).collect()));
        let ways = [Kept::These(Vec::new()), Kept::All].into_iter().chain(single).chain(sample.collect::<Vec<_>>());
        for kept in ways {
            let (trial, answers) = cut(bench, instant, kept, false);
            judge(trial, answers);
        }
        return;
    }
    // Which parts there are can depend on what was kept of those before: walk the tree of answers.
    let mut kept = Vec::new();
    loop {
        let (trial, answers) = cut(bench, instant, Kept::These(kept), false);
        kept = answers.clone();
        judge(trial, answers);
        while kept.pop_if(|last| *last).is_some() {}
        let Some(last) = kept.last_mut() else { return };
        *last = true;
    }
}

fn sweep(bench: &Bench) -> Tally {
    let mut tally = Tally::default();
    for (order, instant) in instants(bench).iter().enumerate() {
        tally.instants += 1;
        each_way(bench, instant, |trial, kept| {
            tally.runs += 1;
            let place = || format!("{}, power cut at {}, kept {kept:?}", bench.act.name, instant.name);
            match bench.state(&trial.rows) {
                Some(State::Before) => tally.before += 1,
                Some(State::After) => tally.after += 1,
                None => panic!("{}:\n{}", place(), trial.rows),
            }
            let acknowledged = trial.answer == Some(Answer::Done);
            assert_eq!(acknowledged, instant.then != Then::Idle, "{}", place());
            if acknowledged && bench.state(&trial.rows) == Some(State::Before) {
                let story = fates(bench, instant, &kept);
                tally.taken_back.entry((order, instant.name.clone())).or_default().push(story);
            }
        });
    }
    tally
}

/// What became of the unsynced parts, in words.
fn fates(bench: &Bench, instant: &Instant, kept: &[bool]) -> String {
    let (trial, _) = cut(bench, instant, Kept::These(kept.to_vec()), true);
    let entries = trial.end.events.iter().filter_map(|event| event.text.strip_prefix("unsynced: "));
    let mut fates: Vec<String> = entries.map(str::to_owned).collect();
    let sectors = kept.len() - fates.len();
    if sectors > 0 {
        let held = kept[fates.len()..].iter().filter(|kept| **kept).count();
        fates.push(format!("{held} of {sectors} sectors survived"));
    }
    fates.join(", ")
}

fn table(durability: Durability) -> (String, usize) {
    let mut text = String::new();
    let mut lost = 0;
    for act in acts::all() {
        let bench = Bench::new(act, durability);
        let tally = sweep(&bench);
        let taken_back: usize = tally.taken_back.values().map(Vec::len).sum();
        lost += taken_back;
        let _ = writeln!(
            text,
            "{:<16} {:>3} instants {:>5} runs: {:>5} before, {:>5} after, acknowledged and taken back {taken_back}",
            bench.act.name, tally.instants, tally.runs, tally.before, tally.after
        );
        for ((_, instant), ways) in tally.taken_back {
            let _ = writeln!(text, "    at {instant}: {} ways, the first: {}", ways.len(), ways[0]);
        }
    }
    (text, lost)
}

#[test]
fn m9_full_can_take_back_an_acknowledged_commit_but_never_leaves_anything_else() {
    let _alone = common::alone();
    let (text, lost) = table(Durability::Full);
    assert!(lost > 0, "FULL does not sync the directory after the journal's deletion:\n{text}");
    common::assert_snapshot("power-cuts-full", &text);
}

#[test]
fn m9_extra_never_takes_back_an_acknowledged_commit() {
    let _alone = common::alone();
    let (text, lost) = table(Durability::Extra);
    assert_eq!(lost, 0, "{text}");
    common::assert_snapshot("power-cuts-extra", &text);
}

#[test]
fn a_cut_that_keeps_everything_is_a_kill() {
    let _alone = common::alone();
    for act in acts::all() {
        let bench = Bench::new(act, Durability::Full);
        for instant in instants(&bench).iter().filter(|instant| instant.then == Then::Idle) {
            let (trial, _) = cut(&bench, instant, Kept::All, false);
            let wanted = if instant.name.contains(Phase::End.as_str()) { State::After } else { State::Before };
            assert_eq!(bench.state(&trial.rows), Some(wanted), "{} at {}", bench.act.name, instant.name);
        }
    }
}
