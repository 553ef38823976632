//! The power goes at every instant of every operation, and after it until the next sync, with each way of
//! losing what was not synced: the file then holds the rows of before or of after. `synchronous=FULL` can
//! take back a commit that was acknowledged, EXTRA cannot (M9).

mod common;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::rc::Rc;

use ackward::storage::Durability;
use ackward_sim::choice::{Kind, Offer, Phase, Role, stable_hash, stream};
use common::acts::{self, Answer};
use common::bench::{Bench, State, Then, Trial, place};
use common::cut::{Cut, changes_disk};
use rand_chacha::rand_core::RngCore;

/// Up to so many unsynced parts every subset of them is tried as what was kept.
const PARTS_MAX: usize = 8;
/// Random subsets tried of more parts than that, for the operation in the middle of everything and for the
/// others, whose commits do the same to the disk.
const SAMPLES_OF_CLAIM: usize = 200;
const SAMPLES: usize = 30;

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
    taken_back: Vec<TakenBack>,
}

/// A commit that was acknowledged and taken back.
struct TakenBack {
    instant: String,
    /// What became of what was not synced.
    fates: String,
}

/// The instants of an operation that differ: a disk changes by writing calls only, so that a cut before a read
/// is the cut before the call after it.
fn instants(bench: &Bench) -> Vec<Instant> {
    let during = bench.points(Then::Idle);
    let after = bench.points(Then::Next);
    // The next sync, that of the directory included, makes everything durable.
    let synced =
        after.iter().position(|(point, _)| point.role == Role::DirSync).map_or(after.len(), |at| at + 1);
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

fn cut(bench: &Bench, instant: &Instant, kept: Vec<bool>, recording: bool) -> (Trial, Vec<bool>) {
    let chooser = Rc::new(RefCell::new(Cut { at: instant.at, kept, answers: Vec::new() }));
    let trial = bench.run(Rc::clone(&chooser), instant.then, recording);
    let answers = std::mem::take(&mut chooser.borrow_mut().answers);
    (trial, answers)
}

/// Every way of losing what was not synced at an instant, or a fair sample of them; calls `judge` with each
/// run. Which parts there are can depend on what was kept of those before.
fn each_way(bench: &Bench, instant: &Instant, mut judge: impl FnMut(Trial, Vec<bool>)) {
    let (_, all) = cut(bench, instant, vec![true; 1_000], false);
    let parts = all.len();
    if parts <= PARTS_MAX {
        return walk(bench, instant, judge);
    }
    let samples = if bench.act.name == "claim" { SAMPLES_OF_CLAIM } else { SAMPLES };
    let mut random = stream(1, stable_hash(instant.name.as_bytes()));
    let single = (0..parts)
        .flat_map(|one| [true, false].map(|kept| (0..parts).map(|part| (part == one) == kept).collect()));
    let mut ways: Vec<Vec<bool>> = vec![vec![false; parts], vec![true; parts]];
    ways.extend(single);
    ways.extend((0..samples).map(|_| (0..parts).map(|_| random.next_u32() & 1 == 1).collect()));
    let mut seen = BTreeSet::new();
    for kept in ways {
        // A way that begins like one that was seen to its end is the same.
        if (0..=parts).any(|asked| seen.contains(&kept[..asked])) {
            continue;
        }
        let (trial, answers) = cut(bench, instant, kept, false);
        seen.insert(answers.clone());
        judge(trial, answers);
    }
}

/// Walks the whole tree of answers.
fn walk(bench: &Bench, instant: &Instant, mut judge: impl FnMut(Trial, Vec<bool>)) {
    let mut kept = Vec::new();
    loop {
        let (trial, answers) = cut(bench, instant, kept, false);
        kept = answers.clone();
        judge(trial, answers);
        while kept.pop_if(|last| *last).is_some() {}
        let Some(last) = kept.last_mut() else { return };
        *last = true;
    }
}

fn sweep(bench: &Bench) -> Tally {
    let mut tally = Tally::default();
    for instant in instants(bench) {
        tally.instants += 1;
        each_way(bench, &instant, |trial, kept| {
            tally.runs += 1;
            let place = || format!("{}, power cut at {}, kept {kept:?}", bench.act.name, instant.name);
            let state = bench.state(&trial.rows);
            let state = state.unwrap_or_else(|| panic!("{}:\n{}", place(), trial.rows));
            let acknowledged = trial.answer == Some(Answer::Done);
            assert_eq!(acknowledged, instant.then != Then::Idle, "{}", place());
            match state {
                State::Before => tally.before += 1,
                State::After => tally.after += 1,
            }
            if acknowledged && state == State::Before {
                let fates = fates(bench, &instant, &kept);
                tally.taken_back.push(TakenBack { instant: instant.name.clone(), fates });
            }
        });
    }
    tally
}

/// What became of the unsynced parts, in words.
fn fates(bench: &Bench, instant: &Instant, kept: &[bool]) -> String {
    let (trial, _) = cut(bench, instant, kept.to_vec(), true);
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
        let Tally { instants, runs, before, after, taken_back } = sweep(&bench);
        lost += taken_back.len();
        let _ = writeln!(
            text,
            "{:<16} {instants:>3} instants {runs:>5} ways: {before:>5} before, {after:>5} after; \
             acknowledged and taken back: {}",
            bench.act.name,
            taken_back.len()
        );
        let same = |one: &TakenBack, other: &TakenBack| one.fates == other.fates;
        for alike in taken_back.chunk_by(same) {
            let (first, last) = (&alike[0], &alike[alike.len() - 1]);
            let _ = writeln!(
                text,
                "    {}: {} times, at {} to {}",
                first.fates,
                alike.len(),
                first.instant,
                last.instant
            );
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
            let (trial, _) = cut(&bench, instant, vec![true; 1_000], false);
            let wanted =
                if instant.name.contains(Phase::End.as_str()) { State::After } else { State::Before };
            assert_eq!(bench.state(&trial.rows), Some(wanted), "{} at {}", bench.act.name, instant.name);
        }
    }
}
