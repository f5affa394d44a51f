//! What the bridge keeps: tasks, the audit log, its outbox, and what may be used only once.
//!
//! One interface, two implementations: SQLite in the user's state directory, Postgres for many tenants and replicas.
//! Every method that takes a [`TenantId`] sees that tenant's rows only; in Postgres the database itself enforces it.
//! Nothing here decides: order, retries and policies are the broker's.

mod audit;
mod chain;
pub mod postgres;
mod rows;
mod sqlite;
mod tasks;
pub mod verify;
mod wake;

pub use audit::{
    Appended, AuditFilter, AuditHead, AuditPosition, AuditRow, Body, Durability, NewAuditRow, OutboxRow, anchor,
};
pub use postgres::PostgresStore;
pub use sqlite::SqliteStore;
pub use tasks::{CancelOutcome, Inserted, NewTask, TaskEnd, TaskId, TaskOwner, TaskRow, TaskStatus, WorkerId};

use async_trait::async_trait;
use jiff::Timestamp;
use std::time::Duration;

use crate::error::Result;
use crate::model::{Progress, TenantId};

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
    /// The task waits for its caller (`InputRequired`), or goes on (`Running`). Answers like [`Store::renew_task`].
    async fn set_input_required(
        &self,
        tenant: TenantId,
        id: &TaskId,
        worker: &WorkerId,
        required: bool,
    ) -> Result<Option<TaskStatus>>;
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
    /// Delete ended tasks whose time to live is over, and forget what was used once and expired; the count of tasks.
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

    // Used once.

    /// True the first time this key is seen for the tenant, false ever after (until `expires_at`, when it is forgotten).
    async fn use_once(&self, tenant: TenantId, key: &str, expires_at: Timestamp) -> Result<bool>;

    /// Finish what is under way and close. Later calls fail.
    async fn close(&self);
}
