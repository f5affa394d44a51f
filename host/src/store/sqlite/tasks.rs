//! Tasks in SQLite. Every change is one statement, which decides and acts at once.

use jiff::Timestamp;
use serde_json::Value;
use std::time::Duration;
use tokio::time::Instant;

use super::{POLL, SqliteStore, now_us, read_all};
use crate::error::Result;
use crate::model::{Progress, TenantId};
use crate::store::rows::{Columns, end_columns, micros, status, task_id, task_row, tenant, to_json};
use crate::store::{
    CancelOutcome, Inserted, NewTask, TaskEnd, TaskId, TaskOwner, TaskQuestion, TaskRow, TaskStatus, WorkerId,
};

macro_rules! columns {
    () => {
        "tenant_id, id, subject, tool, arguments, call, trace_id, status, progress, output, error, created_at_us, \
         updated_at_us, completed_at_us, timeout_at_us, ttl_us, attempts, question_id, question, answer"
    };
}

pub(super) async fn insert(store: &SqliteStore, task: &NewTask, most_open: u64) -> Result<Inserted> {
    let created = task.created_at.as_microsecond();
    let ttl = micros(task.ttl);
    let query = sqlx::query(
        "INSERT INTO tasks (tenant_id, id, subject, tool, arguments, call, trace_id, status, created_at_us,
                            updated_at_us, timeout_at_us, ttl_us, expires_at_us)
         SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, 'running', ?8, ?8, ?9, ?10, ?11
         WHERE (SELECT count(*) FROM tasks WHERE tenant_id = ?1 AND status IN ('running', 'input_required')) < ?12
         ON CONFLICT (tenant_id, id) DO NOTHING",
    )
    .bind(task.owner.tenant.to_string())
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
    if store.writer.execute(query).await? == 1 {
        return Ok(Inserted::Added);
    }
    // Should a task have ended since, the caller tries once more for nothing.
    match count_open(store, task.owner.tenant).await? >= most_open {
        true => Ok(Inserted::TooMany),
        false => Ok(Inserted::IdTaken),
    }
}

pub(super) async fn read(store: &SqliteStore, owner: &TaskOwner, id: &TaskId) -> Result<Option<TaskRow>> {
    let query = sqlx::query(concat!(
        "SELECT ",
        columns!(),
        " FROM tasks WHERE tenant_id = ?1 AND id = ?2 AND subject = ?3 AND expires_at_us > ?4"
    ))
    .bind(owner.tenant.to_string())
    .bind(id.to_string())
    .bind(owner.subject.clone())
    .bind(now_us());
    read_all(store, query).await?.first().map(task_row).transpose()
}

pub(super) async fn list(
    store: &SqliteStore,
    owner: &TaskOwner,
    before: Option<(Timestamp, TaskId)>,
    limit: u32,
) -> Result<Vec<TaskRow>> {
    let (before_us, before_id) =
        before.map_or((i64::MAX, String::new()), |(at, id)| (at.as_microsecond(), id.to_string()));
    let query = sqlx::query(concat!(
        "SELECT ",
        columns!(),
        " FROM tasks WHERE tenant_id = ?1 AND subject = ?2 AND expires_at_us > ?3 AND (created_at_us, id) < (?4, ?5)
          ORDER BY created_at_us DESC, id DESC LIMIT ?6"
    ))
    .bind(owner.tenant.to_string())
    .bind(owner.subject.clone())
    .bind(now_us())
    .bind(before_us)
    .bind(before_id)
    .bind(i64::from(limit));
    read_all(store, query).await?.iter().map(task_row).collect()
}

pub(super) async fn count_open(store: &SqliteStore, tenant: TenantId) -> Result<u64> {
    let query = sqlx::query(
        "SELECT count(*) AS open FROM tasks WHERE tenant_id = ?1 AND status IN ('running', 'input_required')",
    );
    let rows = read_all(store, query.bind(tenant.to_string())).await?;
    Ok(rows.first().map(|row| row.number("open")).transpose()?.unwrap_or(0).unsigned_abs())
}

pub(super) async fn claim(
    store: &SqliteStore,
    tenant: TenantId,
    id: &TaskId,
    worker: &WorkerId,
    lease: Duration,
) -> Result<Option<TaskRow>> {
    let query = sqlx::query(concat!(
        "UPDATE tasks SET worker = ?3, lease_until_us = ?4 + ?5, attempts = attempts + 1, status = 'running',
                          question_id = NULL, question = NULL, answer = NULL,
                          updated_at_us = max(?4, updated_at_us + 1)
         WHERE tenant_id = ?1 AND id = ?2 AND status IN ('running', 'input_required')
           AND (lease_until_us IS NULL OR lease_until_us <= ?4)
         RETURNING ",
        columns!()
    ))
    .bind(tenant.to_string())
    .bind(id.to_string())
    .bind(worker.0.clone())
    .bind(now_us())
    .bind(micros(lease));
    let rows = store.changed(store.writer.returning(query).await, id).await?;
    rows.first().map(task_row).transpose()
}

