//! The outbox in Postgres. The claim looks across tenants and gets ids; the rows are then read tenant by tenant.

use jiff::Timestamp;
use sqlx::Row;
use std::collections::BTreeMap;
use std::time::Duration;
use uuid::Uuid;

use super::PostgresStore;
use crate::error::Result;
use crate::model::TenantId;
use crate::store::OutboxRow;
use crate::store::rows::{Columns, audit_row, micros, unavailable};

pub(super) async fn claim(store: &PostgresStore, limit: u32, hold: Duration) -> Result<Vec<OutboxRow>> {
    let claimed = sqlx::query("SELECT tenant_id, seq, attempts FROM plugin_host.claim_outbox($1, $2)")
        .bind(i64::from(limit))
        .bind(micros(hold))
        .fetch_all(&store.pool)
        .await
        .map_err(unavailable)?;
    let mut by_tenant: BTreeMap<TenantId, BTreeMap<i64, i64>> = BTreeMap::new();
    for row in &claimed {
        let tenant: Uuid = row.try_get("tenant_id").map_err(unavailable)?;
        by_tenant.entry(TenantId(tenant)).or_default().insert(row.number("seq")?, row.number("attempts")?);
    }

    let mut rows = Vec::with_capacity(claimed.len());
    for (tenant, attempts) in by_tenant {
        let query = sqlx::query(
            "SELECT tenant_id::text AS tenant_id, seq, kind, actor_id, body::text AS body, ts, trace_id, prev_anchor,
                    chain_anchor, coalesce(idempotency_key, chain_anchor) AS delivery_key
             FROM plugin_host.audit WHERE tenant_id = $1 AND seq = ANY($2)",
        );
        let query = query.bind(tenant.0).bind(attempts.keys().copied().collect::<Vec<i64>>());
        for row in store.rows(tenant, query).await? {
            let attempts = attempts.get(&row.number("seq")?).copied().unwrap_or(1);
            rows.push(OutboxRow {
                row: audit_row(&row)?,
                idempotency_key: row.text("delivery_key")?,
                attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
            });
        }
    }
    rows.sort_by_key(|r| (r.row.seq, r.row.tenant_id));
    Ok(rows)
}

pub(super) async fn ack(store: &PostgresStore, tenant: TenantId, seq: i64) -> Result<()> {
    let query = sqlx::query("DELETE FROM plugin_host.outbox WHERE tenant_id = $1 AND seq = $2");
    store.execute(tenant, query.bind(tenant.0).bind(seq)).await.map(|_| ())
}

pub(super) async fn retry(
    store: &PostgresStore,
    tenant: TenantId,
    seq: i64,
    next: Option<Timestamp>,
    error: &str,
) -> Result<()> {
    let query = sqlx::query(
        "UPDATE plugin_host.outbox SET failed = $3, due_at_us = coalesce($4, due_at_us), last_error = $5
         WHERE tenant_id = $1 AND seq = $2",
    )
    .bind(tenant.0)
    .bind(seq)
    .bind(next.is_none())
    .bind(next.map(Timestamp::as_microsecond))
    .bind(error.replace('\0', " "));
    store.execute(tenant, query).await.map(|_| ())
}

pub(super) async fn depth(store: &PostgresStore) -> Result<(u64, u64)> {
    let row = sqlx::query("SELECT waiting, failed FROM plugin_host.outbox_depth()")
        .fetch_one(&store.pool)
        .await
        .map_err(unavailable)?;
    Ok((row.number("waiting")?.unsigned_abs(), row.number("failed")?.unsigned_abs()))
}
