//! How single values are read and written. A value out of range, or of a wrong type, is refused with what is
//! allowed.

use std::borrow::Cow;
use std::fmt;

use ackward::rules::{Attempts, Invalid, Limits, Name, Qty};
use ackward::storage::Durability;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Net;
use super::error::suggestion;
use super::flaw::Flaw;
use super::vocabulary::{SOMETIMES, properties};

/// A module for `#[serde(with)]`: a whole number that `make` checks, and its default.
macro_rules! whole {
    ($module:ident: $type:ty = $default:expr, $make:expr, $get:expr) => {
        pub(super) mod $module {
            use super::*;

            pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<$type, D::Error> {
                from.deserialize_i64(Whole($make))
            }

            pub(in super::super) fn serialize<S: Serializer>(value: &$type, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_i64(($get)(*value))
            }

            pub(in super::super) fn default() -> $type {
                ($make)($default).expect("a default is within its range")
            }

            pub(in super::super) fn schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                super::super::schema::whole($make, $default)
            }
        }
    };
    ($module:ident = $default:expr, $min:expr, $max:expr) => {
        whole!($module: i64 = $default, |value| within(value, $min, $max), |value: i64| value);
    };
}

whole!(duration = 60_000, 1, 3_600_000);
whole!(moment = 0, 0, 3_600_000);
whole!(poll = 100, 1, 60_000);
whole!(skew = 0, -600_000, 600_000);
whole!(restart_after = 500, 0, 600_000);
whole!(restarts = 10, 0, 1000);
whole!(job_count = 1, 1, 10_000);
whole!(worker_count = 1, 1, 64);
whole!(slots = 1, 1, 8);
whole!(batch = 1, 1, 64);
whole!(service = 5, 0, 60_000);
whole!(timeout = 2000, 1, 60_000);
whole!(busy_timeout = 0, 0, 1000);
whole!(connections = 64, 1, 1000);
whole!(group = 4, 1, crate::judge::GROUP_MAX as i64);
whole!(lorises = 0, 0, 16);
whole!(operator = 1, 1, 2);
whole!(events = 0, 0, 100_000);
whole!(first = 0, 0, 1_000_000);
whole!(grow = 0, 0, 100_000);
whole!(seeds = 500, 1, 1_000_000);
whole!(qty: Qty = 1, Qty::new, Qty::get);
whole!(attempts: Attempts = 3, Attempts::new, Attempts::get);
whole!(ttl: ackward::rules::Ttl = 30_000, |ms| Limits::CONTRACT.ttl(ms), ackward::rules::Ttl::get);
whole!(lease: ackward::rules::Lease = 1000, |ms| Limits::CONTRACT.lease(ms), ackward::rules::Lease::get);

/// Reads a whole number through a check.
struct Whole<F>(F);

impl<T, F: Fn(i64) -> Result<T, Invalid>> Whole<F> {
    /// What is allowed: no range reaches down to the least of all numbers, so its error says it.
    fn allowed(&self) -> Cow<'static, str> {
        (self.0)(i64::MIN).err().map_or("a whole number".into(), |invalid| invalid.allowed)
    }
}

impl<T, F: Fn(i64) -> Result<T, Invalid>> Visitor<'_> for Whole<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.allowed())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<T, E> {
        (self.0)(value).map_err(|invalid| refused(invalid.value, &invalid.allowed))
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<T, E> {
        Err(refused(value, &self.allowed()))
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<T, E> {
        self.visit_i128(value.try_into().unwrap_or(i128::MAX))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<T, E> {
        self.visit_i128(value.into())
    }
}

pub(super) fn within(value: i64, min: i64, max: i64) -> Result<i64, Invalid> {
    if (min..=max).contains(&value) {
        return Ok(value);
    }
    Err(Invalid::new("value", value, format!("a whole number from {min} to {max}")))
}

/// Reads a text through a check that says what is allowed instead.
struct Text<F>(&'static str, F);

impl<T, F: Fn(&str) -> Result<T, String>> Visitor<'_> for Text<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.1)(text).map_err(|allowed| refused(format!("{text:?}"), &allowed))
    }
}

/// Reads a text; `kind` is what is allowed where it is no text at all.
pub(super) fn text<'de, T, D: Deserializer<'de>>(
    from: D,
    kind: &'static str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    from.deserialize_str(Text(kind, parse))
}

/// The error of a value; the key is put before it.
pub(super) fn refused<E: Error>(value: impl fmt::Display, allowed: &str) -> E {
    // `Invalid` cuts what is too long to show.
    let invalid = Invalid::new("", value, allowed.to_owned());
    E::custom(format_args!("is {}, allowed: {}", invalid.value, invalid.allowed))
}

