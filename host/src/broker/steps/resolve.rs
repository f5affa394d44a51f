//! Step 1: which tool is meant. First, because scopes, schema and annotations are the tool's.

use std::sync::Arc;

use crate::broker::catalog::{Catalog, Entry};
use crate::error::{Error, Reason, Result};
use crate::model::{TaskSupport, ToolCall};

pub struct Resolved {
    pub entry: Arc<Entry>,
}

/// Refuses with `tool_not_found`, and with `task_unsupported` for task metadata on a tool that takes none (or none on
/// one that needs it; MCP 2025-11-25, tasks, tool-level negotiation).
pub fn resolve(catalog: &Catalog, call: &ToolCall) -> Result<Resolved> {
    let Some(entry) = catalog.find(&call.name) else {
        let name: String = call.name.chars().take(100).filter(|c| !c.is_control()).collect();
        return Err(Error::new(Reason::ToolNotFound, format!("Unknown tool: {name}")));
    };
    match (entry.tool.task_support, &call.task) {
        (TaskSupport::Forbidden, Some(_)) => {
            Err(Error::new(Reason::TaskUnsupported, format!("Tool {} does not run as a task.", entry.tool.name)))
        }
        (TaskSupport::Required, None) => {
            Err(Error::new(Reason::TaskUnsupported, format!("Tool {} runs only as a task.", entry.tool.name))
                .hint("Call this tool with params.task."))
        }
        _ => Ok(Resolved { entry }),
    }
}
