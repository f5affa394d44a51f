//! What telemetry learns of calls: one span and a few numbers each. Never fails and never waits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::catalog::Entry;
use super::steps::Cleared;
use crate::auth::Caller;
use crate::error::{Class, Error, Reason, Result};
use crate::model::{CallContext, Lap, Laps, ToolResult, Trace, TraceId};
use crate::runtime::Plugin;
use crate::telemetry::{CallRecord, CallSpan, Metrics, OfferRecord, Outcome, Tracer, metrics::Running};

pub struct Observer {
    pub metrics: Arc<Metrics>,
    pub tracer: Tracer,
    /// Told what each call used; `None` where calls are served and not measured.
    pub meter: Option<Meter>,
}

/// What the guest of one call used, waiting included.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    pub fuel: u64,
    /// Linear memory at its largest.
    pub memory_bytes: usize,
    pub time: Duration,
}

pub type Meter = Arc<dyn Fn(&TraceId, Spent) + Send + Sync>;

/// A call that came to its end.
pub(super) struct Ended<'a> {
    pub cleared: &'a Cleared,
    pub trace: &'a Trace,
    pub received: Instant,
    pub outcome: &'a Result<ToolResult>,
    pub fuel: u64,
    pub request_id: Option<&'a str>,
    pub task_id: Option<&'a str>,
    pub laps: &'a Laps,
}

pub(super) struct NotBegun<'a> {
    pub entry: &'a Entry,
    pub caller: &'a Caller,
    pub trace: &'a Trace,
    pub received: Instant,
    pub request_id: Option<&'a str>,
    pub task_id: &'a str,
    pub refusal: &'a Error,
}

/// A prompt, a resource or a completion that was asked for.
pub(super) struct Served<'a> {
    /// Of MCP, such as `prompts/get`.
    pub method: &'static str,
    /// Who answered, and what it is called; `None` when it was refused.
    pub asked: Option<(&'a Plugin, &'a str)>,
    pub caller: &'a Caller,
    pub trace: &'a Trace,
    pub received: Instant,
    pub error: Option<&'a Error>,
    pub fuel: u64,
    pub request_id: Option<&'a str>,
    pub laps: &'a Laps,
}

impl Observer {
    /// Steps are timed when their spans will leave the process.
    pub fn laps(&self, trace: &Trace, received: Instant) -> Laps {
        match self.tracer.samples(trace) {
            true => Laps::kept(received),
            false => Laps::none(),
        }
    }

    /// Counts the call as running until the guard is dropped.
    pub fn running(&self, entry: &Entry) -> Running {
        self.metrics.running(entry.tool.name.as_str())
    }

    pub(super) fn measure(&self, trace: &TraceId, spent: Spent) {
        if let Some(meter) = &self.meter {
            meter(trace, spent);
        }
    }

    pub(super) fn ended(&self, ended: Ended<'_>) {
        let entry = &ended.cleared.entry;
        let (now, outcome) = (Instant::now(), Outcome::of(ended.outcome));
        let call = Call { entry: Some(entry), caller: &ended.cleared.caller, trace: ended.trace, fuel: ended.fuel };
        let called = Called { request_id: ended.request_id, task_id: ended.task_id, laps: ended.laps.all() };
        self.record(&call, ended.received, now, outcome, called);
        if let Err(error) = ended.outcome {
            report(error, call.tool(), call.fuel, call.trace, now - ended.received);
        }
    }

    pub fn refused(
        &self,
        entry: Option<&Entry>,
        caller: &Caller,
        context: &CallContext,
        refusal: &Error,
        received: Instant,
    ) {
        self.count_rate_limit(refusal);
        let call = Call { entry, caller, trace: &context.trace, fuel: 0 };
        let now = Instant::now();
        let called = Called { request_id: context.request_id.as_deref(), task_id: None, laps: &[] };
        self.record(&call, received, now, Outcome::Failed(refusal.reason()), called);
        report(refusal, call.tool(), 0, call.trace, now - received);
    }

