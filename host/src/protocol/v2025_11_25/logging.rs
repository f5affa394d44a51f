//! `logging/setLevel`: which messages the session's client wants to hear. Source: MCP 2025-11-25, logging.

use serde_json::{Value, json};

use super::{Request, invalid};
use crate::error::Result;
use crate::model::LogLevel;

pub async fn set_level(request: Request<'_>) -> Result<Value> {
    let word = request.text("level")?.ok_or_else(|| invalid("params.level is missing.".into()))?;
    let level = LogLevel::parse(word).ok_or_else(|| {
        let all: Vec<_> = LogLevel::ALL.into_iter().map(LogLevel::as_str).collect();
        invalid(format!("params.level must be one of {}.", all.join(", ")))
    })?;
    let peer = request.peer;
    request.protocol.clients.set_log_level(peer.caller.tenant(), &peer.session, level).await?;
    Ok(json!({}))
}
