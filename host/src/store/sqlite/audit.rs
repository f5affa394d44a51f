//! The audit log in SQLite.
//!
//! The common append wakes no other thread: rows are linked to the heads that this process remembers, and the schema's
//! triggers check the link, move the head and fill the outbox. When another process came in between, or an idempotency
//! key was used before, it is refused as a whole and done again the long way, reading heads and keys under the write
//! lock.

use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection, QueryBuilder, Sqlite};
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use super::SqliteStore;
use super::open::BUSY;
use super::quill::{Quill, Written};
use super::read_all;
use crate::error::{Error, Reason, Result};
use crate::model::TenantId;
use crate::store::chain::{EarlierKeys, Head, Linked, Prepared, link, prepare};
use crate::store::rows::{Columns, audit_row, earlier, tenant, to_json, unavailable};
use crate::store::{Appended, AuditFilter, AuditHead, AuditRow, Durability, NewAuditRow};

/// More remembered heads than this are forgotten; they are read again when needed.
const MAX_HEADS: usize = 4096;
/// Most rows in one statement of the long way.
const STATEMENT_ROWS: usize = 64;
/// Most rows that are appended on the caller's thread; more would keep other calls waiting for it.
const QUICK_ROWS: usize = 128;
/// First pause when another process is writing; each is twice the one before, up to ten times this.
const PAUSE: Duration = Duration::from_millis(1);

pub(super) async fn append(store: &SqliteStore, rows: &[NewAuditRow], durability: Durability) -> Result<Vec<Appended>> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let batch = prepare(rows)?;
    let tenants: BTreeSet<TenantId> = rows.iter().map(|row| row.tenant).collect();

    let mut pen = store.writer.lock().await?;
    let remembered: Option<HashMap<TenantId, Head>> =
        tenants.iter().map(|t| Some((*t, pen.heads.get(t)?.clone()))).collect();
    let quick = match remembered {
        Some(heads) if batch.len() <= QUICK_ROWS => append_quickly(&mut pen.quill, &batch, heads).await?,
        _ => None,
    };
    let (answers, heads) = match quick {
        Some(done) => done,
        None => {
            tenants.iter().for_each(|t| drop(pen.heads.remove(t)));
            append_carefully(&mut pen.connection, &batch, &tenants).await?
        }
    };
    if pen.heads.len() > MAX_HEADS {
        pen.heads.clear();
    }
    pen.heads.extend(heads);
    let commit = store.writer.committed();
    drop(pen);

    if durability == Durability::Synced {
        store.writer.sync(commit).await?;
    }
    Ok(answers)
}

type Done = (Vec<Appended>, HashMap<TenantId, Head>);

