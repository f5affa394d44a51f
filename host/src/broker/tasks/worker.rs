//! Running one stored task to its end, and finding the tasks of workers that died.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

use super::{StoredCall, Tasks};
use crate::auth::Caller;
use crate::broker::audit::Subject;
use crate::broker::pipeline::{Holding, Run};
use crate::broker::steps::Cleared;
use crate::error::{Error, Reason, Result};
use crate::model::{ClientPort, Laps, Progress, ProgressSink, TenantId, Trace};
use crate::runtime::PluginCall;
use crate::store::{TaskEnd, TaskId, TaskRow, TaskStatus, WorkerId};

/// How long new progress may wait before it is stored.
const LOOK: Duration = Duration::from_millis(250);

/// What a look for abandoned tasks found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    pub run_again: u32,
    pub failed: u32,
}

impl Tasks {
    /// Claim and run one task. Returns when it has ended, or at once when somebody else holds it.
    pub async fn run(self: &Arc<Self>, tenant: TenantId, id: &TaskId) {
        let worker = self.new_worker();
        match self.store.claim_task(tenant, id, &worker, self.settings.lease).await {
            Ok(Some(row)) => self.run_claimed(row, worker).await,
            Ok(None) => tracing::debug!(task = %id, "the task is held by another worker or has ended"),
            Err(error) => tracing::error!(task = %id, error = ?error, "the task could not be claimed"),
        }
    }

    async fn run_claimed(self: &Arc<Self>, row: TaskRow, worker: WorkerId) {
        let (tenant, id) = (row.owner.tenant, row.id.clone());
        let trace = stored_call(&row).trace(row.trace_id);
        self.observer.metrics.task_opened();
        let outcome = match self.prepare(&row) {
            Ok(prepared) => self.execute(&row, &worker, prepared).await,
            Err(error) => {
                if let Err(unwritten) = self.close_unfinished(&row, &error).await {
                    tracing::error!(task = %id, error = ?unwritten, "the closing row could not be written");
                }
                Err(error)
            }
        };
        let end = match &outcome {
            Ok(result) => TaskEnd::Result(result.clone()),
            Err(error) => TaskEnd::Error(error.public_view(&trace.id)),
        };
        self.observer.metrics.task_ended(match &outcome {
            Ok(result) if !result.is_error => "completed",
            Err(error) if error.reason() == Reason::Cancelled => "cancelled",
            _ => "failed",
        });
        match self.store.finish_task(tenant, &id, Some(&worker), &end).await {
            Ok(true) => tracing::info!(task = %id, trace_id = %trace.id, "task ended"),
            Ok(false) => tracing::debug!(task = %id, "the task had been ended, or was taken over, by somebody else"),
            // The lease runs out, and whoever finds the task then ends it.
            Err(error) => tracing::error!(task = %id, error = ?error, "the task's end could not be stored"),
        }
    }

    fn prepare(&self, row: &TaskRow) -> Result<Cleared> {
        let entry = self
            .catalog
            .find(row.tool.as_str())
            .ok_or_else(|| Error::new(Reason::ToolNotFound, format!("Tool {} is not here any more.", row.tool)))?;
        if row.attempts > 1 && !entry.tool.idempotent_task {
            return Err(worker_lost());
        }
        let stored = stored_call(row);
        let confirmation = stored.confirmation();
        let caller = Caller::of_task(&row.owner, stored.scopes);
        Ok(Cleared::of_task(caller, entry, row.arguments.clone(), confirmation))
    }

    async fn execute(
        self: &Arc<Self>,
        row: &TaskRow,
        worker: &WorkerId,
        cleared: Cleared,
    ) -> Result<crate::model::ToolResult> {
        let stored = stored_call(row);
        let trace = stored.trace(row.trace_id);
        let cancel = CancellationToken::new();
        let latest: Arc<Mutex<Option<Progress>>> = Arc::default();
        let keeper = tokio::spawn(self.clone().keep(row.clone(), worker.clone(), cancel.clone(), latest.clone()));
        let left = row.timeout_at.duration_since(jiff::Timestamp::now()).max(jiff::SignedDuration::ZERO);
        let subject = Subject::of(&cleared, trace, stored.request_id.clone(), Some(row.id.to_string()));
        let run = Run {
            call: PluginCall {
                caller: cleared.caller.clone(),
                bearer: None,
                trace,
                deadline: Instant::now() + left.unsigned_abs(),
                cancel: cancel.clone(),
                progress: ProgressSink::new(move |report| {
                    *latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
                }),
                client: ClientPort::none(),
                task_id: Some(row.id.to_string()),
                cleared_to_append: cleared.may_append(),
            },
            bracket: self.audit.reopen(subject, row.created_at),
            received: Instant::now(),
            request_id: stored.request_id,
            laps: Laps::none(),
        };
        let outcome = run.finish(&cleared, &self.observer, self.holding(row, worker)).await;
        keeper.abort();
        match outcome {
            // Cancelled by our own end, not by the caller: the row must say so.
            Err(error) if error.reason() == Reason::Cancelled && self.stop.is_cancelled() => Err(worker_lost()),
            outcome => outcome,
        }
    }

    /// Asked right before the closing row is written: a worker that was only slow may have lost its task meanwhile.
    async fn holding(&self, row: &TaskRow, worker: &WorkerId) -> Holding {
        match self.store.renew_task(row.owner.tenant, &row.id, worker, self.settings.lease, None).await {
            Ok(Some(TaskStatus::Running | TaskStatus::InputRequired)) => Holding::Ours,
            Ok(Some(TaskStatus::Cancelled)) => Holding::Cancelled,
            Ok(Some(TaskStatus::Completed | TaskStatus::Failed) | None) => Holding::Theirs,
            // The store is away, and will not take the closing row either: that error is the answer.
            Err(_) => Holding::Ours,
        }
    }

