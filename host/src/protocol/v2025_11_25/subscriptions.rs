//! `resources/subscribe` and `resources/unsubscribe`: which resources the session's client wants to hear of when they
//! change. Source: MCP 2025-11-25, resources, subscriptions.

use serde_json::{Value, json};

use super::{Request, invalid};
use crate::error::Result;

pub async fn subscribe(request: Request<'_>) -> Result<Value> {
    let uri = uri(&request)?;
    let peer = request.peer;
    request.protocol.broker.may_read(&peer.caller, uri)?;
    request.protocol.clients.subscribe(peer.caller.tenant(), &peer.session, uri).await?;
    Ok(json!({}))
}

/// What was never subscribed to may be unsubscribed from.
pub async fn unsubscribe(request: Request<'_>) -> Result<Value> {
    let uri = uri(&request)?;
    let peer = request.peer;
    request.protocol.clients.unsubscribe(peer.caller.tenant(), &peer.session, uri).await?;
    Ok(json!({}))
}

fn uri<'a>(request: &'a Request<'_>) -> Result<&'a str> {
    request.text("uri")?.ok_or_else(|| invalid("params.uri is missing.".into()))
}