pub(super) async fn renew(
    store: &SqliteStore,
    tenant: TenantId,
    id: &TaskId,
    worker: &WorkerId,
    lease: Duration,
    progress: Option<&Progress>,
) -> Result<Option<TaskStatus>> {
    // A row that has ended answers with its status and stays as it is.
    let query = sqlx::query(
        "UPDATE tasks SET
             lease_until_us = iif(completed_at_us IS NULL, ?4 + ?5, lease_until_us),
             progress = iif(completed_at_us IS NULL, coalesce(?6, progress), progress),
             updated_at_us = iif(completed_at_us IS NULL AND ?6 IS NOT NULL, max(?4, updated_at_us + 1), updated_at_us)
         WHERE tenant_id = ?1 AND id = ?2 AND worker = ?3
         RETURNING status",
    )
    .bind(tenant.to_string())
    .bind(id.to_string())
    .bind(worker.0.clone())
    .bind(now_us())
    .bind(micros(lease))
    .bind(progress.map(to_json));
    let rows = store.writer.returning(query).await;
    let rows = if progress.is_some() { store.changed(rows, id).await? } else { rows? };
    rows.first().map(status).transpose()
}

pub(super) async fn set_input_required(
    store: &SqliteStore,
    tenant: TenantId,
    id: &TaskId,
    worker: &WorkerId,
    question: &TaskQuestion,
) -> Result<Option<TaskStatus>> {
    let query = sqlx::query(
        "UPDATE tasks SET
             status = iif(completed_at_us IS NULL, 'input_required', status),
             question_id = iif(completed_at_us IS NULL, ?4, NULL),
             question = iif(completed_at_us IS NULL, ?5, NULL),
             answer = NULL,
             updated_at_us = iif(completed_at_us IS NULL, max(?6, updated_at_us + 1), updated_at_us)
         WHERE tenant_id = ?1 AND id = ?2 AND worker = ?3
         RETURNING status",
    )
    .bind(tenant.to_string())
    .bind(id.to_string())
    .bind(worker.0.clone())
    .bind(question.id.clone())
    .bind(to_json(&question.body))
    .bind(now_us());
    let rows = store.changed(store.writer.returning(query).await, id).await?;
    rows.first().map(status).transpose()
}

pub(super) async fn set_running(
    store: &SqliteStore,
    tenant: TenantId,
    id: &TaskId,
    worker: &WorkerId,
    timeout_at: Timestamp,
    call: Option<&Value>,
) -> Result<Option<TaskStatus>> {
    let query = sqlx::query(
        "UPDATE tasks SET
             status = iif(completed_at_us IS NULL, 'running', status),
             question_id = NULL, question = NULL, answer = NULL,
             timeout_at_us = iif(completed_at_us IS NULL, ?4, timeout_at_us),
             expires_at_us = iif(completed_at_us IS NULL, max(expires_at_us, ?4), expires_at_us),
             ttl_us = iif(completed_at_us IS NULL, max(ttl_us, ?4 - created_at_us), ttl_us),
             call = iif(completed_at_us IS NULL, coalesce(?6, call), call),
             updated_at_us = iif(completed_at_us IS NULL, max(?5, updated_at_us + 1), updated_at_us)
         WHERE tenant_id = ?1 AND id = ?2 AND worker = ?3
         RETURNING status",
    )
    .bind(tenant.to_string())
    .bind(id.to_string())
    .bind(worker.0.clone())
    .bind(timeout_at.as_microsecond())
    .bind(now_us())
    .bind(call.map(to_json));
    let rows = store.changed(store.writer.returning(query).await, id).await?;
    rows.first().map(status).transpose()
}

pub(super) async fn answer(
    store: &SqliteStore,
    owner: &TaskOwner,
    id: &TaskId,
    question_id: &str,
    answer: &Value,
) -> Result<bool> {
    let query = sqlx::query(
        "UPDATE tasks SET answer = ?5, updated_at_us = max(?6, updated_at_us + 1)
         WHERE tenant_id = ?1 AND id = ?2 AND subject = ?3 AND question_id = ?4 AND answer IS NULL
           AND status = 'input_required' AND expires_at_us > ?6
         RETURNING id",
    )
    .bind(owner.tenant.to_string())
    .bind(id.to_string())
    .bind(owner.subject.clone())
    .bind(question_id.to_owned())
    .bind(to_json(answer))
    .bind(now_us());
    let rows = store.changed(store.writer.returning(query).await, id).await?;
    Ok(!rows.is_empty())
}

