//! Who may reach us from where: the Host that was asked for and the Origin that asks.
//!
//! A browser sends both with every request it makes for a page. Checking them is what keeps a web page from talking to a
//! bridge on the visitor's own machine (DNS rebinding). Source: MCP 2025-11-25, transports, security warning.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

use crate::error::{Error, Reason};
use crate::model::TraceId;
use crate::protocol::error_body;

/// What is allowed in.
#[derive(Clone, Default)]
pub struct Origins {
    /// Origins that may read our answers (`--cors-origin`); `*` allows all. None unless set.
    pub cors: Arc<Vec<String>>,
    /// Host names that we answer to, without ports, in lower case; `*` allows all. Loopback names always count.
    pub hosts: Arc<Vec<String>>,
}

const ALLOWED_METHODS: &str = "POST, GET, DELETE, OPTIONS";
const ALLOWED_HEADERS: &str =
    "authorization, content-type, accept, mcp-protocol-version, mcp-session-id, last-event-id, traceparent, tracestate";
const EXPOSED_HEADERS: &str = "mcp-session-id, www-authenticate";

pub async fn check(State(origins): State<Origins>, request: Request, next: Next) -> Response {
    let Some(host) = host(request.headers(), request.uri()).filter(|host| origins.is_ours(host)) else {
        return forbidden("This server does not answer to that host name.");
    };
    let mut origins_sent = request.headers().get_all(header::ORIGIN).iter();
    let origin = match (origins_sent.next().cloned(), origins_sent.next()) {
        (None, _) => return next.run(request).await,
        (Some(origin), None) => origin,
        (Some(_), Some(_)) => return forbidden("Requests from two origins at once are not allowed."),
    };
    if origins.is_same(&origin, &host) {
        return next.run(request).await;
    }
    if !origins.may_ask(&origin) {
        return forbidden("Requests from this origin are not allowed.");
    }
    let mut response = match request.method() {
        &Method::OPTIONS => preflight(),
        _ => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED_HEADERS));
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    response
}

impl Origins {
    fn may_ask(&self, origin: &HeaderValue) -> bool {
        let Ok(origin) = origin.to_str() else { return false };
        self.cors.iter().any(|allowed| allowed == "*" || allowed.eq_ignore_ascii_case(origin))
    }

    /// The origin is the address that was asked. A name that only the wildcard allows proves nothing: it may have been
    /// pointed at us by whoever wrote the page.
    fn is_same(&self, origin: &HeaderValue, host: &str) -> bool {
        let authority = origin.to_str().ok().and_then(|o| o.strip_prefix("http://").or(o.strip_prefix("https://")));
        self.is_named(host) && authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
    }

    fn is_ours(&self, host: &str) -> bool {
        self.is_named(host) || self.hosts.iter().any(|h| h == "*")
    }

    fn is_named(&self, host: &str) -> bool {
        let name = without_port(host).to_ascii_lowercase();
        matches!(name.as_str(), "localhost" | "127.0.0.1" | "[::1]") || self.hosts.contains(&name)
    }
}

/// What was asked for, with its port.
fn host(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok().map(str::to_owned),
        (None, _) => uri.authority().map(|a| a.to_string()),
        // Two of them is an attempt to be read in two ways.
        (Some(_), Some(_)) => None,
    }
}

fn without_port(host: &str) -> &str {
    match (host.rfind(':'), host.rfind(']')) {
        (Some(colon), Some(bracket)) if colon > bracket => &host[..colon],
        (Some(colon), None) => &host[..colon],
        _ => host,
    }
}

fn preflight() -> Response {
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

fn forbidden(why: &str) -> Response {
    let body = error_body(None, &Error::new(Reason::OriginForbidden, why), &TraceId::random());
    (StatusCode::FORBIDDEN, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}
