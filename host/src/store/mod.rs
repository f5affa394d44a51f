//! What the bridge keeps: tasks, the audit log and its outbox, what sessions changed, and what may be used only once; and
//! how the replicas that share it reach one another.
//!
//! One interface, two implementations: SQLite in the user's state directory, Postgres for many tenants and replicas.
//! Every method that takes a [`TenantId`] sees that tenant's rows only; in Postgres the database itself enforces it.
//! Nothing here decides: order, retries and policies are the broker's.

mod audit;
mod chain;
mod letters;
pub mod postgres;
mod rows;
mod sessions;
mod sqlite;
mod tasks;
pub mod verify;
mod wake;

pub use audit::{
    Appended, AuditFilter, AuditHead, AuditPosition, AuditRow, Body, Durability, NewAuditRow, OutboxRow, anchor,
};
pub use letters::{Letter, MAX_LETTER_BYTES, Post};
pub use postgres::PostgresStore;
pub use sessions::{MAX_SUBSCRIPTIONS, MAX_URI_BYTES, SessionState};
pub use sqlite::SqliteStore;
pub use tasks::{
    CancelOutcome, Inserted, NewTask, TaskEnd, TaskId, TaskOwner, TaskQuestion, TaskRow, TaskStatus, WorkerId,
};

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;
use std::time::Duration;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::error::Result;
use crate::model::{LogLevel, Progress, TenantId};

