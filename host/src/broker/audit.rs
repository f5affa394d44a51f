//! The audit bracket: a row before a call runs and one when it ends, in the tenant's hash chain.
//!
//! Rows of calls that run at the same time are committed together by one writer. A short call that only reads hands over
//! both of its rows at its end, and they are committed before it is answered; one that goes on for longer than a moment
//! hands its opening row over then. A call that writes has its opening row in the store before it runs, synced to disk.
//!
//! When the store is down, rows of read-only calls are spooled to a file and appended when it is back; everything else
//! is refused. Source: design section 8.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

use super::steps::{Cleared, Confirmation, Gated, Pending};
use crate::auth::Caller;
use crate::error::{Error, Reason, Result};
use crate::model::{TenantId, ToolName, ToolResult, Trace};
use crate::store::{Body, Durability, NewAuditRow, Store, TaskId};
use crate::telemetry::{Metrics, Outcome};

mod spool;
pub use spool::Spool;

pub const STARTED: &str = "mcp.tool_call_started";
pub const COMPLETED: &str = "mcp.tool_call_completed";
pub const REFUSED: &str = "mcp.tool_call_refused";
pub const INVOKED: &str = "plugin.invoked";
/// The actor of rows about the bridge itself.
const OPERATOR: &str = "operator";

/// How long the opening row of a call that only reads may wait for the call's end.
const MOMENT: Duration = Duration::from_millis(2);
/// Most rows in one transaction.
const BATCH: usize = 256;
/// Rows waiting to be written; beyond that callers wait, which is what slows them down to what the store can take.
const QUEUE: usize = 1024;

/// The way in for everybody who writes audit rows in this process.
#[derive(Clone)]
pub struct AuditLog {
    /// `None`: calls leave no rows. For measurements only.
    queue: Option<mpsc::Sender<Job>>,
    /// Is there a memory service to ship public rows to?
    ships: bool,
    plugin_version: &'static str,
}

struct Job {
    rows: Vec<NewAuditRow>,
    durability: Durability,
    /// May go to the spool when the store is down.
    spoolable: bool,
    done: oneshot::Sender<Result<()>>,
}

/// What every row of a call says.
#[derive(Clone)]
pub struct Subject {
    tenant: TenantId,
    actor: String,
    tool: String,
    plugin: String,
    arguments_sha256: String,
    request_id: Option<String>,
    task_id: Option<String>,
    trace: Trace,
    confirmation: &'static str,
    /// Nothing changes: rows need not be synced and may be spooled.
    reads_only: bool,
    /// Also write the public `plugin.invoked` row at the end.
    announces: bool,
}

/// What the closing row says more than the opening one.
struct End<'a> {
    outcome: &'a str,
    reason: Option<&'a str>,
    duration_ms: f64,
    fuel: u64,
    result_sha256: Option<String>,
}

/// In byte order, as [`Body::in_order`] asks.
#[derive(Serialize)]
struct CallBody<'a> {
    arguments_sha256: &'a str,
    confirmation: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fuel: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'a str>,
    plugin_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_sha256: Option<String>,
    subject_id_hash16: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<&'a str>,
    tool_name: &'a str,
}

impl Subject {
    pub fn of(cleared: &Cleared, trace: Trace, request_id: Option<String>, task_id: Option<String>) -> Self {
        let tool = &cleared.entry.tool;
        let long = task_id.is_some();
        Subject {
            tenant: cleared.caller.tenant(),
            actor: cleared.caller.subject_hash16(),
            tool: tool.name.to_string(),
            plugin: cleared.entry.plugin.id().to_string(),
            arguments_sha256: cleared.arguments_sha256.clone(),
            request_id,
            task_id,
            trace,
            confirmation: cleared.confirmation.as_str(),
            reads_only: tool.annotations.read_only,
            announces: long || cleared.confirmation != Confirmation::NotNeeded,
        }
    }

    /// A task's call, which may still wait for a person's word: until it has that, no plugin is invoked, and no row says so.
    pub fn of_task(gated: &Gated, trace: Trace, request_id: Option<String>, task_id: &TaskId) -> Self {
        match gated {
            Gated::Cleared(cleared) => Subject::of(cleared, trace, request_id, Some(task_id.to_string())),
            Gated::Pending(pending) => Subject::of_pending(pending, trace, request_id, task_id),
        }
    }