/// One of a list of words, as it stands in the list.
pub(super) fn word(text: &str, allowed: &[&'static str]) -> Result<&'static str, String> {
    let found = allowed.iter().find(|word| **word == text);
    found.copied().ok_or_else(|| format!("one of {}{}", allowed.join(", "), suggestion(text, allowed)))
}

pub(super) mod name {
    use super::*;

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Name, D::Error> {
        let parse = |text: &str| Name::new("name", text).map_err(|invalid| invalid.allowed.into_owned());
        text(from, "a text of 1 to 64 characters, each an ASCII letter, digit, '_' or '-'", parse)
    }

    pub(in super::super) fn serialize<S: Serializer>(name: &Name, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(name.as_str())
    }
}

pub(super) const fn yes() -> bool {
    true
}

pub(super) mod optional_name {
    use super::*;

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Name>, D::Error> {
        name::deserialize(from).map(Some)
    }

    pub(in super::super) fn serialize<S: Serializer>(name: &Option<Name>, to: S) -> Result<S::Ok, S::Error> {
        name.as_ref().map(Name::as_str).serialize(to)
    }
}

/// A redrive's note where none is given.
pub(super) fn note_default() -> Name {
    Name::new("note", "redriven").expect("a default is within its range")
}

pub(super) mod sentence {
    use super::*;

    const ALLOWED: &str = "a sentence on one line, 1 to 300 characters";

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
        text(from, ALLOWED, |text| {
            let fits =
                !text.trim().is_empty() && text.chars().count() <= 300 && !text.contains(char::is_control);
            if fits { Ok(text.to_owned()) } else { Err(ALLOWED.to_owned()) }
        })
    }

    pub(in super::super) fn serialize<S: Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(text)
    }
}

pub(super) mod durability {
    use super::*;

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Durability, D::Error> {
        text(from, "\"full\" or \"extra\"", |text| match word(text, &["full", "extra"])? {
            "full" => Ok(Durability::Full),
            _ => Ok(Durability::Extra),
        })
    }

    pub(in super::super) fn serialize<S: Serializer>(
        durability: &Durability,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_str(match durability {
            Durability::Full => "full",
            Durability::Extra => "extra",
        })
    }

    pub(in super::super) fn default() -> Durability {
        Durability::Full
    }
}

pub(super) mod system {
    use super::*;

    /// The word of the system that has no mistake.
    const REAL: &str = "real";

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Flaw, D::Error> {
        text(from, "a text such as \"real\"", |text| {
            if text == REAL {
                return Ok(Flaw::None);
            }
            Flaw::parse(text).ok_or_else(|| {
                let words: Vec<String> = Flaw::ALL.iter().map(|(flaw, _)| flaw.word()).collect();
                let words: Vec<&str> =
                    std::iter::once(REAL).chain(words.iter().map(String::as_str)).collect();
                format!("one of {}{}", words.join(", "), suggestion(text, &words))
            })
        })
    }

    pub(in super::super) fn serialize<S: Serializer>(flaw: &Flaw, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&if *flaw == Flaw::None { REAL.to_owned() } else { flaw.word() })
    }
}

pub(super) mod net {
    use super::*;

    const WORDS: &[&str] = &[Net::BuiltIn.as_str(), Net::Turmoil.as_str()];

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Net, D::Error> {
        text(from, "\"built-in\" or \"turmoil\"", |text| {
            word(text, WORDS).map(|word| Net::parse(word).unwrap_or_default())
        })
    }

    pub(in super::super) fn serialize<S: Serializer>(net: &Net, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(net.as_str())
    }
}

pub(super) mod sometimes {
    use super::*;

    struct Word(String);

    impl<'de> Deserialize<'de> for Word {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            text(from, "a text", |text| word(text, SOMETIMES).map(|word| Self(word.to_owned())))
        }
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
        let words = Vec::<Word>::deserialize(from)?;
        Ok(words.into_iter().map(|Word(word)| word).collect())
    }

    pub(in super::super) fn serialize<S: Serializer>(words: &[String], to: S) -> Result<S::Ok, S::Error> {
        words.serialize(to)
    }
}

pub(super) mod fails {
    use super::*;

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<String>, D::Error> {
        text(from, "a text", |text| word(text, &properties()).map(|word| Some(word.to_owned())))
    }

    pub(in super::super) fn serialize<S: Serializer>(
        word: &Option<String>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        word.serialize(to)
    }
}

pub(super) mod last {
    use super::*;

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
        from.deserialize_i64(Whole(|value| within(value, -1, 1_000_000_000))).map(Some)
    }

    pub(in super::super) fn serialize<S: Serializer>(last: &Option<i64>, to: S) -> Result<S::Ok, S::Error> {
        last.serialize(to)
    }
}

/// Modules for `#[serde(with)]`: one of some words of the database, where it is given.
macro_rules! optional_word {
    ($module:ident: $type:ident, $words:expr) => {
        pub(super) mod $module {
            use super::*;
            use ackward::rules::$type;

            pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
                from: D,
            ) -> Result<Option<$type>, D::Error> {
                text(from, "a text", |text| {
                    let known = word(text, &$words)?;
                    $type::parse(known).map(Some).map_err(|invalid| invalid.allowed.into_owned())
                })
            }

            pub(in super::super) fn serialize<S: Serializer>(
                value: &Option<$type>,
                to: S,
            ) -> Result<S::Ok, S::Error> {
                value.map($type::as_str).serialize(to)
            }
        }
    };
}

pub(super) const STATUS_WORDS: [&str; 2] = ["done", "dead"];
pub(super) const REASON_WORDS: [&str; 3] = ["deadline", "exhausted", "permanent"];

optional_word!(status: Status, STATUS_WORDS);
optional_word!(reason: Reason, REASON_WORDS);
