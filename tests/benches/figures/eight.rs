//! One ordinary call of each of the eight tools.

use anyhow::ensure;
use serde_json::{Value, json};
use std::time::Duration;

use crate::process::Conversation;

pub fn calls() -> [(&'static str, Value); 8] {
    let (persona, workflow) = ("chief-technology-officer", "adr-quick-capture");
    let inputs = json!({ "title": "Figures", "decision_context": "What does each call cost?" });
    [
        ("cyberos.cuo.list_personas", json!({})),
        ("cyberos.cuo.list_workflows", json!({ "persona": persona })),
        ("cyberos.cuo.route", json!({ "query": "architect a new payment system" })),
        ("cyberos.cuo.execute_workflow", json!({ "persona": persona, "workflow": workflow, "inputs": inputs })),
        ("cyberos.memory.read_audit", json!({})),
        ("cyberos.memory.append_audit", json!({ "kind": "bench.figures", "body": { "n": 1 } })),
        ("cyberos.skill.list_catalog", json!({})),
        ("cyberos.skill.invoke_skill", json!({ "skill": "adr-author", "inputs": inputs })),
    ]
}

/// Confirmed by the host, where that is needed. For a long-running tool the answer is its task's handle.
pub fn call(client: &mut Conversation, tool: &str, arguments: &Value) -> anyhow::Result<(Value, Duration)> {
    let meta = json!({ "mcp/sampling/elicit_confirm": true });
    let (result, took) =
        client.request("tools/call", json!({ "name": tool, "arguments": arguments, "_meta": meta }))?;
    ensure!(result["isError"] == false, "{tool}: {result}");
    Ok((result, took))
}
