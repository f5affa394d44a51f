//! Audit rows and the hash chain that ties each tenant's rows together.
//!
//! `anchor(n) = hex(SHA-256(anchor(n-1) as hex text || canonical text of row n))`, the first row's `anchor(n-1)` being
//! 64 zeros. The canonical text is the JSON of [`AuditRow::sealed_text`], in a fixed field order, so that any language
//! can check the chain from an export. Edit, removal, swap and insertion all break it at the first bad row; a lost tail
//! shows against an exported checkpoint ([`AuditHead`]).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

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
    pub body: Value,
    pub ts: Timestamp,
    pub trace_id: String,
    /// Unique per tenant; a second append with the same key returns the first row's position and adds nothing.
    pub idempotency_key: Option<String>,
    /// Also deliver it to the memory service.
    pub ship: bool,
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
        sealed_text(self.seq, self.tenant_id, &self.kind, &self.actor_id, &self.body, &self.ts, &self.trace_id)
    }
    /// The anchor that this row should have, from its own fields and its `prev_anchor`.
    pub fn expected_anchor(&self) -> String {
        anchor(&self.prev_anchor, &self.sealed_text())
    }
}

pub fn sealed_text(
    seq: i64,
    tenant: TenantId,
    kind: &str,
    actor: &str,
    body: &Value,
    ts: &str,
    trace_id: &str,
) -> String {
    json!([seq, tenant, kind, actor, canonical(body), ts, trace_id]).to_string()
}

pub fn anchor(prev_anchor: &str, sealed_text: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(prev_anchor.as_bytes());
    hash.update(sealed_text.as_bytes());
    hex::encode(hash.finalize())
}

/// Object keys sorted, at every depth: databases do not keep their order.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|a, b| a.0.cmp(b.0));
            Value::Object(entries.into_iter().map(|(k, v)| (k.clone(), canonical(v))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(canonical).collect()),
        other => other.clone(),
    }
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

/// A row waiting to be delivered, with how often that was tried.
#[derive(Clone, Debug)]
pub struct OutboxRow {
    pub row: AuditRow,
    pub idempotency_key: String,
    pub attempts: u32,
}

#[allow(dead_code)]
pub(super) fn ts_text(ts: Timestamp) -> String {
    // Fixed width, so that text order is time order and both databases give it back unchanged.
    ts.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
