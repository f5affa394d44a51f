//! Tasks in Postgres. Every change is one statement in a transaction of its tenant, and tells all replicas.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::Row;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

use super::listen::CHANNEL;
use super::{PostgresStore, Query};
use crate::error::Result;
use crate::model::{Progress, TenantId};
use crate::store::rows::{Columns, end_columns, micros, status, task_id, task_row, to_json, unavailable};
use crate::store::{
    CancelOutcome, Inserted, NewTask, TaskEnd, TaskId, TaskOwner, TaskQuestion, TaskRow, TaskStatus, WorkerId,
};

/// A notification can be lost with its connection; a waiter looks at the row this often in any case.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The first half of the advisory locks under which tenants' open tasks are counted.
const TURN: i32 = 0x4379_4d42;

macro_rules! columns {
    () => {
        "tenant_id::text AS tenant_id, id, subject, tool, arguments::text AS arguments, call::text AS call, trace_id, \
         status, progress::text AS progress, output::text AS output, error::text AS error, created_at_us, updated_at_us, \
         completed_at_us, timeout_at_us, ttl_us, attempts, question_id, question::text AS question, \
         answer::text AS answer"
    };
}

pub(super) async fn insert(store: &PostgresStore, task: &NewTask, most_open: u64) -> Result<Inserted> {
    let created = task.created_at.as_microsecond();
    let ttl = micros(task.ttl);
    let query = sqlx::query(
        "INSERT INTO plugin_host.tasks (tenant_id, id, subject, tool, arguments, call, trace_id, status, created_at_us,
                                        updated_at_us, timeout_at_us, ttl_us, expires_at_us)
         SELECT $1, $2, $3, $4, $5::json, $6::json, $7, 'running', $8, $8, $9, $10, $11
         WHERE (SELECT count(*) FROM plugin_host.tasks
                WHERE tenant_id = $1 AND status IN ('running', 'input_required')) < $12
         ON CONFLICT (tenant_id, id) DO NOTHING",
    )
    .bind(task.owner.tenant.0)
    .bind(task.id.to_string())
    .bind(task.owner.subject.clone())
    .bind(task.tool.to_string())
    .bind(to_json(&task.arguments))
    .bind(to_json(&task.call))
    .bind(task.trace_id.to_string())
    .bind(created)
    .bind(task.timeout_at.as_microsecond())
    .bind(ttl)
    .bind(created.saturating_add(ttl))
    .bind(i64::try_from(most_open).unwrap_or(i64::MAX));
    let mut transaction = store.begin(task.owner.tenant, super::Durability::Synced).await?;
    // Whoever inserts for this tenant counts after those before have committed. In a statement of its own: the next one
    // sees what was there when it began.
    let turn = sqlx::query("SELECT pg_advisory_xact_lock($1, hashtext($2))").bind(TURN);
    turn.bind(task.owner.tenant.to_string()).execute(&mut *transaction).await.map_err(unavailable)?;
    let added = query.execute(&mut *transaction).await.map_err(unavailable)?.rows_affected() == 1;
    transaction.commit().await.map_err(unavailable)?;
    if added {
        return Ok(Inserted::Added);
    }
    // Should a task have ended since, the caller tries once more for nothing.
    match count_open(store, task.owner.tenant).await? >= most_open {
        true => Ok(Inserted::TooMany),
        false => Ok(Inserted::IdTaken),
    }
}

pub(super) async fn read(store: &PostgresStore, owner: &TaskOwner, id: &TaskId) -> Result<Option<TaskRow>> {
    let query = sqlx::query(concat!(
        "SELECT ",
        columns!(),
        " FROM plugin_host.tasks
          WHERE tenant_id = $1 AND id = $2 AND subject = $3 AND expires_at_us > plugin_host.now_us()"
    ))
    .bind(owner.tenant.0)
    .bind(id.to_string())
    .bind(owner.subject.clone());
    store.rows(owner.tenant, query).await?.first().map(task_row).transpose()
}