    pub fn of_pending(pending: &Pending, trace: Trace, request_id: Option<String>, task_id: &TaskId) -> Self {
        let tool = &pending.entry.tool;
        Subject {
            tenant: pending.caller.tenant(),
            actor: pending.caller.subject_hash16(),
            tool: tool.name.to_string(),
            plugin: pending.entry.plugin.id().to_string(),
            arguments_sha256: pending.arguments_sha256.clone(),
            request_id,
            task_id: Some(task_id.to_string()),
            trace,
            confirmation: Pending::WORD,
            reads_only: tool.annotations.read_only,
            announces: false,
        }
    }

    fn body(&self, end: Option<End<'_>>) -> Body {
        Body::in_order(&CallBody {
            arguments_sha256: &self.arguments_sha256,
            confirmation: self.confirmation,
            duration_ms: end.as_ref().map(|end| end.duration_ms),
            fuel: end.as_ref().map(|end| end.fuel),
            outcome: end.as_ref().map(|end| end.outcome),
            plugin_id: &self.plugin,
            reason: end.as_ref().and_then(|end| end.reason),
            request_id: self.request_id.as_deref(),
            result_sha256: end.and_then(|end| end.result_sha256),
            subject_id_hash16: &self.actor,
            task_id: self.task_id.as_deref(),
            tool_name: &self.tool,
        })
    }

    fn row(&self, kind: &str, body: Body) -> NewAuditRow {
        NewAuditRow {
            tenant: self.tenant,
            kind: kind.into(),
            actor: self.actor.clone(),
            body,
            ts: Timestamp::now(),
            trace_id: self.trace.id.to_string(),
            // A task's end is written by whoever finds it ended; two finders must not write two rows.
            idempotency_key: self.task_id.as_ref().map(|id| format!("{kind}:{id}")),
            // Set when the row is handed over: the log knows whether there is anybody to ship to.
            ship: false,
        }
    }
}

/// An open bracket. Dropping it without closing is a bug that the log shows.
#[must_use]
pub struct Bracket {
    log: AuditLog,
    subject: Subject,
    opened: Instant,
    /// The opening row, until it is handed over.
    held: Option<NewAuditRow>,
    /// What became of it then.
    opening: Option<oneshot::Receiver<Result<()>>>,
}

impl AuditLog {
    /// `shipped`: told when rows for the memory service were put into the outbox; `None` when there is no such service.
    pub fn start(
        store: Arc<dyn Store>,
        spool: Option<PathBuf>,
        metrics: Arc<Metrics>,
        shipped: Option<Arc<dyn Fn() + Send + Sync>>,
    ) -> AuditLog {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let ships = shipped.is_some();
        let writer = Writer { store, spool: Spool::open(spool), metrics, shipped };
        tokio::spawn(writer.run(jobs));
        AuditLog { queue: Some(queue), ships, plugin_version: env!("CARGO_PKG_VERSION") }
    }

    /// Record nothing.
    pub fn off() -> AuditLog {
        tracing::warn!("the audit log is off: calls leave no trace");
        AuditLog { queue: None, ships: false, plugin_version: env!("CARGO_PKG_VERSION") }
    }

    /// Wait until everything that was handed over is written, for at most `budget`.
    pub async fn settle(&self, budget: Duration) {
        let settled = async {
            if let Ok(answer) = self.send(vec![], Durability::Written, false).await {
                let _ = answer.await;
            }
        };
        let _ = tokio::time::timeout(budget, settled).await;
    }

    /// No row, no run: for a call that writes, an error here means that it must not run.
    pub async fn open(&self, subject: Subject) -> Result<Bracket> {
        let held = self.queue.is_some().then(|| subject.row(STARTED, subject.body(None)));
        let mut bracket = Bracket { log: self.clone(), subject, opened: Instant::now(), held, opening: None };
        // A task's bracket may be closed by another process.
        if !bracket.subject.reads_only || bracket.subject.task_id.is_some() {
            bracket.hand_over().await?;
            bracket.opening_is_written().await?;
        }
        Ok(bracket)
    }

    /// The bracket of a call that was opened elsewhere: a task that another process may have started. It has lasted since
    /// then, however short a time whoever closes it knows of it.
    pub fn reopen(&self, subject: Subject, opened: Timestamp) -> Bracket {
        let lasted = Timestamp::now().duration_since(opened).max(jiff::SignedDuration::ZERO).unsigned_abs();
        let opened = Instant::now().checked_sub(lasted).unwrap_or_else(Instant::now);
        Bracket { log: self.clone(), subject, opened, held: None, opening: None }
    }

