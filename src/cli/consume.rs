//! `ackward consume`.

use std::path::PathBuf;

use ackward::adapter::{SystemClock, Threads, TokioNetwork};
use ackward::port::{Blocking, Lane};
use ackward::rules::{RetryPolicy, Timeout};
use ackward::shell::{
    Client, ClientOptions, Commit, FollowOptions, SessionError, SessionOptions, follow, run_client,
};
use ackward::storage::{FileKind, State, Store};
use clap::{Args, ValueEnum};

use super::exit::{Ended, Exit};
use super::fault::EnvFault;
use super::output::say;
use super::values::{delay_ms, retry, timeout};
use super::{files, jitter, signals};

/// Apply a publisher's events to a store, each exactly once
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ackward consume --address 127.0.0.1:7400 --store totals.db

It reconnects until it is stopped; with --once it ends when the publisher ends the stream.")]
pub struct Consume {
    /// The publisher
    #[arg(long, env = "ACKWARD_ADDRESS", value_name = "HOST:PORT", value_parser = address)]
    address: String,
    /// The store's SQLite file; created if it does not exist
    #[arg(long, env = "ACKWARD_STORE", value_name = "FILE")]
    store: PathBuf,
    /// End when the publisher ends the stream, and at the first failure
    #[arg(long)]
    once: bool,
    /// Longest wait for the network at each step, in seconds
    #[arg(long, env = "ACKWARD_TIMEOUT", value_name = "SECONDS", default_value = "30", value_parser = timeout)]
    timeout: Timeout,
    /// Whether events that arrive together share a transaction
    #[arg(long, env = "ACKWARD_COMMIT", value_enum, default_value_t = CommitBy::Group)]
    commit: CommitBy,
    /// The wait after the first failure, in ms; doubled with each further one, scaled by chance
    #[arg(long, env = "ACKWARD_RETRY_BASE_MS", value_name = "MS", default_value_t = 100, value_parser = delay_ms)]
    retry_base_ms: i64,
    /// The longest wait after a failure, in ms
    #[arg(long, env = "ACKWARD_RETRY_CAP_MS", value_name = "MS", default_value_t = 30_000, value_parser = delay_ms)]
    retry_cap_ms: i64,
    /// Give up after this many failures in a row without an event applied [default: never]
    #[arg(long, env = "ACKWARD_FAILURES_MAX", value_name = "N", value_parser = super::values::whole::<u32>(1..=u32::MAX.into()))]
    failures_max: Option<u32>,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum CommitBy {
    Group,
    Line,
}

type RealClient = Client<SystemClock, TokioNetwork, Threads, EnvFault, Store>;

impl Consume {
    pub async fn run(self) -> Result<(), Ended> {
        let retry = retry(self.retry_base_ms, self.retry_cap_ms)?;
        let fault = EnvFault::from_env()?;
        files::prepare(&self.store, FileKind::Store)?;
        let client =
            Client { clock: SystemClock, network: TokioNetwork, blocking: Threads, fault, open: Store::open };
        let ended = if self.once { self.once(&client).await } else { self.follow(&client, retry).await };
        self.report(&ended);
        ended.map(drop)
    }

    async fn once(&self, client: &RealClient) -> Result<(State, &'static str), Ended> {
        let stop = signals::stop().map_err(|error| Ended::new(Exit::Failure, error))?;
        let options = self.client_options();
        let mut before_ack = |_| Ok(());
        tokio::select! {
            biased;
            () = stop => Ok((self.state(client).await?, "stopped")),
            state = run_client(client, &options, &mut before_ack) => Ok((state?, "caught-up")),
        }
    }

    async fn follow(&self, client: &RealClient, retry: RetryPolicy) -> Result<(State, &'static str), Ended> {
        let stop = signals::stop().map_err(|error| Ended::new(Exit::Failure, error))?;
        let options = FollowOptions { client: self.client_options(), retry, failures_max: self.failures_max };
        Ok((follow(client, &options, &mut jitter, &mut |_| Ok(()), stop).await?, "stopped"))
    }

    fn client_options(&self) -> ClientOptions {
        let commit = match self.commit {
            CommitBy::Group => Commit::Group,
            CommitBy::Line => Commit::PerLine,
        };
        ClientOptions::new(&self.address, &self.store, SessionOptions { timeout: self.timeout, commit })
    }

    /// Where the store stands after a run that was cancelled.
    async fn state(&self, client: &RealClient) -> Result<State, Ended> {
        let options = self.client_options();
        // The lane is closed when it is dropped; only what `open` found counts.
        let open = move || Store::open(&options.path, &options.open)?.state();
        let lane = client.blocking.open("state", open).await.map_err(SessionError::from)?;
        Ok(lane.call("state", |state| *state).await)
    }

    fn report(&self, ended: &Result<(State, &'static str), Ended>) {
        match (ended, self.json) {
            (Ok((state, end)), true) => {
                let (last, total) = (state.last.get(), state.total);
                say(serde_json::json!({ "end": end, "last": last, "total": total }));
            }
            (Ok((state, end)), false) => {
                say(format_args!("{end}: last {}, total {}", state.last, state.total))
            }
            (Err(ended), true) => {
                say(serde_json::json!({ "end": ended.exit.word(), "message": ended.message }));
            }
            (Err(_), false) => {}
        }
    }
}

/// A host and a port; names are looked up when connecting.
fn address(text: &str) -> Result<String, String> {
    let is_address = text
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0));
    if is_address {
        Ok(text.to_owned())
    } else {
        Err("allowed: HOST:PORT, with a port from 1 to 65535".to_owned())
    }
}
