//! What the logs themselves prove: where the queue, or another program on its file, did not keep the contract.
//!
//! A line is written after its commit, and a process may stand still between the two. So only that counts which no
//! delay of a line can explain; where a time is compared, [`SLACK_MS`] is allowed for the commit.

use std::collections::BTreeMap;

use ackward::rules::Outcome;

use super::What;
use super::log::{Log, Placed};

/// What a commit may take after the worker has looked at its clock, in ms: as long as it waits for a lock.
const SLACK_MS: i64 = 1_000;

/// A line that the contract does not allow.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Finding {
    /// The log.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The clause of the contract.
    pub clause: &'static str,
    /// What is wrong.
    pub what: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {} ({})", self.file, self.line, self.what, self.clause)
    }
}

/// One claim's lines, and what they come to.
struct Claim<'l> {
    token: i64,
    attempt: i64,
    lines: Vec<&'l Placed>,
}

pub(super) fn check(log: &Log) -> Vec<Finding> {
    let mut checker = Checker { log, findings: Vec::new() };
    let mut jobs: BTreeMap<&str, Vec<Claim<'_>>> = BTreeMap::new();
    for ((job, token), lines) in log.claims() {
        let attempt = lines.first().map_or(1, |placed| placed.line.ticket.attempt.get());
        jobs.entry(job).or_default().push(Claim { token, attempt, lines });
    }
    for (job, claims) in &jobs {
        claims.iter().for_each(|claim| checker.within(claim));
        // What came between two claims may be lost in a gap.
        let is_known = |claim: &Claim<'_>| log.known.get(*job).is_none_or(|known| claim.token < known.token);
        for pair in claims.windows(2).filter(|pair| is_known(&pair[0]) && is_known(&pair[1])) {
            checker.between(&pair[0], &pair[1]);
        }
        checker.order(claims);
    }
    checker.findings
}

struct Checker<'l> {
    log: &'l Log,
    findings: Vec<Finding>,
}

