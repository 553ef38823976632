//! `ackward publish`.

use std::path::PathBuf;

use ackward::adapter::{LogFile, SystemClock, TokioNetwork};
use ackward::port::{Listener, Network};
use ackward::rules::Timeout;
use ackward::shell::{Log, LogError, PublishOptions, Published, publish};
use clap::Args;

use super::exit::{Ended, Exit, exit_of_log};
use super::files;
use super::output::say;
use super::signals;
use super::values::{host_port, timeout};

/// Serve the events of an append-only log
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  printf '0 5\\n1 -3\\n' > events.log
  ackward publish --listen 127.0.0.1:7400 --log-file events.log

The log has one event a line, `<seq> <delta>`, numbered without gaps, and is only ever appended to.")]
pub struct Publish {
    /// Where to listen; port 0 picks a free one, and the first line on stdout says which
    #[arg(long, env = "ACKWARD_LISTEN", value_name = "HOST:PORT", default_value = "127.0.0.1:7400", value_parser = host_port)]
    listen: String,
    /// The log of events
    #[arg(long, env = "ACKWARD_LOG_FILE", value_name = "FILE")]
    log_file: PathBuf,
    /// Close each connection when everything is acknowledged, instead of waiting for the log to grow
    #[arg(long)]
    no_follow: bool,
    /// Longest wait for a consumer that owes an answer, in seconds
    #[arg(long, env = "ACKWARD_TIMEOUT", value_name = "SECONDS", default_value = "30", value_parser = timeout)]
    timeout: Timeout,
    /// How long a connection with nothing to send is kept, in seconds
    #[arg(
        long,
        env = "ACKWARD_IDLE_TIMEOUT",
        value_name = "SECONDS",
        default_value = "300",
        value_parser = timeout
    )]
    idle_timeout: Timeout,
    /// How often the log is looked at for new events, in seconds
    #[arg(
        long,
        env = "ACKWARD_POLL_INTERVAL",
        value_name = "SECONDS",
        default_value = "0.1",
        value_parser = timeout
    )]
    poll_interval: Timeout,
    /// Consumers served at once; others wait
    #[arg(
        long,
        env = "ACKWARD_CONNECTIONS_MAX",
        value_name = "N",
        default_value_t = 64,
        value_parser = super::values::whole::<u32>(1..=u32::MAX.into())
    )]
    connections_max: u32,
    /// Print address and summary as JSON
    #[arg(long)]
    json: bool,
}

impl Publish {
    pub async fn run(self) -> Result<(), Ended> {
        let stop = signals::stop().map_err(|error| Ended::new(Exit::Failure, error))?;
        let log = self.open_log()?;
        let listener = TokioNetwork.listen(&self.listen).await;
        let listener = listener.map_err(|error| {
            Ended::new(Exit::Failure, format_args!("listening on {}: {error}", self.listen))
        })?;
        let address = Listener::local_address(&listener);
        if self.json {
            say(serde_json::json!({ "listening": address }));
        } else {
            say(format_args!("listening on {address}"));
        }
        tracing::info!(%address, held = %log.held(), "publishing");
        let published = publish(listener, log, &SystemClock, self.options(), stop).await?;
        let Published { connections, sent, acknowledged } = published;
        if self.json {
            say(serde_json::json!({
                "end": "stopped", "connections": connections, "sent": sent, "acknowledged": acknowledged
            }));
        } else {
            say(format_args!("stopped: connections {connections}, sent {sent}, acknowledged {acknowledged}"));
        }
        Ok(())
    }

    fn open_log(&self) -> Result<Log<LogFile>, Ended> {
        files::existing(&self.log_file)?;
        let opened = LogFile::open(&self.log_file).map_err(LogError::from).and_then(Log::open);
        opened.map_err(|error| {
            Ended::new(exit_of_log(&error), format_args!("{}: {error}", self.log_file.display()))
        })
    }

    fn options(&self) -> PublishOptions {
        PublishOptions {
            timeout: self.timeout,
            idle_timeout: self.idle_timeout,
            poll_interval: self.poll_interval,
            follow: !self.no_follow,
            connections_max: usize::try_from(self.connections_max).unwrap_or(usize::MAX),
        }
    }
}
