//! The audit log in Postgres: per tenant, lock the head, link, insert all rows in one statement.

use sqlx::{Postgres, Transaction};
use std::collections::{BTreeMap, HashMap};

use super::PostgresStore;
use crate::error::Result;
use crate::model::TenantId;
use crate::store::chain::{EarlierKeys, Head, Linked, Prepared, link, prepare};
use crate::store::rows::{Columns, audit_row, earlier, unavailable};
use crate::store::{Appended, AuditFilter, AuditHead, AuditRow, Durability, NewAuditRow};

pub(super) async fn append(
    store: &PostgresStore,
    rows: &[NewAuditRow],
    durability: Durability,
) -> Result<Vec<Appended>> {
    // In order of tenant, so that two batches never wait for each other's heads.
    let mut by_tenant: BTreeMap<TenantId, Vec<(usize, Prepared<'_>)>> = BTreeMap::new();
    for (place, prepared) in prepare(rows)?.into_iter().enumerate() {
        by_tenant.entry(prepared.row.tenant).or_default().push((place, prepared));
    }
    let Some((first, _)) = by_tenant.first_key_value() else { return Ok(Vec::new()) };

    let mut transaction = store.begin(*first, durability).await?;
    let mut answers: Vec<Option<Appended>> = vec![None; rows.len()];
    for (nth, (tenant, batch)) in by_tenant.into_iter().enumerate() {
        if nth > 0 {
            let switch = sqlx::query("SELECT set_config('auth.tenant_id', $1, true)").bind(tenant.to_string());
            switch.execute(&mut *transaction).await.map_err(unavailable)?;
        }
        let (places, batch): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let appended = append_for_tenant(&mut transaction, tenant, &batch).await?;
        for (place, answer) in places.into_iter().zip(appended) {
            answers[place] = Some(answer);
        }
    }
    transaction.commit().await.map_err(unavailable)?;
    Ok(answers.into_iter().map(|a| a.expect("every row belongs to one tenant's batch")).collect())
}

async fn append_for_tenant(
    transaction: &mut Transaction<'static, Postgres>,
    tenant: TenantId,
    batch: &[Prepared<'_>],
) -> Result<Vec<Appended>> {
    let mut heads = HashMap::from([(tenant, lock_head(transaction, tenant).await?)]);

    let mut used = EarlierKeys::new();
    let keys: Vec<String> = batch.iter().filter_map(|p| p.row.idempotency_key.clone()).collect();
    if !keys.is_empty() {
        let found = sqlx::query(
            "SELECT seq, kind, actor_id, body::text AS body, chain_anchor, prev_anchor, idempotency_key
             FROM plugin_host.audit WHERE tenant_id = $1 AND idempotency_key = ANY($2)",
        );
        let found = found.bind(tenant.0).bind(keys).fetch_all(&mut **transaction).await.map_err(unavailable)?;
        for row in found {
            used.insert((tenant, row.text("idempotency_key")?), earlier(&row)?);
        }
    }

    let (linked, answers) = link(batch, &mut heads, &used);
    insert(transaction, tenant, &linked).await?;
    Ok(answers)
}

/// Whoever appends to the tenant's chain waits here for those before.
async fn lock_head(transaction: &mut Transaction<'static, Postgres>, tenant: TenantId) -> Result<Head> {
    let lock = "SELECT seq, chain_anchor FROM plugin_host.audit_heads WHERE tenant_id = $1 FOR UPDATE";
    let found = sqlx::query(lock).bind(tenant.0).fetch_optional(&mut **transaction).await.map_err(unavailable)?;
    let row = match found {
        Some(row) => row,
        // The tenant's first row: two may meet here, and the second then waits for the first.
        None => sqlx::query(
            "INSERT INTO plugin_host.audit_heads (tenant_id, seq, chain_anchor) VALUES ($1, 0, $2)
             ON CONFLICT (tenant_id) DO UPDATE SET seq = audit_heads.seq RETURNING seq, chain_anchor",
        )
        .bind(tenant.0)
        .bind(Head::default().anchor)
        .fetch_one(&mut **transaction)
        .await
        .map_err(unavailable)?,
    };
    Ok(Head { seq: row.number("seq")?, anchor: row.text("chain_anchor")? })
}

async fn insert(
    transaction: &mut Transaction<'static, Postgres>,
    tenant: TenantId,
    linked: &[Linked<'_>],
) -> Result<()> {
    let Some(last) = linked.last() else { return Ok(()) };
    fn column<T>(linked: &[Linked<'_>], of: impl Fn(&Linked<'_>) -> T) -> Vec<T> {
        linked.iter().map(of).collect()
    }
    let query = sqlx::query(
        "WITH added AS (
             INSERT INTO plugin_host.audit (tenant_id, seq, kind, actor_id, body, ts, trace_id, prev_anchor, chain_anchor,
                                            idempotency_key)
             SELECT $1, u.seq, u.kind, u.actor_id, u.body::json, u.ts, u.trace_id, u.prev_anchor, u.chain_anchor, u.key
             FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                         $9::text[], $10::text[])
                  AS u (seq, kind, actor_id, body, ts, trace_id, prev_anchor, chain_anchor, key)
         ), moved AS (
             UPDATE plugin_host.audit_heads SET seq = $11, chain_anchor = $12 WHERE tenant_id = $1
         )
         INSERT INTO plugin_host.outbox (tenant_id, seq) SELECT $1, unnest($13::bigint[])",
    )
    .bind(tenant.0)
    .bind(column(linked, |l| l.position.seq))
    .bind(column(linked, |l| l.prepared.row.kind.clone()))
    .bind(column(linked, |l| l.prepared.row.actor.clone()))
    .bind(column(linked, |l| l.prepared.body.to_owned()))
    .bind(column(linked, |l| l.prepared.ts.clone()))
    .bind(column(linked, |l| l.prepared.row.trace_id.clone()))
    .bind(column(linked, |l| l.position.prev_anchor.clone()))
    .bind(column(linked, |l| l.position.chain_anchor.clone()))
    .bind(column(linked, |l| l.prepared.row.idempotency_key.clone()))
    .bind(last.position.seq)
    .bind(last.position.chain_anchor.clone())
    .bind(linked.iter().filter(|l| l.prepared.row.ship).map(|l| l.position.seq).collect::<Vec<i64>>());
    query.execute(&mut **transaction).await.map(|_| ()).map_err(unavailable)
}

pub(super) async fn read(store: &PostgresStore, tenant: TenantId, filter: &AuditFilter) -> Result<Vec<AuditRow>> {
    // No text in Postgres holds NUL, so no row has it; asked, the server would call it an error of ours.
    if [&filter.actor, &filter.kind].into_iter().flatten().any(|text| text.contains('\0')) {
        return Ok(Vec::new());
    }
    let query = sqlx::query(
        "SELECT tenant_id::text AS tenant_id, seq, kind, actor_id, body::text AS body, ts, trace_id, prev_anchor,
                chain_anchor
         FROM plugin_host.audit
         WHERE tenant_id = $1 AND seq > $2 AND ($3::text IS NULL OR actor_id = $3) AND ($4::text IS NULL OR kind = $4)
         ORDER BY seq LIMIT $5",
    )
    .bind(tenant.0)
    .bind(filter.since_seq.unwrap_or(0))
    .bind(filter.actor.clone())
    .bind(filter.kind.clone())
    .bind(i64::from(filter.limit));
    store.rows(tenant, query).await?.iter().map(audit_row).collect()
}

pub(super) async fn head(store: &PostgresStore, tenant: TenantId) -> Result<Option<AuditHead>> {
    let query = sqlx::query("SELECT seq, chain_anchor FROM plugin_host.audit_heads WHERE tenant_id = $1 AND seq > 0");
    let rows = store.rows(tenant, query.bind(tenant.0)).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(AuditHead { tenant_id: tenant, seq: row.number("seq")?, chain_anchor: row.text("chain_anchor")? }))
}

pub(super) async fn by_key(store: &PostgresStore, tenant: TenantId, key: &str) -> Result<Option<AuditRow>> {
    if key.contains('\0') {
        return Ok(None);
    }
    let query = sqlx::query(
        "SELECT tenant_id::text AS tenant_id, seq, kind, actor_id, body::text AS body, ts, trace_id, prev_anchor,
                chain_anchor
         FROM plugin_host.audit WHERE tenant_id = $1 AND idempotency_key = $2",
    );
    let rows = store.rows(tenant, query.bind(tenant.0).bind(key.to_owned())).await?;
    rows.first().map(audit_row).transpose()
}
