//! How deviations are read and written.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::field::text;
use crate::choice::{Action, Deviation, PointName};

/// A deviation as the file writes it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename = "Deviation")]
struct Row {
    at: PointName,
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
            text.parse().map_err(|error: crate::choice::PointNameError| error.to_string())
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
        text(from, "a text such as \"kill\" or \"stall:1200ms\"", Action::parse)
    }
}

impl Serialize for Action {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}
