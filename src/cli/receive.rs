//! `ackward receive`.

use std::cell::Cell;
use std::mem;
use std::path::PathBuf;

use ackward::adapter::{SystemClock, ThreadLane, Threads};
use ackward::port::{Blocking, Lane, Listener};
use ackward::rules::Timeout;
use ackward::shell::{
    CommitFailed, OnAnswer, Received, ReceiverExtras, ReceiverOptions, RequestObserver, receive_observed,
};
use ackward::storage::{Durability, FileKind, Inbox, OpenOptions};
use clap::Args;
use hyper::header::HeaderMap;

use super::exit::{Ended, Exit};
use super::fault::EnvFault;
use super::output::say;
use super::secrets::SecretArgs;
use super::service::{self, Service, Watch, Why, until_told};
use super::signals::Signals;
use super::socket::Kept;
use super::status::{Board, Metrics, ReceiveMetrics, StatusArgs, StatusPage};
use super::traces::{TraceArgs, Traces};
use super::values::{host_port, timeout};
use super::{Command, files};

/// Take events over HTTP, each at most once
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ackward receive --listen 127.0.0.1:7410 --inbox inbox.db
  curl --json '{\"id\":\"cake\",\"qty\":3}' -H 'Idempotency-Key: \"cake\"' http://127.0.0.1:7410/jobs

It takes POST on / and /jobs and answers 200 {\"ok\":true} once the event is committed, or was before. Otherwise \
{\"error\":CODE,\"message\":TEXT} and nothing is changed: 400 malformed, or Host not exactly once, 401 signature or timestamp, 404 path, 405 \
method, 408 body too slow, 413 body or 431 head too large, 415 content type, 422 the id was accepted with another \
quantity, 503 not committed, to be tried again.

Rows of the inbox are what tells a repeat from a new event. Never delete any whose job may still be sent or redriven.")]
pub struct Receive {
    /// Where to listen; port 0 picks a free one, and the first line on stdout says which
    #[arg(long, env = "ACKWARD_LISTEN", value_name = "HOST:PORT", default_value = "127.0.0.1:7410", value_parser = host_port)]
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
        value_parser = super::values::whole::<u32>(1..=u32::MAX.into())
    )]
    connections_max: u32,
    /// The most events that share a transaction
    #[arg(
        long,
        env = "ACKWARD_GROUP_MAX",
        value_name = "N",
        default_value_t = 256,
        value_parser = super::values::whole::<u32>(1..=u32::MAX.into())
    )]
    group_max: u32,
    #[command(flatten)]
    status: StatusArgs,
    #[command(flatten)]
    traces: TraceArgs,
    /// Open the file although it lies on a network file system, whose locks may not hold between hosts
    #[arg(long, env = "ACKWARD_ALLOW_NETWORK_FS")]
    allow_network_fs: bool,
    /// Print address and summary as JSON
    #[arg(long)]
    json: bool,
}

impl Receive {
    /// Receives, and goes on with the settings read anew after each SIGHUP. The listening socket stays open meanwhile:
    /// who connects then waits.
    pub async fn run(self) -> Result<(), Ended> {
        let mut signals = Signals::new().map_err(|error| Ended::new(Exit::Failure, error))?;
        let listener = Kept::listen(&self.listen).await.map_err(|error| {
            Ended::new(Exit::Failure, format_args!("listening on {}: {error}", self.listen))
        })?;
        let Some(ready) = service::unless_stopped(&mut signals, self.prepare(None)).await? else {
            self.report(Received::default());
            return Ok(());
        };
        let receiving = Receiving::new(self, listener, ready)?;
        receiving.receive.greet(&receiving.listener.local_address());
        service::run(receiving, signals).await
    }

    /// Everything that can fail before a request is answered.
    async fn prepare(&self, before: Option<&Ready>) -> Result<Ready, Ended> {
        let options = self.options().await?;
        let fault = EnvFault::from_env()?;
        files::local(&self.inbox, self.allow_network_fs)?;
        files::prepare(&self.inbox, FileKind::Inbox)?;
        let identity = files::identity(&self.inbox)
            .map_err(|error| Ended::new(Exit::Storage, format_args!("{}: {error}", self.inbox.display())))?;
        let page = self.status.prepare(before.map(|ready| &ready.page)).await?;
        let traces = self.traces.prepare(before.map(|ready| &ready.traces))?;
        let path = self.inbox.clone();
        let open = move || Inbox::open(&path, &OpenOptions::new(Durability::Extra));
        let inbox = Threads.open("inbox", open).await;
        let inbox = inbox.map_err(|error| files::storage(&self.inbox, &error))?;
        Ok(Ready { options, fault, identity, inbox, page, traces })
    }

