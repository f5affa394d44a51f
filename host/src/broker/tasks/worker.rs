//! Running one stored task to its end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

use super::asking::RowClient;
use super::question::Question;
use super::{StoredCall, Tasks};
use crate::auth::Caller;
use crate::broker::audit::Subject;
use crate::broker::observe::NotBegun;
use crate::broker::pipeline::{Holding, Run};
use crate::broker::steps::{Cleared, Gated, Pending};
use crate::error::{Error, Reason, Result};
use crate::model::{ClientPort, Elicitation, Laps, Progress, ProgressSink, TenantId, ToolResult, Trace};
use crate::runtime::PluginCall;
use crate::store::{TaskEnd, TaskId, TaskRow, TaskStatus, WorkerId};

/// How long new progress may wait before it is stored.
const LOOK: Duration = Duration::from_millis(250);

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

    pub(super) async fn run_claimed(self: &Arc<Self>, row: TaskRow, worker: WorkerId) {
        let (tenant, id) = (row.owner.tenant, row.id.clone());
        let trace = StoredCall::of(&row).trace(row.trace_id);
        self.observer.metrics.task_opened();
        let prepared = match self.may_begin(&row) {
            true => self.prepare(&row),
            false => Err(worker_lost()),
        };
        let outcome = match prepared {
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

    fn prepare(&self, row: &TaskRow) -> Result<Gated> {
        let entry = self
            .catalog
            .find(row.tool.as_str())
            .ok_or_else(|| Error::new(Reason::ToolNotFound, format!("Tool {} is not here any more.", row.tool)))?;
        let stored = StoredCall::of(row);
        let caller = Caller::of_task(&row.owner, stored.scopes);
        Ok(Gated::of_task(caller, entry, row.arguments.clone(), &stored.confirmation))
    }

    /// A task that nobody ever began is simply late, and one that had not been confirmed has done nothing yet; others are
    /// run again only where their tool says that this is safe.
    pub(super) fn may_begin(&self, row: &TaskRow) -> bool {
        let idempotent = || self.catalog.find(row.tool.as_str()).is_some_and(|entry| entry.tool.idempotent_task);
        row.attempts <= 1 || StoredCall::of(row).confirmation == Pending::WORD || idempotent()
    }

    async fn execute(self: &Arc<Self>, row: &TaskRow, worker: &WorkerId, gated: Gated) -> Result<ToolResult> {
        let cancel = CancellationToken::new();
        let latest: Arc<Mutex<Option<Progress>>> = Arc::default();
        let keeper = tokio::spawn(self.clone().keep(row.clone(), worker.clone(), cancel.clone(), latest.clone()));
        let (store, features) = (self.store.clone(), StoredCall::of(row).features);
        let client =
            RowClient::new(store, row.clone(), worker.clone(), features, self.settings.ask_timeout, cancel.clone());
        let client = Arc::new(client);
        let cleared = match gated {
            Gated::Cleared(cleared) => Ok(cleared),
            Gated::Pending(pending) => self.confirmed(row, worker, pending, &client).await,
        };
        let outcome = match cleared {
            Ok(cleared) => self.run_cleared(row, worker, cleared, client, cancel, latest).await,
            Err(refusal) => Err(refusal),
        };
        keeper.abort();
        match outcome {
            // Cancelled by our own end, not by the caller: the row must say so.
            Err(error) if error.reason() == Reason::Cancelled && self.stop.is_cancelled() => Err(worker_lost()),
            outcome => outcome,
        }
    }

    /// Ask the owner whether it may run. The row says that it may before it does; a refusal closes the call's bracket.
    async fn confirmed(
        &self,
        row: &TaskRow,
        worker: &WorkerId,
        pending: Pending,
        client: &RowClient,
    ) -> Result<Cleared> {
        let stored = StoredCall::of(row);
        let (trace, request_id) = (stored.trace(row.trace_id), stored.request_id.clone());
        let subject = Subject::of_pending(&pending, trace, request_id.clone(), &row.id);
        let (caller, entry, received) = (pending.caller.clone(), pending.entry.clone(), Instant::now());
        let asked = match pending.form() {
            Ok(form) => {
                let elicitation = Elicitation::Form(form);
                let question = Question::from(&elicitation);
                let agreed = stored.agreed();
                client
                    .ask_and(question, |answer| {
                        let answer = answer.and_then(|answer| answer.into_elicitation(&elicitation));
                        Ok((pending.answered(answer)?, Some(agreed.to_json())))
                    })
                    .await
            }
            Err(error) => Err(error),
        };
        let refusal = match asked {
            Ok(cleared) => return Ok(cleared),
            Err(error) if error.reason() == Reason::Cancelled && self.stop.is_cancelled() => worker_lost(),
            Err(refusal) => refusal,
        };
        let refusal = match self.holding(row, worker).await {
            Holding::Ours => refusal,
            Holding::Cancelled => Error::new(Reason::Cancelled, "The task was cancelled."),
            // They ask again, and close it.
            Holding::Theirs => return Err(refusal),
        };
        self.audit.reopen(subject, row.created_at).close(&Err(refusal.clone()), 0).await?;
        self.observer.not_begun(NotBegun {
            entry: &entry,
            caller: &caller,
            trace: &trace,
            received,
            request_id: request_id.as_deref(),
            task_id: row.id.as_str(),
            refusal: &refusal,
        });
        Err(refusal)
    }

    async fn run_cleared(
        &self,
        row: &TaskRow,
        worker: &WorkerId,
        cleared: Cleared,
        client: Arc<RowClient>,
        cancel: CancellationToken,
        latest: Arc<Mutex<Option<Progress>>>,
    ) -> Result<ToolResult> {
        let stored = StoredCall::of(row);
        let trace = stored.trace(row.trace_id);
        let left = client.timeout_at().await.duration_since(jiff::Timestamp::now()).max(jiff::SignedDuration::ZERO);
        let subject = Subject::of(&cleared, trace, stored.request_id.clone(), Some(row.id.to_string()));
        let run = Run {
            call: PluginCall {
                caller: cleared.caller.clone(),
                bearer: None,
                trace,
                deadline: Instant::now() + left.unsigned_abs(),
                cancel,
                progress: ProgressSink::new(move |report| {
                    *latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
                }),
                client: ClientPort::new(client),
                task_id: Some(row.id.to_string()),
                cleared_to_append: cleared.may_append(),
            },
            bracket: self.audit.reopen(subject, row.created_at),
            received: Instant::now(),
            request_id: stored.request_id,
            laps: Laps::none(),
        };
        run.finish(&cleared, &self.observer, self.holding(row, worker)).await
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
        let Ok(gated) = self.prepare(row) else { return Ok(()) };
        let stored = StoredCall::of(row);
        let subject = Subject::of_task(&gated, stored.trace(row.trace_id), stored.request_id.clone(), &row.id);
        self.audit.reopen(subject, row.created_at).close(&Err(error.clone()), 0).await
    }
}

pub(super) fn worker_lost() -> Error {
    Error::new(Reason::WorkerLost, "The process that ran this task ended before the task did.")
}
