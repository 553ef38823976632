//! Async code, generic over the ports: what runs in production is what the simulator runs.

mod courier;
mod sender;

pub use courier::{Delivery, Orders, RunFileError, RunOnceError, run_file, run_once};
pub use sender::{SendError, Sender};
