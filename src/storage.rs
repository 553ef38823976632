//! Synchronous functions over one SQLite connection, one short transaction each. The time is an argument,
//! never read here.

mod connection;
mod error;
mod queue;
mod store;
mod transaction;

pub use connection::{Durability, OpenOptions};
pub use error::StorageError;
pub use queue::{
    ClaimError, EnqueueError, Enqueued, FinishError, Finished, LeaseQueue, Now, RedriveError, Released,
    Renewed,
};
pub use store::{Applied, ApplyError, Batch, ConsumeError, Consumed, State, Store};