    /// One row for a call that did not get through the gates. A refusal that cannot be recorded is still a refusal.
    pub async fn refused(&self, caller: &Caller, tool: &str, trace: Trace, request_id: Option<&str>, refusal: &Error) {
        let mut body = Map::new();
        // An unknown name is the caller's text: bounded, so that it cannot fill the log.
        body.insert("tool_name".into(), tool.chars().take(ToolName::MAX_CHARS).collect::<String>().into());
        body.insert("subject_id_hash16".into(), caller.subject_hash16().into());
        body.insert("request_id".into(), request_id.into());
        body.insert("outcome".into(), refusal.class().as_str().into());
        body.insert("reason".into(), refusal.reason().as_str().into());
        let row = NewAuditRow {
            tenant: caller.tenant(),
            kind: REFUSED.into(),
            actor: caller.subject_hash16(),
            body: Value::Object(body).into(),
            ts: Timestamp::now(),
            trace_id: trace.id.to_string(),
            idempotency_key: None,
            ship: false,
        };
        let written = match self.send(vec![row], Durability::Written, true).await {
            Ok(answer) => answered(answer).await,
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            tracing::error!(trace_id = %trace.id, error = ?error, "a refusal could not be recorded");
        }
    }

    /// One row about the bridge itself, such as a plugin that was swapped, in the local tenant's log. The operator acted,
    /// not a caller. Never waited for: what the operator did is done.
    pub async fn note(&self, kind: &'static str, body: Value) {
        let row = NewAuditRow {
            tenant: TenantId::LOCAL,
            kind: kind.into(),
            actor: OPERATOR.into(),
            body: body.into(),
            ts: Timestamp::now(),
            trace_id: Trace::start().id.to_string(),
            idempotency_key: None,
            ship: false,
        };
        let written = match self.send(vec![row], Durability::Written, true).await {
            Ok(answer) => answered(answer).await,
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            tracing::error!(kind, error = ?error, "what the operator did could not be recorded");
        }
    }

    async fn send(
        &self,
        rows: Vec<NewAuditRow>,
        durability: Durability,
        spoolable: bool,
    ) -> Result<oneshot::Receiver<Result<()>>> {
        let (done, answer) = oneshot::channel();
        let Some(queue) = &self.queue else {
            let _ = done.send(Ok(()));
            return Ok(answer);
        };
        let job = Job { rows, durability, spoolable, done };
        queue.send(job).await.map_err(|_| writer_gone())?;
        Ok(answer)
    }
}

impl Subject {
    fn durability(&self) -> Durability {
        if self.reads_only { Durability::Written } else { Durability::Synced }
    }
}

impl Bracket {
    /// Wait for the call's own work. The opening row of one that takes long does not wait for its end.
    pub async fn around<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        if self.held.is_none() {
            return work.await;
        }
        // The work first: a timer costs more than a whole short call.
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = tokio::time::sleep(MOMENT) => {}
        }
        let (done, handed_over) = tokio::join!(work, self.hand_over());
        if let Err(error) = handed_over {
            // The closing row goes the same way, and fails the call.
            tracing::error!(error = ?error, "an opening row could not be handed over");
        }
        done
    }

    async fn hand_over(&mut self) -> Result<()> {
        if let Some(row) = self.held.take() {
            let (durability, reads_only) = (self.subject.durability(), self.subject.reads_only);
            self.opening = Some(self.log.send(vec![row], durability, reads_only).await?);
        }
        Ok(())
    }

    /// Write how it ended. An error here replaces the call's answer: a lost row is never silent.
    pub async fn close(mut self, outcome: &Result<ToolResult>, fuel: u64) -> Result<()> {
        if self.log.queue.is_none() {
            return Ok(());
        }
        let duration_ms = self.opened.elapsed().as_secs_f64() * 1e3;
        let word = Outcome::of(outcome).as_str();
        let body = self.subject.body(Some(End {
            outcome: word,
            reason: outcome.as_ref().err().map(|error| error.reason().as_str()),
            // Microseconds are enough, and a short number is a short row.
            duration_ms: (duration_ms * 1e3).round() / 1e3,
            fuel,
            result_sha256: outcome.as_ref().ok().map(result_sha256),
        }));
        let mut rows: Vec<_> = self.held.take().into_iter().collect();
        rows.push(self.subject.row(COMPLETED, body));
        if self.subject.announces {
            let invoked = json!({
                "plugin_id": self.subject.plugin,
                "plugin_version": self.log.plugin_version,
                "tenant_id": self.subject.tenant,
                "subject_id": self.subject.actor,
                "trace_id": self.subject.trace.id,
                "outcome": word,
                "tool_name": self.subject.tool,
                "duration_ms": duration_ms.round() as u64,
            });
            rows.push(NewAuditRow { ship: self.log.ships, ..self.subject.row(INVOKED, invoked.into()) });
        }
        let reads_only = self.subject.reads_only;
        let closing = self.log.send(rows, self.subject.durability(), reads_only).await?;
        self.opening_is_written().await?;
        answered(closing).await
    }

    /// The closing row will be written elsewhere.
    pub fn leave_open(self) {}

    async fn opening_is_written(&mut self) -> Result<()> {
        match self.opening.take() {
            Some(answer) => answered(answer).await,
            None => Ok(()),
        }
    }
}

