//! What telemetry learns of calls: one span and a few numbers each. Never fails and never waits.

use std::time::Instant;

use super::audit::outcome_word;
use super::catalog::Entry;
use super::steps::Cleared;
use crate::auth::Caller;
use crate::error::{Error, Reason, Result};
use crate::model::{CallContext, ToolResult, Trace};

pub struct Observer {
    #[allow(dead_code)]
    telemetry: std::sync::Arc<crate::telemetry::Telemetry>,
}

impl Observer {
    pub fn new(telemetry: std::sync::Arc<crate::telemetry::Telemetry>) -> Observer {
        Observer { telemetry }
    }

    /// Counts the call as running until the guard is dropped.
    pub fn running(&self, _entry: &Entry) {}

    pub fn ended(
        &self,
        cleared: &Cleared,
        trace: &Trace,
        received: Instant,
        outcome: &Result<ToolResult>,
        fuel: u64,
        _request_id: Option<&str>,
        task_id: Option<&str>,
    ) {
        let tool = cleared.entry.tool.name.as_str();
        let duration_ms = received.elapsed().as_secs_f64() * 1e3;
        match outcome {
            Ok(_) => {
                tracing::debug!(trace_id = %trace.id, tool, outcome = outcome_word(outcome), fuel, duration_ms, task_id, "call ended")
            }
            Err(error) => report(error, trace, tool, fuel, duration_ms),
        }
    }

    pub fn refused(
        &self,
        entry: Option<&Entry>,
        _caller: &Caller,
        context: &CallContext,
        refusal: &Error,
        received: Instant,
    ) {
        let tool = entry.map_or("unknown", |e| e.tool.name.as_str());
        report(refusal, &context.trace, tool, 0, received.elapsed().as_secs_f64() * 1e3);
    }
}

/// Failures of ours and of plugins are the operator's business; a caller's mistakes are not worth more than a note.
fn report(error: &Error, trace: &Trace, tool: &str, fuel: u64, duration_ms: f64) {
    let (class, reason) = (error.class().as_str(), error.reason().as_str());
    match error.reason() {
        Reason::Cancelled => tracing::info!(trace_id = %trace.id, tool, fuel, duration_ms, "call cancelled"),
        _ if matches!(error.class(), crate::error::Class::InternalError | crate::error::Class::UpstreamUnavailable) => {
            tracing::warn!(trace_id = %trace.id, tool, class, reason, fuel, duration_ms, detail = error.log_detail(), "{error}");
        }
        _ => tracing::info!(trace_id = %trace.id, tool, class, reason, detail = error.log_detail(), "{error}"),
    }
}
