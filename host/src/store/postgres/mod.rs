//! The shared store: Postgres with forced row-level security and a role that owns nothing.
//!
//! Every transaction names its tenant with `set_config('auth.tenant_id', …, true)`, which ends with the transaction, so
//! nothing leaks to the next user of a pooled connection; without a tenant the policies show no rows. What must look
//! across tenants goes through the schema's definer functions, which give ids and counts only. Leases and times to live
//! go by the database's clock, because replicas' clocks differ.

mod audit;
mod connect;
mod inspect;
mod letters;
mod listen;
mod migrate;
mod outbox;
mod sessions;
mod tasks;

pub use inspect::{Inspection, inspect};
pub use migrate::migrate;

use async_trait::async_trait;
use jiff::Timestamp;
use secrecy::SecretString;
use serde_json::Value;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgPool, Postgres, Transaction};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use uuid::Uuid;

use super::rows::unavailable;
use super::wake::Bells;
use super::{
    Appended, AuditFilter, AuditHead, AuditRow, CancelOutcome, Durability, Inserted, Letter, NewAuditRow, NewTask,
    OutboxRow, Post, SessionState, Store, TaskEnd, TaskId, TaskOwner, TaskQuestion, TaskRow, TaskStatus, WorkerId,
};
use crate::error::Result;
use crate::model::{LogLevel, Progress, TenantId};
use letters::Postbox;

type Query<'q> = sqlx::query::Query<'q, Postgres, sqlx::postgres::PgArguments>;

pub struct PostgresStore {
    pool: PgPool,
    bells: Arc<Bells>,
    postbox: Arc<Postbox>,
    listener: AbortHandle,
}

impl PostgresStore {
    /// Connect as the application role: the login itself, or a member of `cyberos_plugin_host`.
    ///
    /// `max_connections`: the pool's size; one of them listens for changes.
    /// Errors, one sentence each: no schema or an old one (run the migration), a role that is superuser, bypasses
    /// row-level security or owns the tables, a server that does not answer.
    pub async fn connect(url: &SecretString, max_connections: u32) -> Result<PostgresStore> {
        let pool = connect::pool(url, max_connections).await?;
        let bells = Arc::new(Bells::default());
        let postbox = Arc::new(Postbox::default());
        let listener = listen::listen(pool.clone(), bells.clone(), postbox.clone()).await?;
        Ok(PostgresStore { pool, bells, postbox, listener })
    }

    /// The connections, all in the application role: for `doctor` and for tests of isolation.
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    async fn begin(&self, tenant: TenantId, durability: Durability) -> Result<Transaction<'static, Postgres>> {
        begin(&self.pool, tenant, durability).await
    }

    /// One statement for one tenant.
    async fn rows(&self, tenant: TenantId, query: Query<'_>) -> Result<Vec<PgRow>> {
        let mut transaction = self.begin(tenant, Durability::Synced).await?;
        let rows = query.fetch_all(&mut *transaction).await.map_err(unavailable)?;
        transaction.commit().await.map_err(unavailable)?;
        Ok(rows)
    }

    /// The same, for a statement without an answer; the count of rows it touched.
    async fn execute(&self, tenant: TenantId, query: Query<'_>) -> Result<u64> {
        let mut transaction = self.begin(tenant, Durability::Synced).await?;
        let done = query.execute(&mut *transaction).await.map_err(unavailable)?;
        transaction.commit().await.map_err(unavailable)?;
        Ok(done.rows_affected())
    }
}

