//! MCP over Streamable HTTP: `/mcp` (POST, GET, DELETE), health, readiness and metrics.
//!
//! Replies are plain JSON unless the call has something to say before its answer; then the reply is a stream (`sse`). A JSON-RPC error rides on status 200, except where HTTP itself has a word for it: 401 and 403
//! with `WWW-Authenticate`, 413, 415, 406, 400 for what is not a message, 503 while draining. A client that disconnects
//! has not cancelled: its call runs to its end. Source: MCP 2025-11-25, transports; design sections 5 and 6.

mod connections;
mod guard;
mod headers;
mod listen;
mod metadata;
mod sse;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::{Caller, Identifier, Identity};
use crate::error::{Error, Reason};
use crate::model::{Trace, TraceId};
use crate::protocol::{
    Answer, Message, Peer, PeerPolicy, Protocol, Session, SessionFault, Sink, StreamKind, accept, client_key,
    error_body, parse,
};
use headers::{Fault, traceparent};

pub use guard::Origins;
#[doc(hidden)]
pub use headers::read_event_id;
pub use metadata::{Metadata, router as metadata_routes};

#[derive(Clone)]
pub struct HttpSettings {
    pub policy: PeerPolicy,
    pub origins: Origins,
    /// Largest body of a message, in bytes.
    pub max_body_bytes: usize,
    /// `initialize` without a token is answered.
    pub open_initialize: bool,
    /// How long one connection of a stream is held before its client is asked to come back. `None`: as long as it likes.
    pub hold: Option<Duration>,
    /// How long calls that are under way may take once the process is told to end.
    pub drain: Duration,
}

/// How long a body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(30);

/// Asked by `GET /readyz`: can calls be answered now?
pub type Readiness = Arc<dyn Fn() -> futures::future::BoxFuture<'static, Result<(), Error>> + Send + Sync>;

#[derive(Clone)]
pub struct HttpServer {
    pub protocol: Arc<Protocol>,
    pub identifier: Arc<Identifier>,
    pub settings: HttpSettings,
    pub ready: Readiness,
    /// The text of `GET /healthz`: the process lives, and what it would rather not serve as it is. Anybody may read it.
    pub health: Arc<dyn Fn() -> String + Send + Sync>,
    /// The text of `GET /metrics`.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
    /// Told of every answer: the route's pattern and the status.
    pub count: Arc<dyn Fn(&'static str, u16) + Send + Sync>,
    /// Routes of other services of this binary, such as the audit log's.
    pub beside: Router,
}

#[derive(Clone)]
struct App {
    server: HttpServer,
    /// Calls under way, with or without a client that still waits for them.
    running: TaskTracker,
    draining: Arc<AtomicBool>,
}

/// Routes of others behind the same check of Origin and Host.
pub fn guarded(routes: Router, origins: Origins) -> Router {
    routes.layer(middleware::from_fn_with_state(origins, guard::check))
}

impl HttpServer {
    /// What is served, without a listener: for tests that hand over requests themselves.
    #[doc(hidden)]
    pub fn into_router(self) -> Router {
        App { server: self, running: TaskTracker::new(), draining: Arc::default() }.router()
    }

    /// Serve until `stop` fires, then finish what is under way within the drain budget.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) -> std::io::Result<()> {
        let drain = self.settings.drain;
        let clients = self.protocol.clients().clone();
        let app = App { server: self, running: TaskTracker::new(), draining: Arc::default() };
        let (draining, running) = (app.draining.clone(), app.running.clone());
        let connections = connections::accept(listener, app.router(), stop.clone(), &draining).await;
        running.close();
        clients.close_listening();
        let mut ended = std::pin::pin!(async {
            connections.wait().await;
            // A call whose client has gone is on no connection, and its audit bracket is open.
            running.wait().await;
        });
        tracing::info!(budget_ms = drain.as_millis() as u64, "draining");
        if tokio::time::timeout(drain, &mut ended).await.is_err() {
            tracing::warn!("calls that were still running are stopped");
            clients.in_flight.cancel_all();
            let _ = tokio::time::timeout(Duration::from_secs(1), &mut ended).await;
        }
        Ok(())
    }
}

impl App {
    fn router(self) -> Router {
        let beside = self.server.beside.clone();
        let guarded = Router::new()
            .route("/mcp", any(mcp))
            .with_state(self.clone())
            .merge(beside)
            .layer(middleware::from_fn_with_state(self.server.settings.origins.clone(), guard::check));
        let count = self.server.count.clone();
        Router::new()
            .route("/healthz", get(healthz))
            .route("/mcp/healthz", get(healthz))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics))
            .with_state(self)
            .merge(guarded)
            .layer(middleware::from_fn(move |request: Request, next: Next| {
                let (route, count) = (known_route(request.uri().path()), count.clone());
                async move {
                    let response = next.run(request).await;
                    count(route, response.status().as_u16());
                    response
                }
            }))
    }
}

