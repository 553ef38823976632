//! The ranges of a scenario's whole numbers, `[vary]`: what coverage-guided fuzzing may put in their place. Nobody else
//! does: a seed of `run` and `fuzz` has the plain values.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toml::{Table, Value};

use super::check::{self, Problem, problem, unknown};
use super::error::suggestion;
use super::field::refused;
use super::{Scenario, write};

/// Lists of tables whose numbers may vary, and what tells one table of a list from another.
pub(super) const LISTS: &[(&str, &str)] =
    &[("job", "id"), ("worker", "name"), ("consumer", "name"), ("redrive", "job")];
/// Tables whose numbers may vary.
pub(super) const TABLES: &[&str] = &["receiver", "publisher"];
const ALLOWED: &str = "[least, most] in whole numbers, least first";

/// What a number may be, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    least: i64,
    most: i64,
}

impl Range {
    /// The least.
    #[must_use]
    pub const fn least(self) -> i64 {
        self.least
    }

    /// The most.
    #[must_use]
    pub const fn most(self) -> i64 {
        self.most
    }

    /// Whether a number lies within.
    #[must_use]
    pub const fn holds(self, number: i64) -> bool {
        self.least <= number && number <= self.most
    }
}

/// Ranges by the path of their number: `duration_ms`, `receiver.service_ms`, `worker.worker-a.lease_ms`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Vary(BTreeMap<String, Range>);

/// Numbers in the place of plain ones, by path; what is plain is left out.
pub type Values = BTreeMap<String, i64>;

/// A number that may vary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Varied {
    /// Where it stands.
    pub path: String,
    /// What it is where nobody varies it; within the range.
    pub plain: i64,
    /// What it may be.
    pub range: Range,
}

impl Vary {
    /// Whether nothing may vary.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Scenario {
    /// The numbers that may vary, by path.
    #[must_use]
    pub fn varied(&self) -> Vec<Varied> {
        let mut table = write::as_table(self);
        let one = |(path, range): (&String, &Range)| {
            let plain = *number(&mut table, path).ok()?;
            Some(Varied { path: path.clone(), plain, range: *range })
        };
        self.vary.0.iter().filter_map(one).collect()
    }

    /// The same with other numbers and without ranges; none where that is no valid scenario, or where a path names
    /// nothing.
    #[must_use]
    pub fn with_values(&self, values: &Values) -> Option<Self> {
        let mut table = write::as_table(self);
        table.remove("vary");
        for (path, value) in values {
            *number(&mut table, path).ok()? = *value;
        }
        let scenario: Self = Value::Table(table).try_into().ok()?;
        check::check(&scenario).is_ok().then_some(scenario)
    }
}

/// Every path names a number, which lies in its range, which lies in what the number may be at all.
pub(super) fn check(scenario: &Scenario) -> Result<(), Problem> {
    if scenario.vary.is_empty() {
        return Ok(());
    }
    let mut table = write::as_table(scenario);
    table.remove("vary");
    for (path, range) in &scenario.vary.0 {
        one(&mut table, path, *range).map_err(|message| problem(format!("vary.{path}"), message))?;
    }
    Ok(())
}

fn one(table: &mut Table, path: &str, range: Range) -> Result<(), String> {
    let plain = *number(table, path)?;
    let Range { least, most } = range;
    for end in [least, most] {
        *number(table, path)? = end;
        let read: Result<Scenario, _> = Value::Table(table.clone()).try_into();
        if let Err(error) = read {
            let message = error.message();
            let allowed = message.split_once("allowed: ").map_or(message, |(_, allowed)| allowed);
            return Err(format!("reaches to {end}, allowed: {allowed}"));
        }
    }
    *number(table, path)? = plain;
    if range.holds(plain) {
        return Ok(());
    }
    Err(format!("is [{least}, {most}], allowed: a range that holds the value in its place, {plain}"))
}

/// The number at a path, or what is wrong with the path.
fn number<'t>(table: &'t mut Table, path: &str) -> Result<&'t mut i64, String> {
    let parts: Vec<&str> = path.split('.').collect();
    match parts[..] {
        [key] => whole(table, key),
        [first, key] if TABLES.contains(&first) => {
            let inner = table.get_mut(first).and_then(Value::as_table_mut);
            whole(inner.ok_or_else(|| format!("names nothing, allowed: with a [{first}]"))?, key)
        }
        [first, name, key] if LISTS.iter().any(|(list, _)| *list == first) => {
            whole(named(table, first, name)?, key)
        }
        _ => Err(names_nothing(path)),
    }
}

