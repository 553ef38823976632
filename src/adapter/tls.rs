//! TLS over TCP, for `https://`: rustls, with the certificates that the system trusts.

use std::io;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::TokioNetwork;
use crate::port::{Connect, Network, Stream};

/// Connects over TLS 1.2 or 1.3 and checks the peer's certificate against its host name.
#[derive(Clone)]
pub struct TlsNetwork(TlsConnector);

impl TlsNetwork {
    /// Trusts what the system trusts, or, where the environment variable `SSL_CERT_FILE` is set, the
    /// certificates in that PEM file.
    ///
    /// # Errors
    /// Where not one certificate is found.
    pub fn new() -> io::Result<Self> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        let (added, _ignored) = roots.add_parsable_certificates(found.certs);
        if added == 0 {
            let why = found.errors.first().map_or_else(String::new, |error| format!(": {error}"));
            return Err(io::Error::other(format!("no trusted certificate is found{why}")));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }
}

impl Connect for TlsNetwork {
    type Stream = TlsStream<TcpStream>;

    async fn connect_to(&self, host: &str, port: u16) -> io::Result<Self::Stream> {
        let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(name).map_err(io::Error::other)?;
        let stream = TokioNetwork.connect(&format!("{host}:{port}")).await?;
        self.0.connect(name, stream).await
    }
}

impl Stream for TlsStream<TcpStream> {
    fn abort(self) {
        self.into_inner().0.abort();
    }
}
