//! One line of an event log.

use ackward::rules::{Attempt, Event, Millis, Name, Outcome, Qty, Ticket, Token};
use ackward::shell::{Happening, SendError};
use ackward::storage::{Finished, Released};
use serde::{Deserialize, Serialize};

/// What the words of a line may be.
const ANSWERS: &[&str] = &["ok", "retryable", "permanent", "bad-ack", "other"];
const FINISHED: &[&str] = &["done", "dead", "pending", "stale"];
const RELEASED: &[&str] = &["pending", "stale"];
const WHATS: &str =
    "claimed, answered, finished, left-to-lease, lease-lost, released, lock-wait, queue-failed, lost";

/// A line as the file has it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename = "event")]
struct Row {
    at_ms: Option<i64>,
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ticket: Option<TicketRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    released: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since_ms: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename = "ticket", deny_unknown_fields)]
struct TicketRow {
    id: String,
    qty: i64,
    owner: String,
    token: i64,
    attempt: i64,
    lease_until: i64,
}

/// A line that tells of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// When it was written, in ms since the Unix epoch, by the worker's clock.
    pub at_ms: i64,
    /// What happened.
    pub what: What,
    /// To which claim.
    pub ticket: Ticket,
}

/// What happened to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// It was made.
    Claimed,
    /// The receiver answered, or did not: the word, and the error in words.
    Answered(String, Option<String>),
    /// Its outcome was recorded; the second is the new status, or `stale`.
    Finished(Outcome, i64, String),
    /// It was left to its lease.
    LeftToLease,
    /// Its lease was lost.
    LeaseLost,
    /// It was given back unsent: `pending`, or `stale`.
    Released(String),
}

/// What a line can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ticketed {
    /// It tells of a job.
    Yes(Line),
    /// It tells of something else, such as a wait for a lock.
    No,
    /// It tells that lines before it could not be written.
    Lost(Lost),
    /// Its ticket is one that the contract does not allow, and why.
    Invalid(String),
}

/// Lines that could not be written, on a full disk for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// How many.
    pub count: u64,
    /// When the first of them was to be, in ms since the Unix epoch, by the worker's clock.
    pub since_ms: i64,
    /// When lines could be written again, likewise.
    pub until_ms: i64,
}

impl Line {
    /// Reads a line.
    ///
    /// # Errors
    /// In words what is wrong and what is allowed, where it is no line of an event log at all.
    pub fn parse(text: &str) -> Result<Ticketed, String> {
        let row: Row = serde_json::from_str(text).map_err(|error| {
            format!("{error}, allowed: a JSON object such as {{\"at_ms\":0,\"what\":\"claimed\",\"ticket\":{{…}}}}")
        })?;
        if matches!(row.what.as_str(), "lock-wait" | "queue-failed") {
            return Ok(Ticketed::No);
        }
        if row.what == "lost" {
            let count = row.count.filter(|count| *count > 0);
            let count = count.ok_or("`count` is missing or 0, allowed: how many lines are lost")?;
            let (since_ms, until_ms) = (time("since_ms", row.since_ms)?, time("at_ms", row.at_ms)?);
            return Ok(Ticketed::Lost(Lost { count, since_ms, until_ms }));
        }
        let what = what(&row)?;
        let at_ms = time("at_ms", row.at_ms)?;
        let ticket = row.ticket.ok_or_else(|| format!("`ticket` is missing, required for {}", row.what))?;
        Ok(match ticket.checked() {
            Ok(ticket) => Ticketed::Yes(Self { at_ms, what, ticket }),
            Err(why) => Ticketed::Invalid(why),
        })
    }

    /// What a worker tells, as a line; `None` where it is not about a job.
    #[must_use]
    pub fn of(happening: &Happening<'_>, at_ms: i64) -> Option<Self> {
        let ticket = happening.ticket()?.clone();
        let what = match happening {
            Happening::Claimed { .. } => What::Claimed,
            Happening::Answered { answer: Ok(()), .. } => What::Answered("ok".to_owned(), None),
            Happening::Answered { answer: Err(error), .. } => {
                What::Answered(answer_word(error).to_owned(), Some(error.to_string()))
            }
            Happening::Finished { outcome, delay, finished, .. } => {
                let word = match finished {
                    Finished::Now(status) => status.as_str(),
                    Finished::Stale => "stale",
                };
                What::Finished(*outcome, delay.get(), word.to_owned())
            }
            Happening::LeftToLease { .. } => What::LeftToLease,
            Happening::LeaseLost { .. } => What::LeaseLost,
            Happening::Released { released, .. } => {
                What::Released(if *released == Released::Pending { "pending" } else { "stale" }.to_owned())
            }
            _ => return None,
        };
        Some(Self { at_ms, what, ticket })
    }

