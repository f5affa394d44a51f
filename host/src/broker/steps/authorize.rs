//! Step 2: does the caller hold every scope that the tool needs. Before anything is parsed or counted: a caller who
//! may not call a tool learns nothing about its arguments and uses up nobody's budget.

use serde_json::Value;

use super::Resolved;
use crate::auth::Caller;
use crate::error::{Error, Reason, Result};

pub struct Permit {
    pub caller: Caller,
    pub resolved: Resolved,
}

/// Refuses with `insufficient_scope`, naming the missing scopes (`missing_scopes`) and all that the tool needs
/// (`required_scopes`), so that a client can step up in one go.
pub fn authorize(caller: &Caller, resolved: Resolved) -> Result<Permit> {
    let tool = &resolved.entry.tool;
    let missing: Vec<&str> = tool.scopes.iter().filter(|s| !caller.has_scope(s)).map(String::as_str).collect();
    if missing.is_empty() {
        return Ok(Permit { caller: caller.clone(), resolved });
    }
    let scopes = |list: Vec<&str>| Value::from(list);
    Err(Error::new(
        Reason::InsufficientScope,
        format!("Tool {} needs the scope {}, which is not in your token.", tool.name, missing.join(" and ")),
    )
    .hint(format!("Re-authorise with the scope {}, or have an administrator grant it.", missing.join(" and ")))
    .with("missing_scopes", scopes(missing))
    .with("required_scopes", scopes(tool.scopes.iter().map(String::as_str).collect())))
}
