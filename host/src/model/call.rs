//! One tool call, from the moment its message was understood to its result.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

use super::{ClientPort, Trace};

/// What a client asked for, before anything was checked.
#[derive(Clone)]
pub struct ToolCall {
    /// As sent: dotted or underscored.
    pub name: String,
    pub arguments: Map<String, Value>,
    /// `params._meta`, as sent.
    pub meta: Map<String, Value>,
    /// `params.task`, when the client asked for a task.
    pub task: Option<TaskRequest>,
    pub context: CallContext,
}

/// What surrounds a call: its trace, its way to be stopped, its way to report.
#[derive(Clone)]
pub struct CallContext {
    pub trace: Trace,
    /// The JSON-RPC id as text, for the audit row; `None` for a call from the command line.
    pub request_id: Option<String>,
    /// Fires when the client cancels or goes away.
    pub cancel: CancellationToken,
    pub progress: ProgressSink,
    /// Who can be asked and told something while the call runs.
    pub client: ClientPort,
    /// May this transport's host confirm by flag? (policy, design section 6)
    pub host_may_confirm: bool,
}

/// MCP 2025-11-25, `params.task`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRequest {
    /// How long the client would like the task kept, from its creation.
    pub ttl: Option<Duration>,
}

/// How far along a call is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    pub progress: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Where progress goes: to a task row, to a progress notification, or nowhere. Never blocks.
#[derive(Clone, Default)]
pub struct ProgressSink(Option<Arc<dyn Fn(Progress) + Send + Sync>>);

impl ProgressSink {
    pub fn new(sink: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        ProgressSink(Some(Arc::new(sink)))
    }
    pub fn none() -> Self {
        ProgressSink(None)
    }
    pub fn report(&self, progress: Progress) {
        if let Some(sink) = &self.0 {
            sink(progress);
        }
    }
}

/// What a tool returned. `is_error` is the tool's own failure; ours are [`crate::error::Error`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    pub content: Vec<Content>,
    /// The structured result, which the tool's output schema describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    pub is_error: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
}

/// One block of content. The kinds and their fields are those of MCP 2025-11-25.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    Text {
        text: String,
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// `data` is base64.
    Image {
        data: String,
        #[serde(rename = "mimeType")]
        mime_type: String,
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    Audio {
        data: String,
        #[serde(rename = "mimeType")]
        mime_type: String,
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    ResourceLink {
        uri: String,
        name: String,
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    Resource {
        resource: Value,
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
}

impl Content {
    pub fn text(text: impl Into<String>) -> Self {
        Content::Text { text: text.into(), extra: Map::new() }
    }
}
