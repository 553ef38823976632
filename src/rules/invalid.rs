//! The one error of every value that is out of range.

use std::borrow::Cow;
use std::fmt;

/// A value that the contract refuses: which field, what was given, what is allowed.
///
/// Nothing has been changed when this is returned (Q4). The caller can correct the value and call again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The field's name, as a user writes it.
    pub field: Cow<'static, str>,
    /// The refused value, as text, cut to a readable length.
    pub value: String,
    /// What would have been accepted.
    pub allowed: Cow<'static, str>,
}

/// Longest part of a refused value that an error repeats, in characters.
const SHOWN_CHARS_MAX: usize = 80;

impl Invalid {
    /// Builds the error; `value` is shown in full up to 80 characters, then cut with an ellipsis.
    pub fn new(
        field: impl Into<Cow<'static, str>>,
        value: impl fmt::Display,
        allowed: impl Into<Cow<'static, str>>,
    ) -> Self {
        let mut value = value.to_string();
        if let Some((cut, _)) = value.char_indices().nth(SHOWN_CHARS_MAX) {
            value.truncate(cut);
            value.push('…');
        }
        Self { field: field.into(), value, allowed: allowed.into() }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, allowed: {}", self.field, self.value, self.allowed)
    }
}

impl std::error::Error for Invalid {}

/// Checks that a whole number lies in `min..=max`.
pub(crate) fn in_range(field: &'static str, value: i64, min: i64, max: i64) -> Result<i64, Invalid> {
    if (min..=max).contains(&value) {
        return Ok(value);
    }
    Err(Invalid::new(field, value, format!("a whole number from {min} to {max}")))
}
