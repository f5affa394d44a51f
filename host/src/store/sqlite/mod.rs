//! The embedded store: one SQLite file in the user's state directory, shared by every bridge of that user.
//!
//! WAL mode; one connection writes (and another the common audit rows, in turns with it), a few read. Every write is a single statement or a `BEGIN IMMEDIATE` transaction,
//! so processes that share the file take turns and none acts on what another has changed meanwhile. All of them run on
//! one machine, so its clock is the clock of leases and times to live.

mod audit;
mod open;
mod outbox;
mod quill;
mod sessions;
mod tasks;
mod writer;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;
use sqlx::sqlite::{SqlitePool, SqliteRow};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use uuid::Uuid;

use super::letters;
use super::rows::unavailable;
use super::wake::Bells;
use super::{
    Appended, AuditFilter, AuditHead, AuditRow, CancelOutcome, Durability, Inserted, Letter, NewAuditRow, NewTask,
    OutboxRow, Post, SessionState, Store, TaskEnd, TaskId, TaskOwner, TaskQuestion, TaskRow, TaskStatus, WorkerId,
};
use crate::error::Result;
use crate::model::{LogLevel, Progress, TenantId};
use writer::Writer;

/// How long a waiter sleeps between looks for what another process changed. Changes of this process ring at once.
const POLL: Duration = Duration::from_millis(30);

pub struct SqliteStore {
    writer: Arc<Writer>,
    readers: SqlitePool,
    bells: Bells,
    checkpoints: AbortHandle,
}

impl SqliteStore {
    /// Open the file, or create it (0600, in a directory that is created 0700), and bring its schema up to date.
    ///
    /// Errors: one sentence each for a damaged file, a file of another program, a schema newer than this bridge, and a
    /// file that cannot be opened; the path is in the detail.
    pub async fn open(path: &Path) -> Result<SqliteStore> {
        let (connection, quill, readers) = open::open(path).await?;
        let writer = Arc::new(Writer::new(connection, quill, path));
        let checkpoints = writer::checkpoint_in_background(Arc::downgrade(&writer));
        Ok(SqliteStore { writer, readers, bells: Bells::default(), checkpoints })
    }

    async fn changed(&self, rows: Result<Vec<SqliteRow>>, id: &TaskId) -> Result<Vec<SqliteRow>> {
        if rows.as_ref().is_ok_and(|rows| !rows.is_empty()) {
            self.bells.ring(id.as_str());
        }
        rows
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.checkpoints.abort();
    }
}

fn now_us() -> i64 {
    Timestamp::now().as_microsecond()
}

#[async_trait]
impl Store for SqliteStore {
    async fn ping(&self) -> Result<()> {
        self.writer.execute(sqlx::query("UPDATE audit_heads SET seq = seq WHERE 0")).await.map(|_| ())
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
        false
    }
    async fn shared_clock_us(&self) -> Result<i64> {
        Ok(Timestamp::now().as_microsecond())
    }
    async fn send_letter(&self, letter: &Letter) -> Result<()> {
        letters::check(letter).map(|_| ())
    }
    fn letters(&self, _me: &str) -> mpsc::Receiver<Post> {
        mpsc::channel(1).1
    }

    async fn use_once(&self, tenant: TenantId, key: &str, expires_at: Timestamp) -> Result<bool> {
        let query = sqlx::query(
            "INSERT INTO used_once (tenant_id, key, expires_at_us) VALUES (?1, ?2, ?3)
             ON CONFLICT (tenant_id, key) DO UPDATE SET expires_at_us = excluded.expires_at_us
             WHERE used_once.expires_at_us <= ?4",
        );
        let query = query.bind(tenant.to_string()).bind(key.to_owned()).bind(expires_at.as_microsecond());
        Ok(self.writer.execute(query.bind(now_us())).await? == 1)
    }

    async fn close(&self) {
        self.checkpoints.abort();
        self.readers.close().await;
        self.writer.close().await;
    }
}

/// A read on any of the reading connections.
async fn read_all(
    store: &SqliteStore,
    query: sqlx::query::Query<'_, sqlx::Sqlite, sqlx::sqlite::SqliteArguments>,
) -> Result<Vec<SqliteRow>> {
    query.fetch_all(&store.readers).await.map_err(unavailable)
}
