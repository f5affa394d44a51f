//! One tool call, from who asks to what they get. This is the only place that knows the order; it reads downwards.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::audit::{AuditLog, Bracket, Subject};
use super::catalog::Catalog;
use super::limits::Limits;
use super::observe::{self, Observer, Spent};
use super::steps::{self, Cleared, ConfirmationPolicy, Gated};
use super::tasks::Tasks;
use crate::auth::Caller;
use crate::error::{Error, Reason, Result};
use crate::model::{Laps, TaskSupport, ToolCall, ToolResult};
use crate::runtime::{Ended, PluginCall};
use crate::store::TaskRow;

/// What a call is answered with.
pub enum Reply {
    Result(ToolResult),
    /// It runs on; the caller follows it.
    Task(Box<TaskRow>),
}

pub struct Broker {
    pub(super) parts: BrokerParts,
}

/// What the pipeline is made of.
pub struct BrokerParts {
    pub catalog: Arc<Catalog>,
    pub audit: AuditLog,
    pub limits: Limits,
    pub confirmation: ConfirmationPolicy,
    pub tasks: Arc<Tasks>,
    pub observer: Arc<Observer>,
}

impl Broker {
    pub fn new(parts: BrokerParts) -> Broker {
        Broker { parts }
    }

    pub async fn call_tool(&self, caller: &Caller, call: ToolCall) -> Result<Reply> {
        let received = Instant::now();
        let mut laps = self.parts.observer.laps(&call.context.trace, received);
        let gated = match self.clear(caller, &call, &mut laps).await {
            Ok(gated) => gated,
            Err(refusal) => return Err(self.record_refusal(caller, &call, refusal, received).await),
        };
        match (gated.entry().tool.task_support, gated) {
            (TaskSupport::Forbidden, Gated::Cleared(cleared)) => {
                self.run(cleared, call, received, laps).await.map(Reply::Result)
            }
            // A long-running tool never holds its caller: it answers with a handle and runs on, or asks first.
            (_, gated) => self.start_task(gated, call, received).await,
        }
    }

    /// Every gate, in order. A refused call has touched nothing behind it.
    async fn clear(&self, caller: &Caller, call: &ToolCall, laps: &mut Laps) -> Result<Gated> {
        let resolved = laps.lap("resolve", steps::resolve(&self.parts.catalog, call))?;
        let permit = laps.lap("authorize", steps::authorize(caller, resolved))?;
        let admitted = laps.lap("rate limit", steps::rate_limit(&self.parts.limits, permit, Instant::now()))?;
        let checked = laps.lap("validate arguments", steps::validate_arguments(admitted, call))?;
        laps.lap("confirm", steps::confirm(&self.parts.confirmation, checked, call).await)
    }

    async fn run(&self, cleared: Cleared, call: ToolCall, received: Instant, mut laps: Laps) -> Result<ToolResult> {
        let context = call.context;
        let subject = Subject::of(&cleared, context.trace, context.request_id.clone(), None);
        let bracket = laps.lap("open audit row", self.parts.audit.open(subject).await)?;
        let deadline = Instant::now() + Duration::from_millis(cleared.entry.plugin.grants().limits.deadline_ms);
        let run = Run {
            call: PluginCall {
                caller: cleared.caller.clone(),
                bearer: cleared.caller.bearer(),
                trace: context.trace,
                deadline,
                cancel: context.cancel,
                progress: context.progress,
                client: context.client,
                task_id: None,
                cleared_to_append: cleared.may_append(),
            },
            bracket,
            received,
            request_id: context.request_id,
            laps,
        };
        run.finish(&cleared, &self.parts.observer, async { Holding::Ours }).await
    }

    async fn start_task(&self, gated: Gated, call: ToolCall, received: Instant) -> Result<Reply> {
        if let Err(full) = self.parts.tasks.admit(gated.caller().tenant()).await {
            return Err(self.record_refusal(gated.caller(), &call, full, received).await);
        }
        self.parts.tasks.start(gated, call).await.map(|row| Reply::Task(Box::new(row)))
    }

    async fn record_refusal(&self, caller: &Caller, call: &ToolCall, refusal: Error, received: Instant) -> Error {
        let context = &call.context;
        let known = self.parts.catalog.find(&call.name);
        // However it was spelt: rows of one tool are found under one name.
        let name = known.as_ref().map_or(call.name.as_str(), |entry| entry.tool.name.as_str());
        self.parts.audit.refused(caller, name, context.trace, context.request_id.as_deref(), &refusal).await;
        self.parts.observer.refused(known.as_deref(), caller, context, &refusal, received);
        refusal
    }

    /// The gate of the third step, for requests that are no tool call: may this caller ask for `name` now? The name
    /// comes from a closed set, such as `prompts/get <prompt>`, and never from what a client made up. Refuses with
    /// `rate_limited`, which is counted; nothing else is recorded.
    pub fn admit(&self, caller: &Caller, name: &str) -> Result<()> {
        steps::take(&self.parts.limits, caller, name, Instant::now())
            .inspect_err(|refusal| self.parts.observer.count_rate_limit(refusal))
    }

    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.parts.catalog
    }
    pub fn tasks(&self) -> &Arc<Tasks> {
        &self.parts.tasks
    }
}

/// The second half of every call, inline or as a task: run, validate the result, close the audit bracket, report.
pub(super) struct Run {
    pub call: PluginCall,
    pub bracket: Bracket,
    pub received: Instant,
    pub request_id: Option<String>,
    pub laps: Laps,
}

/// Whose call it still is when it has run.
pub(super) enum Holding {
    Ours,
    /// Its caller cancelled it meanwhile: the result comes too late.
    Cancelled,
    /// Another worker took it over, and closes its bracket.
    Theirs,
}

impl Run {
    /// When the closing row cannot be written, that takes the answer's place: a lost row is never silent. `holding` is
    /// asked once the call has run.
    pub async fn finish(
        mut self,
        cleared: &Cleared,
        observer: &Observer,
        holding: impl Future<Output = Holding>,
    ) -> Result<ToolResult> {
        let (trace, task_id) = (self.call.trace, self.call.task_id.clone());
        let running = observer.running(&cleared.entry);
        let began = Instant::now();
        let running_call = cleared.entry.plugin.call(cleared.ask(), self.call, &mut self.laps);
        let Ended { outcome, fuel, memory_bytes } = self.bracket.around(running_call).await;
        drop(running);
        observer.measure(&trace.id, Spent { fuel, memory_bytes, time: began.elapsed() });
        let outcome = outcome.and_then(|result| steps::validate_result(&cleared.entry, result));
        let outcome = self.laps.lap("validate result", outcome);
        let (outcome, closed) = match holding.await {
            Holding::Ours => {
                let closed = self.bracket.close(&outcome, fuel).await;
                (outcome, closed)
            }
            Holding::Cancelled => {
                let outcome = Err(Error::new(Reason::Cancelled, "The task was cancelled."));
                let closed = self.bracket.close(&outcome, fuel).await;
                (outcome, closed)
            }
            Holding::Theirs => {
                self.bracket.leave_open();
                (Err(Error::new(Reason::WorkerLost, "Another process runs this task now.")), Ok(()))
            }
        };
        let closed = self.laps.lap("close audit row", closed);
        observer.ended(observe::Ended {
            cleared,
            trace: &trace,
            received: self.received,
            outcome: &outcome,
            fuel,
            request_id: self.request_id.as_deref(),
            task_id: task_id.as_deref(),
            laps: &self.laps,
        });
        closed.and(outcome)
    }
}