pub(super) async fn finish(
    store: &SqliteStore,
    tenant: TenantId,
    id: &TaskId,
    worker: Option<&WorkerId>,
    end: &TaskEnd,
) -> Result<bool> {
    let (status, output, error) = end_columns(end);
    let query = sqlx::query(
        "UPDATE tasks SET status = ?3, output = ?4, error = ?5, updated_at_us = max(?6, updated_at_us + 1),
                          completed_at_us = max(?6, created_at_us), question_id = NULL, question = NULL, answer = NULL
         WHERE tenant_id = ?1 AND id = ?2 AND status IN ('running', 'input_required')
           AND (?7 IS NULL OR worker = ?7)
         RETURNING id",
    )
    .bind(tenant.to_string())
    .bind(id.to_string())
    .bind(status.as_str())
    .bind(output)
    .bind(error)
    .bind(now_us())
    .bind(worker.map(|w| w.0.clone()));
    let rows = store.changed(store.writer.returning(query).await, id).await?;
    Ok(!rows.is_empty())
}

pub(super) async fn cancel(store: &SqliteStore, owner: &TaskOwner, id: &TaskId) -> Result<CancelOutcome> {
    let query = sqlx::query(concat!(
        "UPDATE tasks SET status = 'cancelled', updated_at_us = max(?4, updated_at_us + 1),
                          completed_at_us = max(?4, created_at_us), question_id = NULL, question = NULL, answer = NULL
         WHERE tenant_id = ?1 AND id = ?2 AND subject = ?3 AND expires_at_us > ?4
           AND status IN ('running', 'input_required')
         RETURNING ",
        columns!()
    ))
    .bind(owner.tenant.to_string())
    .bind(id.to_string())
    .bind(owner.subject.clone())
    .bind(now_us());
    let rows = store.changed(store.writer.returning(query).await, id).await?;
    if let Some(row) = rows.first() {
        return Ok(CancelOutcome::Cancelled(task_row(row)?));
    }
    // Ended rows never change again, so this second look cannot contradict the first.
    Ok(read(store, owner, id).await?.map_or(CancelOutcome::NotFound, CancelOutcome::AlreadyEnded))
}

pub(super) async fn abandoned(store: &SqliteStore, grace: Duration) -> Result<Vec<(TenantId, TaskId)>> {
    let query = sqlx::query(
        "SELECT tenant_id, id FROM tasks
         WHERE status IN ('running', 'input_required') AND coalesce(lease_until_us, created_at_us) <= ?1
         ORDER BY created_at_us LIMIT 1000",
    );
    let rows = read_all(store, query.bind(now_us().saturating_sub(micros(grace)))).await?;
    rows.iter().map(|row| Ok((tenant(row)?, task_id(row)?))).collect()
}

pub(super) async fn prune(store: &SqliteStore) -> Result<u64> {
    let used = sqlx::query("DELETE FROM used_once WHERE expires_at_us <= ?1").bind(now_us());
    store.writer.execute(used).await?;
    let sessions = sqlx::query("DELETE FROM sessions WHERE expires_at_us <= ?1").bind(now_us());
    store.writer.execute(sessions).await?;
    let ended = sqlx::query("DELETE FROM tasks WHERE expires_at_us <= ?1 AND completed_at_us IS NOT NULL");
    store.writer.execute(ended.bind(now_us())).await
}

pub(super) async fn changed(store: &SqliteStore, tenant: TenantId, id: &TaskId, seen: Timestamp, patience: Duration) {
    let give_up = Instant::now() + patience;
    let bell = store.bells.enter(id);
    loop {
        let rung = bell.notified();
        let query = sqlx::query("SELECT 1 FROM tasks WHERE tenant_id = ?1 AND id = ?2 AND updated_at_us <= ?3")
            .bind(tenant.to_string())
            .bind(id.to_string())
            .bind(seen.as_microsecond());
        // A store that does not answer is the caller's to find out when it reads the row.
        let same = read_all(store, query).await.is_ok_and(|rows| !rows.is_empty());
        let now = Instant::now();
        if !same || now >= give_up {
            return;
        }
        let _ = tokio::time::timeout_at(give_up.min(now + POLL), rung).await;
    }
}
