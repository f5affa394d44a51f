//! Task rows: what is kept of a long-running call, and the words for its life.
//!
//! Source: design section 7; MCP 2025-11-25, tasks (SEP-1686).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;
use std::time::Duration;
use uuid::Uuid;

use crate::error::PublicError;
use crate::model::{Progress, TenantId, ToolName, ToolResult, TraceId};

/// `t-` and a UUID: the time-ordered half keeps the index tidy, the other 74 random bits cannot be guessed.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(String);

impl TaskId {
    pub fn random() -> Self {
        TaskId(format!("t-{}", Uuid::now_v7()))
    }
    /// `None` for anything that this bridge could not have made.
    pub fn parse(id: &str) -> Option<Self> {
        let uuid = id.strip_prefix("t-")?;
        (uuid.len() == 36 && Uuid::parse_str(uuid).is_ok()).then(|| TaskId(id.to_owned()))
    }
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The process, and the future in it, that holds a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkerId(pub String);

/// A task belongs to one subject of one tenant; to everybody else it does not exist.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskOwner {
    pub tenant: TenantId,
    pub subject: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    Running,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

impl TaskStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            TaskStatus::Running => "running",
            TaskStatus::InputRequired => "input_required",
            TaskStatus::Completed => "completed",
            TaskStatus::Failed => "failed",
            TaskStatus::Cancelled => "cancelled",
        }
    }
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "running" => TaskStatus::Running,
            "input_required" => TaskStatus::InputRequired,
            "completed" => TaskStatus::Completed,
            "failed" => TaskStatus::Failed,
            "cancelled" => TaskStatus::Cancelled,
            _ => return None,
        })
    }
    pub fn has_ended(self) -> bool {
        matches!(self, TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled)
    }
}

/// A task as it is created: enough to run it in another process.
#[derive(Clone, Debug)]
pub struct NewTask {
    pub id: TaskId,
    pub owner: TaskOwner,
    pub tool: ToolName,
    pub arguments: Map<String, Value>,
    /// What the worker needs of the caller and the call: scopes, request id, trace flags. Made and read by the broker.
    pub call: Value,
    pub trace_id: TraceId,
    pub created_at: Timestamp,
    /// The task is failed with reason `deadline` after this.
    pub timeout_at: Timestamp,
    /// Kept this long from `created_at`.
    pub ttl: Duration,
}

#[derive(Clone, Debug)]
pub struct TaskRow {
    pub id: TaskId,
    pub owner: TaskOwner,
    pub tool: ToolName,
    pub arguments: Map<String, Value>,
    pub call: Value,
    pub trace_id: TraceId,
    pub status: TaskStatus,
    pub progress: Option<Progress>,
    /// Set when the status is `Completed`, and for a tool's own failure when it is `Failed`.
    pub output: Option<ToolResult>,
    /// Set when the bridge ended the task.
    pub error: Option<PublicError>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub completed_at: Option<Timestamp>,
    pub timeout_at: Timestamp,
    pub ttl: Duration,
    /// How often it was claimed; more than one means that it was run again.
    pub attempts: u32,
    /// What it asks its owner, while the status is `InputRequired`.
    pub question: Option<TaskQuestion>,
    /// The answer, until the worker took it.
    pub answer: Option<Value>,
}

/// What a task asks its owner. The body is the broker's to make and to read.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskQuestion {
    /// Names this question among all of this task, so that a late answer to an earlier one is known as such.
    pub id: String,
    pub body: Value,
}

impl TaskQuestion {
    pub fn new(body: Value) -> Self {
        TaskQuestion { id: Uuid::new_v4().to_string(), body }
    }
}

/// How a task ended. `Cancelled` is written by [`super::Store::cancel_task`].
#[derive(Clone, Debug)]
pub enum TaskEnd {
    /// A result; `is_error` in it makes the status `Failed`.
    Result(ToolResult),
    Error(PublicError),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inserted {
    Added,
    /// The caller tries again with a new id.
    IdTaken,
    /// The tenant has as many open tasks as it may.
    TooMany,
}

#[derive(Clone, Debug)]
pub enum CancelOutcome {
    /// It is cancelled now; the worker will see it.
    Cancelled(TaskRow),
    /// It had ended before.
    AlreadyEnded(TaskRow),
    NotFound,
}
