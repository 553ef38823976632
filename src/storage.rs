//! Synchronous functions over one SQLite connection, one short transaction each. The time is an argument,
//! never read here.

mod connection;
mod error;
mod event_store;
mod inbox;
mod kind;
mod lease_queue;
mod one_by_one;
mod queue;
mod schema;
mod store;
mod transaction;

pub use connection::{Durability, OpenOptions};
pub use error::{Answers, MayBeBusy, StorageError, all_or_busy};
pub use event_store::EventStore;
pub use inbox::{AcceptError, Accepted, Answer, Arrival, EventInbox, Inbox, Totals};
pub use kind::FileKind;
pub use lease_queue::{
    ClaimError, EnqueueError, Enqueued, FinishError, FinishOrder, Finished, LeaseQueue, Now, RedriveError,
    Released, Renewed,
};
pub use one_by_one::OneByOne;
pub use queue::{BadRow, Depth, Finding, JobFilter, JobRow, PruneOptions, Pruned, Queue, Stats};
pub use store::{Applied, ApplyError, Batch, ConsumeError, Consumed, State, Store};
