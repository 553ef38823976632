//! Where a sender posts to.

use std::fmt;

use hyper::Uri;
use hyper::http::uri::Scheme;

use crate::rules::Invalid;

/// An `http` or `https` URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    uri: Uri,
    host: String,
    port: u16,
}

impl Target {
    /// Reads a URL: a scheme, a host, a port unless it is the scheme's own, a path unless it is `/`; a query if
    /// need be, but neither user nor fragment.
    ///
    /// # Errors
    /// [`Invalid`] for anything else.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        // A user's password is not to end in a log.
        let shown = if text.contains('@') { "one with a user" } else { text };
        let refuse =
            || Invalid::new("url", shown, "http://HOST[:PORT][/PATH] or https://…, no user, no fragment");
        if text.contains('#') {
            return Err(refuse());
        }
        let uri: Uri = text.parse().map_err(|_| refuse())?;
        let port = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => 80,
            Some(scheme) if *scheme == Scheme::HTTPS => 443,
            _ => return Err(refuse()),
        };
        let authority = uri.authority().ok_or_else(refuse)?.as_str();
        let host = uri.host().unwrap_or_default().to_owned();
        let port_text = authority.strip_prefix(&host).ok_or_else(refuse)?;
        let port = match port_text.strip_prefix(':') {
            None if port_text.is_empty() => port,
            Some(_) => uri.port_u16().filter(|port| *port > 0).ok_or_else(refuse)?,
            None => return Err(refuse()),
        };
        if host.is_empty() {
            return Err(refuse());
        }
        Ok(Self { uri, host, port })
    }

    /// Whether the scheme is `https`.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.uri.scheme() == Some(&Scheme::HTTPS)
    }

    /// The host: a name or an address, an IPv6 address in brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// What stands in `Host`.
    pub(super) fn authority(&self) -> &str {
        self.uri.authority().map_or("", |authority| authority.as_str())
    }

    /// Path and query.
    pub(super) fn path(&self) -> String {
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.uri.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_host_port_and_path() {
        let cases = [
            ("http://example.com", "example.com", 80, "/", "example.com"),
            ("https://example.com/jobs?x=1", "example.com", 443, "/jobs?x=1", "example.com"),
            ("http://example.com?x=1", "example.com", 80, "/?x=1", "example.com"),
            ("http://127.0.0.1:7410/jobs", "127.0.0.1", 7410, "/jobs", "127.0.0.1:7410"),
            ("http://[::1]:80/", "[::1]", 80, "/", "[::1]:80"),
        ];
        for (url, host, port, path, authority) in cases {
            let target = Target::parse(url).unwrap();
            assert_eq!((target.host(), target.port(), target.path()), (host, port, path.to_owned()), "{url}");
            assert_eq!(target.authority(), authority);
            assert_eq!(target.is_https(), url.starts_with("https"));
        }
    }

    #[test]
    fn other_urls_are_refused() {
        let bad = [
            "",
            "example.com",
            "/jobs",
            "ftp://example.com",
            "http://",
            "http:///jobs",
            "http://user@example.com",
            "http://user:secret@example.com",
            "http://example.com:0",
            "http://example.com:65536",
            "http://example.com:",
            "http://example.com/#top",
            "http://exa mple.com",
        ];
        for url in bad {
            let error = Target::parse(url).expect_err(url).to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