    pub(super) fn served(&self, served: Served<'_>) {
        let now = Instant::now();
        let tenant = served.caller.tenant().to_string();
        let outcome = served.error.map_or(Outcome::Success, |error| Outcome::Failed(error.reason()));
        let (plugin, name) = served.asked.unzip();
        self.metrics.offer_served(&OfferRecord {
            method: served.method,
            plugin: plugin.map_or("none", |plugin| plugin.id().as_str()),
            tenant: &tenant,
            outcome,
            duration: now - served.received,
            fuel: served.fuel,
        });
        let name = name.unwrap_or("unknown");
        self.tracer.call(&CallSpan {
            method: served.method,
            trace: served.trace,
            start: served.received,
            end: now,
            tool: name,
            plugin_id: plugin.map(|plugin| plugin.id().as_str()),
            plugin_version: plugin.map(|plugin| plugin.version()),
            tenant: Some(&tenant),
            outcome,
            fuel: served.fuel,
            request_id: served.request_id,
            task_id: None,
            protocol_version: None,
            steps: served.laps.all(),
        });
        if let Some(error) = served.error {
            report(error, &format!("{} {name}", served.method), served.fuel, served.trace, now - served.received);
        }
    }

    /// A task whose owner did not let it begin.
    pub(super) fn not_begun(&self, task: NotBegun<'_>) {
        let call = Call { entry: Some(task.entry), caller: task.caller, trace: task.trace, fuel: 0 };
        let now = Instant::now();
        let called = Called { request_id: task.request_id, task_id: Some(task.task_id), laps: &[] };
        self.record(&call, task.received, now, Outcome::Failed(task.refusal.reason()), called);
        report(task.refusal, call.tool(), 0, call.trace, now - task.received);
    }

    /// Which limit a caller ran into, when it is about one.
    pub fn count_rate_limit(&self, refusal: &Error) {
        if refusal.reason() == Reason::RateLimited
            && let Some(limit) = refusal.data("limit").and_then(serde_json::Value::as_str)
        {
            self.metrics.rate_limited(limit);
        }
    }

    fn record(&self, call: &Call<'_>, start: Instant, end: Instant, outcome: Outcome, called: Called<'_>) {
        let tenant = call.caller.tenant().to_string();
        let tool = call.tool();
        self.metrics.call_ended(&CallRecord {
            tool,
            tenant: Some(&tenant),
            outcome,
            duration: end - start,
            fuel: call.fuel,
        });
        self.tracer.call(&CallSpan {
            method: "tools/call",
            trace: call.trace,
            start,
            end,
            tool,
            plugin_id: call.entry.map(|e| e.plugin.id().as_str()),
            plugin_version: call.entry.map(|e| e.plugin.version()),
            tenant: Some(&tenant),
            outcome,
            fuel: call.fuel,
            request_id: called.request_id,
            task_id: called.task_id,
            protocol_version: None,
            steps: called.laps,
        });
    }
}

/// What only the span says.
struct Called<'a> {
    request_id: Option<&'a str>,
    task_id: Option<&'a str>,
    laps: &'a [Lap],
}

struct Call<'a> {
    entry: Option<&'a Entry>,
    caller: &'a Caller,
    trace: &'a Trace,
    fuel: u64,
}

impl Call<'_> {
    /// The public name; a name that nobody serves is the caller's text and labels nothing.
    fn tool(&self) -> &str {
        self.entry.map_or("unknown", |e| e.tool.name.as_str())
    }
}

/// Failures of ours and of plugins are the operator's business; a caller's mistakes are not worth more than a note.
fn report(error: &Error, tool: &str, fuel: u64, trace: &Trace, took: Duration) {
    let (class, reason) = (error.class().as_str(), error.reason().as_str());
    let (trace_id, duration_ms, detail) = (trace.id, took.as_secs_f64() * 1e3, error.log_detail());
    match error.class() {
        _ if error.reason() == Reason::Cancelled => {
            tracing::info!(%trace_id, tool, fuel, duration_ms, "call cancelled")
        }
        // A caller in a hurry must not fill the log; the metrics say how many there are.
        _ if error.reason() == Reason::RateLimited => tracing::info!(%trace_id, tool, reason, "{error}"),
        Class::InternalError | Class::UpstreamUnavailable => {
            tracing::warn!(%trace_id, tool, class, reason, fuel, duration_ms, detail, "{error}");
        }
        Class::InputValidation | Class::AuthzDenied => {
            tracing::info!(%trace_id, tool, class, reason, detail, "{error}")
        }
    }
}
