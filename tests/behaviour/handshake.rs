//! `initialize`, `ping` and what a client learns about us.

use bridge_tests::{Setup, on_both_transports};
use serde_json::json;

on_both_transports! {
    initialize_speaks_2025_11_25
    a_client_of_another_published_revision_is_offered_ours
    an_unknown_version_is_refused_and_told_what_is_spoken
    capabilities_name_only_what_answers
    a_probe_of_a_later_protocol_does_no_harm
    ping_is_answered_before_and_after_initialize
}

async fn initialize_speaks_2025_11_25(setup: Setup) {
    let bridge = setup.start().await;
    let reply = bridge.caller("alice").initialize().await;
    let result = reply.result();
    assert_eq!(result["protocolVersion"], "2025-11-25");
    assert_eq!(result["serverInfo"]["name"], "cyberos-mcp-bridge");
    assert!(!result["serverInfo"]["version"].as_str().unwrap().is_empty());
    bridge.caller("alice").notify("notifications/initialized", json!({})).await;
    assert_eq!(bridge.caller("alice").list().await.result()["tools"].as_array().unwrap().len(), 8);
}

async fn a_client_of_another_published_revision_is_offered_ours(setup: Setup) {
    let bridge = setup.start().await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2026-07-28", "2031-01-01"] {
        let reply = bridge.caller("alice").initialize_with(version, json!({})).await;
        assert_eq!(reply.result()["protocolVersion"], "2025-11-25", "asked for {version}");
    }
}

async fn an_unknown_version_is_refused_and_told_what_is_spoken(setup: Setup) {
    let bridge = setup.start().await;
    for version in ["2024-01-01", "latest", "", "2025-13-01"] {
        let reply = bridge.caller("alice").initialize_with(version, json!({})).await;
        let data = reply.assert_code(-32602).assert_error("input_validation", "unsupported_version");
        assert_eq!(data["supported"], json!(["2025-11-25"]));
        assert_eq!(data["requested"], version);
        assert!(data["hint"].as_str().unwrap().contains("2025-11-25"));
    }
    // A mistake in the handshake does not end the conversation.
    bridge.caller("alice").initialize().await.result();
}

async fn capabilities_name_only_what_answers(setup: Setup) {
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    // given: a client that offers what we do not use
    let reply = alice.initialize_with("2025-11-25", json!({ "sampling": {}, "elicitation": {} })).await;
    let capabilities = reply.result()["capabilities"].as_object().unwrap();
    // then: ours are server capabilities, and each one answers
    for name in ["sampling", "elicitation", "roots"] {
        assert!(!capabilities.contains_key(name), "{name} is a client's capability");
    }
    let probes = [
        ("tools", "tools/list"),
        ("tasks", "tasks/list"),
        ("prompts", "prompts/list"),
        ("resources", "resources/list"),
        ("logging", "logging/setLevel"),
        ("completions", "completion/complete"),
    ];
    for (capability, method) in probes {
        let reply = alice.request(method, json!({})).await;
        match capabilities.contains_key(capability) {
            // It answers, be it that something is missing.
            true => assert_ne!(reply.body["error"]["code"], -32601, "{method}"),
            false => drop(reply.assert_code(-32601).assert_error("input_validation", "method_not_found")),
        }
    }
}

async fn a_probe_of_a_later_protocol_does_no_harm(setup: Setup) {
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    let reply = alice.request("server/discover", json!({})).await;
    reply.assert_code(-32601).assert_error("input_validation", "method_not_found");
    alice.initialize().await.result();
}

async fn ping_is_answered_before_and_after_initialize(setup: Setup) {
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    assert_eq!(alice.request("ping", json!({})).await.result(), &json!({}));
    alice.initialize().await.result();
    assert_eq!(alice.request("ping", json!({})).await.result(), &json!({}));
}
