//! What the memory service answers, read with suspicion: it is another party, and its pages go to plugins.

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::embedded::key_conflict;
use crate::error::{Error, Reason, Result};
use crate::model::TenantId;
use crate::store::AuditPosition;

/// The `prev_anchor` of a first row, where a service says null.
const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Anchors are hex SHA-256 today; there is room for longer ones.
const MAX_ANCHOR_CHARS: usize = 128;

#[derive(Deserialize)]
struct Position {
    seq: i64,
    chain_anchor: String,
    prev_anchor: Option<String>,
}

/// The reply to a successful append.
pub(super) fn position(body: &[u8]) -> Result<AuditPosition> {
    let reply: Position = serde_json::from_slice(body).map_err(|why| bad_response(format!("position: {why}")))?;
    let anchor =
        |text: &str| (1..=MAX_ANCHOR_CHARS).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    let prev_anchor = reply.prev_anchor.unwrap_or_else(|| GENESIS.to_owned());
    if reply.seq < 0 || !anchor(&reply.chain_anchor) || !anchor(&prev_anchor) {
        return Err(bad_response("position: out of range"));
    }
    Ok(AuditPosition { seq: reply.seq, chain_anchor: reply.chain_anchor, prev_anchor })
}

#[derive(Deserialize)]
struct Page {
    rows: Vec<Value>,
    next_since_seq: Option<i64>,
}

/// A page, which must hold rows of this tenant only: one that does not is kept from everybody.
pub(super) fn page(body: &[u8], tenant: TenantId, limit: u32) -> Result<Value> {
    let page: Page = serde_json::from_slice(body).map_err(|why| bad_response(format!("page: {why}")))?;
    if page.rows.len() > limit as usize {
        return Err(bad_response("page: more rows than were asked for"));
    }
    let tenant = tenant.to_string();
    let mut last = None;
    for row in &page.rows {
        let owner = row.get("tenant_id").and_then(Value::as_str);
        if !owner.is_some_and(|owner| owner.eq_ignore_ascii_case(&tenant)) {
            tracing::error!("the memory service answered with a row of another tenant");
            return Err(bad_response("page: a row of another tenant"));
        }
        let seq = row.get("seq").and_then(Value::as_i64).ok_or_else(|| bad_response("page: a row without seq"))?;
        if last.is_some_and(|last| seq <= last) {
            return Err(bad_response("page: rows out of order"));
        }
        last = Some(seq);
    }
    Ok(json!({ "rows": page.rows, "next_since_seq": page.next_since_seq }))
}

/// A status other than 200 and 201. Nothing of the body is repeated: it may quote the row.
pub(super) fn refusal(status: StatusCode, had_token: bool) -> Error {
    let error = |reason, public: &str| Error::new(reason, public).detail(format!("status {}", status.as_u16()));
    match status.as_u16() {
        401 if had_token => {
            error(Reason::TokenInvalid, "The memory service does not accept this caller's access token.")
        }
        401 => error(Reason::TokenMissing, "The memory service needs an access token, and this caller has none.")
            .hint("Start the bridge with CYBEROS_TOKEN or --token-file, so that the memory service knows who calls."),
        403 => error(Reason::InsufficientScope, "The memory service does not let this caller do that."),
        409 => key_conflict().detail("status 409"),
        413 => error(Reason::PayloadTooLarge, "The memory service finds this row too large."),
        400 | 422 => error(Reason::InvalidParams, "The memory service rejects this request as wrong."),
        429 => error(Reason::RateLimited, "The memory service is asked too often.").with("retry_after_ms", 1_000),
        500..=599 => error(Reason::Unreachable, "The memory service has a failure of its own."),
        _ => error(Reason::BadResponse, BAD_RESPONSE),
    }
}

const BAD_RESPONSE: &str = "The memory service answered with something unusable.";

pub(super) fn bad_response(detail: impl std::fmt::Display) -> Error {
    Error::new(Reason::BadResponse, BAD_RESPONSE).detail(detail)
}
