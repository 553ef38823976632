//! What a receiver tells of its requests and commits: for traces and probes. Telling changes nothing.

use std::error::Error;

use hyper::header::HeaderMap;

use crate::shell::worker::NoObserver;

/// Is told of a receiver's requests.
pub trait RequestObserver {
    /// A request's head has come. What is returned is told the answer; it is dropped untold where the connection ends
    /// first. Called on the receiver's own task: it must not block.
    fn began(&self, headers: &HeaderMap) -> Option<OnAnswer>;

    /// Events were committed, or could not be.
    fn committed(&self, _commit: Result<(), CommitFailed<'_>>) {}
}

/// Why events could not be committed.
#[derive(Debug, Clone, Copy)]
pub struct CommitFailed<'a> {
    /// What it failed of.
    pub error: &'a dyn Error,
    /// Whether the file was only locked.
    pub is_busy: bool,
}

/// Is told how one request was answered.
pub type OnAnswer = Box<dyn FnOnce(Answer)>;

/// How a request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// With 200: the event took effect.
    New,
    /// With 200: the event was here before.
    Repeat,
    /// With an error; nothing was changed.
    Refused {
        /// The reply's status, 400 to 599.
        status: u16,
        /// The word for it in the reply's body, such as `conflict`.
        code: &'static str,
    },
}

impl RequestObserver for NoObserver {
    fn began(&self, _headers: &HeaderMap) -> Option<OnAnswer> {
        None
    }
}
