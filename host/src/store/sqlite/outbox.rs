//! The outbox in SQLite: which audit rows still have to reach the memory service.

use jiff::Timestamp;
use std::time::Duration;

use super::{SqliteStore, now_us, read_all};
use crate::error::Result;
use crate::model::TenantId;
use crate::store::OutboxRow;
use crate::store::rows::{Columns, audit_row, micros, to_json};

pub(super) async fn claim(store: &SqliteStore, limit: u32, hold: Duration) -> Result<Vec<OutboxRow>> {
    let now = now_us();
    // A tenant's rows before its first one that is not due, first in first out, tenants taking turns.
    let query = sqlx::query(
        "WITH blocked AS (
             SELECT tenant_id, min(seq) AS seq FROM outbox WHERE failed = 0 AND due_at_us > ?1 GROUP BY tenant_id
         ), due AS (
             SELECT o.tenant_id, o.seq, row_number() OVER (PARTITION BY o.tenant_id ORDER BY o.seq) AS turn
             FROM outbox o LEFT JOIN blocked b ON b.tenant_id = o.tenant_id
             WHERE o.failed = 0 AND (b.seq IS NULL OR o.seq < b.seq)
             ORDER BY turn, o.tenant_id LIMIT ?2
         )
         UPDATE outbox SET attempts = attempts + 1, due_at_us = ?3
         WHERE (tenant_id, seq) IN (SELECT tenant_id, seq FROM due)
         RETURNING tenant_id, seq, attempts",
    )
    .bind(now)
    .bind(i64::from(limit))
    .bind(now.saturating_add(micros(hold)));
    let mut claimed = Vec::new();
    for row in store.writer.returning(query).await? {
        claimed.push((row.text("tenant_id")?, row.number("seq")?, row.number("attempts")?));
    }
    if claimed.is_empty() {
        return Ok(Vec::new());
    }

    let query = sqlx::query(
        "SELECT a.tenant_id, a.seq, a.kind, a.actor_id, a.body, a.ts, a.trace_id, a.prev_anchor, a.chain_anchor,
                coalesce(a.idempotency_key, a.chain_anchor) AS delivery_key, j.value ->> 2 AS attempts
         FROM json_each(?1) j CROSS JOIN audit a ON a.tenant_id = j.value ->> 0 AND a.seq = j.value ->> 1
         ORDER BY a.seq, a.tenant_id",
    );
    let rows = read_all(store, query.bind(to_json(&claimed))).await?;
    rows.iter()
        .map(|row| {
            Ok(OutboxRow {
                row: audit_row(row)?,
                idempotency_key: row.text("delivery_key")?,
                attempts: u32::try_from(row.number("attempts")?).unwrap_or(u32::MAX),
            })
        })
        .collect()
}

pub(super) async fn ack(store: &SqliteStore, tenant: TenantId, seq: i64) -> Result<()> {
    let query = sqlx::query("DELETE FROM outbox WHERE tenant_id = ?1 AND seq = ?2");
    store.writer.execute(query.bind(tenant.to_string()).bind(seq)).await.map(|_| ())
}

pub(super) async fn retry(
    store: &SqliteStore,
    tenant: TenantId,
    seq: i64,
    next: Option<Timestamp>,
    error: &str,
) -> Result<()> {
    let query = sqlx::query(
        "UPDATE outbox SET failed = ?3, due_at_us = coalesce(?4, due_at_us), last_error = ?5
         WHERE tenant_id = ?1 AND seq = ?2",
    )
    .bind(tenant.to_string())
    .bind(seq)
    .bind(i64::from(next.is_none()))
    .bind(next.map(Timestamp::as_microsecond))
    .bind(error.to_owned());
    store.writer.execute(query).await.map(|_| ())
}

pub(super) async fn depth(store: &SqliteStore) -> Result<(u64, u64)> {
    let query = sqlx::query(
        "SELECT count(*) FILTER (WHERE failed = 0) AS waiting, count(*) FILTER (WHERE failed = 1) AS failed FROM outbox",
    );
    let rows = read_all(store, query).await?;
    let Some(row) = rows.first() else { return Ok((0, 0)) };
    Ok((row.number("waiting")?.unsigned_abs(), row.number("failed")?.unsigned_abs()))
}
