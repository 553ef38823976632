//! Plain values and pure functions of the contract: no I/O, no clock. A value that exists is valid;
//! ranges are checked once, where it is made.

mod invalid;
mod job;
mod limits;
mod name;
mod retry;
mod time;

pub use invalid::Invalid;
pub use job::{Attempt, Attempts, Event, Outcome, Qty, Reason, Status, Ticket, Token};
pub use limits::{Delay, Lease, Limits, Ttl};
pub use name::Name;
pub use retry::{Jitter, RetryPolicy, retry_delay};
pub use time::{INSTANT_MAX_MS, Millis, NOW_MAX_MS};
