//! What OAuth clients read before they have a token: which resource this is, who issues tokens for it, which scopes
//! there are. Public by nature; behind the same check of Host and Origin as `/mcp`.
//!
//! Source: RFC 9728 (protected resource metadata), RFC 8414 section 3.1; MCP 2025-11-25, authorization, discovery.

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::{Value, json};
use std::sync::Arc;
use url::Url;

use crate::auth::{METADATA_PATH, ProtectedResource, Scopes, well_known};

/// The path of our own endpoint, and so of its metadata.
const ENDPOINT: &str = "/mcp";
const ISSUER_METADATA_PATH: &str = "/.well-known/oauth-authorization-server";

pub struct Metadata {
    pub resource: ProtectedResource,
    /// For people, in a consent screen.
    pub name: &'static str,
    /// Issuers that clients can be sent to: those that are http(s) addresses.
    pub issuers: Vec<String>,
    pub scopes: Scopes,
}

/// `/.well-known/oauth-protected-resource`, with and without the endpoint's path, and, when there is an issuer to point
/// to, `/.well-known/oauth-authorization-server`.
pub fn router(metadata: Metadata) -> Router {
    let mut paths = vec![METADATA_PATH.to_owned(), format!("{METADATA_PATH}{ENDPOINT}")];
    // Where a proxy publishes the endpoint under another path.
    let published = metadata.resource.metadata.path();
    if !paths.iter().any(|path| path == published) && is_literal(published) {
        paths.push(published.to_owned());
    }
    let mut router = Router::new();
    for path in &paths {
        router = router.route(path, get(protected_resource));
    }
    if let Some(issuer) = metadata.issuers.first().and_then(|issuer| Url::parse(issuer).ok()) {
        let there = well_known(&issuer, ISSUER_METADATA_PATH).to_string();
        // Clients of older revisions ask us for what is the issuer's to say. A redirect keeps its word the issuer's own,
        // and temporary, because the operator may change issuers.
        let redirect = get(async move || (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, there)]));
        router = router
            .route(ISSUER_METADATA_PATH, redirect.clone())
            .route(&format!("{ISSUER_METADATA_PATH}{ENDPOINT}"), redirect);
    }
    router.with_state(Arc::new(metadata))
}

async fn protected_resource(State(metadata): State<Arc<Metadata>>, headers: HeaderMap) -> Response {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let mut document = json!({
        "resource": metadata.resource.as_asked(host),
        "resource_name": metadata.name,
        "bearer_methods_supported": ["header"],
        "scopes_supported": (metadata.scopes)(),
    });
    // RFC 9728 section 3.2: what has no value is left out.
    if !metadata.issuers.is_empty() {
        document["authorization_servers"] = Value::from(metadata.issuers.clone());
    }
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "max-age=60")];
    (headers, document.to_string()).into_response()
}

/// The router gives braces, asterisks and colons a meaning.
fn is_literal(path: &str) -> bool {
    !path.contains(['{', '}', '*', ':'])
}
