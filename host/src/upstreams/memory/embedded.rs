//! The audit log in the bridge's own store, for those who run no memory service.

use serde_json::{Value, json};
use std::sync::Arc;

use super::{Append, ReadQuery};
use crate::error::{Error, Reason, Result};
use crate::model::TenantId;
use crate::store::{Appended, AuditFilter, AuditPosition, AuditRow, Durability, NewAuditRow, Store};

/// A page ends early at this size, so that a thousand large rows do not become one message; a single row may be larger.
pub const MAX_PAGE_BYTES: usize = 512 << 10;

/// Largest page in rows.
const MAX_LIMIT: u32 = 1_000;

#[derive(Clone)]
pub struct Embedded {
    store: Arc<dyn Store>,
}

impl Embedded {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Embedded { store }
    }

    pub(super) async fn append(&self, row: Append) -> Result<AuditPosition> {
        let appended = self
            .append_row(NewAuditRow {
                tenant: row.caller.tenant(),
                kind: row.kind,
                actor: row.caller.subject().to_owned(),
                body: row.body.into(),
                ts: jiff::Timestamp::now(),
                trace_id: row.trace.id.to_string(),
                idempotency_key: Some(row.idempotency_key),
                ship: false,
            })
            .await?;
        match appended {
            Appended::Added(position) | Appended::Repeated(position) => Ok(position),
            Appended::KeyConflict(_) => Err(key_conflict()),
        }
    }

    /// Append a row whose fields were checked; on disk when this returns.
    pub async fn append_row(&self, row: NewAuditRow) -> Result<Appended> {
        let appended = self.store.append_audit(&[row], Durability::Synced).await?;
        appended.into_iter().next().ok_or_else(|| {
            Error::new(Reason::StoreUnavailable, "The audit log cannot be written.").detail("no position came back")
        })
    }

    pub(super) async fn read(&self, query: ReadQuery) -> Result<Value> {
        let filter =
            AuditFilter { actor: query.actor, kind: query.kind, since_seq: query.since_seq, limit: query.limit };
        self.page(query.caller.tenant(), filter).await
    }

    /// A page as the contract has it.
    pub async fn page(&self, tenant: TenantId, filter: AuditFilter) -> Result<Value> {
        let limit = filter.limit.clamp(1, MAX_LIMIT);
        // One more than asked for tells whether there is a next page.
        let mut rows = self.store.read_audit(tenant, &AuditFilter { limit: limit + 1, ..filter }).await?;
        let fits = rows_that_fit(&rows).min(limit as usize);
        let more = rows.len() > fits;
        rows.truncate(fits);
        let next = if more { rows.last().map(|row| row.seq) } else { None };
        Ok(json!({ "rows": rows, "next_since_seq": next }))
    }
}

fn rows_that_fit(rows: &[AuditRow]) -> usize {
    let mut bytes = 0;
    let over = rows.iter().position(|row| {
        bytes += serde_json::to_string(row).map_or(0, |text| text.len());
        bytes > MAX_PAGE_BYTES
    });
    // At least one, or a reader would never get past a large row.
    over.unwrap_or(rows.len()).max(1)
}

pub(super) fn key_conflict() -> Error {
    Error::new(Reason::InvalidRequest, "The memory service already holds another row under this idempotency key.")
        .hint("Use a new Idempotency-Key for each row, and the same one only to send the same row again.")
}
