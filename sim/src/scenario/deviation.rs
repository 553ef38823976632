//! How deviations are read and written.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::error::suggestion;
use super::field::text;
use crate::choice::{Action, Deviation, Kind, Phase, PointName, PointNameError, Role};

/// A deviation as the file writes it.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "Deviation")]
pub(super) struct Row {
    /// The point, `process/incarnation/operation#n/phase/role#m`.
    at: PointName,
    /// What happens there, such as `kill` or `stall:1200ms`.
    #[serde(rename = "do")]
    action: Action,
}

impl<'de> Deserialize<'de> for Deviation {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Row { at, action } = Row::deserialize(from)?;
        Ok(Self { at, action })
    }
}

impl Serialize for Deviation {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Row { at: self.at.clone(), action: self.action.clone() }.serialize(to)
    }
}

impl<'de> Deserialize<'de> for PointName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text(from, "a text such as \"worker-a/1/claim#2/commit/journal.sync#1\"", |text| {
            text.parse().map_err(|error: PointNameError| format!("{error}{}", near(&error)))
        })
    }
}

impl Serialize for PointName {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Action {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text(from, "a text such as \"kill\" or \"stall:1200ms\"", |text| {
            Action::parse(text).map_err(|allowed| {
                let word = text.split_once(':').map_or(text, |(word, _)| word);
                let known: Vec<_> = Kind::ALL.iter().skip(1).map(|kind| kind.as_str()).collect();
                let is_known = known.contains(&word);
                format!("{allowed}{}", if is_known { String::new() } else { suggestion(word, &known) })
            })
        })
    }
}

impl Serialize for Action {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// `; did you mean …?` where the wrong part of a name is near a right one.
fn near(error: &PointNameError) -> String {
    let (word, known): (_, Vec<_>) = match error {
        PointNameError::Shape => return String::new(),
        PointNameError::Phase(word) => (word, Phase::ALL.iter().map(|phase| phase.as_str()).collect()),
        PointNameError::Role(word) => (word, Role::ALL.iter().map(|role| role.as_str()).collect()),
    };
    suggestion(word, &known)
}
