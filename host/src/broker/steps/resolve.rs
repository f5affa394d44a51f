//! Step 1: which tool is meant. First, because scopes, schema and annotations are the tool's.

use std::sync::Arc;

use crate::broker::catalog::{Catalog, Entry};
use crate::error::{Error, Reason, Result};
use crate::model::ToolCall;

pub struct Resolved {
    pub entry: Arc<Entry>,
}

/// Refuses with `tool_not_found`.
pub fn resolve(catalog: &Catalog, call: &ToolCall) -> Result<Resolved> {
    if let Some(entry) = catalog.find(&call.name) {
        return Ok(Resolved { entry });
    }
    let name: String = call.name.chars().take(100).filter(|c| !c.is_control()).collect();
    Err(Error::new(Reason::ToolNotFound, format!("Unknown tool: {name}")))
}
