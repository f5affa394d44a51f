//! What a caller sends: checked whole before anything is done with it.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use http::{HeaderMap, header};
use serde::Deserialize;
use serde_json::Value;

use crate::error::{Error, Reason, Result};
use crate::model::TenantId;
use crate::store::AuditFilter;
use crate::upstreams::memory;

/// A row's body, as JSON text.
const MAX_BODY_BYTES: usize = 64 << 10;
/// The whole request: the body, spaces and escapes in it, and what is around it.
pub(super) const MAX_REQUEST_BYTES: usize = MAX_BODY_BYTES + (16 << 10);
const MAX_ACTOR_CHARS: usize = 256;
const MAX_KEY_CHARS: usize = 255;
const DEFAULT_LIMIT: u32 = 100;
const MAX_LIMIT: u32 = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PostBody {
    pub(super) kind: String,
    pub(super) actor_id: Option<String>,
    pub(super) tenant_id: Option<TenantId>,
    pub(super) body: Value,
}

impl PostBody {
    pub(super) fn parse(headers: &HeaderMap, body: Result<Bytes, BytesRejection>) -> Result<PostBody> {
        let is_json = |value: &str| {
            value.split(';').next().is_some_and(|media| media.trim().eq_ignore_ascii_case("application/json"))
        };
        if !headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(is_json) {
            return Err(Error::new(Reason::UnsupportedMediaType, "The request is not application/json."));
        }
        let body = body.map_err(|why| match why {
            BytesRejection::FailedToBufferBody(why) if why.status() == http::StatusCode::PAYLOAD_TOO_LARGE => {
                too_large()
            }
            _ => Error::new(Reason::InvalidRequest, "The request ended early.").hint("Send the whole request again."),
        })?;
        let row: PostBody = serde_json::from_slice(&body).map_err(|why| {
            // The position helps; the parser's words could repeat the row.
            wrong(format!("The request is no row (line {}, column {}).", why.line(), why.column())).detail(why)
        })?;
        row.check()?;
        Ok(row)
    }

    fn check(&self) -> Result<()> {
        memory::check_kind(&self.kind).map_err(|why| wrong(format!("The row's {why}.")))?;
        let usable = |actor: &str| {
            (1..=MAX_ACTOR_CHARS).contains(&actor.chars().count()) && !actor.chars().any(char::is_control)
        };
        if self.actor_id.as_deref().is_some_and(|actor| !usable(actor)) {
            return Err(wrong(format!("actor_id must be 1 to {MAX_ACTOR_CHARS} printable characters.")));
        }
        if !self.body.is_object() {
            return Err(wrong("body must be a JSON object."));
        }
        if self.body.to_string().len() > MAX_BODY_BYTES {
            return Err(too_large());
        }
        Ok(())
    }
}

pub(super) fn check_not_reserved(kind: &str) -> Result<()> {
    memory::check_not_reserved(kind).map_err(|why| wrong(format!("This kind is not yours: {why}.")))
}

/// Required: without it a repeated request would append twice, and an audit log has no undo.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<String> {
    let mut sent = headers.get_all("idempotency-key").iter();
    let key = match (sent.next().and_then(|value| value.to_str().ok()), sent.next()) {
        (Some(key), None) => key,
        _ => "",
    };
    if !(1..=MAX_KEY_CHARS).contains(&key.len()) || !key.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(wrong(format!("The header Idempotency-Key must hold 1 to {MAX_KEY_CHARS} printable characters."))
            .hint("Send a new random Idempotency-Key with each row, and the same one when you send that row again."));
    }
    Ok(key.to_owned())
}

/// `actor`, `kind`, `since_seq`, `limit`, each at most once. A misspelt one is refused: it would widen the answer.
pub(super) fn filter(query: Option<&str>) -> Result<AuditFilter> {
    let mut filter = AuditFilter { limit: DEFAULT_LIMIT, ..AuditFilter::default() };
    let mut seen = Vec::new();
    for (name, value) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        match name.as_ref() {
            "actor" => filter.actor = Some(value.into_owned()),
            "kind" => filter.kind = Some(value.into_owned()),
            "since_seq" => {
                let seq = value.parse().ok().filter(|seq: &i64| *seq >= 0);
                filter.since_seq = Some(seq.ok_or_else(|| wrong("since_seq must be a number, 0 or more."))?);
            }
            "limit" => {
                let limit = value.parse().ok().filter(|limit: &u32| (1..=MAX_LIMIT).contains(limit));
                filter.limit = limit.ok_or_else(|| wrong(format!("limit must be a number from 1 to {MAX_LIMIT}.")))?;
            }
            _ => return Err(wrong("The query may hold actor, kind, since_seq and limit only.")),
        }
        if seen.contains(&name) {
            return Err(wrong(format!("{name} is given twice.")));
        }
        seen.push(name);
    }
    Ok(filter)
}

fn wrong(public: impl Into<String>) -> Error {
    Error::new(Reason::InvalidParams, public).hint("Correct the request as the message says, and send it again.")
}

fn too_large() -> Error {
    Error::new(Reason::PayloadTooLarge, format!("The row's body is over {MAX_BODY_BYTES} bytes."))
}