fn names_nothing(path: &str) -> String {
    let lists = LISTS.iter().map(|(list, name)| format!("{list}.{}.KEY", name.to_uppercase()));
    let tables = TABLES.iter().map(|table| format!("{table}.KEY"));
    let all: Vec<_> = lists.chain(tables).collect();
    let firsts: Vec<_> = LISTS.iter().map(|(list, _)| *list).chain(TABLES.iter().copied()).collect();
    let near = suggestion(path.split('.').next().unwrap_or(path), &firsts);
    format!("names nothing, allowed: duration_ms or one of {}{near}", all.join(", "))
}

/// The only table of a list with this name.
fn named<'t>(table: &'t mut Table, list: &str, name: &str) -> Result<&'t mut Table, String> {
    let key = LISTS.iter().find(|(known, _)| *known == list).map_or("", |(_, key)| *key);
    let items = table.get_mut(list).and_then(Value::as_array_mut).map_or(&mut [][..], Vec::as_mut_slice);
    let own = |item: &Value| item.get(key).and_then(Value::as_str).map(str::to_owned);
    let names: Vec<String> = items.iter().filter_map(own).collect();
    let mut found = items.iter_mut().filter(|item| own(item).as_deref() == Some(name));
    match (found.next(), found.count()) {
        (Some(one), 0) => one.as_table_mut().ok_or_else(|| names_nothing(list)),
        (Some(_), others) => {
            let all = others + 1;
            Err(format!("names {all} tables [[{list}]], allowed: the {key} of one"))
        }
        (None, _) => {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            Err(unknown(name, &format!("the {key} of a [[{list}]]"), &names))
        }
    }
}

/// The whole number of a table by its key.
fn whole<'t>(table: &'t mut Table, key: &str) -> Result<&'t mut i64, String> {
    let numbers = table.iter().filter(|(_, value)| value.is_integer()).map(|(key, _)| key.clone());
    let numbers: Vec<String> = numbers.collect();
    match table.get_mut(key) {
        Some(Value::Integer(number)) => Ok(number),
        _ => {
            let known: Vec<_> = numbers.iter().map(String::as_str).collect();
            let near = suggestion(key, &known);
            Err(format!("names {key:?}, allowed: a whole number, one of {}{near}", known.join(", ")))
        }
    }
}

/// What stands at paths as tables within tables.
pub(crate) fn nested<'p>(values: impl Iterator<Item = (&'p String, Value)>) -> Table {
    let mut table = Table::new();
    for (path, value) in values {
        let mut inner = &mut table;
        let mut parts = path.split('.').peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                inner.insert(part.to_owned(), value);
                break;
            }
            let next = inner.entry(part).or_insert_with(|| Value::Table(Table::new()));
            let Value::Table(next) = next else { break };
            inner = next;
        }
    }
    table
}

impl Serialize for Vary {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let pair = |range: &Range| Value::Array(vec![range.least.into(), range.most.into()]);
        nested(self.0.iter().map(|(path, range)| (path, pair(range)))).serialize(to)
    }
}

impl<'de> Deserialize<'de> for Vary {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut ranges = BTreeMap::new();
        from.deserialize_map(Level { path: String::new(), ranges: &mut ranges })?;
        Ok(Self(ranges))
    }
}

/// Reads a range, or a table of such below a path.
struct Level<'r> {
    path: String,
    ranges: &'r mut BTreeMap<String, Range>,
}

impl<'de> DeserializeSeed<'de> for Level<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.path.is_empty() { "a table, below [vary]" } else { ALLOWED })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<(), A::Error> {
        if self.path.is_empty() {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        }
        let mut ends = Vec::new();
        while let Some(end) = values.next_element::<i64>()? {
            ends.push(end);
        }
        match ends[..] {
            [least, most] if least <= most => {
                self.ranges.insert(self.path, Range { least, most });
                Ok(())
            }
            _ => Err(refused(format!("{ends:?}"), ALLOWED)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            let path = if self.path.is_empty() { key } else { format!("{}.{key}", self.path) };
            if self.ranges.contains_key(&path) {
                return Err(A::Error::custom(format!("gives {path} twice, allowed: once")));
            }
            map.next_value_seed(Level { path, ranges: self.ranges })?;
        }
        Ok(())
    }
}
