//! The queue's rows, and how they stand in a file.

use ackward::rules::{Attempt, Event, INSTANT_MAX_MS, Name, Qty, Reason, Status, Ticket, Token};

use crate::sqlite_file::ValueRef;

use super::compare::{Cells, Difference, Shape};

/// The table of jobs.
pub(super) const JOBS: Shape<12> = Shape {
    table: "jobs",
    columns: [
        "seq",
        "id",
        "qty",
        "status",
        "attempts",
        "max_attempts",
        "token",
        "available_at",
        "deadline",
        "owner",
        "lease_until",
        "reason",
    ],
};
/// The audit table of redrives.
pub(super) const REDRIVES: Shape<5> =
    Shape { table: "redrives", columns: ["seq", "id", "token", "at_ms", "note"] };

/// A row of `jobs`, without its seq. Any number that a file can hold fits: rows made by another program may
/// be out of range (M12).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRow {
    /// The job's identifier.
    pub id: Name,
    /// The quantity, 1 to 1000.
    pub qty: i64,
    /// Where the job stands.
    pub status: Status,
    /// Attempts used of this life, 0 to 16.
    pub attempts: i64,
    /// The budget of attempts, 1 to 16.
    pub max_attempts: i64,
    /// The fencing token of the last claim, 0 before the first.
    pub token: i64,
    /// When a pending job may be claimed, in ms.
    pub available_at: i64,
    /// From when on it is dead, in ms.
    pub deadline: i64,
    /// Who holds the lease.
    pub owner: Option<Name>,
    /// End of the lease, in ms.
    pub lease_until: Option<i64>,
    /// Why it is pending again or dead.
    pub reason: Option<Reason>,
}

impl JobRow {
    /// Whether every column is in range; claim leaves any other row untouched (M12).
    #[must_use]
    pub fn is_in_range(&self) -> bool {
        let instant = 0..=INSTANT_MAX_MS;
        Qty::new(self.qty).is_ok()
            && (0..=16).contains(&self.attempts)
            && (1..=16).contains(&self.max_attempts)
            && (0..INSTANT_MAX_MS).contains(&self.token)
            && instant.contains(&self.available_at)
            && instant.contains(&self.deadline)
            && self.lease_until.is_none_or(|until| instant.contains(&until))
    }

    /// Whether its lease has run out (Q26: the end itself counts as expired).
    #[must_use]
    pub fn lease_is_over(&self, now_ms: i64) -> bool {
        self.lease_until.is_some_and(|until| until <= now_ms)
    }

    /// Whether `ticket` may finish this job at `now_ms` (Q36). Of all tickets ever issued for a job, at most
    /// one does.
    #[must_use]
    pub fn accepts(&self, ticket: &Ticket, now_ms: i64) -> bool {
        self.status == Status::Leased
            && self.id == ticket.id
            && self.qty == ticket.qty.get()
            && self.owner.as_ref() == Some(&ticket.owner)
            && self.token == ticket.token.get()
            && self.attempts == ticket.attempt.get()
            && self.lease_until == Some(ticket.lease_until_ms())
            && now_ms < ticket.lease_until_ms()
            && now_ms < self.deadline
    }

    /// The ticket of a leased job (Q32); none for a row out of range.
    #[must_use]
    pub fn ticket(&self) -> Option<Ticket> {
        let event = Event { id: self.id.clone(), qty: Qty::new(self.qty).ok()? };
        let (token, attempt) = (Token::new(self.token).ok()?, Attempt::new(self.attempts).ok()?);
        Ticket::new(event, self.owner.clone()?, token, attempt, self.lease_until?).ok()
    }

    /// Reads a row of a file.
    ///
    /// # Errors
    /// [`Difference::Cell`] where a column holds no value of its kind.
    pub fn from_values(seq: i64, values: &[ValueRef<'_>]) -> Result<Self, Difference> {
        let cells = Cells { shape: &JOBS, row: seq, values };
        Ok(Self {
            id: cells.name(1)?,
            qty: cells.int(2)?,
            status: cells.parsed(3, "a status", |text| Status::parse(text).ok())?,
            attempts: cells.int(4)?,
            max_attempts: cells.int(5)?,
            token: cells.int(6)?,
            available_at: cells.int(7)?,
            deadline: cells.int(8)?,
            owner: cells.optional(9, |cells| cells.name(9))?,
            lease_until: cells.optional(10, |cells| cells.int(10))?,
            reason: cells
                .optional(11, |cells| cells.parsed(11, "a reason", |text| Reason::parse(text).ok()))?,
        })
    }
}

impl JobRow {
    /// The row as it stands in a file.
    pub(super) fn cells(&self, seq: i64) -> [ValueRef<'_>; 12] {
        let text = |name: &'static str| ValueRef::Text(name);
        [
            ValueRef::Int(seq),
            ValueRef::Text(self.id.as_str()),
            ValueRef::Int(self.qty),
            text(self.status.as_str()),
            ValueRef::Int(self.attempts),
            ValueRef::Int(self.max_attempts),
            ValueRef::Int(self.token),
            ValueRef::Int(self.available_at),
            ValueRef::Int(self.deadline),
            self.owner.as_ref().map_or(ValueRef::Null, |owner| ValueRef::Text(owner.as_str())),
            self.lease_until.map_or(ValueRef::Null, ValueRef::Int),
            self.reason.map_or(ValueRef::Null, |reason| text(reason.as_str())),
        ]
    }
}

/// A row of `redrives` (Q44).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedriveRow {
    /// Its number, from 1.
    pub seq: i64,
    /// The job that was redriven.
    pub id: Name,
    /// The job's token at that time.
    pub token: i64,
    /// When, in ms.
    pub at_ms: i64,
    /// Why, in the operator's words.
    pub note: Name,
}

impl RedriveRow {
    /// Reads a row of a file.
    ///
    /// # Errors
    /// [`Difference::Cell`] where a column holds no value of its kind.
    pub fn from_values(seq: i64, values: &[ValueRef<'_>]) -> Result<Self, Difference> {
        let cells = Cells { shape: &REDRIVES, row: seq, values };
        Ok(Self { seq, id: cells.name(1)?, token: cells.int(2)?, at_ms: cells.int(3)?, note: cells.name(4)? })
    }

    /// The row as it stands in a file.
    pub(super) fn cells(&self) -> [ValueRef<'_>; 5] {
        [
            ValueRef::Int(self.seq),
            ValueRef::Text(self.id.as_str()),
            ValueRef::Int(self.token),
            ValueRef::Int(self.at_ms),
            ValueRef::Text(self.note.as_str()),
        ]
    }
}
