//! `cyberos.memory.append_audit`: one row into the caller's audit log, for good.

use cyberos_plugin_sdk::memory;
use cyberos_plugin_sdk::prelude::*;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// What kind of event, such as `decision.recorded`. Kinds that start with `mcp.` or `plugin.` are the bridge's own.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[a-z0-9_.]+$"))]
    kind: String,
    /// What happened, as a JSON object of at most 64 KiB. It can never be changed or removed: leave out secrets and
    /// personal data.
    body: Map<String, Value>,
}

#[derive(Serialize, JsonSchema)]
struct Appended {
    /// The row's sequence number within the tenant.
    seq: i64,
    /// The row's hash, 64 hex digits; it seals this row and all before it.
    chain_anchor: String,
}

struct AppendAudit;

impl Tool for AppendAudit {
    const NAME: &'static str = "cyberos.memory.append_audit";
    const TITLE: &'static str = "Append to the audit log";
    const DESCRIPTION: &'static str = "Appends one row to the tenant's audit log, permanently: rows are chained by hash and can be neither edited nor \
        removed. Use it to record a decision or an event that must be provable later, and only when a person wants it \
        recorded; every call needs that person's confirmation. Returns the row's place; read it back with read_audit.";
    const ANNOTATIONS: Annotations = DESTRUCTIVE;
    const SCOPES: &'static [&'static str] = &["cyberos:memory:write"];
    type Arguments = Arguments;
    type Output = Appended;

    fn call(arguments: Arguments) -> Result<Appended, ToolError> {
        let at = memory::append(&arguments.kind, &arguments.body)?;
        Ok(Appended { seq: at.seq, chain_anchor: at.chain_anchor })
    }
}

export_tools!(AppendAudit);