pub(super) async fn list(
    store: &PostgresStore,
    owner: &TaskOwner,
    before: Option<(Timestamp, TaskId)>,
    limit: u32,
) -> Result<Vec<TaskRow>> {
    let (before_us, before_id) =
        before.map_or((i64::MAX, String::new()), |(at, id)| (at.as_microsecond(), id.to_string()));
    let query = sqlx::query(concat!(
        "SELECT ",
        columns!(),
        " FROM plugin_host.tasks
          WHERE tenant_id = $1 AND subject = $2 AND expires_at_us > plugin_host.now_us()
            AND (created_at_us, id) < ($3, $4)
          ORDER BY created_at_us DESC, id DESC LIMIT $5"
    ))
    .bind(owner.tenant.0)
    .bind(owner.subject.clone())
    .bind(before_us)
    .bind(before_id)
    .bind(i64::from(limit));
    store.rows(owner.tenant, query).await?.iter().map(task_row).collect()
}

pub(super) async fn count_open(store: &PostgresStore, tenant: TenantId) -> Result<u64> {
    let query = sqlx::query(
        "SELECT count(*) AS open FROM plugin_host.tasks
         WHERE tenant_id = $1 AND status IN ('running', 'input_required')",
    );
    let rows = store.rows(tenant, query.bind(tenant.0)).await?;
    Ok(rows.first().map(|row| row.number("open")).transpose()?.unwrap_or(0).unsigned_abs())
}

/// Run a change that returns the row it changed, and tell everybody who waits for the task: other replicas when the
/// transaction commits, this process after it.
async fn change(
    store: &PostgresStore,
    tenant: TenantId,
    id: &TaskId,
    query: Query<'_>,
) -> Result<Vec<sqlx::postgres::PgRow>> {
    let mut transaction = store.begin(tenant, super::Durability::Synced).await?;
    let rows = query.fetch_all(&mut *transaction).await.map_err(unavailable)?;
    if !rows.is_empty() {
        let tell = sqlx::query("SELECT pg_notify($1, $2)").bind(CHANNEL).bind(id.as_str());
        tell.execute(&mut *transaction).await.map_err(unavailable)?;
    }
    transaction.commit().await.map_err(unavailable)?;
    if !rows.is_empty() {
        store.bells.ring(id.as_str());
    }
    Ok(rows)
}

pub(super) async fn claim(
    store: &PostgresStore,
    tenant: TenantId,
    id: &TaskId,
    worker: &WorkerId,
    lease: Duration,
) -> Result<Option<TaskRow>> {
    let query = sqlx::query(concat!(
        "UPDATE plugin_host.tasks SET worker = $3, lease_until_us = plugin_host.now_us() + $4, attempts = attempts + 1,
                status = 'running', question_id = NULL, question = NULL, answer = NULL,
                updated_at_us = greatest(plugin_host.now_us(), updated_at_us + 1)
         WHERE tenant_id = $1 AND id = $2 AND status IN ('running', 'input_required')
           AND (lease_until_us IS NULL OR lease_until_us <= plugin_host.now_us())
         RETURNING ",
        columns!()
    ))
    .bind(tenant.0)
    .bind(id.to_string())
    .bind(worker.0.clone())
    .bind(micros(lease));
    change(store, tenant, id, query).await?.first().map(task_row).transpose()
}

pub(super) async fn renew(
    store: &PostgresStore,
    tenant: TenantId,
    id: &TaskId,
    worker: &WorkerId,
    lease: Duration,
    progress: Option<&Progress>,
) -> Result<Option<TaskStatus>> {
    // A row that has ended answers with its status and stays as it is.
    let query = sqlx::query(
        "UPDATE plugin_host.tasks SET
             lease_until_us = CASE WHEN completed_at_us IS NULL THEN plugin_host.now_us() + $4 ELSE lease_until_us END,
             progress = CASE WHEN completed_at_us IS NULL THEN coalesce($5::json, progress) ELSE progress END,
             updated_at_us = CASE WHEN completed_at_us IS NULL AND $5 IS NOT NULL
                             THEN greatest(plugin_host.now_us(), updated_at_us + 1) ELSE updated_at_us END
         WHERE tenant_id = $1 AND id = $2 AND worker = $3
         RETURNING status",
    )
    .bind(tenant.0)
    .bind(id.to_string())
    .bind(worker.0.clone())
    .bind(micros(lease))
    .bind(progress.map(to_json));
    let rows = match progress {
        Some(_) => change(store, tenant, id, query).await?,
        None => store.rows(tenant, query).await?,
    };
    rows.first().map(status).transpose()
}

