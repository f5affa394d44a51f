//! `tools/list` and `tools/call`. Source: MCP 2025-11-25, tools.

use serde_json::{Map, Value, json};
use std::time::Duration;

use super::shapes::insert_meta;
use super::{Request, cursor, followers, invalid, tasks};
use crate::broker::{Entry, Reply};
use crate::error::Result;
use crate::model::{Content, TaskRequest, TaskSupport, ToolCall, ToolResult};

pub fn list(request: Request<'_>) -> Result<Value> {
    let peer = request.peer;
    let tools = request.protocol.broker.catalog().visible_to(&peer.caller);
    let underscored = peer.policy.underscore_names.unwrap_or_else(|| peer.session.facts().underscore_names);
    cursor::page(&request, "tools", &tools, |entry| wire_tool(entry, underscored))
}

fn wire_tool(entry: &Entry, underscored: bool) -> Value {
    let tool = &entry.tool;
    let a = &tool.annotations;
    let mut wire = json!({
        "name": tool.name.for_client(underscored),
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "annotations": {
            "title": tool.title,
            "readOnlyHint": a.read_only,
            "destructiveHint": a.destructive,
            "idempotentHint": a.idempotent,
            "openWorldHint": a.open_world,
            "destructive": a.destructive,
            "write": a.write,
            "external_effect": a.external_effect,
        },
        "execution": { "taskSupport": match tool.task_support {
            TaskSupport::Forbidden => "forbidden",
            TaskSupport::Optional => "optional",
            TaskSupport::Required => "required",
        } },
    });
    if let Some(schema) = &entry.advertised_output {
        wire["outputSchema"] = schema.clone();
    }
    if !tool.icons.is_empty() {
        wire["icons"] = tool.icons.clone().into();
    }
    if let Value::Object(wire) = &mut wire {
        insert_meta(wire, tool.meta.clone());
    }
    wire
}

pub async fn call(request: Request<'_>) -> Result<Value> {
    let name = request.text("name")?.ok_or_else(|| invalid("params.name is missing.".into()))?.to_owned();
    let arguments = request.object("arguments")?;
    let meta = request.object("_meta")?;
    let task = task_request(&request)?;
    let peer = request.peer;
    let call = ToolCall { name, arguments, task, context: request.context()?, meta: meta.clone() };
    match request.protocol.broker.call_tool(&peer.caller, call).await? {
        Reply::Result(result) => Ok(wire_result(result)),
        Reply::Task(row) if task.is_some() => {
            let wire = tasks::wire_task(&row);
            followers::follow(&request, *row, &meta);
            Ok(json!({ "task": wire }))
        }
        Reply::Task(row) => {
            let handle = json!({ "task_id": row.id.as_str(), "status": "running" });
            Ok(wire_result(ToolResult {
                content: vec![Content::text(handle.to_string())],
                structured: Some(handle),
                is_error: false,
                meta: None,
            }))
        }
    }
}

fn task_request(request: &Request<'_>) -> Result<Option<TaskRequest>> {
    if request.params.get("task").is_none_or(Value::is_null) {
        return Ok(None);
    }
    let task = request.object("task")?;
    let ttl = match task.get("ttl") {
        None | Some(Value::Null) => None,
        Some(ttl) => {
            // 60000.0 is the same JSON number; a time of centuries is bounded like any other.
            let ms = ttl.as_f64().filter(|ms| *ms >= 0.0);
            Some(ms.ok_or_else(|| invalid("params.task.ttl must be a number of milliseconds.".into()))?)
        }
    };
    Ok(Some(TaskRequest { ttl: ttl.map(|ms| Duration::from_millis(ms as u64)) }))
}

pub fn wire_result(result: ToolResult) -> Value {
    let mut wire = Map::new();
    wire.insert("content".into(), serde_json::to_value(result.content).expect("content is JSON"));
    if let Some(structured) = result.structured {
        wire.insert("structuredContent".into(), structured);
    }
    wire.insert("isError".into(), result.is_error.into());
    insert_meta(&mut wire, result.meta);
    Value::Object(wire)
}
