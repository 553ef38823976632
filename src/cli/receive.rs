//! `ackward receive`.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use ackward::adapter::{SystemClock, Threads, TokioNetwork};
use ackward::port::{Blocking, Lane, Listener, Network};
use ackward::rules::Timeout;
use ackward::shell::{Jump, Received, ReceiverOptions, receive_observed, watch_clock};
use ackward::storage::{Durability, FileKind, Inbox, OpenOptions};
use clap::Args;
use futures_util::FutureExt;
use tokio::net::{TcpListener, TcpStream};

use super::exit::{Ended, Exit};
use super::fault::EnvFault;
use super::output::say;
use super::secrets::SecretArgs;
use super::signals::{Signals, Wish};
use super::status::{Board, Metrics, ReceiveMetrics, StatusArgs};
use super::values::timeout;
use super::{Cli, Command, files};

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
        let listener = TokioNetwork.listen(&self.listen).await.map_err(|error| {
            Ended::new(Exit::Failure, format_args!("listening on {}: {error}", self.listen))
        })?;
        let address = Listener::local_address(&listener);
        let listener = Kept(Rc::new(listener));
        let metrics = ReceiveMetrics::new().map_err(|error| Ended::new(Exit::Failure, error))?;
        let board = Board::new(format!("Inbox {}", self.inbox.display()), Metrics::Receive(metrics));
        let received = Cell::default();
        let mut receive = self;
        let mut greeting = Some(address);
        loop {
            let address = greeting.take();
            let wish = receive.once(listener.clone(), &mut signals, &board, &received, address).await?;
            if wish == Wish::Stop {
                return receive.ended(received.get());
            }
            match super::parse() {
                Ok(Cli { command: Command::Receive(anew), .. }) => receive = *anew,
                Ok(_) => {}
                Err(refused) => {
                    tracing::error!(error = refused.message(), "the settings are refused, the old ones stay");
                }
            }
        }
    }

    async fn once(
        &self,
        listener: Kept,
        signals: &mut Signals,
        board: &Board,
        received: &Cell<Received>,
        greeting: Option<String>,
    ) -> Result<Wish, Ended> {
        let options = self.options()?;
        let fault = EnvFault::from_env()?;
        files::local(&self.inbox, self.allow_network_fs)?;
        files::prepare(&self.inbox, FileKind::Inbox)?;
        let path = self.inbox.clone();
        let open = move || Inbox::open(&path, &OpenOptions::new(Durability::Extra));
        let inbox = Threads.open("inbox", open).await;
        let inbox = inbox.map_err(|error| files::storage(&self.inbox, &error))?;
        if let Some(address) = greeting {
            self.greet(&address);
        }
        let wish = Cell::new(Wish::Stop);
        board.set_stopping(false);
        let shutdown = async {
            wish.set(signals.next().await);
            board.set_stopping(true);
        };
        let receiving = receive_observed(listener, &inbox, &SystemClock, &options, fault, shutdown, received);
        let working = async {
            tokio::select! {
                biased;
                () = receiving => {}
                never = watch_clock(&SystemClock, CLOCK_EVERY, CLOCK_JUMP, tell_jump) => match never {},
            }
        };
        let path = self.inbox.clone();
        let look = move || Inbox::open(&path, &OpenOptions::new(Durability::Extra).read_only());
        self.status.beside(board, board.watch_inbox(look, received), working).await?;
        inbox.close().await;
        Ok(match wish.get() {
            Wish::Reload => signals.next().now_or_never().unwrap_or(Wish::Reload),
            Wish::Stop => Wish::Stop,
        })
    }

    fn ended(&self, received: Received) -> Result<(), Ended> {
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

/// How often the clock is looked at, and from which step on it has jumped.
const CLOCK_EVERY: Duration = Duration::from_secs(1);
const CLOCK_JUMP: Duration = Duration::from_secs(2);

fn tell_jump(jump: Jump) {
    let by_ms = jump.by_ms;
    tracing::warn!(by_ms, "the clock jumped, or the process stood still: signed requests may be refused");
}

/// The listening socket, which outlives the runs that accept from it.
#[derive(Clone)]
struct Kept(Rc<TcpListener>);

impl Listener for Kept {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<(TcpStream, String)> {
        let (stream, peer) = poll_fn(|context| self.0.poll_accept(context)).await?;
        stream.set_nodelay(true)?;
        Ok((stream, peer.to_string()))
    }

    fn local_address(&self) -> String {
        Listener::local_address(&*self.0)
    }
}
