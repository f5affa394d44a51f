//! Step 4: does the call fit the tool: its arguments the input schema, its task metadata what the tool supports. Before confirmation, so that nobody is asked to confirm a
//! call that cannot run, and before anything upstream is touched.

use serde_json::{Map, Value};

use super::{Admitted, Permit};
use crate::broker::schema;
use crate::error::{Error, Reason, Result};
use crate::model::{TaskSupport, Tool, ToolCall, arguments_sha256};

pub struct Checked {
    pub permit: Permit,
    /// A JSON object that matches the input schema.
    pub arguments: Map<String, Value>,
    /// SHA-256 of their canonical form, in hex: what a confirmation is bound to and what the audit row holds.
    pub arguments_sha256: String,
}

/// Refuses with `schema_violation` and the JSON pointer of the first offending value, and with `task_unsupported` for
/// task metadata on a tool that takes none (or none on one that needs it; MCP 2025-11-25, tasks, tool-level negotiation).
pub fn validate_arguments(admitted: Admitted, call: &ToolCall) -> Result<Checked> {
    let permit = admitted.permit;
    let arguments = Value::Object(call.arguments.clone());
    let tool = &permit.resolved.entry.tool;
    check_task(tool, call)?;
    if let Err(violation) = schema::check(&permit.resolved.entry.input, &arguments) {
        let place = if violation.pointer.is_empty() { "the arguments".into() } else { violation.pointer.clone() };
        return Err(Error::new(
            Reason::SchemaViolation,
            format!("The arguments of {} do not match its inputSchema: {}", tool.name, violation.message),
        )
        .hint(format!("Correct {place} to match the tool's inputSchema (see tools/list)."))
        .with("pointer", violation.pointer));
    }
    let Value::Object(arguments) = arguments else { unreachable!("it was made of an object") };
    Ok(Checked { arguments_sha256: hex::encode(arguments_sha256(&arguments)), permit, arguments })
}

fn check_task(tool: &Tool, call: &ToolCall) -> Result<()> {
    match (tool.task_support, &call.task) {
        (TaskSupport::Forbidden, Some(_)) => {
            Err(Error::new(Reason::TaskUnsupported, format!("Tool {} does not run as a task.", tool.name)))
        }
        (TaskSupport::Required, None) => {
            Err(Error::new(Reason::TaskUnsupported, format!("Tool {} runs only as a task.", tool.name))
                .hint("Call this tool with params.task."))
        }
        _ => Ok(()),
    }
}
