//! The identifier of jobs, owners and notes.

use std::fmt;
use std::sync::Arc;

use super::Invalid;

/// An identifier (Q1): 1 to 64 characters, each an ASCII letter, an ASCII digit, `_` or `-`. Case counts.
///
/// Cloning is cheap: the text is shared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// Longest identifier, in characters.
    pub const LEN_MAX: usize = 64;

    /// Checks `text` by Q1; `field` names the place in the error.
    ///
    /// # Errors
    /// [`Invalid`] for any other text.
    pub fn new(field: &'static str, text: &str) -> Result<Self, Invalid> {
        let fits = (1..=Self::LEN_MAX).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        if fits {
            return Ok(Self(text.into()));
        }
        Err(Invalid::new(
            field,
            format!("{text:?}"),
            "1 to 64 characters, each an ASCII letter, digit, '_' or '-'",
        ))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
