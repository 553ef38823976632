//! The JSON Schema of single values, for editors: the same ranges and words that reading them checks.
//!
//! What only the values of a scenario together can tell (names that are unique, references) no schema says.

use ackward::rules::{Invalid, Name};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

use super::faults::{Probability, SpanMs};
use super::field;
use super::flaw::Flaw;
use super::outcome::Count;
use super::vary::Vary;
use super::vocabulary::{SOMETIMES, properties};
use super::{Consumer, Job, Publisher, Receiver, Redrive, Worker};
use crate::choice::{Action, Deviation, Kind, Phase, PointName, Role};

/// A whole number that `make` takes; `inside` is one of them, and no number outside lies between two that it takes.
pub(super) fn whole<T>(make: impl Fn(i64) -> Result<T, Invalid>, inside: i64) -> Schema {
    let takes = |value: i64| make(value).is_ok();
    let (mut out, mut least) = (i64::MIN, inside);
    while i128::from(least) - i128::from(out) > 1 {
        let middle = i64::midpoint(out, least);
        if takes(middle) { least = middle } else { out = middle }
    }
    let (mut most, mut out) = (inside, i64::MAX);
    while i128::from(out) - i128::from(most) > 1 {
        let middle = i64::midpoint(most, out);
        if takes(middle) { most = middle } else { out = middle }
    }
    json_schema!({ "type": "integer", "minimum": least, "maximum": most })
}

pub(super) fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Schema {
    json_schema!({ "type": "string", "enum": words.into_iter().collect::<Vec<_>>() })
}

pub(super) fn name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": format!("^[A-Za-z0-9_-]{{1,{}}}$", Name::LEN_MAX) })
}

pub(super) fn sentence(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "minLength": 1, "maxLength": 300 })
}

pub(super) fn durability(_: &mut SchemaGenerator) -> Schema {
    words(["full", "extra"])
}

pub(super) fn system(_: &mut SchemaGenerator) -> Schema {
    let flaws: Vec<_> = Flaw::ALL.iter().map(|(flaw, _)| flaw.word()).collect();
    words(std::iter::once("real").chain(flaws.iter().map(String::as_str)))
}

pub(super) fn net(_: &mut SchemaGenerator) -> Schema {
    words(super::Net::ALL.iter().map(|net| net.as_str()))
}

pub(super) fn sometimes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": words(SOMETIMES.iter().copied()) })
}

pub(super) fn fails(_: &mut SchemaGenerator) -> Schema {
    words(properties())
}

pub(super) fn status(_: &mut SchemaGenerator) -> Schema {
    words(field::STATUS_WORDS)
}

pub(super) fn last(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "minimum": -1, "maximum": 1_000_000_000 })
}

pub(super) fn reason(_: &mut SchemaGenerator) -> Schema {
    words(field::REASON_WORDS)
}

impl JsonSchema for Probability {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Probability".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0, "maximum": 1 })
    }
}

impl<const LEAST: i64> JsonSchema for SpanMs<LEAST> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "SpanMs".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let end = json_schema!({ "type": "integer", "minimum": LEAST, "maximum": Self::MOST });
        json_schema!({ "type": "array", "items": end, "minItems": 2, "maxItems": 2 })
    }
}

impl JsonSchema for Count {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Count".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let end = json_schema!({ "type": "integer", "minimum": 0, "maximum": Self::MOST });
        json_schema!({ "anyOf": [end.clone(), { "type": "array", "items": end, "minItems": 2, "maxItems": 2 }] })
    }
}

impl JsonSchema for Vary {
    fn schema_name() -> Cow<'static, str> {
        "Vary".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let lists = [
            ("job", Job::json_schema(generator)),
            ("worker", Worker::json_schema(generator)),
            ("consumer", Consumer::json_schema(generator)),
            ("redrive", Redrive::json_schema(generator)),
        ];
        let tables = [
            ("receiver", Receiver::json_schema(generator)),
            ("publisher", Publisher::json_schema(generator)),
        ];
        let mut properties = serde_json::Map::new();
        properties.insert("duration_ms".to_owned(), range(field::duration::schema(generator).as_value()));
        for (list, table) in lists {
            let by_name = json_schema!({ "type": "object", "additionalProperties": ranges(&table) });
            properties.insert(list.to_owned(), by_name.into());
        }
        properties.extend(tables.map(|(name, table)| (name.to_owned(), ranges(&table).into())));
        // A path in quotes is the same path.
        json_schema!({
            "type": "object",
            "properties": properties,
            "patternProperties": { "\\.": range(&serde_json::json!({ "type": "integer" })) },
            "additionalProperties": false,
        })
    }
}

/// For each whole number of a table its range.
fn ranges(table: &Schema) -> Schema {
    let numbers = table.get("properties").and_then(serde_json::Value::as_object).into_iter().flatten();
    let whole = numbers.filter(|(_, number)| number.get("type").is_some_and(|kind| kind == "integer"));
    let properties: serde_json::Map<_, _> = whole.map(|(key, number)| (key.clone(), range(number))).collect();
    json_schema!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// `[least, most]` of a number.
fn range(number: &serde_json::Value) -> serde_json::Value {
    let limits = |key: &str| number.get(key).cloned().map(|limit| (key.to_owned(), limit));
    let kind = [("type".to_owned(), "integer".into())].into_iter();
    let end: serde_json::Map<_, _> =
        kind.chain(["minimum", "maximum"].into_iter().filter_map(limits)).collect();
    serde_json::json!({ "type": "array", "items": end, "minItems": 2, "maxItems": 2 })
}

impl JsonSchema for Deviation {
    fn schema_name() -> Cow<'static, str> {
        "Deviation".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        super::deviation::Row::json_schema(generator)
    }
}

impl JsonSchema for PointName {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "PointName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let phases = any_of(Phase::ALL.iter().map(|phase| phase.as_str()));
        let roles = any_of(Role::ALL.iter().map(|role| role.as_str()));
        let pattern = format!("^[^/]+/[0-9]+/[^/]+#[0-9]+/{phases}/{roles}#[0-9]+$");
        json_schema!({ "type": "string", "pattern": pattern })
    }
}

impl JsonSchema for Action {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Action".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let kinds = any_of(Kind::ALL.iter().skip(1).map(|kind| kind.as_str()));
        json_schema!({ "type": "string", "pattern": format!("^{kinds}(:.+)?$") })
    }
}

/// A group of a pattern: one of these words, in which at most a full stop is special.
fn any_of<'a>(words: impl Iterator<Item = &'a str>) -> String {
    format!("({})", words.map(|word| word.replace('.', "\\.")).collect::<Vec<_>>().join("|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_a_number_is_found() {
        let range = |least: i64, most: i64, inside: i64| {
            let schema = whole(|value| super::field::within(value, least, most), inside);
            (
                schema.get("minimum").unwrap().as_i64().unwrap(),
                schema.get("maximum").unwrap().as_i64().unwrap(),
            )
        };
        for (least, most, inside) in [(0, 0, 0), (1, 60_000, 100), (-600_000, 600_000, 0), (5, 6, 6)] {
            assert_eq!(range(least, most, inside), (least, most));
        }
    }
}
