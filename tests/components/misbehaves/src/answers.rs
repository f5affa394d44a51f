//! Well-behaved tools: what a call gets and gives, and errors told politely.

use cyberos_plugin_sdk::prelude::*;
use cyberos_plugin_sdk::{call_context, text};
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Anything {
    #[serde(flatten)]
    fields: Map<String, Value>,
}

behaviour!(Echoes, "echoes", "gives its arguments back, whatever they are.", READ_ONLY, Anything => Anything, Ok);

#[derive(Serialize, JsonSchema)]
pub struct Count {
    count: u64,
}

static CALLS: AtomicU64 = AtomicU64::new(0);

behaviour!(CountsItself, "counts_itself", "counts its calls in a static; a fresh instance has seen one.", READ_ONLY,
    NoArguments => Count, |_| Ok(Count { count: CALLS.fetch_add(1, Ordering::Relaxed) + 1 }));

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum How {
    InvalidInput,
    Denied,
    Unavailable,
    Internal,
    IsError,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    how: How,
    /// What the error says.
    text: String,
}

behaviour!(FailsPolitely, "fails_politely", "ends in the error of the contract that it is asked for.", READ_ONLY,
Failure => ToolResult, |Failure { how, text: says }| match how {
    How::InvalidInput => Err(ToolError::InvalidInput(says)),
    How::Denied => Err(ToolError::Denied(says)),
    How::Unavailable => Err(ToolError::Unavailable(says)),
    How::Internal => Err(ToolError::Internal(says)),
    How::IsError => Ok(ToolResult { content: vec![text(says)], structured: None, is_error: true, meta: None }),
});

#[derive(Serialize, JsonSchema)]
pub struct Context {
    tenant: String,
    subject: String,
    trace_id: String,
    remaining_ms: u64,
    task_id: Option<String>,
}

behaviour!(TellsContext, "tells_context", "gives back what the host says about the call.", READ_ONLY,
NoArguments => Context, |_| {
    let call_context::Context { tenant, subject, trace_id, remaining_ms, task_id } = call_context::get();
    Ok(Context { tenant, subject, trace_id, remaining_ms, task_id })
});
