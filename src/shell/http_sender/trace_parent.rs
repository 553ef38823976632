//! Which trace a request belongs to, as far as the sender must know it: the value of one header.

use std::fmt::Debug;

use hyper::header::HeaderValue;

use super::Target;
use crate::rules::Event;

/// The header by which traces are passed on (W3C Trace Context).
pub(super) const HEADER: &str = "traceparent";

/// Knows the trace that an attempt belongs to.
pub trait TraceParent: Debug {
    /// The value of `traceparent` for the attempt that now goes to `target`, asked for once an attempt. `None`: the
    /// header is left out.
    fn traceparent(&self, event: &Event, target: &Target) -> Option<HeaderValue>;
}
