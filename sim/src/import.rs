//! An incident from production, found again in simulation: the event logs of workers (`ackward work --events FILE`) are
//! read, held against the contract, turned into a scenario, and a seed is searched whose run does the same.
//!
//! What a log cannot tell (when a job was enqueued, its deadline, what the receiver committed) is guessed and said. What a
//! worker could not write (a line `lost` says how much) is not guessed: no job's story is told beyond it.

mod check;
mod diary;
mod draft;
mod gap;
mod guide;
mod line;
mod log;
mod plan;
mod search;
mod steps;

pub use check::Finding;
pub use diary::{Diary, keep};
pub use draft::{Draft, DraftError, draft};
pub use gap::Gap;
pub use line::{Line, Lost, Ticketed, What};
pub use log::{Log, LogError};
pub use search::{Found, SearchOptions, search};
pub use steps::{Likeness, Step, Steps};
