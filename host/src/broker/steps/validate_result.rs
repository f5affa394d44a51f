//! After the run: does the structured result match the tool's output schema. A plugin is not trusted to keep its word,
//! and a client that checks would otherwise blame us.

use crate::broker::catalog::Entry;
use crate::broker::schema;
use crate::error::{Error, Reason, Result};
use crate::model::ToolResult;

/// Refuses with `invalid_result`. A tool's own failure (`is_error`) is exempt, as clients expect.
pub fn validate_result(entry: &Entry, result: ToolResult) -> Result<ToolResult> {
    let Some(output) = &entry.output else { return Ok(result) };
    if result.is_error {
        return Ok(result);
    }
    let broken = |detail: String| {
        Error::new(
            Reason::InvalidResult,
            format!("Tool {} returned a result that breaks its outputSchema.", entry.tool.name),
        )
        .detail(detail)
    };
    let Some(structured) = &result.structured else {
        return Err(broken("it has an outputSchema and returned no structured result".into()));
    };
    schema::check(output, structured).map_err(|v| broken(format!("at {:?}: {}", v.pointer, v.message)))?;
    Ok(result)
}
