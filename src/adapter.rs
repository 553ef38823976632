//! The ports' real implementations: system clock, threads, sockets, files.

mod blocking;
mod clock;
mod log_file;
mod network;
#[cfg(feature = "tls")]
mod tls;

pub use blocking::{ThreadLane, Threads};
pub use clock::SystemClock;
pub use log_file::LogFile;
pub use network::TokioNetwork;
#[cfg(feature = "tls")]
pub use tls::TlsNetwork;