    /// The line as a file has it, without a line feed.
    #[must_use]
    pub fn to_json(&self) -> String {
        let Ticket { id, qty, owner, token, attempt, .. } = &self.ticket;
        let ticket = TicketRow {
            id: id.to_string(),
            qty: qty.get(),
            owner: owner.to_string(),
            token: token.get(),
            attempt: attempt.get(),
            lease_until: self.ticket.lease_until_ms(),
        };
        let mut row = Row {
            at_ms: Some(self.at_ms),
            what: self.what.as_str().to_owned(),
            ticket: Some(ticket),
            ..Row::default()
        };
        match self.what.clone() {
            What::Answered(answer, error) => (row.answer, row.error) = (Some(answer), error),
            What::Finished(outcome, delay_ms, finished) => {
                (row.outcome, row.delay_ms) = (Some(outcome.to_string()), Some(delay_ms));
                row.finished = Some(finished);
            }
            What::Released(released) => row.released = Some(released),
            What::Claimed | What::LeftToLease | What::LeaseLost => {}
        }
        // Texts and numbers are always JSON.
        serde_json::to_string(&row).unwrap_or_default()
    }

    /// The job.
    #[must_use]
    pub fn job(&self) -> &str {
        self.ticket.id.as_str()
    }

    /// Its token.
    #[must_use]
    pub const fn token(&self) -> i64 {
        self.ticket.token.get()
    }
}

impl What {
    /// The word in a log.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Answered(..) => "answered",
            Self::Finished(..) => "finished",
            Self::LeftToLease => "left-to-lease",
            Self::LeaseLost => "lease-lost",
            Self::Released(_) => "released",
        }
    }

    /// Whether the worker is done with the claim after that.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        !matches!(self, Self::Claimed | Self::Answered(..))
    }

    /// What came of it, in words; empty where the word of [`What::as_str`] says it all.
    #[must_use]
    pub fn outcome(&self) -> String {
        match self {
            Self::Answered(answer, _) => answer.clone(),
            Self::Finished(outcome, _, finished) => format!("{outcome}: {finished}"),
            Self::Released(released) => released.clone(),
            Self::Claimed | Self::LeftToLease | Self::LeaseLost => String::new(),
        }
    }
}

impl TicketRow {
    fn checked(self) -> Result<Ticket, String> {
        let made = || {
            let event = Event { id: Name::new("id", &self.id)?, qty: Qty::new(self.qty)? };
            let (owner, token) = (Name::new("owner", &self.owner)?, Token::new(self.token)?);
            Ticket::new(event, owner, token, Attempt::new(self.attempt)?, self.lease_until)
        };
        made().map_err(|error| error.to_string())
    }
}

fn time(field: &'static str, ms: Option<i64>) -> Result<i64, String> {
    let ms = ms.ok_or_else(|| format!("{field} is missing or null, allowed: ms since the Unix epoch"))?;
    Millis::named(field, ms).map(Millis::get).map_err(|error| error.to_string())
}

fn what(row: &Row) -> Result<What, String> {
    let word = |field: &str, value: &Option<String>, allowed: &[&str]| {
        let list = allowed.join(", ");
        let value = value.clone().ok_or_else(|| format!("`{field}` is missing, allowed: one of {list}"))?;
        let is_known = allowed.contains(&value.as_str());
        if is_known { Ok(value) } else { Err(format!("{field} is {value:?}, allowed: one of {list}")) }
    };
    Ok(match row.what.as_str() {
        "claimed" => What::Claimed,
        "answered" => What::Answered(word("answer", &row.answer, ANSWERS)?, row.error.clone()),
        "finished" => {
            let outcome = word("outcome", &row.outcome, &["ok", "retry", "permanent"])?;
            let outcome = Outcome::parse(&outcome).map_err(|error| error.to_string())?;
            What::Finished(outcome, row.delay_ms.unwrap_or(0), word("finished", &row.finished, FINISHED)?)
        }
        "left-to-lease" => What::LeftToLease,
        "lease-lost" => What::LeaseLost,
        "released" => What::Released(word("released", &row.released, RELEASED)?),
        other => return Err(format!("what is {other:?}, allowed: one of {WHATS}")),
    })
}

fn answer_word(error: &SendError) -> &'static str {
    match error {
        SendError::Retryable { .. } => "retryable",
        SendError::Permanent { .. } => "permanent",
        SendError::BadAck { .. } => "bad-ack",
        SendError::Other(_) => "other",
    }
}