/// A closed set: what was asked for is the client's text.
fn known_route(path: &str) -> &'static str {
    [
        "/mcp",
        "/healthz",
        "/mcp/healthz",
        "/readyz",
        "/metrics",
        "/v1/audit",
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server",
    ]
    .into_iter()
    .find(|r| *r == path)
    .unwrap_or("other")
}

async fn healthz(State(app): State<App>) -> String {
    (app.server.health)()
}

async fn readyz(State(app): State<App>) -> Response {
    if app.draining.load(Ordering::Acquire) {
        return (StatusCode::SERVICE_UNAVAILABLE, "draining\n").into_response();
    }
    match (app.server.ready)().await {
        Ok(()) => "ready\n".into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", error.reason().as_str())).into_response(),
    }
}

async fn metrics(State(app): State<App>) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], (app.server.metrics)()).into_response()
}

async fn mcp(State(app): State<App>, request: Request) -> Response {
    let trace_id = || TraceId::random();
    if !matches!(request.method().as_str(), "POST" | "GET" | "DELETE") {
        return ([(header::ALLOW, "POST, GET, DELETE")], StatusCode::METHOD_NOT_ALLOWED).into_response();
    }
    if app.draining.load(Ordering::Acquire) {
        return fault(
            StatusCode::SERVICE_UNAVAILABLE,
            Error::new(Reason::Draining, "This server is shutting down."),
            &trace_id(),
        );
    }
    let (parts, body) = request.into_parts();
    match parts.method.as_str() {
        "GET" => return app.listen(&parts).await,
        "DELETE" => return app.end_session(&parts).await,
        _ => {}
    }
    if let Err((status, error)) = headers::check_post(&parts.headers) {
        return fault(status, error, &trace_id());
    }
    let body = match read(body, app.server.settings.max_body_bytes).await {
        Ok(body) => body,
        Err((status, error)) => return fault(status, error, &trace_id()),
    };
    let caller = app.server.identifier.for_http(&parts.headers, parts.uri.query()).await;
    let (messages, batch) = match parse(&body) {
        Ok(parsed) => parsed,
        // Who is not allowed in learns nothing about what they sent.
        Err(error) => {
            return match caller {
                Ok(_) => fault(StatusCode::BAD_REQUEST, error, &trace_id()),
                Err(refusal) => app.refuse(refusal, None, &parts.headers),
            };
        }
    };
    let caller = match caller {
        Ok(caller) => caller,
        Err(refusal) if app.may_initialize(&refusal, &messages) => Caller::anonymous(),
        Err(refusal) => return app.refuse(refusal, messages.first(), &parts.headers),
    };
    app.answer(caller, &parts.headers, messages, batch).await
}

impl App {
    /// Only `initialize`, only without any token: a bad one is never let through.
    fn may_initialize(&self, refusal: &Error, messages: &[Message]) -> bool {
        let only_initialize =
            matches!(messages, [Message::Request { method, .. }] if method == "initialize" || method == "ping");
        self.server.settings.open_initialize && refusal.reason() == Reason::TokenMissing && only_initialize
    }

    fn refuse(&self, refusal: Error, message: Option<&Message>, headers: &HeaderMap) -> Response {
        let id = match message {
            Some(Message::Request { id, .. }) => Some(id),
            _ => None,
        };
        let answer = Answer::error(id, refusal, &Trace::continue_from(traceparent(headers)).id);
        self.respond(answer)
    }

    async fn answer(&self, caller: Caller, headers: &HeaderMap, messages: Vec<Message>, batch: bool) -> Response {
        let session = match self.session(headers, &caller).await {
            Ok(session) => session.unwrap_or_else(Session::none),
            Err((status, error)) => return fault(status, error, &TraceId::random()),
        };
        let expects_answer = messages.iter().any(|m| matches!(m, Message::Request { .. } | Message::Invalid { .. }));
        let malformed = !batch && matches!(messages[0], Message::Invalid { .. });
        let policy = PeerPolicy {
            may_list_tasks: self.server.settings.policy.may_list_tasks && !caller.is_anonymous(),
            ..self.server.settings.policy
        };
        let clients = self.server.protocol.clients();
        let (key, until) = (client_key(&caller, &session), self.until(&caller));
        let streams = expects_answer && headers::accepts_stream(headers);
        let stream = streams.then(|| clients.streams.open(key.clone(), StreamKind::Request));
        let sink = stream.clone().map(|stream| stream as Arc<dyn Sink>);
        let peer = Peer { caller, policy, session: session.clone(), sink, in_flight: clients.in_flight.clone(), key };
        let accepted = accept(&peer, messages);
        let traceparent = traceparent(headers).map(str::to_owned);
        let (protocol, last) = (self.server.protocol.clone(), stream.clone());
        // A task of its own: if the client disconnects, this future is dropped, and the call must not be.
        let mut answering = self.running.spawn(async move {
            let answers = protocol.answer(&peer, accepted, traceparent.as_deref()).await;
            let bodies = || answers.iter().map(|answer| answer.body.clone()).collect();
            let streamed = last.is_some_and(|stream| stream.finish(bodies));
            (answers, streamed)
        });
        let (mut answers, streamed) = match &stream {
            None => answering.await.unwrap_or_default(),
            Some(stream) => tokio::select! {
                biased;
                answered = &mut answering => answered.unwrap_or_default(),
                () = stream.begun() => (vec![], true),
            },
        };
        if !expects_answer {
            return StatusCode::ACCEPTED.into_response();
        }
        let mut response = if let Some(stream) = stream.filter(|_| streamed) {
            sse::response(stream.read_from(0), until)
        } else if batch && answers.is_empty() {
            // All of them were cancelled.
            StatusCode::ACCEPTED.into_response()
        } else if batch {
            let bodies: Vec<Value> = answers.into_iter().map(|a| a.body).collect();
            json_response(StatusCode::OK, &Value::Array(bodies))
        } else {
            match answers.pop() {
                Some(answer) if malformed => json_response(StatusCode::BAD_REQUEST, &answer.body),
                Some(answer) => self.respond(answer),
                // Cancelled: the client said that it does not want this answer.
                None => StatusCode::ACCEPTED.into_response(),
            }
        };
        if let Some(id) = session.opened() {
            let id = HeaderValue::try_from(id.to_string()).expect("a UUID is visible ASCII");
            response.headers_mut().insert(headers::SESSION, id);
        }
        response
    }

