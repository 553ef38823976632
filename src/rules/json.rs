//! JSON to the letter (M2): a number keeps what its text says it is, a repeated key is an error, nesting is
//! bounded, and no text crashes. The grammar itself is serde_json's.

use std::fmt;

use serde::Deserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Deepest nesting that is read.
const DEPTH_MAX: usize = 64;

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number without fraction and exponent that fits 64 bits; `-0` is one.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// A string. Lone surrogates, which no rule of ours accepts, read as U+FFFD.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object, in the order of the text; no key stands twice.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Reads one value from the whole of `text`.
    ///
    /// # Errors
    /// Where it is no JSON, nests too deep, or has a key twice in one object.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        parse_raw(serde_json::from_str(text)?, DEPTH_MAX)
    }
}

/// As an error message shows it.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Text(value) => write!(f, "{value:?}"),
            Self::List(items) => write!(f, "a list of {}", items.len()),
            Self::Object(fields) => write!(f, "an object of {}", fields.len()),
        }
    }
}

/// `raw` has been read once, so its grammar is right.
fn parse_raw(raw: &RawValue, depth: usize) -> Result<Json, serde_json::Error> {
    let text = raw.get();
    let Some(deeper) = depth.checked_sub(1) else {
        return Err(serde_json::Error::custom(format!("nested deeper than {DEPTH_MAX}")));
    };
    match text.as_bytes().first() {
        Some(b'{') => parse_object(text, deeper),
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text)?;
            let items: Result<_, _> = items.into_iter().map(|item| parse_raw(item, deeper)).collect();
            items.map(Json::List)
        }
        // What can still fail in a string of the right grammar is a lone surrogate.
        Some(b'"') => Ok(Json::Text(serde_json::from_str(text).unwrap_or_else(|_| "\u{FFFD}".into()))),
        Some(b't') => Ok(Json::Bool(true)),
        Some(b'f') => Ok(Json::Bool(false)),
        Some(b'n') => Ok(Json::Null),
        _ => parse_number(text),
    }
}

fn parse_object(text: &str, deeper: usize) -> Result<Json, serde_json::Error> {
    let raw = serde_json::Deserializer::from_str(text).deserialize_map(Fields)?;
    let fields: Result<Vec<_>, serde_json::Error> =
        raw.into_iter().map(|(key, value)| Ok((key, parse_raw(value, deeper)?))).collect();
    fields.map(Json::Object)
}

fn parse_number(text: &str) -> Result<Json, serde_json::Error> {
    if let Ok(integer) = text.parse() {
        return Ok(Json::Integer(integer));
    }
    text.parse().map(Json::Float).map_err(serde_json::Error::custom)
}

/// Collects an object's fields and refuses a repeated key.
struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        let mut keys = std::collections::BTreeSet::new();
        while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
            if !keys.insert(key.clone()) {
                return Err(A::Error::custom(format!("the key {key:?} stands twice")));
            }
            fields.push((key, value));
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m2_numbers_are_what_their_text_says() {
        let cases = [
            ("0", Json::Integer(0)),
            ("-0", Json::Integer(0)),
            ("-0.0", Json::Float(-0.0)),
            ("1.0", Json::Float(1.0)),
            ("1e3", Json::Float(1e3)),
            ("9223372036854775807", Json::Integer(i64::MAX)),
            ("9223372036854775808", Json::Float(9_223_372_036_854_775_808.0)),
            ("-9223372036854775808", Json::Integer(i64::MIN)),
            ("1e999", Json::Float(f64::INFINITY)),
            ("5e-324", Json::Float(5e-324)),
            ("true", Json::Bool(true)),
            ("false", Json::Bool(false)),
        ];
        for (text, expected) in cases {
            assert_eq!(Json::parse(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn m2_refuses_what_is_not_json_and_repeated_keys_at_any_depth() {
        let bad = [
            "",
            "{",
            "01",
            "+1",
            "1.",
            ".5",
            "NaN",
            "Infinity",
            "'a'",
            "{a:1}",
            "[1,]",
            "{} {}",
            "\"\n\"",
            r#"{"a":1,"a":1}"#,
            r#"{"b":[{"a":1,"\u0061":2}]}"#,
            r#""\x""#,
            r#""\ud8""#,
            "\u{feff}{}",
        ];
        for text in bad {
            assert!(Json::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn m2_an_error_shows_the_value_by_its_kind() {
        let cases = [
            ("null", "null"),
            ("true", "true"),
            ("-7", "-7"),
            ("1.0", "1.0"),
            (r#""a\n""#, r#""a\n""#),
            ("[1,2]", "a list of 2"),
            (r#"{"a":1}"#, "an object of 1"),
        ];
        for (text, shown) in cases {
            assert_eq!(Json::parse(text).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn lone_surrogates_are_text_that_no_rule_accepts() {
        for text in [r#""\ud800""#, r#""a\udfff""#] {
            assert_eq!(Json::parse(text).unwrap(), Json::Text("\u{FFFD}".into()));
        }
        assert_eq!(Json::parse(r#""\ud83d\ude00""#).unwrap(), Json::Text("😀".into()));
    }

    #[test]
    fn nesting_is_bounded_and_never_overflows_the_stack() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Json::parse(&nested(DEPTH_MAX)).is_ok());
        assert!(Json::parse(&nested(DEPTH_MAX + 1)).is_err());
        assert!(Json::parse(&nested(200_000)).is_err());
        assert!(Json::parse(&"[".repeat(1_000_000)).is_err());
    }
}
