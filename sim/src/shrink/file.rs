//! A shrunk failure as a scenario file: what it shows, what does not matter, and a sentence above each deviation.

use std::fmt::Write;

use super::{Shrunk, candidate};
use crate::scenario::Scenario;

/// Longest sentence of a scenario's `about`, in characters.
const ABOUT_MAX: usize = 300;
/// Where a comment is broken, in characters.
const LINE_MAX: usize = 110;
const DEVIATION: &str = "[[deviation]]\n";

pub(super) fn text(shrunk: &Shrunk, origin: &str) -> String {
    let scenario = Scenario {
        about: about(shrunk),
        expect: candidate::expect(&shrunk.scenario, &shrunk.property),
        ..shrunk.scenario.clone()
    };
    let mut text = String::new();
    comment(&mut text, &format!("Shrunk from {origin}: breaks {}.", shrunk.property));
    if shrunk.seed != 1 {
        comment(&mut text, &format!("It does so with --seed {}.", shrunk.seed));
    }
    let parts = [("Could be anything", &shrunk.freedom.free), ("Matters", &shrunk.freedom.bound)];
    for (word, parts) in parts.iter().filter(|(_, parts)| !parts.is_empty()) {
        comment(&mut text, &format!("{word}: {}.", grouped(parts)));
    }
    let toml = scenario.to_toml();
    let mut pieces = toml.split(DEVIATION);
    text.push_str(pieces.next().unwrap_or_default());
    for (piece, deviation) in pieces.zip(&scenario.deviations) {
        comment(&mut text, &deviation.in_words());
        text.push_str(DEVIATION);
        text.push_str(piece);
    }
    text
}

/// One line, as a scenario wants it.
fn about(shrunk: &Shrunk) -> String {
    let line = format!("{}: {}", shrunk.property, shrunk.detail.lines().next().unwrap_or_default());
    line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(ABOUT_MAX).collect()
}

/// `qty of cake`, `ttl_ms of cake` as `qty and ttl_ms of cake`.
fn grouped(parts: &[String]) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for part in parts {
        let (key, owner) = part.split_once(" of ").unwrap_or((part, ""));
        match groups.iter_mut().find(|(known, _)| *known == owner && !owner.is_empty()) {
            Some((_, keys)) => keys.push(key),
            None => groups.push((owner, vec![key])),
        }
    }
    let shown = groups.iter().map(|(owner, keys)| {
        let keys = keys.join(", ");
        if owner.is_empty() { keys } else { format!("{keys} of {owner}") }
    });
    shown.collect::<Vec<_>>().join("; ")
}

/// A comment, broken into lines.
fn comment(text: &mut String, sentence: &str) {
    let mut line = String::from("#");
    for word in sentence.split(' ') {
        if line.chars().count() + word.chars().count() >= LINE_MAX && line.len() > 1 {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{line}");
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(text, "{line}");
}
