//! Serves pages to look at: GET and HEAD only, so nothing can be changed from here. What the pages say is somebody
//! else's.

use std::future::Future;

use futures_util::FutureExt;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Method, Request, StatusCode};

use super::http_server::{Limits, Reply, serve};
use crate::port::{Clock, Listener};
use crate::rules::Timeout;

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

/// What is allowed to those who look.
#[derive(Debug, Clone, Copy)]
pub struct StatusOptions {
    /// How long a connection is kept that waits for a request, for the rest of its head, or to be read by its peer.
    pub head_timeout: Timeout,
    /// How long requests may take to end after the shutdown.
    pub grace: Timeout,
    /// Connections served at once, at least 1; others wait to be accepted.
    pub connections_max: usize,
}

/// Serves pages until `shutdown` completes. Every reply forbids the browser to run or load anything from elsewhere,
/// to frame the page and to keep it.
pub async fn serve_status(
    listener: impl Listener,
    pages: &impl Pages,
    clock: &impl Clock,
    options: StatusOptions,
    shutdown: impl Future<Output = ()>,
) {
    let StatusOptions { head_timeout, grace, connections_max } = options;
    let limits = Limits { head_timeout, grace, connections_max };
    serve(listener, clock, limits, shutdown.shared(), || {}, |request| answer(pages, request)).await;
}

async fn answer(pages: &impl Pages, request: Request<Incoming>) -> Reply {
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