    /// The session that the request names, if it names one.
    async fn session(&self, headers: &HeaderMap, caller: &Caller) -> Result<Option<Session>, Fault> {
        let malformed = || {
            let error = Error::new(Reason::SessionNotFound, "The Mcp-Session-Id header is not a session id.");
            (StatusCode::BAD_REQUEST, error)
        };
        let Some(text) = headers::session(headers).map_err(|()| malformed())? else { return Ok(None) };
        match self.server.protocol.clients().sessions.find(text, caller).await {
            Ok(session) => Ok(Some(session)),
            Err(SessionFault::NotAnId) => Err(malformed()),
            // Foreign, expired, ended and made-up ones look alike.
            Err(SessionFault::Unknown) => {
                let error = Error::new(Reason::SessionNotFound, "This session has ended or does not exist.");
                Err((StatusCode::NOT_FOUND, error))
            }
            Err(SessionFault::Unavailable(error)) => Err((StatusCode::SERVICE_UNAVAILABLE, error)),
        }
    }

    /// When a stream's connection has to end: when the operator says so, or with the token that opened it.
    fn until(&self, caller: &Caller) -> Option<tokio::time::Instant> {
        let held = self.server.settings.hold;
        let valid = match caller.identity() {
            Identity::Token { expires_at } => {
                let left = expires_at.duration_since(jiff::Timestamp::now());
                Some(Duration::try_from(left).unwrap_or_default())
            }
            Identity::Local | Identity::Task | Identity::Anonymous => None,
        };
        let left = [held, valid].into_iter().flatten().min()?;
        tokio::time::Instant::now().checked_add(left)
    }

    /// One answer with its status.
    fn respond(&self, answer: Answer) -> Response {
        let Some(refusal) = &answer.refusal else { return json_response(StatusCode::OK, &answer.body) };
        let status = match refusal.reason() {
            Reason::TokenMissing | Reason::TokenInvalid | Reason::TokenExpired | Reason::AudMismatch => {
                StatusCode::UNAUTHORIZED
            }
            Reason::InsufficientScope => StatusCode::FORBIDDEN,
            Reason::Unreachable if refusal.data("identity").is_some() => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::OK,
        };
        let mut response = json_response(status, &answer.body);
        let needed: Vec<&str> = refusal
            .data("required_scopes")
            .and_then(Value::as_array)
            .map(|scopes| scopes.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        if let Some(challenge) = self.server.identifier.challenge(refusal, &needed).filter(|_| status != StatusCode::OK)
        {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

async fn read(body: Body, limit: usize) -> Result<Bytes, Fault> {
    let too_large = || {
        (
            StatusCode::PAYLOAD_TOO_LARGE,
            Error::new(Reason::PayloadTooLarge, format!("A body may have at most {limit} bytes.")),
        )
    };
    // A client that announces too much is not waited for.
    if axum::body::HttpBody::size_hint(&body).lower() > limit as u64 {
        return Err(too_large());
    }
    let slow =
        |_| (StatusCode::REQUEST_TIMEOUT, Error::new(Reason::InvalidRequest, "The body did not arrive in time."));
    tokio::time::timeout(BODY_TIME, to_bytes(body, limit)).await.map_err(slow)?.map_err(|error| {
        match std::error::Error::source(&error).is_some_and(|e| e.is::<http_body_util::LengthLimitError>()) {
            true => too_large(),
            false => {
                (StatusCode::BAD_REQUEST, Error::new(Reason::ParseError, "The body could not be read.").detail(error))
            }
        }
    })
}

fn fault(status: StatusCode, error: Error, trace_id: &TraceId) -> Response {
    json_response(status, &error_body(None, &error, trace_id))
}

fn json_response(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body.to_string()).into_response()
}