pub(super) async fn set_input_required(
    store: &PostgresStore,
    tenant: TenantId,
    id: &TaskId,
    worker: &WorkerId,
    question: &TaskQuestion,
) -> Result<Option<TaskStatus>> {
    let query = sqlx::query(
        "UPDATE plugin_host.tasks SET
             status = CASE WHEN completed_at_us IS NULL THEN 'input_required' ELSE status END,
             question_id = CASE WHEN completed_at_us IS NULL THEN $4 END,
             question = CASE WHEN completed_at_us IS NULL THEN $5::json END,
             answer = NULL,
             updated_at_us = CASE WHEN completed_at_us IS NULL
                             THEN greatest(plugin_host.now_us(), updated_at_us + 1) ELSE updated_at_us END
         WHERE tenant_id = $1 AND id = $2 AND worker = $3
         RETURNING status",
    )
    .bind(tenant.0)
    .bind(id.to_string())
    .bind(worker.0.clone())
    .bind(question.id.clone())
    .bind(to_json(&question.body));
    change(store, tenant, id, query).await?.first().map(status).transpose()
}

pub(super) async fn set_running(
    store: &PostgresStore,
    tenant: TenantId,
    id: &TaskId,
    worker: &WorkerId,
    timeout_at: Timestamp,
    call: Option<&Value>,
) -> Result<Option<TaskStatus>> {
    let query = sqlx::query(
        "UPDATE plugin_host.tasks SET
             status = CASE WHEN completed_at_us IS NULL THEN 'running' ELSE status END,
             question_id = NULL, question = NULL, answer = NULL,
             timeout_at_us = CASE WHEN completed_at_us IS NULL THEN $4 ELSE timeout_at_us END,
             expires_at_us = CASE WHEN completed_at_us IS NULL THEN greatest(expires_at_us, $4) ELSE expires_at_us END,
             ttl_us = CASE WHEN completed_at_us IS NULL THEN greatest(ttl_us, $4 - created_at_us) ELSE ttl_us END,
             call = CASE WHEN completed_at_us IS NULL THEN coalesce($5::json, call) ELSE call END,
             updated_at_us = CASE WHEN completed_at_us IS NULL
                             THEN greatest(plugin_host.now_us(), updated_at_us + 1) ELSE updated_at_us END
         WHERE tenant_id = $1 AND id = $2 AND worker = $3
         RETURNING status",
    )
    .bind(tenant.0)
    .bind(id.to_string())
    .bind(worker.0.clone())
    .bind(timeout_at.as_microsecond())
    .bind(call.map(to_json));
    change(store, tenant, id, query).await?.first().map(status).transpose()
}

pub(super) async fn answer(
    store: &PostgresStore,
    owner: &TaskOwner,
    id: &TaskId,
    question_id: &str,
    answer: &Value,
) -> Result<bool> {
    let query = sqlx::query(
        "UPDATE plugin_host.tasks SET answer = $5::json,
                updated_at_us = greatest(plugin_host.now_us(), updated_at_us + 1)
         WHERE tenant_id = $1 AND id = $2 AND subject = $3 AND question_id = $4 AND answer IS NULL
           AND status = 'input_required' AND expires_at_us > plugin_host.now_us()
         RETURNING id",
    )
    .bind(owner.tenant.0)
    .bind(id.to_string())
    .bind(owner.subject.clone())
    // No question of ours has a NUL in its id, and the column cannot.
    .bind(question_id.replace('\0', " "))
    .bind(to_json(answer));
    Ok(!change(store, owner.tenant, id, query).await?.is_empty())
}