/// A transaction that sees this tenant's rows only, opened in one round trip.
async fn begin(pool: &PgPool, tenant: TenantId, durability: Durability) -> Result<Transaction<'static, Postgres>> {
    // Written: the bridge may die, the server's memory holds it. Only the audit log's read-only rows ask for that.
    let commit = match durability {
        Durability::Written => "SET LOCAL synchronous_commit = off;",
        Durability::Synced => "",
    };
    // Safe to build: a UUID prints as hex digits and dashes.
    let sql = format!("BEGIN; {commit} SELECT set_config('auth.tenant_id', '{tenant}', true)");
    // In a task of its own, because sqlx 0.9 counts the transaction only when BEGIN was answered: a future dropped
    // before that would hand the connection back with the transaction open and the tenant set.
    let pool = pool.clone();
    let begun = tokio::spawn(async move { pool.begin_with(AssertSqlSafe(sql)).await });
    let begun = begun.await.unwrap_or_else(|ended| Err(sqlx::Error::Io(std::io::Error::other(ended))));
    begun.map_err(unavailable)
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.listener.abort();
        self.postbox.close();
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn ping(&self) -> Result<()> {
        let query = sqlx::query("UPDATE plugin_host.audit_heads SET seq = seq WHERE false");
        self.execute(TenantId::LOCAL, query).await.map(|_| ())
    }

    async fn insert_task(&self, task: &NewTask, most_open: u64) -> Result<Inserted> {
        tasks::insert(self, task, most_open).await
    }
    async fn task(&self, owner: &TaskOwner, id: &TaskId) -> Result<Option<TaskRow>> {
        tasks::read(self, owner, id).await
    }
    async fn list_tasks(
        &self,
        owner: &TaskOwner,
        before: Option<(Timestamp, TaskId)>,
        limit: u32,
    ) -> Result<Vec<TaskRow>> {
        tasks::list(self, owner, before, limit).await
    }
    async fn open_tasks(&self, tenant: TenantId) -> Result<u64> {
        tasks::count_open(self, tenant).await
    }
    async fn claim_task(
        &self,
        tenant: TenantId,
        id: &TaskId,
        worker: &WorkerId,
        lease: Duration,
    ) -> Result<Option<TaskRow>> {
        tasks::claim(self, tenant, id, worker, lease).await
    }
    async fn renew_task(
        &self,
        tenant: TenantId,
        id: &TaskId,
        worker: &WorkerId,
        lease: Duration,
        progress: Option<&Progress>,
    ) -> Result<Option<TaskStatus>> {
        tasks::renew(self, tenant, id, worker, lease, progress).await
    }
    async fn set_input_required(
        &self,
        tenant: TenantId,
        id: &TaskId,
        worker: &WorkerId,
        question: &TaskQuestion,
    ) -> Result<Option<TaskStatus>> {
        tasks::set_input_required(self, tenant, id, worker, question).await
    }
    async fn set_running(
        &self,
        tenant: TenantId,
        id: &TaskId,
        worker: &WorkerId,
        timeout_at: Timestamp,
        call: Option<&Value>,
    ) -> Result<Option<TaskStatus>> {
        tasks::set_running(self, tenant, id, worker, timeout_at, call).await
    }
    async fn answer_task(&self, owner: &TaskOwner, id: &TaskId, question_id: &str, answer: &Value) -> Result<bool> {
        tasks::answer(self, owner, id, question_id, answer).await
    }
    async fn finish_task(
        &self,
        tenant: TenantId,
        id: &TaskId,
        worker: Option<&WorkerId>,
        end: &TaskEnd,
    ) -> Result<bool> {
        tasks::finish(self, tenant, id, worker, end).await
    }
    async fn cancel_task(&self, owner: &TaskOwner, id: &TaskId) -> Result<CancelOutcome> {
        tasks::cancel(self, owner, id).await
    }
    async fn abandoned_tasks(&self, grace: Duration) -> Result<Vec<(TenantId, TaskId)>> {
        tasks::abandoned(self, grace).await
    }
    async fn prune_tasks(&self) -> Result<u64> {
        tasks::prune(self).await
    }
    async fn task_changed(&self, tenant: TenantId, id: &TaskId, seen: Timestamp, patience: Duration) {
        tasks::changed(self, tenant, id, seen, patience).await;
    }

    async fn append_audit(&self, rows: &[NewAuditRow], durability: Durability) -> Result<Vec<Appended>> {
        audit::append(self, rows, durability).await
    }
    async fn read_audit(&self, tenant: TenantId, filter: &AuditFilter) -> Result<Vec<AuditRow>> {
        audit::read(self, tenant, filter).await
    }
    async fn audit_head(&self, tenant: TenantId) -> Result<Option<AuditHead>> {
        audit::head(self, tenant).await
    }
    async fn audit_by_key(&self, tenant: TenantId, idempotency_key: &str) -> Result<Option<AuditRow>> {
        audit::by_key(self, tenant, idempotency_key).await
    }

    async fn claim_outbox(&self, limit: u32, hold: Duration) -> Result<Vec<OutboxRow>> {
        outbox::claim(self, limit, hold).await
    }
    async fn ack_outbox(&self, tenant: TenantId, seq: i64) -> Result<()> {
        outbox::ack(self, tenant, seq).await
    }
    async fn retry_outbox(&self, tenant: TenantId, seq: i64, next: Option<Timestamp>, error: &str) -> Result<()> {
        outbox::retry(self, tenant, seq, next, error).await
    }
    async fn outbox_depth(&self) -> Result<(u64, u64)> {
        outbox::depth(self).await
    }

    async fn session_state(&self, tenant: TenantId, session: Uuid) -> Result<Option<SessionState>> {
        sessions::read(self, tenant, session).await
    }
    async fn end_session(&self, tenant: TenantId, session: Uuid, expires_at: Timestamp) -> Result<()> {
        sessions::end(self, tenant, session, expires_at).await
    }
    async fn set_log_level(
        &self,
        tenant: TenantId,
        session: Uuid,
        level: LogLevel,
        expires_at: Timestamp,
    ) -> Result<()> {
        sessions::set_log_level(self, tenant, session, level, expires_at).await
    }
    async fn subscribe(&self, tenant: TenantId, session: Uuid, uri: &str, expires_at: Timestamp) -> Result<()> {
        sessions::subscribe(self, tenant, session, uri, expires_at).await
    }
    async fn unsubscribe(&self, tenant: TenantId, session: Uuid, uri: &str) -> Result<()> {
        sessions::unsubscribe(self, tenant, session, uri).await
    }

    fn replicas(&self) -> bool {
        true
    }
    async fn shared_clock_us(&self) -> Result<i64> {
        sqlx::query_scalar("SELECT plugin_host.now_us()").fetch_one(&self.pool).await.map_err(unavailable)
    }
    async fn send_letter(&self, letter: &Letter) -> Result<()> {
        letters::send(self, letter).await
    }
    fn letters(&self, me: &str) -> mpsc::Receiver<Post> {
        self.postbox.open(self.pool.clone(), me)
    }

    async fn use_once(&self, tenant: TenantId, key: &str, expires_at: Timestamp) -> Result<bool> {
        let query = sqlx::query(
            "INSERT INTO plugin_host.used_once (tenant_id, key, expires_at_us) VALUES ($1, $2, $3)
             ON CONFLICT (tenant_id, key) DO UPDATE SET expires_at_us = excluded.expires_at_us
             WHERE used_once.expires_at_us <= plugin_host.now_us()",
        );
        let query = query.bind(tenant.0).bind(key.to_owned()).bind(expires_at.as_microsecond());
        Ok(self.execute(tenant, query).await? == 1)
    }

    async fn close(&self) {
        self.listener.abort();
        self.postbox.close();
        self.pool.close().await;
    }
}
