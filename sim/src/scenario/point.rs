//! The name of a choice point, and the answer given there.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::field::{text, word};
use super::vocabulary::{ACTIONS, PHASES, ROLES};

/// Name of a choice point: `process/incarnation/operation#n/phase/role#m`, as in
/// `worker-a/1/claim#2/commit/journal.sync#1`. Every number counts from 1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point {
    /// The process.
    pub process: String,
    /// Which of its lives.
    pub incarnation: u32,
    /// The operation: lower-case letters, digits and `-`.
    pub operation: String,
    /// Which operation of this name within the life.
    pub operation_ordinal: u32,
    /// The phase, of [`PHASES`].
    pub phase: &'static str,
    /// What is done there, of [`ROLES`].
    pub role: &'static str,
    /// Which one of its role within operation and phase.
    pub role_ordinal: u32,
}

const SYNTAX: &str = "process/incarnation/operation#n/phase/role#m, \
     such as worker-a/1/claim#2/commit/journal.sync#1";

impl FromStr for Point {
    /// What is allowed instead.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let [process, incarnation, operation, phase, role] = text.split('/').collect::<Vec<_>>()[..] else {
            return Err(SYNTAX.to_owned());
        };
        let (operation, operation_ordinal) = numbered(operation)?;
        let is_operation = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if process.is_empty() || operation.is_empty() || !operation.chars().all(is_operation) {
            return Err(SYNTAX.to_owned());
        }
        let (role, role_ordinal) = numbered(role)?;
        Ok(Self {
            process: process.to_owned(),
            incarnation: ordinal(incarnation)?,
            operation: operation.to_owned(),
            operation_ordinal,
            phase: word(phase, PHASES).map_err(|allowed| format!("as phase {allowed}"))?,
            role: word(role, ROLES).map_err(|allowed| format!("as role {allowed}"))?,
            role_ordinal,
        })
    }
}

/// Splits `word#n`.
fn numbered(text: &str) -> Result<(&str, u32), String> {
    let (word, number) = text.split_once('#').ok_or(SYNTAX)?;
    Ok((word, ordinal(number)?))
}

/// A number from 1, in its one spelling.
fn ordinal(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number: &u32| *number >= 1 && number.to_string() == text);
    number.ok_or_else(|| SYNTAX.to_owned())
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process, incarnation, operation, operation_ordinal, phase, role, role_ordinal } = self;
        write!(f, "{process}/{incarnation}/{operation}#{operation_ordinal}/{phase}/{role}#{role_ordinal}")
    }
}

impl<'de> Deserialize<'de> for Point {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text(from, SYNTAX, str::parse)
    }
}

impl Serialize for Point {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// The answer at a choice point: a word, and an amount where it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Action {
    /// What happens, of [`ACTIONS`].
    pub word: &'static str,
    /// How much (ms, or which alternative), as in `stall=300`.
    pub amount: Option<i64>,
}

impl FromStr for Action {
    /// What is allowed instead.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((kind, amount)) = text.split_once('=') else {
            return Ok(Self { word: word(text, ACTIONS)?, amount: None });
        };
        let amount = amount.parse().ok().filter(|number: &i64| number.to_string() == amount);
        let amount = amount.ok_or("a word, or word=number, such as kill or stall=300")?;
        Ok(Self { word: word(kind, ACTIONS)?, amount: Some(amount) })
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.amount {
            None => f.write_str(self.word),
            Some(amount) => write!(f, "{}={amount}", self.word),
        }
    }
}

impl<'de> Deserialize<'de> for Action {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text(from, "a text", str::parse)
    }
}

impl Serialize for Action {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}
