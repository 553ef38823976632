//! Errors of scenario files: file, line, column, key, and what is allowed.

use std::fmt::Write as _;
use std::io;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::check::Problem;

/// A file that is no valid scenario. Its text is `file:line:column: key is value, allowed: …`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {message}", position(*line, *column))]
pub struct ScenarioError {
    /// The file's name, as it was given.
    pub file: String,
    /// The line, from 1; 0 where the file could not be read at all.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong: key, value, allowed.
    pub message: String,
}

fn position(line: usize, column: usize) -> String {
    if line == 0 { String::new() } else { format!(":{line}:{column}") }
}

impl ScenarioError {
    pub(super) fn unreadable(file: String, error: &io::Error) -> Self {
        Self { file, line: 0, column: 0, message: format!("cannot be read: {error}") }
    }

    pub(super) fn at_start(file: &str, message: &str) -> Self {
        Self { file: file.to_owned(), line: 1, column: 1, message: message.to_owned() }
    }

    pub(super) fn not_utf8(file: &str, bytes: &[u8], at: usize) -> Self {
        let valid = String::from_utf8_lossy(&bytes[..at]);
        let byte = bytes.get(at).copied().unwrap_or_default();
        Self::new(
            file,
            &valid,
            valid.len(),
            format!("the byte 0x{byte:02x} is no UTF-8, allowed: text in UTF-8"),
        )
    }

    /// Says serde's errors and the parser's in our words, with the key's path.
    pub(super) fn from_toml(file: &str, text: &str, error: &toml::de::Error) -> Self {
        let span = error.span().unwrap_or(0..0);
        // The deepest: a list of one table stands where its table does.
        let entry = entries(text).into_iter().rfind(|entry| entry.value == span || entry.key == span);
        let path = entry.as_ref().map_or("", |entry| &entry.path);
        let message = in_our_words(error.message(), path, text.get(span.clone()).unwrap_or_default());
        Self::new(file, text, span.start, message)
    }

    /// Finds the place of a problem by its key's path.
    pub(super) fn from_problem(file: &str, text: &str, problem: &Problem) -> Self {
        let at = entries(text).into_iter().find(|entry| entry.path == problem.path);
        // Where the value is a default there is no such key: the table that lacks it is the place.
        let table = || {
            let (table, _) = problem.path.rsplit_once('.')?;
            entries(text).into_iter().find(|entry| entry.path == table)
        };
        let start = at.or_else(table).map_or(0, |entry| entry.value.start);
        let space = if problem.path.is_empty() { "" } else { " " };
        Self::new(file, text, start, format!("{}{space}{}", problem.path, problem.message))
    }

    fn new(file: &str, text: &str, at: usize, message: String) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.matches('\n').count() + 1;
        let column = before[line_start..].chars().count() + 1;
        Self { file: file.to_owned(), line, column, message }
    }
}

/// What a value can be whose key is not looked at yet.
const UNQUOTED: &str = "a number, true or false, a [list], or a text in \"quotes\"";

/// The fixed phrases of serde and of the parser, turned into `key is value, allowed: …`. `given` is the text
/// that the error points at.
fn in_our_words(message: &str, path: &str, given: &str) -> String {
    let message = message.trim_end().replace('\n', ", ");
    let of = |path: &str| if path.is_empty() { String::new() } else { format!(" of {path}") };
    for kind in ["invalid type: ", "invalid value: "] {
        let parts = message.strip_prefix(kind).and_then(|rest| rest.split_once(", expected "));
        if let Some((value, expected)) = parts {
            let is_date = value == "map" && given.starts_with(|first: char| first.is_ascii_digit());
            let value = if is_date { given } else { plain_value(value) };
            return format!("{path} is {value}, allowed: {}", plain_kind(path, expected));
        }
    }
    if let Some(key) = message.strip_prefix("missing field ") {
        return format!("the key {key}{} is missing, it is required", of(path));
    }
    if let Some((key, expected)) =
        message.strip_prefix("unknown field ").and_then(|rest| rest.split_once(", "))
    {
        let known: Vec<_> = expected.split('`').skip(1).step_by(2).collect();
        let table = path.rsplit_once('.').map_or("", |(table, _)| table);
        let near = suggestion(key.trim_matches('`'), &known);
        return format!("the key {key}{} is unknown, allowed: {}{near}", of(table), known.join(", "));
    }
    if message == "duplicate key" {
        return format!("the key `{given}` is given twice, allowed: once");
    }
    if message.starts_with("is ") {
        return format!("{path} {message}");
    }
    if message.starts_with("string values must be quoted") {
        let is = if given.trim().is_empty() { "has no value" } else { &format!("is {}", given.trim()) };
        return format!("{path} {is}, allowed: {UNQUOTED}");
    }
    let message = message.replacen(", expected ", ", allowed: ", 1);
    if path.is_empty() { message } else { format!("{path}: {message}") }
}

/// A value without serde's name of its kind.
fn plain_value(value: &str) -> &str {
    match value {
        "map" => "a table",
        "sequence" => "a list",
        _ => {
            let kinds = ["integer `", "floating point `", "boolean `"];
            let number = kinds.iter().find_map(|kind| value.strip_prefix(kind)?.strip_suffix('`'));
            number.or(value.strip_prefix("string ")).unwrap_or(value)
        }
    }
}

/// What serde expected, in words of the file.
fn plain_kind(path: &str, expected: &str) -> String {
    let is_top = !path.contains(['.', '[']);
    match expected {
        "a sequence" if is_top => format!("tables, each below [[{path}]]"),
        "a sequence" => "a list".to_owned(),
        "i64" => "a whole number".to_owned(),
        _ if expected.starts_with("struct ") && is_top => format!("a table, below [{path}]"),
        _ if expected.starts_with("struct ") => "a table".to_owned(),
        _ => expected.to_owned(),
    }
}

/// `; did you mean …?` where one of the known words is near.
pub fn suggestion(word: &str, known: &[&str]) -> String {
    let distance = |known: &&&str| strsim::damerau_levenshtein(word, known);
    let near = known.iter().min_by_key(distance).filter(|known| distance(known) <= known.len() / 3);
    near.map_or(String::new(), |near| format!("; did you mean {near}?"))
}

/// A key of the file with its path (`worker[0].lease_ms`) and where it and its value stand.
struct Entry {
    path: String,
    key: Range<usize>,
    value: Range<usize>,
}

/// Every key of the file, in its order where the file is valid TOML.
fn entries(text: &str) -> Vec<Entry> {
    let (root, _) = DeTable::parse_recoverable(text);
    let mut entries = Vec::new();
    collect_table(root.get_ref(), "", &mut entries);
    entries
}

fn collect_table(table: &DeTable<'_>, path: &str, entries: &mut Vec<Entry>) {
    for (key, value) in table.iter() {
        let mut own = path.to_owned();
        if !path.is_empty() {
            own.push('.');
        }
        own.push_str(key.get_ref());
        entries.push(Entry { path: own.clone(), key: key.span(), value: value.span() });
        collect_value(value.get_ref(), &own, entries);
    }
}

fn collect_value(value: &DeValue<'_>, path: &str, entries: &mut Vec<Entry>) {
    match value {
        DeValue::Table(table) => collect_table(table, path, entries),
        DeValue::Array(array) => {
            for (at, item) in array.iter().enumerate() {
                let mut own = path.to_owned();
                // Writing to a String cannot fail.
                let _ = write!(own, "[{at}]");
                entries.push(Entry { path: own.clone(), key: item.span(), value: item.span() });
                collect_value(item.get_ref(), &own, entries);
            }
        }
        _ => {}
    }
}
