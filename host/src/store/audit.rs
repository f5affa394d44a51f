//! Audit rows and the hash chain that ties each tenant's rows together.
//!
//! `anchor(n) = hex(SHA-256(anchor(n-1) as hex text || canonical text of row n))`, the first row's `anchor(n-1)` being
//! 64 zeros. The canonical text is the JSON of [`AuditRow::sealed_text`], in a fixed field order, so that any language
//! can check the chain from an export. Edit, removal, swap and insertion all break it at the first bad row; a lost tail
//! shows against an exported checkpoint ([`AuditHead`]).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::io::Write as _;

use crate::model::TenantId;

pub const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// A row as the broker hands it over; `seq` and anchors are the store's.
#[derive(Clone, Debug)]
pub struct NewAuditRow {
    pub tenant: TenantId,
    /// Such as `mcp.tool_call_started`, `plugin.invoked`, or the kind a caller of `append_audit` chose.
    pub kind: String,
    /// Who acted: a subject, hashed for the bridge's own rows.
    pub actor: String,
    pub body: Body,
    pub ts: Timestamp,
    pub trace_id: String,
    /// Unique per tenant; a second append with the same key adds nothing ([`Appended`]).
    pub idempotency_key: Option<String>,
    /// Also deliver it to the memory service.
    pub ship: bool,
}

/// A row's body, spelt as it is stored and sealed: JSON without white space and with keys in byte order at every depth.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Body(String);

impl Body {
    /// From a struct whose fields are declared in byte order of their names: every call leaves two rows, and sorting
    /// what can be written in order costs more than writing it.
    pub fn in_order(fields: &impl Serialize) -> Body {
        let body = Body(serde_json::to_string(fields).expect("a struct of texts and numbers always becomes JSON"));
        debug_assert_eq!(body, Body::from(body.value()), "the fields are in order");
        body
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).expect("a body is JSON")
    }
}

impl From<Value> for Body {
    fn from(value: Value) -> Body {
        Body(canonical_text(&value))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// Survives the death of the process.
    Written,
    /// Survives the loss of power, too.
    Synced,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditPosition {
    pub seq: i64,
    pub chain_anchor: String,
    pub prev_anchor: String,
}

/// What became of a row that was to be appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Appended {
    Added(AuditPosition),
    /// Its idempotency key was used before for the same kind, actor and body: the position is the first row's.
    Repeated(AuditPosition),
    /// Its key was used before for something else (`POST /v1/audit` answers 409): nothing was added, and the position
    /// is that of the row which has the key.
    KeyConflict(AuditPosition),
}

impl Appended {
    pub fn position(&self) -> &AuditPosition {
        match self {
            Appended::Added(position) | Appended::Repeated(position) | Appended::KeyConflict(position) => position,
        }
    }
}

/// A row as it is stored, exported and served (`GET /v1/audit`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuditRow {
    /// 1, 2, 3, … within the tenant, without gaps.
    pub seq: i64,
    pub tenant_id: TenantId,
    pub kind: String,
    pub actor_id: String,
    pub body: Value,
    /// RFC 3339 with microseconds, UTC.
    pub ts: String,
    pub trace_id: String,
    pub chain_anchor: String,
    pub prev_anchor: String,
}

impl AuditRow {
    /// What the anchor seals.
    pub fn sealed_text(&self) -> String {
        let body = canonical_text(&self.body);
        sealed_text(self.seq, self.tenant_id, &self.kind, &self.actor_id, &body, &self.ts, &self.trace_id)
    }
    /// The anchor that this row should have, from its own fields and its `prev_anchor`.
    pub fn expected_anchor(&self) -> String {
        anchor(&self.prev_anchor, &self.sealed_text())
    }
}

/// `[seq,"tenant","kind","actor",body,"ts","trace"]`, without white space; `body` is [`canonical_text`].
pub(super) fn sealed_text(
    seq: i64,
    tenant: TenantId,
    kind: &str,
    actor: &str,
    body: &str,
    ts: &str,
    trace_id: &str,
) -> String {
    let mut out = Vec::with_capacity(body.len() + 256);
    write!(out, "[{seq},\"{tenant}\",").expect("memory can be written to");
    write_plain(kind, &mut out);
    out.push(b',');
    write_plain(actor, &mut out);
    out.push(b',');
    out.extend_from_slice(body.as_bytes());
    out.push(b',');
    write_plain(ts, &mut out);
    out.push(b',');
    write_plain(trace_id, &mut out);
    out.push(b']');
    String::from_utf8(out).expect("serde_json writes UTF-8")
}

pub fn anchor(prev_anchor: &str, sealed_text: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(prev_anchor.as_bytes());
    hash.update(sealed_text.as_bytes());
    let mut text = vec![0; 64];
    hex::encode_to_slice(hash.finalize(), &mut text).expect("32 bytes are 64 digits");
    String::from_utf8(text).expect("digits")
}

/// JSON without white space and with object keys in byte order at every depth: databases and clients do not keep the
/// order of keys.
pub(super) fn canonical_text(value: &Value) -> String {
    let mut out = Vec::with_capacity(256);
    write_canonical(value, &mut out);
    String::from_utf8(out).expect("serde_json writes UTF-8")
}

fn write_canonical(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|a, b| a.0.cmp(b.0));
            out.push(b'{');
            for (i, (key, value)) in entries.into_iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_plain(key, out);
                out.push(b':');
                write_canonical(value, out);
            }
            out.push(b'}');
        }
        Value::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_canonical(item, out);
            }
            out.push(b']');
        }
        scalar => write_plain(scalar, out),
    }
}

fn write_plain(value: &(impl Serialize + ?Sized), out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("a string or a scalar always becomes JSON");
}

/// The end of a tenant's chain: export it, keep it elsewhere, and a lost tail cannot go unseen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditHead {
    pub tenant_id: TenantId,
    pub seq: i64,
    pub chain_anchor: String,
}

#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    pub actor: Option<String>,
    pub kind: Option<String>,
    /// Rows with a greater `seq` only.
    pub since_seq: Option<i64>,
    pub limit: u32,
}

/// A row waiting to be delivered.
#[derive(Clone, Debug)]
pub struct OutboxRow {
    pub row: AuditRow,
    /// The row's own key or, without one, its chain anchor, which no other row has.
    pub idempotency_key: String,
    /// How often it was claimed, this time included.
    pub attempts: u32,
}

pub(super) fn ts_text(ts: Timestamp) -> String {
    // Fixed width, so that text order is time order and both databases give it back unchanged.
    ts.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_sealed_text_is_the_json_array_that_other_languages_would_write() {
        let body = json!({"b": [1, {"z": null, "a": "\u{1}\"é"}], "a": 0.1});
        let text =
            sealed_text(7, TenantId::LOCAL, "k\"", "a", &canonical_text(&body), "2026-01-02T03:04:05.000000Z", "t");
        let sorted = json!({"a": 0.1, "b": [1, {"a": "\u{1}\"é", "z": null}]});
        let expected = json!([7, TenantId::LOCAL, "k\"", "a", sorted, "2026-01-02T03:04:05.000000Z", "t"]);
        assert_eq!(text, expected.to_string());
    }

    #[test]
    fn a_number_survives_being_stored_and_read_again() {
        // These are among those that an approximate reader gets wrong by one unit in the last place.
        for number in [51.24817837550540_4, 31.245270191439438, 92.13300180330144, -0.0, 1e300, 5e-324] {
            let text = canonical_text(&json!({ "n": number }));
            let again: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(canonical_text(&again), text);
        }
    }
}
