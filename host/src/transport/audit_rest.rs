//! The memory service's REST contract, served from the embedded store: `POST` and `GET /v1/audit`.
//!
//! Beside `/mcp`, and on its own for `memory serve`. A caller writes and reads its own tenant's log, as itself; the one
//! exception is a bridge that ships other people's rows (`cyberos:memory:ship`). Knows nothing of tools.
//! Source: design, sections 3, 5 and 8.

mod request;
mod respond;
#[cfg(test)]
mod tests;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::Response;
use axum::routing::post;
use http::{HeaderMap, StatusCode, Uri};
use serde_json::json;
use std::sync::Arc;

use crate::auth::{Caller, Identifier};
use crate::error::{Error, Reason, Result};
use crate::model::Trace;
use crate::store::{Appended, NewAuditRow, Store};
use crate::upstreams::memory::Embedded;
use request::{MAX_REQUEST_BYTES, PostBody};
use respond::{Refusal, json_response};

const READ: &str = "cyberos:memory:read";
const WRITE: &str = "cyberos:memory:write";
/// For bridges only: append rows of any actor and tenant, of the reserved kinds too. Never part of another scope.
const SHIP: &str = "cyberos:memory:ship";

#[derive(Clone)]
struct Service {
    log: Embedded,
    identifier: Arc<Identifier>,
}

/// The two routes, to be merged into a server.
///
/// Errors are JSON `{class, reason, message, trace_id, hint}`: 401 and 403 (with `WWW-Authenticate` where a token is at
/// fault), 409 for a reused key, 413, 415, 422 for a wrong request, 503 when the store is out of reach, 500.
pub fn router(store: Arc<dyn Store>, identifier: Arc<Identifier>) -> Router {
    Router::new()
        .route("/v1/audit", post(append).get(read))
        .layer(DefaultBodyLimit::max(MAX_REQUEST_BYTES))
        .with_state(Service { log: Embedded::new(store), identifier })
}

async fn append(
    State(service): State<Service>,
    uri: Uri,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let trace = trace_of(&headers);
    match service.append(&uri, &headers, body, trace).await {
        Ok(response) => response,
        Err(error) => service.refuse(error, trace, WRITE),
    }
}

async fn read(State(service): State<Service>, uri: Uri, headers: HeaderMap) -> Response {
    let trace = trace_of(&headers);
    match service.read(&uri, &headers).await {
        Ok(response) => response,
        Err(error) => service.refuse(error.into(), trace, READ),
    }
}

impl Service {
    async fn append(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        body: Result<Bytes, BytesRejection>,
        trace: Trace,
    ) -> Result<Response, Refusal> {
        // Who asks comes first: a stranger learns nothing about what a good row looks like.
        let caller = self.caller(uri, headers, WRITE).await?;
        let key = request::idempotency_key(headers)?;
        let row = PostBody::parse(headers, body)?;
        let ships = caller.scopes().is_some_and(|held| held.contains(SHIP));
        let tenant = row.tenant_id.unwrap_or_else(|| caller.tenant());
        let actor = row.actor_id.unwrap_or_else(|| caller.subject().to_owned());
        // The local principal is one person, whatever the bridge beside it calls them; but one tenant.
        let foreign_actor = actor != caller.subject() && !caller.is_local();
        if !ships && (tenant != caller.tenant() || foreign_actor) {
            return Err(not_yours().into());
        }
        if !ships && !caller.is_local() {
            request::check_not_reserved(&row.kind)?;
        }
        let appended = self
            .log
            .append_row(NewAuditRow {
                tenant,
                kind: row.kind,
                actor,
                body: row.body.into(),
                ts: jiff::Timestamp::now(),
                trace_id: trace.id.to_string(),
                // Apart from the bridge's own keys: nobody may use one up before the bridge does.
                idempotency_key: Some(format!("rest:{key}")),
                ship: false,
            })
            .await?;
        match appended {
            Appended::Added(position) => Ok(json_response(StatusCode::CREATED, &json!(position))),
            Appended::Repeated(position) => Ok(json_response(StatusCode::OK, &json!(position))),
            Appended::KeyConflict(_) => Err(Refusal::conflict()),
        }
    }

    async fn read(&self, uri: &Uri, headers: &HeaderMap) -> Result<Response> {
        let caller = self.caller(uri, headers, READ).await?;
        let filter = request::filter(uri.query())?;
        let page = self.log.page(caller.tenant(), filter).await?;
        Ok(json_response(StatusCode::OK, &page))
    }

    async fn caller(&self, uri: &Uri, headers: &HeaderMap, scope: &str) -> Result<Caller> {
        let caller = self.identifier.for_http(headers, uri.query()).await?;
        if !caller.has_scope(scope) {
            return Err(Error::new(Reason::InsufficientScope, format!("This needs the scope {scope}."))
                .with("missing_scopes", vec![scope]));
        }
        Ok(caller)
    }

    fn refuse(&self, refusal: Refusal, trace: Trace, scope: &str) -> Response {
        let challenge = self.identifier.challenge(&refusal.error, &[scope]);
        refusal.into_response(trace, challenge)
    }
}

fn trace_of(headers: &HeaderMap) -> Trace {
    Trace::continue_from(headers.get("traceparent").and_then(|value| value.to_str().ok()))
}

/// About the row, not about scopes: a token with more scopes would not help.
fn not_yours() -> Error {
    Error::new(Reason::ToolDenied, "A row is appended to the caller's own log, as the caller.")
        .hint("Leave tenant_id and actor_id out, or send the ones of the access token.")
}
