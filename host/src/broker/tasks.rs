//! Long-running calls: a stored row that any process can follow, stop and finish.
//!
//! The row is the truth. Whoever runs a task holds a lease on it and renews it; a task whose holder died is found by its
//! lease, and is run again where its tool says that this is safe, else failed with a reason. Source: design section 7.

mod asking;
mod following;
mod launch;
mod question;
mod recover;
mod stored;
mod worker;

use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::audit::{AuditLog, Subject};
use super::catalog::Catalog;
use super::observe::Observer;
use super::steps::Gated;
use crate::error::{Error, Reason, Result};
use crate::model::{TenantId, ToolCall, Trace};
use crate::store::{CancelOutcome, Inserted, NewTask, Store, TaskId, TaskOwner, TaskRow, WorkerId};

pub use launch::{Detach, TaskLauncher};
pub use question::asked_of;
pub use recover::Recovered;

use stored::StoredCall;

/// How tasks are bounded.
#[derive(Clone, Debug)]
pub struct TaskSettings {
    /// Unless the call says otherwise (`timeout_seconds`). 600 s.
    pub default_timeout: Duration,
    /// How long an ended task is kept at least, from its creation. 24 h.
    pub ttl: Duration,
    /// Most tasks of one tenant at once. 50.
    pub max_open: u64,
    /// How long a holder may be silent before its task counts as abandoned. 6 s.
    pub lease: Duration,
    /// How long a task waits for an answer of its owner. 300 s.
    pub ask_timeout: Duration,
}

impl Default for TaskSettings {
    fn default() -> Self {
        TaskSettings {
            default_timeout: Duration::from_secs(600),
            ttl: Duration::from_secs(24 * 3600),
            max_open: 50,
            lease: Duration::from_secs(6),
            ask_timeout: Duration::from_secs(300),
        }
    }
}

/// Longest time a task may ask for.
const MAX_TIMEOUT: Duration = Duration::from_secs(3600);
/// Longest time a client may have an ended task kept.
const MAX_TTL: Duration = Duration::from_secs(7 * 24 * 3600);
/// The argument by which a call sets its own timeout.
const TIMEOUT_ARGUMENT: &str = "timeout_seconds";

pub struct Tasks {
    store: Arc<dyn Store>,
    catalog: Arc<Catalog>,
    audit: AuditLog,
    observer: Arc<Observer>,
    settings: TaskSettings,
    launcher: TaskLauncher,
    /// Tells this process from others; each claim adds a number of its own.
    process: String,
    claims: AtomicU64,
    /// Fires when the process must end: tasks that run in it are stopped and failed.
    stop: CancellationToken,
    running: TaskTracker,
}

impl Tasks {
    pub fn new(
        store: Arc<dyn Store>,
        catalog: Arc<Catalog>,
        audit: AuditLog,
        observer: Arc<Observer>,
        settings: TaskSettings,
        launcher: TaskLauncher,
    ) -> Arc<Tasks> {
        let process = format!("{}-{}", std::process::id(), uuid::Uuid::new_v4());
        Arc::new(Tasks {
            store,
            catalog,
            audit,
            observer,
            settings,
            launcher,
            process,
            claims: AtomicU64::new(0),
            stop: CancellationToken::new(),
            running: TaskTracker::new(),
        })
    }

    /// Is there room for one more? A first look, so that a caller who is over the limit leaves one row like any other who
    /// is refused; [`Store::insert_task`] has the last word.
    pub(super) async fn admit(&self, tenant: TenantId) -> Result<()> {
        match self.store.open_tasks(tenant).await? >= self.settings.max_open {
            true => Err(self.too_many()),
            false => Ok(()),
        }
    }

    /// Record, store and launch, in this order: what is stored will be run, by whoever finds it, so its opening row must
    /// be there before. Returns as soon as the task is safe; it need not have begun.
    pub(super) async fn start(self: &Arc<Self>, gated: Gated, call: ToolCall) -> Result<TaskRow> {
        let trace = call.context.trace;
        for _ in 0..3 {
            let task = self.new_task(&gated, &call);
            let subject = Subject::of_task(&gated, trace, call.context.request_id.clone(), &task.id);
            let bracket = self.audit.open(subject).await?;
            let refusal = match self.store.insert_task(&task, self.settings.max_open).await {
                Ok(Inserted::Added) => {
                    // Whoever ends the task closes it.
                    bracket.leave_open();
                    return self.launched(&task, &trace).await;
                }
                Ok(Inserted::IdTaken) => no_id(),
                Ok(Inserted::TooMany) => self.too_many(),
                Err(error) => error,
            };
            bracket.close(&Err(refusal.clone()), 0).await?;
            if refusal.reason() != Reason::Internal {
                return Err(refusal);
            }
        }
        Err(no_id())
    }

    async fn launched(self: &Arc<Self>, task: &NewTask, trace: &Trace) -> Result<TaskRow> {
        let row = self.store.task(&task.owner, &task.id).await?;
        let row = row.ok_or_else(|| Error::new(Reason::StoreUnavailable, "The task could not be stored."))?;
        if let Err(error) = self.launch(&row) {
            if self.fail(&row, None, trace, &error).await? {
                self.close_unfinished(&row, &error).await?;
            }
            return Err(error);
        }
        Ok(row)
    }

