//! One export on the wire: a connection and a POST by hyper on the command's own runtime, limited in time and in what it
//! reads. When to try again is the exporter's to say.

#![expect(clippy::disallowed_methods, reason = "an export takes real time, and is part of no run")]

use std::fmt;
use std::io;
use std::pin::pin;
use std::time::Duration;

use ackward::adapter::TokioNetwork;
use ackward::port::{Connect, Stream};
use ackward::shell::Target;
use futures_util::future::{Either, select};
use http_body_util::{BodyExt, Full, Limited};
use hyper::Uri;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, HeaderValue, USER_AGENT};
use hyper_util::rt::TokioIo;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};

use crate::cli::exit::{Ended, Exit};

/// The limit on one try.
const TRY_TIME: Duration = Duration::from_secs(10);
/// The largest reply, in bytes; an answer to spans has next to none.
const REPLY_BYTES_MAX: usize = 64 * 1024;
const AGENT: &str = concat!("ackward/", env!("CARGO_PKG_VERSION"));

/// Posts to a collector.
pub struct Collector {
    target: Target,
    network: Net,
}

/// What it is reached over.
enum Net {
    Plain,
    #[cfg(feature = "tls")]
    Tls(ackward::adapter::TlsNetwork),
}

impl Collector {
    /// Fails for `https` where no certificate is trusted, or the build has none.
    pub fn new(target: Target) -> Result<Self, Ended> {
        let network = if target.is_https() { Net::tls()? } else { Net::Plain };
        Ok(Self { target, network })
    }

    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (host, port) = (self.target.host(), self.target.port());
        match &self.network {
            Net::Plain => post(TokioNetwork.connect_to(host, port).await?, request).await,
            #[cfg(feature = "tls")]
            Net::Tls(network) => post(network.connect_to(host, port).await?, request).await,
        }
    }
}

impl Net {
    #[cfg(feature = "tls")]
    fn tls() -> Result<Self, Ended> {
        let network = ackward::adapter::TlsNetwork::new();
        network.map(Self::Tls).map_err(|error| Ended::new(Exit::Failure, error))
    }

    #[cfg(not(feature = "tls"))]
    fn tls() -> Result<Self, Ended> {
        Err(Ended::new(Exit::Usage, "--otlp-endpoint: this build has no https (feature tls): use http://"))
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Collector").field(&self.target.to_string()).finish()
    }
}

#[async_trait::async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let late = io::Error::new(io::ErrorKind::TimedOut, "the collector did not answer in time");
        let reply = match tokio::time::timeout(TRY_TIME, self.exchange(request)).await {
            Ok(reply) => reply,
            Err(_) => Err(late.into()),
        };
        // The exporter's own error leaves the cause out.
        reply.inspect_err(|error| tracing::debug!(%error, url = %self.target, "spans could not be sent"))
    }
}

/// One request and its reply on one connection.
async fn post(stream: impl Stream + Send, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let request = on_connection(request)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let exchange = async {
        let (head, body) = sender.send_request(request).await?.into_parts();
        let body = Limited::new(body, REPLY_BYTES_MAX).collect().await?;
        Ok::<_, HttpError>(Response::from_parts(head, body.to_bytes()))
    };
    match select(pin!(exchange), pin!(connection)).await {
        Either::Left((reply, _)) => reply,
        Either::Right((_, exchange)) => exchange.await,
    }
}

/// From the exporter's request, whose URI is the whole URL, to one as it stands on the wire.
fn on_connection(request: Request<Bytes>) -> Result<Request<Full<Bytes>>, HttpError> {
    let (mut head, body) = request.into_parts();
    let authority = head.uri.authority().map_or("", |authority| authority.as_str());
    head.headers.insert(HOST, HeaderValue::from_str(authority)?);
    head.headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    head.headers.insert(CONNECTION, HeaderValue::from_static("close"));
    head.uri = head.uri.path_and_query().map_or_else(|| Ok(Uri::default()), |path| path.as_str().parse())?;
    Ok(Request::from_parts(head, Full::from(body)))
}
