//! One span per call of a plugin, under the trace and span ids that the caller's error, the audit rows and the task row carry.
//!
//! The SDK's tracer chooses its own ids, so the finished span is built here in one go and handed to the export worker.
//! Source: OpenTelemetry semantic conventions for MCP and GenAI; `cyberos.*` attributes from design.md section 8.

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use rand::RngExt;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use super::export::{Queue, SpanCounts};
use super::outcome::Outcome;
use crate::model::{Lap, Trace};

/// What a client sent may be long; a queued span is not.
const LONGEST_ATTRIBUTE: usize = 256;

/// A call that ended.
pub struct CallSpan<'a> {
    /// Of MCP: `tools/call`, `prompts/get`, `resources/read` or `completion/complete`.
    pub method: &'static str,
    pub trace: &'a Trace,
    pub start: Instant,
    pub end: Instant,
    /// The tool's public name, the prompt's, or the resource's URI or template as it was listed; `unknown` for what is not
    /// served.
    pub tool: &'a str,
    pub plugin_id: Option<&'a str>,
    pub plugin_version: Option<&'a str>,
    pub tenant: Option<&'a str>,
    pub outcome: Outcome,
    pub fuel: u64,
    /// The JSON-RPC id, as text.
    pub request_id: Option<&'a str>,
    pub task_id: Option<&'a str>,
    pub protocol_version: Option<&'a str>,
    /// Pipeline steps, each a child span.
    pub steps: &'a [Lap],
}

/// Records spans, or does nothing at all when no collector is configured. Cheap to clone.
#[derive(Clone)]
pub struct Tracer(Option<Arc<Recording>>);

struct Recording {
    queue: Queue,
    scope: InstrumentationScope,
    sample_ratio: f64,
}

impl Tracer {
    pub fn off() -> Self {
        Tracer(None)
    }

    pub(super) fn on(queue: Queue, sample_ratio: f64) -> Self {
        let scope = InstrumentationScope::builder("cyberos-mcp-bridge").with_version(env!("CARGO_PKG_VERSION")).build();
        Tracer(Some(Arc::new(Recording { queue, scope, sample_ratio })))
    }

    /// Where spans went; `None` when tracing is off.
    pub fn counts(&self) -> Option<Arc<SpanCounts>> {
        self.0.as_ref().map(|recording| recording.queue.counts.clone())
    }

    /// Will this trace be exported? The caller's decision stands; a trace that starts here is sampled by its id.
    /// A transport that starts a trace puts the answer into [`Trace::sampled`], so that upstreams agree.
    pub fn samples(&self, trace: &Trace) -> bool {
        match &self.0 {
            None => false,
            Some(recording) => trace.sampled && (trace.parent.is_some() || chosen(trace, recording.sample_ratio)),
        }
    }

    /// Never waits and never fails. Without a collector it costs one branch.
    pub fn call(&self, call: &CallSpan<'_>) {
        let Some(recording) = &self.0 else { return };
        if !self.samples(call.trace) {
            return;
        }
        let clock = Clock::now();
        recording.queue.push(recording.call_span(call, &clock));
        for (name, start, end) in call.steps {
            let id: [u8; 8] = rand::rng().random();
            let mut step = recording.span(call.trace, id, clock.at(*start), clock.at(*end));
            step.parent_span_id = SpanId::from_bytes(call.trace.span);
            step.name = Cow::Borrowed(name);
            recording.queue.push(step);
        }
    }
}

impl Recording {
    fn call_span(&self, call: &CallSpan<'_>, clock: &Clock) -> SpanData {
        let mut span = self.span(call.trace, call.trace.span, clock.at(call.start), clock.at(call.end));
        span.parent_span_id = call.trace.parent.map_or(SpanId::INVALID, SpanId::from_bytes);
        span.parent_span_is_remote = call.trace.parent.is_some();
        span.span_kind = SpanKind::Server;
        span.name = Cow::Owned(format!("{} {}", call.method, shorten(call.tool)));
        if let Some(error_type) = call.outcome.error_type() {
            span.status = Status::error(error_type);
        }
        span.attributes = attributes(call);
        span
    }

    fn span(&self, trace: &Trace, id: [u8; 8], start_time: SystemTime, end_time: SystemTime) -> SpanData {
        SpanData {
            span_context: SpanContext::new(
                TraceId::from_bytes(*trace.id.as_bytes()),
                SpanId::from_bytes(id),
                TraceFlags::SAMPLED,
                false,
                TraceState::NONE,
            ),
            parent_span_id: SpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: Cow::Borrowed(""),
            start_time,
            end_time,
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: self.scope.clone(),
        }
    }
}

fn attributes(call: &CallSpan<'_>) -> Vec<KeyValue> {
    let duration_ms = call.end.saturating_duration_since(call.start).as_secs_f64() * 1e3;
    let mut attributes = Vec::with_capacity(18);
    match call.method {
        "prompts/get" => attributes.push(KeyValue::new("gen_ai.prompt.name", shorten(call.tool))),
        "resources/read" => attributes.push(KeyValue::new("mcp.resource.uri", shorten(call.tool))),
        "completion/complete" => attributes.push(KeyValue::new("cyberos.completed", shorten(call.tool))),
        _ => attributes.extend([
            KeyValue::new("gen_ai.operation.name", "execute_tool"),
            KeyValue::new("gen_ai.tool.name", shorten(call.tool)),
            KeyValue::new("cyberos.tool_name", shorten(call.tool)),
        ]),
    }
    attributes.extend([
        KeyValue::new("mcp.method.name", call.method),
        KeyValue::new("cyberos.trace_id", call.trace.id.to_string()),
        KeyValue::new("cyberos.duration_ms", duration_ms),
        KeyValue::new("cyberos.outcome", call.outcome.as_str()),
        KeyValue::new("cyberos.fuel", i64::try_from(call.fuel).unwrap_or(i64::MAX)),
    ]);
    let optional = [
        ("cyberos.plugin_id", call.plugin_id),
        ("cyberos.plugin_version", call.plugin_version),
        ("cyberos.tenant_id", call.tenant),
        ("cyberos.task_id", call.task_id),
        ("jsonrpc.request.id", call.request_id),
        ("mcp.protocol.version", call.protocol_version),
    ];
    attributes.extend(optional.into_iter().filter_map(|(key, value)| Some(KeyValue::new(key, shorten(value?)))));
    if let Some(error_type) = call.outcome.error_type() {
        attributes.push(KeyValue::new("error.type", error_type));
    }
    attributes
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(LONGEST_ATTRIBUTE) {
        Some((end, _)) => text[..end].to_owned(),
        None => text.to_owned(),
    }
}

/// The same arithmetic as the SDK's `TraceIdRatioBased`, so that services agree on a trace.
fn chosen(trace: &Trace, ratio: f64) -> bool {
    if ratio >= 1.0 {
        return true;
    }
    let low = trace.id.as_bytes()[8..].iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    (low >> 1) < (ratio * (1u64 << 63) as f64) as u64
}

/// Turns the monotonic instants of a call into wall-clock time, all by the same pair of readings.
struct Clock {
    instant: Instant,
    wall: SystemTime,
}

impl Clock {
    fn now() -> Self {
        Clock { instant: Instant::now(), wall: SystemTime::now() }
    }
    fn at(&self, instant: Instant) -> SystemTime {
        self.wall - self.instant.saturating_duration_since(instant)
    }
}
