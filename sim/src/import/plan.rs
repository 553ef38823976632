//! What is to happen again: each claim of a log with the faults that explain how it went on.

use std::collections::BTreeMap;

use super::What;
use super::log::{Log, Placed, by_claim};
use crate::choice::REFUSALS;

/// A claim that is to happen again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cue {
    pub(super) owner: String,
    pub(super) job: String,
    /// Counted from the job's first one in the log, from 1.
    pub(super) token: i64,
    pub(super) attempt: i64,
    /// Since the log's first line, in ms.
    pub(super) at_ms: i64,
    /// When its last line was written, likewise.
    pub(super) last_ms: i64,
    pub(super) answer: Answer,
    pub(super) end: End,
}

/// How the receiver answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// Not told.
    None,
    Ok,
    TimedOut,
    NoConnection,
    /// By a status, of this place among [`REFUSALS`].
    Refused(i64),
    Broken,
    /// With something that acknowledges nothing.
    BadAck,
    /// For good, which the simulated receiver never does.
    Permanent,
}

/// How the claim ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// In good order.
    Recorded,
    /// The log of its worker ends, or goes on with something else.
    Killed,
    /// Its finish came too late.
    Late,
    /// Its lease was lost.
    Lost,
    /// It was given back, unsent.
    Released,
    /// It went on where its worker could not write its log.
    Unknown,
}

/// The claims of a log in their order.
pub(super) fn plan(log: &Log) -> Vec<Cue> {
    let start_ms = log.known().next().map_or(0, |placed| placed.line.at_ms);
    let mut firsts = BTreeMap::new();
    let mut cues: Vec<Cue> = Vec::new();
    for ((job, token), lines) in by_claim(log.known()) {
        let first = *firsts.entry(job).or_insert(token);
        let (Some(head), Some(last)) = (lines.first(), lines.last()) else { continue };
        cues.push(Cue {
            owner: head.line.ticket.owner.to_string(),
            job: job.to_owned(),
            token: token - first + 1,
            attempt: head.line.ticket.attempt.get(),
            at_ms: head.line.at_ms - start_ms,
            last_ms: last.line.at_ms - start_ms,
            answer: answer(&lines),
            end: end(&lines, log.known.get(job).is_some_and(|known| known.goes_on_with(token))),
        });
    }
    cues.sort_by_key(|cue| cue.at_ms);
    cues
}

fn answer(lines: &[&Placed]) -> Answer {
    let told = lines.iter().find_map(|placed| match &placed.line.what {
        What::Answered(word, error) => Some((word.as_str(), error.as_deref().unwrap_or_default())),
        _ => None,
    });
    match told {
        None => Answer::None,
        Some(("ok", _)) => Answer::Ok,
        Some(("permanent", _)) => Answer::Permanent,
        Some(("retryable", error)) if error.contains("timed out") => Answer::TimedOut,
        Some(("retryable", error)) if error.contains("no connection") => Answer::NoConnection,
        Some(("retryable", error)) => {
            let place = REFUSALS.iter().position(|status| error.contains(&format!("answered {status}")));
            place.and_then(|place| i64::try_from(place).ok()).map_or(Answer::Broken, Answer::Refused)
        }
        Some(_) => Answer::BadAck,
    }
}

fn end(lines: &[&Placed], goes_on: bool) -> End {
    let ends = lines.iter().rev().find_map(|placed| match &placed.line.what {
        What::Finished(_, _, word) if word == "stale" => Some(End::Late),
        What::Finished(..) | What::LeftToLease => Some(End::Recorded),
        What::LeaseLost => Some(End::Lost),
        What::Released(_) => Some(End::Released),
        What::Claimed | What::Answered(..) => None,
    });
    ends.unwrap_or(if goes_on { End::Unknown } else { End::Killed })
}