/// `None` when the heads were not the heads, or a key was used before; nothing was written then.
async fn append_quickly(
    quill: &mut Quill,
    batch: &[Prepared<'_>],
    mut heads: HashMap<TenantId, Head>,
) -> Result<Option<Done>> {
    let (linked, answers) = link(batch, &mut heads, &EarlierKeys::new());
    let (started, mut pause) = (Instant::now(), PAUSE);
    loop {
        match quill.append(&linked).map_err(out_of_reach)? {
            Written::Committed => return Ok(Some((answers, heads))),
            Written::Refused => return Ok(None),
            Written::Busy if started.elapsed() > BUSY => return Err(out_of_reach("another process keeps writing")),
            Written::Busy => tokio::time::sleep(pause).await,
        }
        pause = (pause * 2).min(PAUSE * 10);
    }
}

fn out_of_reach(why: impl std::fmt::Display) -> Error {
    Error::new(Reason::StoreUnavailable, "The bridge's store cannot be reached.").detail(why)
}

async fn append_carefully(
    connection: &mut SqliteConnection,
    batch: &[Prepared<'_>],
    tenants: &BTreeSet<TenantId>,
) -> Result<Done> {
    // Dropped before its commit, it rolls back.
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(unavailable)?;

    let mut heads = HashMap::new();
    let asked: Vec<String> = tenants.iter().map(TenantId::to_string).collect();
    let found = sqlx::query(
        "SELECT tenant_id, seq, chain_anchor FROM audit_heads WHERE tenant_id IN (SELECT value FROM json_each(?1))",
    );
    for row in found.bind(to_json(&asked)).fetch_all(&mut *transaction).await.map_err(unavailable)? {
        heads.insert(tenant(&row)?, Head { seq: row.number("seq")?, anchor: row.text("chain_anchor")? });
    }

    let mut used = EarlierKeys::new();
    let keys: Vec<_> = batch.iter().filter_map(|p| Some((p.row.tenant, p.row.idempotency_key.as_ref()?))).collect();
    if !keys.is_empty() {
        let found = sqlx::query(
            "SELECT tenant_id, seq, kind, actor_id, body, chain_anchor, prev_anchor, idempotency_key FROM audit
             WHERE (tenant_id, idempotency_key) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
               AND idempotency_key IS NOT NULL",
        );
        for row in found.bind(to_json(&keys)).fetch_all(&mut *transaction).await.map_err(unavailable)? {
            used.insert((tenant(&row)?, row.text("idempotency_key")?), earlier(&row)?);
        }
    }

    let (linked, answers) = link(batch, &mut heads, &used);
    insert(&mut transaction, &linked).await.map_err(unavailable)?;
    transaction.commit().await.map_err(unavailable)?;
    Ok((answers, heads))
}

/// One statement for up to [`STATEMENT_ROWS`] rows, prepared once for each number of them.
async fn insert(connection: &mut SqliteConnection, linked: &[Linked<'_>]) -> sqlx::Result<()> {
    for rows in linked.chunks(STATEMENT_ROWS) {
        let mut query = QueryBuilder::<Sqlite>::new(
            "INSERT INTO audit (tenant_id, seq, kind, actor_id, body, ts, trace_id, prev_anchor, chain_anchor,
                                idempotency_key, ship) ",
        );
        query.push_values(rows, |mut columns, linked| {
            let (row, at) = (linked.prepared.row, &linked.position);
            columns
                .push_bind(row.tenant.to_string())
                .push_bind(at.seq)
                .push_bind(&row.kind)
                .push_bind(&row.actor)
                .push_bind(linked.prepared.body)
                .push_bind(&linked.prepared.ts)
                .push_bind(&row.trace_id)
                .push_bind(&at.prev_anchor)
                .push_bind(&at.chain_anchor)
                .push_bind(&row.idempotency_key)
                .push_bind(i64::from(row.ship));
        });
        query.build().execute(&mut *connection).await?;
    }
    Ok(())
}

pub(super) async fn read(store: &SqliteStore, tenant: TenantId, filter: &AuditFilter) -> Result<Vec<AuditRow>> {
    let query = sqlx::query(
        "SELECT tenant_id, seq, kind, actor_id, body, ts, trace_id, prev_anchor, chain_anchor FROM audit
         WHERE tenant_id = ?1 AND seq > ?2 AND (?3 IS NULL OR actor_id = ?3) AND (?4 IS NULL OR kind = ?4)
         ORDER BY seq LIMIT ?5",
    )
    .bind(tenant.to_string())
    .bind(filter.since_seq.unwrap_or(0))
    .bind(filter.actor.clone())
    .bind(filter.kind.clone())
    .bind(i64::from(filter.limit));
    read_all(store, query).await?.iter().map(audit_row).collect()
}

pub(super) async fn head(store: &SqliteStore, tenant: TenantId) -> Result<Option<AuditHead>> {
    let query = sqlx::query("SELECT seq, chain_anchor FROM audit_heads WHERE tenant_id = ?1").bind(tenant.to_string());
    let rows = read_all(store, query).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(AuditHead { tenant_id: tenant, seq: row.number("seq")?, chain_anchor: row.text("chain_anchor")? }))
}

pub(super) async fn by_key(store: &SqliteStore, tenant: TenantId, key: &str) -> Result<Option<AuditRow>> {
    let query = sqlx::query(
        "SELECT tenant_id, seq, kind, actor_id, body, ts, trace_id, prev_anchor, chain_anchor FROM audit
         WHERE tenant_id = ?1 AND idempotency_key = ?2",
    );
    read_all(store, query.bind(tenant.to_string()).bind(key.to_owned())).await?.first().map(audit_row).transpose()
}
