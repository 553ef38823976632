//! The ports' real implementations: system clock, threads, sockets.

mod blocking;
mod clock;

pub use blocking::{ThreadLane, Threads};
pub use clock::SystemClock;