pub(super) async fn finish(
    store: &PostgresStore,
    tenant: TenantId,
    id: &TaskId,
    worker: Option<&WorkerId>,
    end: &TaskEnd,
) -> Result<bool> {
    let (status, output, error) = end_columns(end);
    let query = sqlx::query(
        "UPDATE plugin_host.tasks SET status = $3, output = $4::json, error = $5::json,
                updated_at_us = greatest(plugin_host.now_us(), updated_at_us + 1),
                completed_at_us = greatest(plugin_host.now_us(), created_at_us),
                question_id = NULL, question = NULL, answer = NULL
         WHERE tenant_id = $1 AND id = $2 AND status IN ('running', 'input_required')
           AND ($6::text IS NULL OR worker = $6)
         RETURNING id",
    )
    .bind(tenant.0)
    .bind(id.to_string())
    .bind(status.as_str())
    .bind(output)
    .bind(error)
    .bind(worker.map(|w| w.0.clone()));
    Ok(!change(store, tenant, id, query).await?.is_empty())
}

pub(super) async fn cancel(store: &PostgresStore, owner: &TaskOwner, id: &TaskId) -> Result<CancelOutcome> {
    let query = sqlx::query(concat!(
        "UPDATE plugin_host.tasks SET status = 'cancelled',
                updated_at_us = greatest(plugin_host.now_us(), updated_at_us + 1),
                completed_at_us = greatest(plugin_host.now_us(), created_at_us),
                question_id = NULL, question = NULL, answer = NULL
         WHERE tenant_id = $1 AND id = $2 AND subject = $3 AND expires_at_us > plugin_host.now_us()
           AND status IN ('running', 'input_required')
         RETURNING ",
        columns!()
    ))
    .bind(owner.tenant.0)
    .bind(id.to_string())
    .bind(owner.subject.clone());
    if let Some(row) = change(store, owner.tenant, id, query).await?.first() {
        return Ok(CancelOutcome::Cancelled(task_row(row)?));
    }
    // Ended rows never change again, so this second look cannot contradict the first.
    Ok(read(store, owner, id).await?.map_or(CancelOutcome::NotFound, CancelOutcome::AlreadyEnded))
}

pub(super) async fn abandoned(store: &PostgresStore, grace: Duration) -> Result<Vec<(TenantId, TaskId)>> {
    let query = sqlx::query("SELECT tenant_id, id FROM plugin_host.abandoned_tasks($1)").bind(micros(grace));
    let rows = query.fetch_all(&store.pool).await.map_err(unavailable)?;
    rows.iter()
        .map(|row| {
            let tenant: Uuid = row.try_get("tenant_id").map_err(unavailable)?;
            Ok((TenantId(tenant), task_id(row)?))
        })
        .collect()
}

pub(super) async fn prune(store: &PostgresStore) -> Result<u64> {
    let expired = sqlx::query("SELECT plugin_host.prune_expired()");
    expired.execute(&store.pool).await.map_err(unavailable)?;
    let deleted: i64 =
        sqlx::query_scalar("SELECT plugin_host.prune()").fetch_one(&store.pool).await.map_err(unavailable)?;
    Ok(deleted.unsigned_abs())
}

pub(super) async fn changed(store: &PostgresStore, tenant: TenantId, id: &TaskId, seen: Timestamp, patience: Duration) {
    let give_up = Instant::now() + patience;
    let bell = store.bells.enter(id);
    loop {
        let rung = bell.notified();
        let query =
            sqlx::query("SELECT 1 FROM plugin_host.tasks WHERE tenant_id = $1 AND id = $2 AND updated_at_us <= $3")
                .bind(tenant.0)
                .bind(id.to_string())
                .bind(seen.as_microsecond());
        // A store that does not answer is the caller's to find out when it reads the row.
        let same = store.rows(tenant, query).await.is_ok_and(|rows| !rows.is_empty());
        let now = Instant::now();
        if !same || now >= give_up {
            return;
        }
        let _ = tokio::time::timeout_at(give_up.min(now + LOOK_AGAIN), rung).await;
    }
}
