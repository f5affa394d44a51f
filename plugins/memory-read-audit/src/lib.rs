//! `cyberos.memory.read_audit`: the caller's audit log, a page at a time.

use cyberos_plugin_sdk::memory::{self, Query};
use cyberos_plugin_sdk::prelude::*;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Rows of this actor only, exactly as `actor_id` says.
    #[schemars(length(min = 1, max = 256))]
    actor: Option<String>,
    /// Rows of this kind only, such as `mcp.tool_call_completed`.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[a-z0-9_.]+$"))]
    kind: Option<String>,
    /// Rows after this sequence number only: the `next_since_seq` of the page before.
    #[schemars(range(min = 0))]
    since_seq: Option<i64>,
    /// Most rows that come back.
    #[serde(default = "hundred")]
    #[schemars(range(min = 1, max = 1000))]
    limit: u32,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Page {
    /// In order of `seq`, oldest first.
    rows: Vec<Row>,
    /// Pass this as `since_seq` for the rows that follow; null at the end of the log.
    next_since_seq: Option<i64>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Row {
    /// The row's number within the tenant.
    seq: i64,
    /// What kind of event.
    kind: String,
    /// Who acted; a pseudonym in the bridge's own rows.
    #[serde(default)]
    actor_id: String,
    /// Whose log this is.
    #[serde(default)]
    tenant_id: String,
    /// What happened, as it was appended.
    #[serde(default)]
    body: Value,
    /// When, RFC 3339 in UTC.
    #[serde(default)]
    ts: String,
    /// The W3C trace id of the call that wrote it, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
    /// The row's hash, over itself and `prev_anchor`.
    #[serde(default)]
    chain_anchor: String,
    /// The hash of the row before; null or zeros for the first.
    prev_anchor: Option<String>,
}

struct ReadAudit;

impl Tool for ReadAudit {
    const NAME: &'static str = "cyberos.memory.read_audit";
    const TITLE: &'static str = "Read the audit log";
    const DESCRIPTION: &'static str = "Reads the audit log of your tenant: who called which tool, when and with what outcome, and what was recorded with \
        append_audit. Use it to answer what happened or to check a record. Filter by actor and kind; page by passing \
        `next_since_seq` back as `since_seq` until it is null.";
    const ANNOTATIONS: Annotations = READ_ONLY;
    const SCOPES: &'static [&'static str] = &["cyberos:memory:read"];
    type Arguments = Arguments;
    type Output = Page;

    fn call(arguments: Arguments) -> Result<Page, ToolError> {
        let Arguments { actor, kind, since_seq, limit } = arguments;
        memory::read(&Query { actor, kind, since_seq, limit })
    }
}

fn hundred() -> u32 {
    100
}

export_tools!(ReadAudit);
