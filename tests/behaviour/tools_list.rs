//! `tools/list`: which tools there are, and what is said of them.

use bridge_tests::{Bridge, Setup, on_both_transports};
use serde_json::{Value, json};
use std::path::Path;

const NAMES: [&str; 8] = [
    "cyberos.cuo.list_personas",
    "cyberos.cuo.list_workflows",
    "cyberos.cuo.route",
    "cyberos.cuo.execute_workflow",
    "cyberos.memory.read_audit",
    "cyberos.memory.append_audit",
    "cyberos.skill.list_catalog",
    "cyberos.skill.invoke_skill",
];

on_both_transports! {
    exactly_the_eight_tools_with_conforming_names
    a_cursor_that_we_never_gave_is_refused
    a_client_that_is_known_to_refuse_dots_sees_none
}

/// `^cyberos\.[a-z][a-z0-9]*\.[a-z][a-z0-9_]*$`
fn conforms(name: &str) -> bool {
    let word = |text: &str, more: &str| {
        text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || more.contains(c))
    };
    match name.split('.').collect::<Vec<_>>().as_slice() {
        ["cyberos", module, verb] => word(module, "") && word(verb, "_"),
        _ => false,
    }
}

async fn exactly_the_eight_tools_with_conforming_names(setup: Setup) {
    let bridge = setup.start().await;
    let reply = bridge.caller("alice").list().await;
    let tools = reply.result()["tools"].as_array().unwrap();
    let mut names: Vec<&str> = tools.iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert!(names.iter().all(|name| conforms(name)), "{names:?}");
    // The order is fixed, from call to call.
    assert_eq!(bridge.caller("alice").list().await.result(), reply.result());
    assert!(reply.result().get("nextCursor").is_none());
    names.sort_unstable();
    let mut expected = NAMES;
    expected.sort_unstable();
    assert_eq!(names, expected);
}

async fn a_cursor_that_we_never_gave_is_refused(setup: Setup) {
    let bridge = setup.start().await;
    for cursor in ["nonsense", "", "dG9vbHM6OTk5", "dGFza3M6MQ"] {
        let reply = bridge.caller("alice").request("tools/list", json!({ "cursor": cursor })).await;
        reply.assert_code(-32602).assert_error("input_validation", "bad_cursor");
    }
    let reply = bridge.caller("alice").request("tools/list", json!({ "cursor": 7 })).await;
    reply.assert_code(-32602).assert_error("input_validation", "invalid_params");
}

#[tokio::test]
async fn a_tool_whose_name_does_not_conform_is_not_served() {
    // given: a component with names outside cyberos.<module>.<verb>, which the operator did not allow
    let bridge = Bridge::stdio().guests(&["guest_misbehaves"], "").start().await;
    // then
    let reply = bridge.caller("alice").list().await;
    assert_eq!(reply.result()["tools"].as_array().unwrap().len(), 8);
    let line = bridge.logged("guest-misbehaves").await;
    assert!(line.contains("test."), "the operator reads which name is wrong: {line}");
    bridge.caller("alice").call("test.echoes", json!({})).await.assert_error("input_validation", "tool_not_found");
}

#[tokio::test]
async fn every_tool_says_what_a_client_has_to_know() {
    let bridge = Bridge::stdio().start().await;
    let reply = bridge.caller("alice").list().await;
    for tool in reply.result()["tools"].as_array().unwrap() {
        let name = &tool["name"];
        assert!(!tool["title"].as_str().unwrap().is_empty(), "{name}");
        assert!(tool["description"].as_str().unwrap().len() > 100, "{name}: something that an agent can act on");
        assert_eq!(tool["inputSchema"]["type"], "object", "{name}");
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{name}");
        assert_eq!(tool["outputSchema"]["type"], "object", "{name}");
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(tool["annotations"][hint].is_boolean(), "{name}: {hint} is explicit");
        }
        for hint in ["destructive", "write", "external_effect"] {
            assert!(tool["annotations"][hint].is_boolean(), "{name}: {hint} is explicit");
        }
        for schema in ["inputSchema", "outputSchema"] {
            jsonschema::validator_for(&tool[schema]).unwrap_or_else(|e| panic!("{name}: {schema}: {e}"));
        }
        // Counts are computed, never written into text.
        let description = tool["description"].as_str().unwrap();
        assert!(!description.contains("47") && !description.contains("224"), "{name}: {description}");
    }
}

#[tokio::test]
async fn the_list_is_the_published_one() {
    let bridge = Bridge::stdio().start().await;
    let reply = bridge.caller("alice").list().await;
    crate::snapshot::check(Path::new("tools_list.json"), reply.result());
}

#[tokio::test]
async fn clients_that_refuse_dots_see_underscores_and_both_are_called() {
    let bridge = Bridge::stdio().flag("--tool-names=underscore").start().await;
    let alice = bridge.caller("alice");
    let reply = alice.list().await;
    let names: Vec<&Value> = reply.result()["tools"].as_array().unwrap().iter().map(|t| &t["name"]).collect();
    assert!(names.contains(&&json!("cyberos_cuo_route")), "{names:?}");
    assert!(names.iter().all(|name| !name.as_str().unwrap().contains('.')), "{names:?}");
    for name in ["cyberos_cuo_list_personas", "cyberos.cuo.list_personas"] {
        alice.call(name, json!({})).await.structured();
    }
}

async fn a_client_that_is_known_to_refuse_dots_sees_none(setup: Setup) {
    let bridge = setup.start().await;
    for (client, expected) in [("claude-ai", "cyberos_cuo_route"), ("an-unknown-client", "cyberos.cuo.route")] {
        let alice = bridge.caller("alice");
        let info = json!({ "name": client, "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
        let opened = alice.request("initialize", params).await;
        let alice = match opened.headers.get("mcp-session-id") {
            Some(id) => alice.header("mcp-session-id", id.to_str().unwrap()),
            None => alice,
        };
        let reply = alice.list().await;
        let names: Vec<&Value> = reply.result()["tools"].as_array().unwrap().iter().map(|t| &t["name"]).collect();
        assert!(names.contains(&&json!(expected)), "{client}: {names:?}");
        for name in ["cyberos_cuo_list_personas", "cyberos.cuo.list_personas"] {
            alice.call(name, json!({})).await.structured();
        }
    }
}

#[tokio::test]
async fn a_caller_sees_the_tools_that_its_scopes_allow() {
    let bridge = Bridge::http().start().await;
    let reply = bridge.caller("bob").scopes(&["cyberos:cuo:list", "cyberos:memory:read"]).list().await;
    let mut names: Vec<&str> =
        reply.result()["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["cyberos.cuo.list_personas", "cyberos.cuo.list_workflows", "cyberos.memory.read_audit"]);
}