    fn too_many(&self) -> Error {
        Error::new(Reason::Busy, format!("{} tasks are open, which is the most at once.", self.settings.max_open))
            .with("retry_after_ms", 5_000)
    }

    fn new_task(&self, gated: &Gated, call: &ToolCall) -> NewTask {
        let now = Timestamp::now();
        let ttl = call.task.and_then(|t| t.ttl).unwrap_or(self.settings.ttl).clamp(Duration::from_secs(1), MAX_TTL);
        let timeout = self.timeout(gated.arguments());
        NewTask {
            id: TaskId::random(),
            owner: gated.caller().task_owner(),
            tool: gated.entry().tool.name.clone(),
            arguments: gated.arguments().clone(),
            call: StoredCall::new(gated, &call.context).to_json(),
            trace_id: call.context.trace.id,
            created_at: now,
            timeout_at: now + SignedDuration::try_from(timeout).expect("at most an hour"),
            // A task is kept at least as long as it may run, or nobody could read its result.
            ttl: ttl.max(timeout),
        }
    }

    fn timeout(&self, arguments: &serde_json::Map<String, serde_json::Value>) -> Duration {
        // 2.0 is an integer to JSON Schema, too; what is out of range is brought into it, not ignored.
        let asked = arguments.get(TIMEOUT_ARGUMENT).and_then(serde_json::Value::as_f64);
        let asked = asked.map(|seconds| Duration::from_secs_f64(seconds.clamp(0.0, MAX_TIMEOUT.as_secs_f64())));
        asked.unwrap_or(self.settings.default_timeout).clamp(Duration::from_secs(1), MAX_TIMEOUT)
    }

    /// One holder: a process whose lease ran out may meet its own earlier claim, and must know it from the new one.
    fn new_worker(&self) -> WorkerId {
        WorkerId(format!("{}-{}", self.process, self.claims.fetch_add(1, Ordering::Relaxed)))
    }

    fn launch(self: &Arc<Self>, task: &TaskRow) -> Result<()> {
        match &self.launcher {
            TaskLauncher::InProcess => {
                let (tasks, tenant, id) = (self.clone(), task.owner.tenant, task.id.clone());
                self.running.spawn(async move { tasks.run(tenant, &id).await });
                Ok(())
            }
            TaskLauncher::Detached(detach) => detach.spawn(task),
        }
    }

    /// `None` for unknown, expired and foreign ids alike.
    pub async fn get(&self, owner: &TaskOwner, id: &str) -> Result<TaskRow> {
        let found = match TaskId::parse(id) {
            Some(id) => self.store.task(owner, &id).await?,
            None => None,
        };
        found.ok_or_else(not_found)
    }

    /// Newest first, with the cursor of the next page.
    pub async fn list(&self, owner: &TaskOwner, cursor: Option<&str>) -> Result<(Vec<TaskRow>, Option<String>)> {
        const PAGE: u32 = 50;
        let before = cursor.map(cursor::read).transpose()?;
        let mut rows = self.store.list_tasks(owner, before, PAGE + 1).await?;
        let more = rows.len() > PAGE as usize;
        rows.truncate(PAGE as usize);
        let next = rows.last().filter(|_| more).map(|last| cursor::write(last.created_at, &last.id));
        Ok((rows, next))
    }

    /// Cancelled before this returns; the worker, wherever it is, sees it and stops.
    pub async fn cancel(&self, owner: &TaskOwner, id: &str) -> Result<TaskRow> {
        let id = TaskId::parse(id).ok_or_else(not_found)?;
        match self.store.cancel_task(owner, &id).await? {
            CancelOutcome::Cancelled(row) => {
                self.close_cancelled(&row).await?;
                Ok(row)
            }
            CancelOutcome::AlreadyEnded(row) => Err(Error::new(
                Reason::TaskEnded,
                format!("The task has already ended: it is {}.", row.status.as_str()),
            )),
            CancelOutcome::NotFound => Err(not_found()),
        }
    }

    /// Stop what runs in this process: its tasks are failed, so that nobody waits for them.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// After [`Tasks::stop`]: wait until the rows of what ran here say how it ended, for at most `budget`.
    pub async fn settle(&self, budget: Duration) {
        self.running.close();
        let _ = tokio::time::timeout(budget, self.running.wait()).await;
    }

    pub fn settings(&self) -> &TaskSettings {
        &self.settings
    }
}

fn no_id() -> Error {
    Error::new(Reason::Internal, "No task id could be made.").detail("ids in a row were taken")
}

fn not_found() -> Error {
    Error::new(Reason::TaskNotFound, "Task not found.")
}

/// Opaque to clients: where the next page starts.
mod cursor {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    pub fn write(created_at: Timestamp, id: &TaskId) -> String {
        URL_SAFE_NO_PAD.encode(format!("{}|{id}", created_at.as_microsecond()))
    }

    pub fn read(cursor: &str) -> Result<(Timestamp, TaskId)> {
        let parsed = || {
            let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
            let (at, id) = text.split_once('|')?;
            Some((Timestamp::from_microsecond(at.parse().ok()?).ok()?, TaskId::parse(id)?))
        };
        parsed().ok_or_else(|| Error::new(Reason::BadCursor, "The cursor is not one that this server gave."))
    }
}
