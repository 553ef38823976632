//! Plain values and pure functions of the contract: no I/O, no clock. A value that exists is valid;
//! ranges are checked once, where it is made.

mod event_json;
mod invalid;
mod job;
mod json;
mod limits;
mod line;
mod name;
mod replay;
mod retry;
mod stream;
mod time;
mod timeout;

pub use invalid::Invalid;
pub use job::{Attempt, Attempts, Event, Outcome, Qty, Reason, Status, Ticket, Token};
pub use json::Json;
pub use limits::{Delay, Lease, Limits, Ttl};
pub(crate) use line::bad_line;
pub use line::{
    LINE_BYTES_MAX, ack_line, log_line, parse_ack, parse_line, parse_log_line, parse_resume, parse_resync,
    resume_line,
};
pub use name::Name;
pub use replay::{REPLAY_EVENTS_MAX, ReplayError, replay};
pub use retry::{Jitter, RetryPolicy, retry_delay};
pub use stream::{Cursor, Delta, Limit, Resync, Seq, StreamEvent};
pub use time::{INSTANT_MAX_MS, Millis, NOW_MAX_MS};
pub use timeout::Timeout;
