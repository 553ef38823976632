//! The right value of a scenario: what must have become of its jobs and its consumers at the end of every run.

use std::fmt;

use ackward::rules::{Name, Reason, Status};
use schemars::JsonSchema;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::field::{self, refused};
use super::schema;

/// How often something may have happened: a number, or `[least, most]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    least: i64,
    most: i64,
}

impl Count {
    pub(super) const MOST: i64 = 1_000_000;

    /// Checks the ends: 0 to 1,000,000, least first; none where they are not.
    #[must_use]
    pub fn new(least: i64, most: i64) -> Option<Self> {
        (0 <= least && least <= most && most <= Self::MOST).then_some(Self { least, most })
    }

    /// Whether this many are right.
    #[must_use]
    pub const fn allows(self, count: i64) -> bool {
        self.least <= count && count <= self.most
    }

    fn allowed() -> String {
        format!("a whole number or [least, most], from 0 to {}, least first", Self::MOST)
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.least == self.most {
            return write!(f, "{}", self.least);
        }
        write!(f, "{} to {}", self.least, self.most)
    }
}

struct CountVisitor;

impl<'de> Visitor<'de> for CountVisitor {
    type Value = Count;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Count::allowed())
    }

    fn visit_i64<E: serde::de::Error>(self, count: i64) -> Result<Count, E> {
        Count::new(count, count).ok_or_else(|| refused(count, &Count::allowed()))
    }

    fn visit_u64<E: serde::de::Error>(self, count: u64) -> Result<Count, E> {
        self.visit_i64(i64::try_from(count).unwrap_or(i64::MAX))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Count, A::Error> {
        let mut ends = Vec::new();
        while let Some(end) = values.next_element::<i64>()? {
            ends.push(end);
        }
        let count = if let [least, most] = ends[..] { Count::new(least, most) } else { None };
        count.ok_or_else(|| refused(format!("{ends:?}"), &Count::allowed()))
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(CountVisitor)
    }
}

impl Serialize for Count {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.least == self.most { self.least.serialize(to) } else { [self.least, self.most].serialize(to) }
    }
}

/// What must have become of a job, or of each of a numbered group, at the end of every run. Only what is given is
/// judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobOutcome {
    /// The job, or the group of jobs, of this scenario. Required.
    #[serde(with = "field::name")]
    #[schemars(schema_with = "schema::name")]
    pub id: Name,
    /// Where it stands: `done` or `dead`.
    #[serde(with = "field::status", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::status")]
    pub status: Option<Status>,
    /// Why it is dead.
    #[serde(with = "field::reason", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::reason")]
    pub reason: Option<Reason>,
    /// Attempts of its last life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Count>,
    /// Its last fencing token: how often it was claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Count>,
    /// Requests that its workers put on the wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub posts: Option<Count>,
    /// Effects at the receiver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effects: Option<Count>,
    /// Audit rows of its redrives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redrives: Option<Count>,
}

/// Where a consumer's store must stand at the end of every run. Only what is given is judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConsumerOutcome {
    /// The consumer, one of this scenario. Required.
    #[serde(with = "field::name")]
    #[schemars(schema_with = "schema::name")]
    pub name: Name,
    /// The number of the last event applied, -1 to 1,000,000,000; -1 for none.
    #[serde(with = "field::last", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::last")]
    pub last: Option<i64>,
    /// How often it made a connection, as a number or `[least, most]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<Count>,
}