impl Checker<'_> {
    fn find(&mut self, at: &Placed, clause: &'static str, what: String) {
        let file = self.log.files.get(at.file).cloned().unwrap_or_default();
        self.findings.push(Finding { file, line: at.number, clause, what });
    }

    /// The lines of one claim.
    fn within(&mut self, claim: &Claim<'_>) {
        let Some(first) = claim.lines.first() else { return };
        let ticket = &first.line.ticket;
        let (job, token) = (&ticket.id, claim.token);
        let (mut claims, mut recorded) = (0, 0);
        for placed in &claim.lines {
            let (line, other) = (&placed.line, &placed.line.ticket);
            if line.what == What::Claimed {
                claims += 1;
                if claims > 1 {
                    let what = format!(
                        "job {job} is claimed with token {token} a second time, by {}; was it pruned and enqueued anew?",
                        other.owner
                    );
                    self.find(placed, "Q11, Q34", what);
                }
            } else if other.owner != ticket.owner {
                let what =
                    format!("token {token} of job {job} belongs to {} and to {}", ticket.owner, other.owner);
                self.find(placed, "Q34", what);
            }
            if other.qty != ticket.qty {
                let what = format!("job {job} has qty {} and qty {}", ticket.qty.get(), other.qty.get());
                self.find(placed, "Q22, Q31", what);
            }
            if claims < 2 && other.attempt != ticket.attempt {
                let what = format!(
                    "token {token} of job {job} is attempt {} and attempt {}",
                    claim.attempt,
                    other.attempt.get()
                );
                self.find(placed, "Q31", what);
            }
            if let What::Finished(outcome, _, word) = &line.what {
                self.finished(placed, *outcome, word);
                recorded += usize::from(word != "stale");
                if recorded > 1 && word != "stale" {
                    self.find(placed, "Q36", format!("job {job} is finished twice with token {token}"));
                }
            }
        }
    }

    /// A finish by itself.
    fn finished(&mut self, placed: &Placed, outcome: Outcome, word: &str) {
        let allowed: &[&str] = match outcome {
            Outcome::Ok => &["done", "stale"],
            Outcome::Retry => &["pending", "dead", "stale"],
            Outcome::Permanent => &["dead", "stale"],
        };
        let (line, job) = (&placed.line, placed.line.job());
        if !allowed.contains(&word) {
            let what = format!("job {job} is {word} after {outcome}, allowed: {}", allowed.join(", "));
            self.find(placed, "Q37 to Q39", what);
        }
        let late_ms = line.at_ms - line.ticket.lease_until_ms();
        if word != "stale" && late_ms >= SLACK_MS {
            let what = format!(
                "job {job} is {word} with token {} {late_ms} ms after its lease ended, allowed: stale",
                line.token()
            );
            self.find(placed, "Q36", what);
        }
    }

    /// A claim and the next one that the logs know.
    fn between(&mut self, before: &Claim<'_>, after: &Claim<'_>) {
        let Some(placed) = after.lines.first() else { return };
        let (job, gap) = (placed.line.job(), after.token - before.token);
        let is_released =
            before.lines.iter().any(|placed| placed.line.what == What::Released("pending".to_owned()));
        let ended = before.lines.iter().find_map(|placed| match &placed.line.what {
            What::Finished(_, _, word) if word != "stale" => Some(word.as_str()),
            _ => None,
        });
        let (token, attempt, earlier) = (after.token, after.attempt, before.attempt);
        if ended == Some("done") {
            self.find(
                placed,
                "Q37, Q43",
                format!("job {job} was done with token {} and has token {token}", before.token),
            );
        } else if ended == Some("dead") && attempt > gap {
            self.find(placed, "Q45", format!("job {job} was dead with token {} and is at attempt {attempt} with token {token}, allowed: up to {gap}", before.token));
        } else if attempt > earlier + gap {
            self.find(placed, "Q31", format!("job {job} is at attempt {attempt} with token {token}, and was at {earlier} with token {}", before.token));
        } else if gap == 1 && attempt <= earlier && attempt != 1 && !is_released {
            self.find(placed, "Q31", format!("job {job} is at attempt {attempt} again with token {token}, allowed: {}, or 1 after a redrive", earlier + 1));
        }
        self.live(before, placed, is_released || ended.is_some());
    }

    /// At most one lease is live: the next claim comes when the lease before has ended.
    fn live(&mut self, before: &Claim<'_>, next: &Placed, is_ended: bool) {
        let until_ms =
            before.lines.iter().map(|placed| placed.line.ticket.lease_until_ms()).max().unwrap_or(0);
        // Its worker may have died after the commit and before the line.
        let may_have_ended = before.lines.last().is_some_and(|placed| {
            matches!(&placed.line.what, What::Answered(answer, _) if matches!(answer.as_str(), "retryable" | "permanent"))
        });
        if !is_ended && !may_have_ended && next.line.at_ms < until_ms {
            let what = format!(
                "job {} has token {} while token {} is live for {} ms more",
                next.line.job(),
                next.line.token(),
                before.token,
                until_ms - next.line.at_ms
            );
            self.find(next, "Q29, Q34", what);
        }
    }

    /// Tokens rise: within what one worker wrote to one file, and over all where a finish gives its time away.
    fn order(&mut self, claims: &[Claim<'_>]) {
        let mut made: Vec<_> = claims
            .iter()
            .flat_map(|claim| &claim.lines)
            .filter(|placed| placed.line.what == What::Claimed)
            .collect();
        made.sort_by_key(|placed| (placed.file, placed.number));
        for pair in made.windows(2) {
            let (earlier, later) = (&pair[0], &pair[1]);
            let is_one = earlier.file == later.file && earlier.line.ticket.owner == later.line.ticket.owner;
            if is_one && later.line.token() < earlier.line.token() {
                let what = format!(
                    "the token of job {} falls from {} to {}",
                    later.line.job(),
                    earlier.line.token(),
                    later.line.token()
                );
                self.find(later, "Q11", what);
            }
        }
        for claim in claims {
            for placed in &claim.lines {
                let is_recorded = matches!(&placed.line.what, What::Finished(_, _, word) if word != "stale");
                let newer = made.iter().filter(|made| made.line.token() > claim.token);
                let newer = newer
                    .filter(|made| made.line.at_ms + SLACK_MS <= placed.line.at_ms)
                    .min_by_key(|made| made.line.at_ms);
                if let Some(newer) = newer.filter(|_| is_recorded) {
                    let what = format!(
                        "job {} is finished with token {} after token {} was issued, allowed: stale",
                        placed.line.job(),
                        claim.token,
                        newer.line.token()
                    );
                    self.find(placed, "Q36", what);
                }
            }
        }
    }
}
