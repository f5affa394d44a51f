//! The caller's audit log, typed (`cyberos:plugin/audit-append` and `audit-read`).
//!
//! A component that uses one of the two functions imports, and must be granted, that one interface only.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ToolError;
use crate::audit_append::{self, AuditError};
use crate::audit_read;

pub use crate::audit_append::Position;
pub use crate::audit_read::Query;

/// Append one row; tenant and actor are the host's to set.
///
/// `kind`: 1 to 128 characters of `a-z0-9_.`, not starting with `mcp.` or `plugin.`. `body`: a JSON object of at most
/// 64 KiB. The tool must be declared destructive, so that a person confirms each call; else this is `denied`.
pub fn append(kind: &str, body: &impl Serialize) -> Result<Position, ToolError> {
    let body = serde_json::to_string(body).map_err(|e| ToolError::Internal(format!("body: {e}")))?;
    audit_append::append(kind, &body).map_err(tool_error)
}

/// Read `{"rows": [...], "next_since_seq": n | null}`, in order of `seq`.
pub fn read<T: DeserializeOwned>(query: &Query) -> Result<T, ToolError> {
    let page = audit_read::read(query).map_err(tool_error)?;
    serde_json::from_str(&page).map_err(|e| ToolError::Internal(format!("the memory service's answer: {e}")))
}

/// The class that the caller should see.
fn tool_error(error: AuditError) -> ToolError {
    match error {
        AuditError::Invalid(text) => ToolError::InvalidInput(text),
        AuditError::NotCleared => ToolError::Denied("appending to the audit log needs a confirmed call".into()),
        AuditError::Unavailable(text) => ToolError::Unavailable(text),
    }
}
