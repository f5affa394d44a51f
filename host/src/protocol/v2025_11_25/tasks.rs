//! Tasks on both wires: the revision's own (`taskId`) and the bridge's plain one (`id`), over one stored row.
//!
//! Source: MCP 2025-11-25, tasks (SEP-1686); design section 7.

use serde_json::{Map, Value, json};

use super::tools::wire_result;
use super::{Request, invalid};
use crate::broker::asked_of;
use crate::error::{Error, Reason, Result};
use crate::protocol::jsonrpc::code;
use crate::store::{TaskRow, TaskStatus};

const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
/// How often a client should look, in milliseconds.
const POLL_INTERVAL_MS: u64 = 500;

/// Which wire a request is on.
enum Asked {
    Mcp(String),
    Plain(String),
}

fn asked(request: &Request<'_>) -> Result<Asked> {
    match (request.text("taskId")?, request.text("id")?) {
        (Some(id), _) => Ok(Asked::Mcp(id.to_owned())),
        (None, Some(id)) => Ok(Asked::Plain(id.to_owned())),
        (None, None) => Err(invalid("params.taskId is missing.".into())),
    }
}

pub async fn get(request: Request<'_>) -> Result<Value> {
    let tasks = request.protocol.broker.tasks();
    let owner = request.peer.caller.task_owner();
    Ok(match asked(&request)? {
        Asked::Mcp(id) => wire_task(&tasks.get(&owner, &id).await?),
        Asked::Plain(id) => plain_task(&tasks.get(&owner, &id).await?),
    })
}

pub async fn cancel(request: Request<'_>) -> Result<Value> {
    let tasks = request.protocol.broker.tasks();
    let owner = request.peer.caller.task_owner();
    Ok(match asked(&request)? {
        Asked::Mcp(id) => wire_task(&tasks.cancel(&owner, &id).await?),
        Asked::Plain(id) => plain_task(&tasks.cancel(&owner, &id).await?),
    })
}

/// Blocks until the task has ended, then answers what the call itself would have answered. What the task asks meanwhile is
/// asked of this request's client.
pub async fn result(request: Request<'_>) -> Result<Value> {
    let (Asked::Mcp(id) | Asked::Plain(id)) = asked(&request)?;
    let owner = request.peer.caller.task_owner();
    let client = request.peer.client_port(&request.protocol.clients, Some(id.clone()));
    let row = request.protocol.broker.tasks().wait(&owner, &id, &request.cancel, &client).await?;
    let related = related(row.id.as_str());
    match (row.output, row.error) {
        (Some(output), _) => {
            let mut wire = wire_result(output);
            wire["_meta"][RELATED_TASK] = related[RELATED_TASK].clone();
            Ok(wire)
        }
        (None, Some(stored)) => {
            let mut error = Error::new(stored.reason(), stored.message);
            for (key, value) in stored.data {
                match (key.as_str(), &value) {
                    ("hint", Value::String(hint)) => error = error.hint(hint.as_str()),
                    // The task's own trace, not this request's, is what the operator looks for.
                    ("trace_id", _) => error = error.with("trace_id", value),
                    ("class" | "reason", _) => {}
                    _ => error = error.with(&key, value),
                }
            }
            Err(error.with("_meta", related))
        }
        (None, None) => Err(Error::new(Reason::Cancelled, "The task was cancelled.").with("_meta", related)),
    }
}

pub async fn list(request: Request<'_>) -> Result<Value> {
    if !request.peer.policy.may_list_tasks {
        return Err(Error::new(Reason::MethodNotFound, "Tasks are not listed for callers who are not authenticated."));
    }
    let owner = request.peer.caller.task_owner();
    let (rows, next) = request.protocol.broker.tasks().list(&owner, request.text("cursor")?).await?;
    let mut result = json!({ "tasks": rows.iter().map(wire_task).collect::<Vec<_>>() });
    if let Some(next) = next {
        result["nextCursor"] = next.into();
    }
    Ok(result)
}

/// `_meta` of a message that belongs to a task.
pub fn related(id: &str) -> Value {
    json!({ RELATED_TASK: { "taskId": id } })
}

/// The revision's `Task`.
pub fn wire_task(row: &TaskRow) -> Value {
    let mut wire = json!({
        "taskId": row.id.as_str(),
        "status": match row.status {
            TaskStatus::Running => "working",
            other => other.as_str(),
        },
        "createdAt": row.created_at.to_string(),
        "lastUpdatedAt": row.updated_at.to_string(),
        "ttl": row.ttl.as_millis() as u64,
        "pollInterval": POLL_INTERVAL_MS,
    });
    if let Some(message) = status_message(row) {
        wire["statusMessage"] = message.into();
    }
    wire
}

fn status_message(row: &TaskRow) -> Option<String> {
    if let Some(error) = &row.error {
        return Some(error.message.clone());
    }
    if let Some(asked) = asked_of(row) {
        return Some(asked);
    }
    match row.status {
        TaskStatus::Cancelled => return Some("The task was cancelled.".into()),
        TaskStatus::Failed => return Some("The tool reported a failure; tasks/result says which.".into()),
        TaskStatus::Running | TaskStatus::InputRequired | TaskStatus::Completed => {}
    }
    let progress = row.progress.as_ref()?;
    progress.message.clone().or_else(|| progress.total.map(|total| format!("{} of {total}", progress.progress)))
}

/// The bridge's plain form.
fn plain_task(row: &TaskRow) -> Value {
    let mut plain = Map::new();
    plain.insert("task_id".into(), row.id.as_str().into());
    plain.insert("status".into(), row.status.as_str().into());
    plain.insert("tool_name".into(), row.tool.as_str().into());
    if let Some(output) = &row.output {
        // The tool's own result object; its content blocks only when it has none.
        let value = output.structured.clone().unwrap_or_else(|| wire_result(output.clone()));
        plain.insert("output".into(), value);
    }
    if let Some(error) = &row.error {
        let mut body = error.data.clone();
        body.insert("code".into(), code(error.reason()).into());
        body.insert("message".into(), error.message.as_str().into());
        plain.insert("error".into(), body.into());
    }
    if let Some(asked) = asked_of(row) {
        plain.insert("message".into(), asked.into());
    }
    if let Some(progress) = &row.progress {
        plain.insert("progress".into(), serde_json::to_value(progress).expect("progress is JSON"));
    }
    let end = row.completed_at.unwrap_or_else(jiff::Timestamp::now);
    let duration_ms = end.as_millisecond() - row.created_at.as_millisecond();
    plain.insert("duration_ms".into(), duration_ms.max(0).into());
    plain.insert("created_at".into(), row.created_at.to_string().into());
    plain.insert("timeout_at".into(), row.timeout_at.to_string().into());
    Value::Object(plain)
}
