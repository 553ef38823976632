//! Serves pages to look at: GET and HEAD only, so nothing can be changed from here. What the pages say is somebody
//! else's.

use core::net::IpAddr;
use std::future::Future;

use futures_util::FutureExt;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::http::uri::Authority;
use hyper::{Method, Request, StatusCode};

use super::http_server::{Reply, ServerLimits, is_plain, serve};
use super::wait::yield_now;
use crate::port::{Clock, Listener};

/// What a browser may do with a page: load script, style and data from here, nothing else from anywhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const TEXT: &str = "text/plain; charset=utf-8";

/// Where the pages come from.
pub trait Pages {
    /// The page at a path, such as `/metrics`; `None` where there is none.
    fn page(&self, path: &str) -> impl Future<Output = Option<Page>>;
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Whether all is well: 200, else 503.
    pub is_well: bool,
    /// The content type.
    pub content_type: &'static str,
    /// The text.
    pub body: String,
}

/// Serves pages until `shutdown` completes. Every reply forbids the browser to run or load anything from elsewhere,
/// to frame the page and to keep it. Who calls this host by something other than an IP address, `localhost` or one of
/// `names` is answered 421: a browser does, for a page of somebody who had its own name point here (DNS rebinding).
pub async fn serve_status(
    listener: impl Listener,
    pages: &impl Pages,
    clock: &impl Clock,
    limits: ServerLimits,
    names: &[String],
    shutdown: impl Future<Output = ()>,
) {
    let answer = |request: Request<Incoming>| answer(pages, names, request);
    serve(listener, clock, limits, shutdown.shared(), || {}, answer).await;
}

async fn answer<B>(pages: &impl Pages, names: &[String], request: Request<B>) -> Reply {
    // A page is there at once, and so would be those of all the requests that one connection has sent ahead: between
    // two of them the other connections have their turn, and whatever else the process is for.
    yield_now().await;
    if !is_meant(&request, names) {
        let what =
            "Host is neither an IP address, nor localhost, nor a name that this page was told to go by\n";
        return reply(StatusCode::MISDIRECTED_REQUEST, TEXT, what.into());
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut reply = reply(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD are served\n".into());
        reply.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return reply;
    }
    match pages.page(request.uri().path()).await {
        Some(Page { is_well, content_type, body }) => {
            let status = if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            reply(status, content_type, body)
        }
        None => reply(StatusCode::NOT_FOUND, TEXT, "there is no such page\n".into()),
    }
}

/// Whether a request names this host: in Host, which stands once, and in its target, where it does.
fn is_meant<B>(request: &Request<B>, names: &[String]) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let Ok(host) = Authority::try_from(host.as_bytes()) else { return false };
    let target = request.uri().authority();
    [Some(&host), target]
        .into_iter()
        .flatten()
        .all(|authority| is_plain(authority) && is_ours(authority, names))
}

fn is_ours(authority: &Authority, names: &[String]) -> bool {
    let host = authority.host();
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_named =
        || names.iter().map(String::as_str).chain(["localhost"]).any(|name| name.eq_ignore_ascii_case(host));
    bare.parse::<IpAddr>().is_ok() || is_named()
}

fn reply(status: StatusCode, content_type: &'static str, body: String) -> Reply {
    let mut reply = Reply::new(Full::new(Bytes::from(body)));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, content_type),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    reply
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    struct NoPages;

    impl Pages for NoPages {
        async fn page(&self, _path: &str) -> Option<Page> {
            None
        }
    }

    /// Whoever sends a thousand requests ahead and reads no reply holds up nobody.
    #[test]
    fn before_each_answer_others_have_their_turn() {
        for host in ["localhost", "evil.example"] {
            let request = Request::get("/").header(HOST, host).body(()).unwrap();
            let mut answer = pin!(answer(&NoPages, &[], request));
            assert!(answer.as_mut().now_or_never().is_none(), "not at the first poll");
            assert!(answer.now_or_never().is_some(), "and then at once");
        }
    }

    /// IP addresses, localhost and the names given; whatever else a name could look like is somebody else's.
    #[test]
    fn a_host_is_ours_by_address_or_by_name() {
        let names = ["ops.example".to_owned()];
        let is_meant = |hosts: &[&str], target: &str| {
            let mut request = Request::get(target);
            for host in hosts {
                request = request.header(HOST, *host);
            }
            super::is_meant(&request.body(()).unwrap(), &names)
        };
        for host in [
            "127.0.0.1",
            "127.0.0.1:7412",
            "[::1]:7412",
            "[::1]",
            "10.1.2.3",
            "localhost:1",
            "LocalHost",
            "localhost:",
            "localhost:65535",
            "OPS.example:80",
        ] {
            assert!(is_meant(&[host], "/"), "{host}");
        }
        for host in [
            "",
            "x",
            "evil.example:7412",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evil.ops.example",
            "ops.example.",
            "localhost, evil.example",
            "http://127.0.0.1",
            "[evil]",
            "evil@localhost",
            "evil:secret@localhost:1",
            "@localhost",
            "localhost@",
            "localhost:65536",
            "localhost:99999999",
            "localhost:x",
            "localhost:+1",
            "localhost:1:1",
            "[::1]x",
        ] {
            assert!(!is_meant(&[host], "/"), "{host}");
        }
        assert!(!is_meant(&[], "/") && !is_meant(&["localhost", "localhost"], "/"), "it stands once");
        assert!(
            is_meant(&["localhost"], "http://localhost/")
                && !is_meant(&["localhost"], "http://evil.example/")
                && !is_meant(&["localhost"], "http://evil@localhost/")
        );
    }
}