    /// Hold the lease, store progress, and stop the run when the row says so.
    async fn keep(
        self: Arc<Self>,
        row: TaskRow,
        worker: WorkerId,
        cancel: CancellationToken,
        latest: Arc<Mutex<Option<Progress>>>,
    ) {
        let (tenant, id) = (row.owner.tenant, &row.id);
        let (mut renewed, mut seen) = (Instant::now(), row.updated_at);
        loop {
            tokio::select! {
                () = self.store.task_changed(tenant, id, seen, LOOK) => {}
                () = self.stop.cancelled() => return cancel.cancel(),
            }
            let progress = latest.lock().unwrap_or_else(PoisonError::into_inner).take();
            if progress.is_some() || renewed.elapsed() >= self.settings.lease / 3 {
                match self.store.renew_task(tenant, id, &worker, self.settings.lease, progress.as_ref()).await {
                    Ok(Some(TaskStatus::Running | TaskStatus::InputRequired)) => renewed = Instant::now(),
                    Ok(_) => return cancel.cancel(),
                    // The store is away: go on until the lease is over, then the task is somebody else's.
                    Err(error) if renewed.elapsed() > self.settings.lease => {
                        tracing::error!(task = %id, error = ?error, "the lease could not be renewed; the task is given up");
                        return cancel.cancel();
                    }
                    Err(error) => tracing::warn!(task = %id, error = ?error, "the lease could not be renewed"),
                }
            }
            match self.store.task(&row.owner, id).await {
                Ok(Some(now)) if !now.status.has_ended() => seen = now.updated_at,
                Ok(_) => return cancel.cancel(),
                Err(_) => {}
            }
        }
    }

    /// Take over what dead workers left: run it again where that is safe, else fail it. Call at start and then regularly.
    pub async fn recover(self: &Arc<Self>) -> Result<Recovered> {
        let mut recovered = Recovered::default();
        for (tenant, id) in self.store.abandoned_tasks(self.settings.lease / 2).await? {
            let worker = self.new_worker();
            let Some(row) = self.store.claim_task(tenant, &id, &worker, self.settings.lease).await? else {
                continue;
            };
            let idempotent = self.catalog.find(row.tool.as_str()).is_some_and(|e| e.tool.idempotent_task);
            // A task that nobody ever began is simply late.
            if row.attempts <= 1 || idempotent {
                recovered.run_again += 1;
                let tasks = self.clone();
                self.running.spawn(async move { tasks.run_claimed(row, worker).await });
            } else {
                recovered.failed += 1;
                let trace = stored_call(&row).trace(row.trace_id);
                // The closing row first: should we die in between, the next one finds the task again.
                self.close_unfinished(&row, &worker_lost()).await?;
                self.fail(&row, Some(&worker), &trace, &worker_lost()).await?;
                self.observer.metrics.tasks_recovered(1, "failed");
            }
        }
        if recovered != Recovered::default() {
            tracing::warn!(
                run_again = recovered.run_again,
                failed = recovered.failed,
                "recovered tasks whose worker had ended"
            );
        }
        Ok(recovered)
    }

    /// Recover now and then, and delete what nobody will ask for any more, until the process stops.
    pub async fn housekeeping(self: Arc<Self>) {
        let mut every = tokio::time::interval(self.settings.lease);
        loop {
            tokio::select! {
                _ = every.tick() => {}
                () = self.stop.cancelled() => return,
            }
            if let Err(error) = self.recover().await {
                tracing::warn!(error = ?error, "abandoned tasks could not be looked for");
            }
            if let Err(error) = self.store.prune_tasks().await {
                tracing::warn!(error = ?error, "ended tasks could not be pruned");
            }
        }
    }

    pub(super) async fn fail(
        &self,
        row: &TaskRow,
        worker: Option<&WorkerId>,
        trace: &Trace,
        error: &Error,
    ) -> Result<bool> {
        let end = TaskEnd::Error(error.public_view(&trace.id));
        self.store.finish_task(row.owner.tenant, &row.id, worker, &end).await
    }

    /// A cancelled task's bracket is closed by the cancel, whether or not its worker still lives.
    pub(super) async fn close_cancelled(&self, row: &TaskRow) -> Result<()> {
        self.close_unfinished(row, &Error::new(Reason::Cancelled, "The task was cancelled.")).await
    }

    pub(super) async fn close_unfinished(&self, row: &TaskRow, error: &Error) -> Result<()> {
        let Ok(cleared) = self.prepare_any(row) else { return Ok(()) };
        let stored = stored_call(row);
        let subject =
            Subject::of(&cleared, stored.trace(row.trace_id), stored.request_id.clone(), Some(row.id.to_string()));
        self.audit.reopen(subject, row.created_at).close(&Err(error.clone()), 0).await
    }

    fn prepare_any(&self, row: &TaskRow) -> Result<Cleared> {
        self.prepare(&TaskRow { attempts: 1, ..row.clone() })
    }
}

fn stored_call(row: &TaskRow) -> StoredCall {
    serde_json::from_value(row.call.clone()).unwrap_or_else(|error| {
        tracing::error!(task = %row.id, %error, "a task row is damaged; it is treated as a caller without scopes");
        StoredCall {
            scopes: Some(Default::default()),
            request_id: None,
            span: String::new(),
            sampled: false,
            confirmation: String::new(),
        }
    })
}

fn worker_lost() -> Error {
    Error::new(Reason::WorkerLost, "The process that ran this task ended before the task did.")
}
