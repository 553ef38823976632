//! Async code, generic over the ports: what runs in production is what the simulator runs.

mod client;
mod clock_watch;
mod courier;
mod follow;
mod http_sender;
mod http_server;
mod line_reader;
mod publisher;
mod receiver;
mod sender;
mod session;
mod signature;
mod status;
mod trouble;
mod wait;
#[cfg(test)]
mod wire;
mod worker;

pub use client::{Client, ClientOptions, run_client};
pub use clock_watch::{Jump, watch_clock};
pub use courier::{Delivery, Orders, RunFileError, RunOnceError, run_file, run_once};
pub use follow::{FollowError, FollowOptions, follow};
pub use http_sender::{HttpError, HttpSender, HttpSenderOptions, Target, TraceParent};
pub use http_server::ServerLimits;
pub use line_reader::{Line, LineError, LineReader};
pub use publisher::{Log, LogBytes, LogError, LogPosition, PublishError, PublishOptions, Published, publish};
pub use receiver::{
    Answer, CommitFailed, OnAnswer, Received, ReceiverExtras, ReceiverOptions, RequestObserver, receive,
    receive_observed,
};
pub use sender::{SendError, Sender};
pub use session::{BeforeAck, Commit, Doing, SessionError, SessionOptions, consume_session};
pub use signature::{
    Secret, Secrets, SignatureError, Signed, TOLERANCE_DEFAULT, WEBHOOK_ID, WEBHOOK_SIGNATURE,
    WEBHOOK_TIMESTAMP,
};
pub use status::{Page, Pages, serve_status};
pub use trouble::{Line as TroubleLine, Trouble};
pub use worker::{
    Extras, Happening, NoObserver, Observer, Wake, WorkOptions, Worked, Worker, work, work_observed,
};
