//! `GET /mcp` and `DELETE /mcp`: listening to a session, reading a stream on, ending a session.
//!
//! A stream that was cut is read on by its client alone, from behind the message that it names. Source: MCP 2025-11-25,
//! transports, listening, resumability, session management.

use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};

use super::{App, Fault, fault, headers, sse};
use crate::auth::Caller;
use crate::error::{Error, Reason};
use crate::model::TraceId;
use crate::protocol::{Session, client_key};

impl App {
    pub(super) async fn listen(&self, parts: &Parts) -> Response {
        if let Err((status, error)) = headers::check_get(&parts.headers) {
            return fault(status, error, &TraceId::random());
        }
        let caller = match self.server.identifier.for_http(&parts.headers, parts.uri.query()).await {
            Ok(caller) => caller,
            Err(refusal) => return self.refuse(refusal, None, &parts.headers),
        };
        match self.stream(parts, &caller).await {
            Ok(response) => response,
            Err((status, error)) => fault(status, error, &TraceId::random()),
        }
    }

    async fn stream(&self, parts: &Parts, caller: &Caller) -> Result<Response, Fault> {
        let session = self.session(&parts.headers, caller).await?;
        let clients = self.server.protocol.clients();
        let until = self.until(caller);
        match (headers::last_event(&parts.headers), session) {
            (Some(Err(())), _) => {
                let error = Error::new(Reason::StreamNotFound, "The Last-Event-ID is not one that this server gave.");
                Err((StatusCode::BAD_REQUEST, error))
            }
            (Some(Ok((stream, after))), session) => {
                let key = client_key(caller, &session.unwrap_or_else(Session::none));
                let reader = clients.resume(caller.tenant(), &key, stream, after).await.ok_or_else(|| {
                    let error = Error::new(Reason::StreamNotFound, "This stream has ended or does not exist.");
                    (StatusCode::BAD_REQUEST, error)
                })?;
                Ok(sse::response(reader, until))
            }
            (None, Some(session)) => {
                let reader = clients.listen(caller, &session, &client_key(caller, &session)).await;
                Ok(sse::response(reader, until))
            }
            (None, None) => Err(needs_session()),
        }
    }

    pub(super) async fn end_session(&self, parts: &Parts) -> Response {
        if let Err((status, error)) = headers::check_version(&parts.headers) {
            return fault(status, error, &TraceId::random());
        }
        let caller = match self.server.identifier.for_http(&parts.headers, parts.uri.query()).await {
            Ok(caller) => caller,
            Err(refusal) => return self.refuse(refusal, None, &parts.headers),
        };
        let ended = async {
            let session = self.session(&parts.headers, &caller).await?.ok_or_else(needs_session)?;
            let key = client_key(&caller, &session);
            let ended = self.server.protocol.clients().end_session(caller.tenant(), &session, &key).await;
            ended.map_err(|error| (StatusCode::SERVICE_UNAVAILABLE, error))
        };
        match ended.await {
            Ok(()) => StatusCode::NO_CONTENT.into_response(),
            Err((status, error)) => fault(status, error, &TraceId::random()),
        }
    }
}

fn needs_session() -> Fault {
    let error = Error::new(Reason::InvalidRequest, "The Mcp-Session-Id header is missing.")
        .hint("Send initialize first, then pass the Mcp-Session-Id of its answer.");
    (StatusCode::BAD_REQUEST, error)
}
