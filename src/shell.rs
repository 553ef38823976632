//! Async code, generic over the ports: what runs in production is what the simulator runs.

mod client;
mod follow;
mod line_reader;
mod publisher;
mod session;
mod wait;

pub use client::{Client, ClientOptions, run_client};
pub use follow::{FollowError, FollowOptions, follow};
pub use line_reader::{Line, LineError, LineReader};
pub use publisher::{Log, LogBytes, LogError, LogPosition, PublishError, PublishOptions, publish};
pub use session::{BeforeAck, Commit, SessionError, SessionOptions, consume_session};