    /// What the status page is about.
    fn title(&self) -> String {
        format!("Inbox {}", self.inbox.display())
    }

    async fn options(&self) -> Result<ReceiverOptions, Ended> {
        Ok(ReceiverOptions {
            head_timeout: self.head_timeout,
            body_timeout: self.body_timeout,
            grace: self.grace,
            connections_max: usize::try_from(self.connections_max).unwrap_or(usize::MAX),
            group_max: usize::try_from(self.group_max).unwrap_or(usize::MAX),
            secrets: self.secrets.read().await?,
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

/// What the settings come to.
struct Ready {
    options: ReceiverOptions,
    fault: EnvFault,
    /// Which file the inbox is.
    identity: (u64, u64),
    inbox: ThreadLane<Inbox>,
    page: StatusPage,
    traces: Traces,
}

/// A receiver, and what outlives a reload.
struct Receiving {
    receive: Receive,
    ready: Ready,
    listener: Kept,
    /// Where it was told to listen when it began to.
    listening: String,
    board: Board,
    received: Cell<Received>,
}

impl Receiving {
    fn new(receive: Receive, listener: Kept, ready: Ready) -> Result<Self, Ended> {
        let metrics = ReceiveMetrics::new().map_err(|error| Ended::new(Exit::Failure, error))?;
        let board = Board::new(receive.title(), Metrics::Receive(metrics));
        let listening = receive.listen.clone();
        Ok(Self { receive, ready, listener, listening, board, received: Cell::default() })
    }
}

impl Service for Receiving {
    async fn take(&mut self, command: Command) -> Result<(), Ended> {
        let Command::Receive(receive) = command else { return Ok(()) };
        let ready = receive.prepare(Some(&self.ready)).await?;
        if receive.listen != self.listening {
            service::waits_for_start("--listen");
        }
        self.board.about(receive.title());
        self.receive = *receive;
        mem::replace(&mut self.ready, ready).inbox.close().await;
        Ok(())
    }

    async fn once(&self, signals: &mut Signals) -> Result<Why, Ended> {
        let Self { receive, ready, listener, board, received, .. } = self;
        let Ready { options, fault, identity, inbox, page, traces } = ready;
        let watch = Watch {
            path: &receive.inbox,
            identity: *identity,
            board,
            jump: "signed requests may be refused",
        };
        let receiving = until_told(&watch, signals, async |told| {
            let (listener, fault) = (listener.clone(), fault.clone());
            let observer = Observers { board, traces: traces.receiver() };
            let extras = ReceiverExtras { received, observer: &observer };
            receive_observed(listener, inbox, &SystemClock, options, fault, traces.noting(told), extras)
                .await;
        });
        let path = receive.inbox.clone();
        let look = move || Inbox::open(&path, &OpenOptions::new(Durability::Extra).read_only());
        let ((), why) = page.beside(board, board.watch_inbox(look, received), receiving).await?;
        Ok(why)
    }

    async fn end(self, why: Why) -> Result<(), Ended> {
        self.ready.inbox.close().await;
        let received = self.received.get();
        self.receive.report(received);
        self.ready.traces.flush(self.receive.grace).await;
        let replaced = "nothing more is accepted; put the file back before you start again, for its rows are what \
                        tells a repeat from a new event";
        let cut = (received.cut > 0).then_some("requests were");
        service::ended(why, &self.receive.inbox, replaced, cut)
    }
}

/// The board hears of commits, traces of requests.
struct Observers<'a> {
    board: &'a Board,
    traces: &'a dyn RequestObserver,
}

impl RequestObserver for Observers<'_> {
    fn began(&self, headers: &HeaderMap) -> Option<OnAnswer> {
        self.traces.began(headers)
    }

    fn committed(&self, commit: Result<(), CommitFailed<'_>>) {
        self.board.committed(commit);
    }
}
