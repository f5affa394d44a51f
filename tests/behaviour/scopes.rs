//! What a token allows, tool by tool.

use bridge_tests::{Bridge, TENANT_A};
use serde_json::json;

const ROW: &str = "cyberos.memory.append_audit";

#[tokio::test]
async fn a_missing_scope_is_named_over_http() {
    let bridge = Bridge::http().start().await;
    let reader = bridge.caller("rita").scopes(&["cyberos:memory:read"]);
    let reply = reader.call(ROW, json!({ "kind": "decision", "body": {} })).await;
    let data = reply.assert_code(-32000).assert_status(403).assert_error("authz_denied", "insufficient_scope");
    assert_eq!(data["missing_scopes"], json!(["cyberos:memory:write"]));
    // RFC 6750: what a client has to ask for to step up.
    let challenge = reply.header("www-authenticate").expect("a challenge");
    assert!(challenge.contains("insufficient_scope") && challenge.contains("cyberos:memory:write"), "{challenge}");
}

#[tokio::test]
async fn a_missing_scope_is_named_over_stdio() {
    let setup = Bridge::stdio().token_of("rita", TENANT_A, &["cyberos:memory:read"]);
    let bridge = setup.start().await;
    let reply = bridge.caller("rita").call(ROW, json!({ "kind": "decision", "body": {} })).await;
    let data = reply.assert_code(-32000).assert_error("authz_denied", "insufficient_scope");
    assert_eq!(data["missing_scopes"], json!(["cyberos:memory:write"]));
}

#[tokio::test]
async fn a_tool_that_needs_two_scopes_gets_by_with_neither_one() {
    let bridge = Bridge::http().start().await;
    let call = json!({ "persona": "chief-technology-officer", "workflow": "adr-quick-capture" });
    for (held, missing) in [
        (vec!["cyberos:cuo:execute"], json!(["cyberos:memory:write"])),
        (vec!["cyberos:memory:write"], json!(["cyberos:cuo:execute"])),
        (vec![], json!(["cyberos:cuo:execute", "cyberos:memory:write"])),
        (vec!["cyberos:cuo", "cyberos:memory:*"], json!(["cyberos:cuo:execute", "cyberos:memory:write"])),
    ] {
        let reply = bridge.caller("bob").scopes(&held).call("cyberos.cuo.execute_workflow", call.clone()).await;
        assert_eq!(reply.assert_error("authz_denied", "insufficient_scope")["missing_scopes"], missing);
    }
}

#[tokio::test]
async fn scopes_are_checked_before_arguments() {
    let bridge = Bridge::http().start().await;
    let reply = bridge.caller("bob").scopes(&[]).call(ROW, json!({ "wrong": true })).await;
    reply.assert_error("authz_denied", "insufficient_scope");
}

#[tokio::test]
async fn a_refused_call_leaves_one_audit_row_and_a_call_that_runs_two() {
    let bridge = Bridge::http().start().await;
    bridge.caller("bob").scopes(&[]).call("cyberos.cuo.list_personas", json!({})).await.error();
    bridge.caller("bob").call("cyberos.cuo.list_personas", json!({})).await.structured();
    let kinds: Vec<String> = bridge.audit(TENANT_A).await.into_iter().map(|row| row.kind).collect();
    assert_eq!(kinds, ["mcp.tool_call_refused", "mcp.tool_call_started", "mcp.tool_call_completed"]);
}
