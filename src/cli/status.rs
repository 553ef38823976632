//! The status page, the metrics and the probes of a worker or a receiver: for whoever asks for them, read only.

mod board;
mod metrics;
mod page;

use std::future::Future;

use ackward::adapter::SystemClock;
use ackward::port::Listener;
use ackward::rules::Timeout;
use ackward::shell::{ServerLimits, serve_status};
use clap::Args;

use super::exit::{Ended, Exit};
use super::socket::Kept;

pub use board::{Board, Metrics};
pub use metrics::{ReceiveMetrics, WorkMetrics};

/// Where the status page is.
#[derive(Debug, Clone, Args)]
pub struct StatusArgs {
    /// Serve a read-only status page, /metrics (Prometheus), /healthz, /readyz and /status.json: on this port of the
    /// loopback address, or on HOST:PORT. Nobody is asked who they are
    #[arg(long, env = "ACKWARD_STATUS_LISTEN", value_name = "[HOST:]PORT", value_parser = address)]
    status_listen: Option<String>,
    /// A name by which the status page may be asked for, besides localhost and IP addresses; others are answered 421.
    /// It can be given several times
    #[arg(long, env = "ACKWARD_STATUS_HOST", value_name = "NAME", value_delimiter = ',', value_parser = host)]
    status_host: Vec<String>,
}

/// Pages are small and local: who reads or asks slowly is cut off soon.
const HEAD_SECONDS: f64 = 5.0;
const GRACE_SECONDS: f64 = 1.0;
const CONNECTIONS_MAX: usize = 256;

impl StatusArgs {
    /// Listens where a page is wanted; a socket that is there already is kept.
    pub async fn prepare(&self, before: Option<&StatusPage>) -> Result<StatusPage, Ended> {
        let Some(address) = &self.status_listen else { return Ok(StatusPage(None)) };
        let before = before.and_then(|page| page.0.as_ref()).filter(|served| served.address == *address);
        let listener = match before {
            Some(served) => served.listener.clone(),
            None => Kept::listen(address).await.map_err(|error| {
                Ended::new(Exit::Failure, format_args!("listening on {address} for the status page: {error}"))
            })?,
        };
        let seconds =
            |seconds| Timeout::from_seconds(seconds).map_err(|error| Ended::new(Exit::Failure, error));
        let limits = ServerLimits {
            head_timeout: seconds(HEAD_SECONDS)?,
            grace: seconds(GRACE_SECONDS)?,
            connections_max: CONNECTIONS_MAX,
        };
        Ok(StatusPage(Some(Served {
            address: address.clone(),
            listener,
            limits,
            names: self.status_host.clone(),
        })))
    }
}

/// Where the page is served, if it is.
pub struct StatusPage(Option<Served>);

struct Served {
    /// As it was asked for.
    address: String,
    listener: Kept,
    limits: ServerLimits,
    /// What the page's host may be called.
    names: Vec<String>,
}

impl StatusPage {
    /// Whether there is a page, so that somebody can read what is counted.
    pub const fn is_served(&self) -> bool {
        self.0.is_some()
    }

    /// Serves the board beside what fills it and beside `work`, until that is done. Where no page is wanted, only
    /// works.
    pub async fn beside<T>(
        &self,
        board: &Board,
        fill: impl Future<Output = std::convert::Infallible>,
        work: impl Future<Output = T>,
    ) -> Result<T, Ended> {
        let Some(Served { listener, limits, names, .. }) = &self.0 else { return Ok(work.await) };
        tracing::info!(address = %listener.local_address(), "status page");
        let serving =
            serve_status(listener.clone(), board, &SystemClock, *limits, names, std::future::pending());
        tokio::select! {
            biased;
            done = work => Ok(done),
            never = fill => match never {},
            () = serving => Err(Ended::new(Exit::Failure, "the status page has ended")),
        }
    }
}

/// A port of the loopback address, or host and port.
fn address(text: &str) -> Result<String, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or(("127.0.0.1", text));
    match port.parse::<u16>() {
        Ok(port) if !host.is_empty() => Ok(format!("{host}:{port}")),
        _ => Err("allowed: PORT or HOST:PORT, with a port from 0 to 65535".to_owned()),
    }
}

/// A host's name, without a port.
fn host(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !text.is_empty() && text.chars().all(is_plain) {
        return Ok(text.to_owned());
    }
    Err("allowed: a host's name without a port, such as ops.example".to_owned())
}