/// Every failure of the database is [`crate::error::Reason::StoreUnavailable`] with the driver's words in the log detail
/// only. A call whose future is dropped either happened as a whole or not at all.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Can the store be reached and written to?
    async fn ping(&self) -> Result<()>;

    // Tasks.

    /// `most_open`: how many open tasks the tenant may have with this one. Counted and inserted as one step, so that no
    /// number of callers at once, in whichever processes, gets past it.
    async fn insert_task(&self, task: &NewTask, most_open: u64) -> Result<Inserted>;
    /// `None` for unknown, expired and foreign ids alike.
    async fn task(&self, owner: &TaskOwner, id: &TaskId) -> Result<Option<TaskRow>>;
    /// Newest first. `before` is the `(created_at, id)` of the last row of the page before.
    async fn list_tasks(
        &self,
        owner: &TaskOwner,
        before: Option<(Timestamp, TaskId)>,
        limit: u32,
    ) -> Result<Vec<TaskRow>>;
    /// How many of the tenant's tasks have not ended.
    async fn open_tasks(&self, tenant: TenantId) -> Result<u64>;
    /// Take an open task that nobody holds (no lease, or one that ran out); it is then `Running`. `None` when somebody
    /// else has it, or it ended.
    async fn claim_task(
        &self,
        tenant: TenantId,
        id: &TaskId,
        worker: &WorkerId,
        lease: Duration,
    ) -> Result<Option<TaskRow>>;
    /// Keep the lease and store progress. The answer is the row's status: a worker that reads anything but
    /// `Running` or `InputRequired`, or `None` (the lease went to another), stops.
    async fn renew_task(
        &self,
        tenant: TenantId,
        id: &TaskId,
        worker: &WorkerId,
        lease: Duration,
        progress: Option<&Progress>,
    ) -> Result<Option<TaskStatus>>;
    /// The task asks its owner and waits (`InputRequired`); an earlier question and its answer are gone. Answers like
    /// [`Store::renew_task`].
    async fn set_input_required(
        &self,
        tenant: TenantId,
        id: &TaskId,
        worker: &WorkerId,
        question: &TaskQuestion,
    ) -> Result<Option<TaskStatus>>;
    /// The task goes on (`Running`), with this new end of its time; question and answer are forgotten, because an answer
    /// may hold personal data. The row is kept at least until `timeout_at`. `call`: what the row keeps of the call from
    /// now on, when the answer changed it. Answers like [`Store::renew_task`].
    async fn set_running(
        &self,
        tenant: TenantId,
        id: &TaskId,
        worker: &WorkerId,
        timeout_at: Timestamp,
        call: Option<&Value>,
    ) -> Result<Option<TaskStatus>>;
    /// Give the owner's answer to the task and wake its worker. False when this question is not open any more, was
    /// answered already, or is not the owner's: the first answer wins.
    async fn answer_task(&self, owner: &TaskOwner, id: &TaskId, question_id: &str, answer: &Value) -> Result<bool>;
    /// Write the end once. False when the row had already ended, or when `worker` is not the one that holds it; the row
    /// is then unchanged. `None` is for whoever knows that nobody runs it.
    async fn finish_task(
        &self,
        tenant: TenantId,
        id: &TaskId,
        worker: Option<&WorkerId>,
        end: &TaskEnd,
    ) -> Result<bool>;
    async fn cancel_task(&self, owner: &TaskOwner, id: &TaskId) -> Result<CancelOutcome>;
    /// Open tasks of all tenants whose lease ran out at least `grace` ago (or that were never claimed within it).
    async fn abandoned_tasks(&self, grace: Duration) -> Result<Vec<(TenantId, TaskId)>>;
    /// Delete ended tasks whose time to live is over, and forget what else has expired: keys that were used once, state
    /// of sessions, letters; the count of tasks.
    async fn prune_tasks(&self) -> Result<u64>;
    /// Return when the task is no longer as it was at `seen` (its `updated_at` when the caller read it) or is gone, at
    /// once if that is so already, and after `patience` at the latest. Spurious returns are fine.
    async fn task_changed(&self, tenant: TenantId, id: &TaskId, seen: Timestamp, patience: Duration);

    // Audit.

    /// Append in order, link each row to its tenant's chain, and put rows marked `ship` into the outbox, in one
    /// transaction. One answer per row, in order. With [`Durability::Synced`] it returns after the disk has it.
    ///
    /// Made for batches: sixty-four rows cost little more than one.
    async fn append_audit(&self, rows: &[NewAuditRow], durability: Durability) -> Result<Vec<Appended>>;
    /// Rows of one tenant in order of `seq`, at most `filter.limit`.
    async fn read_audit(&self, tenant: TenantId, filter: &AuditFilter) -> Result<Vec<AuditRow>>;
    /// The chain's end, for checkpoints. `None` while the tenant has no row.
    async fn audit_head(&self, tenant: TenantId) -> Result<Option<AuditHead>>;
    /// A row appended earlier under this idempotency key, for `POST /v1/audit`.
    async fn audit_by_key(&self, tenant: TenantId, idempotency_key: &str) -> Result<Option<AuditRow>>;

    // Outbox: rows still to be shipped to the memory service.

    /// Claim up to `limit` due rows, hidden from others for `hold`: tenants take turns, and within a tenant a row is
    /// never claimed while an earlier one is held or waits for its next try.
    async fn claim_outbox(&self, limit: u32, hold: Duration) -> Result<Vec<OutboxRow>>;
    async fn ack_outbox(&self, tenant: TenantId, seq: i64) -> Result<()>;
    /// Try again at `next`, or never when `next` is `None` (the row is then kept as failed).
    async fn retry_outbox(&self, tenant: TenantId, seq: i64, next: Option<Timestamp>, error: &str) -> Result<()>;
    /// Rows waiting and rows given up, over all tenants, for metrics and `doctor`.
    async fn outbox_depth(&self) -> Result<(u64, u64)>;

    // Sessions: only what differs from a fresh one. `expires_at` is the session's own end, and the state's, too.

    /// `None` for a session that changed nothing, or that expired.
    async fn session_state(&self, tenant: TenantId, session: Uuid) -> Result<Option<SessionState>>;
    /// Its client deleted it: this stays, whatever comes later; its subscriptions are forgotten.
    async fn end_session(&self, tenant: TenantId, session: Uuid, expires_at: Timestamp) -> Result<()>;
    async fn set_log_level(
        &self,
        tenant: TenantId,
        session: Uuid,
        level: LogLevel,
        expires_at: Timestamp,
    ) -> Result<()>;
    /// Again is fine. Refuses with `invalid_params` a URI over [`MAX_URI_BYTES`] or with NUL in it, and with `busy` the
    /// one after [`MAX_SUBSCRIPTIONS`], however many replicas are asked at once.
    async fn subscribe(&self, tenant: TenantId, session: Uuid, uri: &str, expires_at: Timestamp) -> Result<()>;
    /// What was not subscribed to is fine.
    async fn unsubscribe(&self, tenant: TenantId, session: Uuid, uri: &str) -> Result<()>;

    // Letters between the replicas that share this store.

    /// Is there anybody to write to? False on SQLite: its processes belong to one user, and each serves its own clients.
    fn replicas(&self) -> bool;
    /// Microseconds since 1970 by the one clock that all replicas share. What one reads after another one's reading has
    /// become known to it is later.
    async fn shared_clock_us(&self) -> Result<i64>;
    /// Letters from one sender arrive in the order of its calls. Returns when the letter is sent; nobody says whether
    /// its addressee still lives. Without replicas it does nothing.
    async fn send_letter(&self, letter: &Letter) -> Result<()>;
    /// Receive as the replica `me` from now on: what is addressed to it, and what others send to everybody. One
    /// subscriber a store; another call takes the place of the one before. Without replicas the channel is closed.
    fn letters(&self, me: &str) -> mpsc::Receiver<Post>;

    // Used once.

    /// True the first time this key is seen for the tenant, false ever after (until `expires_at`, when it is forgotten).
    async fn use_once(&self, tenant: TenantId, key: &str, expires_at: Timestamp) -> Result<bool>;

    /// Finish what is under way and close. Later calls fail.
    async fn close(&self);
}
