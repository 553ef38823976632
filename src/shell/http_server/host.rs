//! The Host of a request (RFC 9110, 7.2; RFC 9112, 3.2): once, in its proper shape.

use hyper::header::{HOST, HeaderMap};
use hyper::http::uri::Authority;
use hyper::{Request, Version};

/// Whether a request has the Host that it must have: exactly one in HTTP/1.1, at most one before that, host and port and
/// no more. An empty one is a proper one.
pub(in crate::shell) fn has_proper_host<B>(request: &Request<B>) -> bool {
    let is_proper =
        |value: &[u8]| value.is_empty() || Authority::try_from(value).is_ok_and(|it| is_plain(&it));
    match one(request.headers()) {
        Ok(Some(value)) => is_proper(value),
        Ok(None) => request.version() < Version::HTTP_11,
        Err(()) => false,
    }
}

/// Host and port, no more, the port a number up to 65535, or left out.
pub(in crate::shell) fn is_plain(authority: &Authority) -> bool {
    let port = authority.as_str().strip_prefix(authority.host());
    let digits = port.and_then(|port| if port.is_empty() { Some("") } else { port.strip_prefix(':') });
    digits.is_some_and(|digits| {
        digits.is_empty() || digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u16>().is_ok()
    })
}

/// The value of Host, where it stands; an error where it stands more than once.
fn one(headers: &HeaderMap) -> Result<Option<&[u8]>, ()> {
    let mut hosts = headers.get_all(HOST).iter();
    let first = hosts.next();
    if hosts.next().is_some() { Err(()) } else { Ok(first.map(|value| value.as_bytes())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9112, 3.2.
    #[test]
    fn a_request_has_one_proper_host() {
        let check = |version, hosts: &[&str]| {
            let mut request = Request::post("/").version(version);
            for host in hosts {
                request = request.header(HOST, *host);
            }
            has_proper_host(&request.body(()).unwrap())
        };
        for host in ["", "a", "a:80", "a:", "127.0.0.1:7410", "[::1]:7410", "receiver-host:7100"] {
            assert!(check(Version::HTTP_11, &[host]) && check(Version::HTTP_10, &[host]), "{host}");
        }
        for host in ["a b", "a:x", "a:65536", "u@a", "http://a", "a/b", "[::1", "a,b c"] {
            assert!(!check(Version::HTTP_11, &[host]), "{host}");
        }
        for version in [Version::HTTP_10, Version::HTTP_11] {
            assert!(!check(version, &["a", "a"]) && !check(version, &["a", "b"]), "{version:?}");
        }
        assert!(!check(Version::HTTP_11, &[]) && check(Version::HTTP_10, &[]));
    }
}
