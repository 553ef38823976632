//! The tables of the stream: the publisher and its consumers.

use ackward::rules::Name;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{field, schema};

/// The publisher of a stream and its log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Publisher {
    /// How many events the log holds at the beginning, 0 to 100,000. Default 0.
    #[serde(with = "field::events", default = "field::events::default")]
    #[schemars(schema_with = "field::events::schema")]
    pub events: i64,
    /// The number of the first of them, 0 to 1,000,000: above 0 the log has lost what came before. Default 0.
    #[serde(with = "field::first", default = "field::first::default")]
    #[schemars(schema_with = "field::first::schema")]
    pub first: i64,
    /// How many events are appended later, 0 to 100,000. Default 0.
    #[serde(with = "field::grow", default = "field::grow::default")]
    #[schemars(schema_with = "field::grow::schema")]
    pub grow: i64,
    /// The time between two of those, in ms, 1 to 60,000. Default 100.
    #[serde(with = "field::poll", default = "field::poll::default")]
    #[schemars(schema_with = "field::poll::schema")]
    pub grow_every_ms: i64,
    /// How long it waits for its consumer each time, in ms, 1 to 60,000. Default 2000.
    #[serde(with = "field::timeout", default = "field::timeout::default")]
    #[schemars(schema_with = "field::timeout::schema")]
    pub timeout_ms: i64,
    /// Whether it breaks the rules of the stream, by the fault `bad_line`. Default false.
    #[serde(default)]
    pub rogue: bool,
}

/// A consumer process, or several like it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Consumer {
    /// The process's name (Q1); unique. Required.
    #[serde(with = "field::name")]
    #[schemars(schema_with = "schema::name")]
    pub name: Name,
    /// Its store's file; the same for two consumers is a mistake that must do no harm. Default `NAME.db`.
    #[serde(with = "field::optional_name", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::name")]
    pub store: Option<Name>,
    /// The limit on each of its waits, in ms, 1 to 60,000. Default 2000.
    #[serde(with = "field::timeout", default = "field::timeout::default")]
    #[schemars(schema_with = "field::timeout::schema")]
    pub timeout_ms: i64,
    /// Whether lines that arrived together share a transaction. Default true.
    #[serde(default = "field::yes")]
    pub group: bool,
    /// How long after a kill it starts again, in ms, 0 to 600,000. Default 500.
    #[serde(with = "field::restart_after", default = "field::restart_after::default")]
    #[schemars(schema_with = "field::restart_after::schema")]
    pub restart_after_ms: i64,
    /// How often it starts again, 0 to 1000. Default 10.
    #[serde(with = "field::restarts", default = "field::restarts::default")]
    #[schemars(schema_with = "field::restarts::schema")]
    pub restarts: i64,
}

impl Consumer {
    /// The name of its store's file.
    #[must_use]
    pub fn store_file(&self) -> String {
        format!("{}.db", self.store.as_ref().unwrap_or(&self.name))
    }
}
