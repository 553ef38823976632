//! `ackward receive`.

use std::path::PathBuf;

use ackward::adapter::{SystemClock, Threads, TokioNetwork};
use ackward::port::{Blocking, Lane, Listener, Network};
use ackward::rules::Timeout;
use ackward::shell::{Received, ReceiverOptions, receive};
use ackward::storage::{Durability, Inbox, OpenOptions};
use clap::Args;

use super::exit::{Ended, Exit};
use super::fault::EnvFault;
use super::output::say;
use super::secrets::SecretArgs;
use super::values::timeout;
use super::{files, signals};

/// Take events over HTTP, each at most once
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ackward receive --listen 127.0.0.1:7410 --inbox inbox.db
  curl --json '{\"id\":\"cake\",\"qty\":3}' -H 'Idempotency-Key: \"cake\"' http://127.0.0.1:7410/jobs

It takes POST on / and /jobs and answers 200 {\"ok\":true} once the event is committed, or was before. Otherwise \
{\"error\":CODE,\"message\":TEXT} and nothing is changed: 400 malformed, 401 signature or timestamp, 404 path, 405 \
method, 408 body too slow, 413 body or 431 head too large, 415 content type, 422 the id was accepted with another \
quantity, 503 not committed, to be tried again.

Rows of the inbox are what tells a repeat from a new event. Never delete any whose job may still be sent or redriven.")]
pub struct Receive {
    /// Where to listen; port 0 picks a free one, and the first line on stdout says which
    #[arg(long, env = "ACKWARD_LISTEN", value_name = "HOST:PORT", default_value = "127.0.0.1:7410")]
    listen: String,
    /// The inbox's SQLite file; created if it does not exist
    #[arg(long, env = "ACKWARD_INBOX", value_name = "FILE")]
    inbox: PathBuf,
    #[command(flatten)]
    secrets: SecretArgs,
    /// How far the time of a signed request may lie from the clock, in seconds
    #[arg(long, env = "ACKWARD_TOLERANCE", value_name = "SECONDS", default_value = "300", value_parser = timeout)]
    tolerance: Timeout,
    /// How long a connection may wait for a request, or for the rest of its head, in seconds
    #[arg(long, env = "ACKWARD_HEAD_TIMEOUT", value_name = "SECONDS", default_value = "30", value_parser = timeout)]
    head_timeout: Timeout,
    /// How long a request's body may take, in seconds
    #[arg(long, env = "ACKWARD_BODY_TIMEOUT", value_name = "SECONDS", default_value = "10", value_parser = timeout)]
    body_timeout: Timeout,
    /// How long requests may take to end after SIGTERM, in seconds
    #[arg(long, env = "ACKWARD_GRACE", value_name = "SECONDS", default_value = "10", value_parser = timeout)]
    grace: Timeout,
    /// Connections served at once; others wait
    #[arg(
        long,
        env = "ACKWARD_CONNECTIONS_MAX",
        value_name = "N",
        default_value_t = 256,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    connections_max: u32,
    /// The most events that share a transaction
    #[arg(
        long,
        env = "ACKWARD_GROUP_MAX",
        value_name = "N",
        default_value_t = 256,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    group_max: u32,
    /// Print address and summary as JSON
    #[arg(long)]
    json: bool,
}

impl Receive {
    pub async fn run(self) -> Result<(), Ended> {
        let options = self.options()?;
        let fault = EnvFault::from_env()?;
        let stop = signals::stop().map_err(|error| Ended::new(Exit::Failure, error))?;
        files::prepare(&self.inbox)?;
        let path = self.inbox.clone();
        let open = move || Inbox::open(&path, &OpenOptions::new(Durability::Extra));
        let inbox = Threads.open("inbox", open).await?;
        let listener = TokioNetwork.listen(&self.listen).await.map_err(|error| {
            Ended::new(Exit::Failure, format_args!("listening on {}: {error}", self.listen))
        })?;
        self.greet(&Listener::local_address(&listener));
        let received = receive(listener, &inbox, &SystemClock, &options, fault, stop).await;
        inbox.close().await;
        self.report(received);
        if received.cut > 0 {
            return Err(Ended::new(Exit::Cut, "requests were cut off: the grace time was over"));
        }
        Ok(())
    }

    fn options(&self) -> Result<ReceiverOptions, Ended> {
        Ok(ReceiverOptions {
            head_timeout: self.head_timeout,
            body_timeout: self.body_timeout,
            grace: self.grace,
            connections_max: usize::try_from(self.connections_max).unwrap_or(usize::MAX),
            group_max: usize::try_from(self.group_max).unwrap_or(usize::MAX),
            secrets: self.secrets.read()?,
            tolerance: self.tolerance.duration(),
        })
    }

    fn greet(&self, address: &str) {
        if self.json {
            say(serde_json::json!({ "listening": address }));
        } else {
            say(format_args!("listening on {address}"));
        }
    }

    fn report(&self, received: Received) {
        let Received { connections, applied, repeats, refused, cut } = received;
        if self.json {
            say(serde_json::json!({
                "end": "stopped", "connections": connections, "applied": applied, "repeats": repeats,
                "refused": refused, "cut": cut
            }));
        } else {
            say(format_args!("stopped: applied {applied}, repeats {repeats}, refused {refused}"));
        }
    }
}