fn result_sha256(result: &ToolResult) -> String {
    let text = serde_json::to_vec(result).expect("a result is JSON");
    hex::encode(Sha256::digest(text))
}

async fn answered(answer: oneshot::Receiver<Result<()>>) -> Result<()> {
    answer.await.unwrap_or_else(|_| Err(writer_gone()))
}

fn writer_gone() -> Error {
    Error::new(Reason::StoreUnavailable, "The audit log cannot be written.").detail("the writer has ended")
}

/// The one writer: takes whatever is waiting, commits it together, answers everybody.
struct Writer {
    store: Arc<dyn Store>,
    spool: Spool,
    metrics: Arc<Metrics>,
    shipped: Option<Arc<dyn Fn() + Send + Sync>>,
}

/// Let whoever is ready to go on hand its rows over first: they share a commit. When nobody is, nothing waits.
async fn gather(jobs: &mut mpsc::Receiver<Job>, batch: &mut Vec<Job>) {
    while batch.len() < BATCH {
        tokio::task::yield_now().await;
        let before = batch.len();
        while let Some(job) = (batch.len() < BATCH).then(|| jobs.try_recv().ok()).flatten() {
            batch.push(job);
        }
        if batch.len() == before {
            return;
        }
    }
}

impl Writer {
    async fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let retry_spool = self.spool.is_waiting();
            tokio::select! {
                taken = jobs.recv_many(&mut batch, BATCH) => if taken == 0 { break },
                () = tokio::time::sleep(self.spool.pause()), if retry_spool => {
                    self.spool.replay(self.store.as_ref()).await;
                    continue;
                }
            }
            gather(&mut jobs, &mut batch).await;
            self.commit(std::mem::take(&mut batch)).await;
        }
        self.spool.replay(self.store.as_ref()).await;
    }

    async fn commit(&mut self, mut batch: Vec<Job>) {
        let durability = match batch.iter().any(|job| job.durability == Durability::Synced) {
            true => Durability::Synced,
            false => Durability::Written,
        };
        let sizes: Vec<usize> = batch.iter().map(|job| job.rows.len()).collect();
        let rows: Vec<NewAuditRow> = batch.iter_mut().flat_map(|job| std::mem::take(&mut job.rows)).collect();
        if rows.is_empty() {
            batch.into_iter().for_each(|job| drop(job.done.send(Ok(()))));
            return;
        }
        let started = Instant::now();
        match self.store.append_audit(&rows, durability).await {
            // A row whose key was there before was written by somebody else who found the same end: that is as good.
            Ok(_) => {
                batch.into_iter().for_each(|job| drop(job.done.send(Ok(()))));
                self.metrics.audit_committed(rows.len() as u64);
                self.metrics.audit_appended(started.elapsed());
                if let Some(shipped) = self.shipped.as_ref().filter(|_| rows.iter().any(|row| row.ship)) {
                    shipped();
                }
            }
            Err(error) => {
                tracing::warn!(error = ?error, rows = rows.len(), "the audit log cannot be written");
                let mut left = rows.as_slice();
                for (job, size) in batch.into_iter().zip(sizes) {
                    let (own, others) = left.split_at(size);
                    left = others;
                    let answer = match job.spoolable {
                        true => self.spool.keep(own),
                        false => Err(error.clone()),
                    };
                    let _ = job.done.send(answer);
                }
            }
        }
    }
}
