//! Step 2: does the caller hold every scope that the tool needs. Before anything is parsed or counted: a caller who
//! may not call a tool learns nothing about its arguments and uses up nobody's budget.

use serde_json::Value;
use std::fmt::Display;

use super::Resolved;
use crate::auth::Caller;
use crate::error::{Error, Reason, Result};

pub struct Permit {
    pub caller: Caller,
    pub resolved: Resolved,
}

/// Refuses with `insufficient_scope`.
pub fn authorize(caller: &Caller, resolved: Resolved) -> Result<Permit> {
    let tool = &resolved.entry.tool;
    check_scopes(caller, format_args!("Tool {}", tool.name), &tool.scopes)?;
    Ok(Permit { caller: caller.clone(), resolved })
}

/// For whatever has scopes. Refuses with `insufficient_scope`, naming the missing scopes (`missing_scopes`) and all that
/// are needed (`required_scopes`), so that a client can step up in one go.
pub fn check_scopes(caller: &Caller, what: impl Display, scopes: &[String]) -> Result<()> {
    let missing: Vec<&str> = scopes.iter().filter(|s| !caller.has_scope(s)).map(String::as_str).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = |list: Vec<&str>| Value::from(list);
    Err(Error::new(
        Reason::InsufficientScope,
        format!("{what} needs the scope {}, which is not in your token.", missing.join(" and ")),
    )
    .hint(format!("Re-authorise with the scope {}, or have an administrator grant it.", missing.join(" and ")))
    .with("missing_scopes", list(missing))
    .with("required_scopes", list(scopes.iter().map(String::as_str).collect())))
}
