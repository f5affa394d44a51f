//! Pages of a list. A cursor is opaque to clients and bound to its list: one list's cursor is none for another.
//! Source: MCP 2025-11-25, pagination.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::Request;
use crate::error::{Error, Reason, Result};

const PAGE: usize = 100;

/// The page of `all` that `params.cursor` asks for, as a result with the member `list`.
pub fn page<T>(request: &Request<'_>, list: &str, all: &[T], wire: impl Fn(&T) -> Value) -> Result<Value> {
    let from = request.text("cursor")?.map(|cursor| read(cursor, list)).transpose()?.unwrap_or(0);
    // A cursor past the end is stale, not ours to correct.
    if from > all.len() {
        return Err(bad_cursor());
    }
    let mut result = Map::new();
    result.insert(list.into(), all.iter().skip(from).take(PAGE).map(wire).collect());
    if from + PAGE < all.len() {
        result.insert("nextCursor".into(), URL_SAFE_NO_PAD.encode(format!("{list}:{}", from + PAGE)).into());
    }
    Ok(Value::Object(result))
}

fn read(cursor: &str, list: &str) -> Result<usize> {
    let decoded = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let from = decoded.as_deref().and_then(|text| text.strip_prefix(list)?.strip_prefix(':')?.parse().ok());
    from.ok_or_else(bad_cursor)
}

fn bad_cursor() -> Error {
    Error::new(Reason::BadCursor, "The cursor is not one that this server gave.")
}
