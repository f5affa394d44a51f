//! Destructive calls wait for a person: a signed single-use token, or the host's word where that counts.

use bridge_tests::{Bridge, Setup, TENANT_B, on_both_transports};
use serde_json::{Value, json};

const TOOL: &str = "cyberos.memory.append_audit";

on_both_transports! {
    a_destructive_call_waits_for_confirmation
    a_confirmation_works_once_and_for_exactly_this_call
    an_external_effect_needs_confirmation_like_a_destructive_one
}

fn note(text: &str) -> Value {
    json!({ "kind": "decision.recorded", "body": { "text": text } })
}

async fn rows(bridge: &Bridge) -> usize {
    let alice = bridge.caller("alice");
    bridge.audit(alice.identity().0).await.iter().filter(|row| row.kind == "decision.recorded").count()
}

async fn a_destructive_call_waits_for_confirmation(setup: Setup) {
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    let reply = alice.call(TOOL, note("x")).await;
    let data = reply.assert_code(-32000).assert_error("authz_denied", "confirmation_required");
    assert!(data["hint"].as_str().unwrap().contains("confirmation_token"), "{data:?}");
    for flag in [json!(false), json!("true"), json!(1), Value::Null] {
        let reply = alice.call_with(TOOL, note("x"), json!({ "mcp/sampling/elicit_confirm": flag })).await;
        reply.assert_error("authz_denied", "confirmation_required");
    }
    // A flag among the arguments confirms nothing.
    let mut arguments = note("x");
    arguments["mcp/sampling/elicit_confirm"] = true.into();
    alice.call(TOOL, arguments).await.assert_error("input_validation", "schema_violation");
    assert_eq!(rows(&bridge).await, 0);
    // when
    let reply = alice.call_confirmed(TOOL, note("x")).await;
    // then
    assert!(reply.structured()["seq"].is_i64() && reply.structured()["chain_anchor"].as_str().unwrap().len() == 64);
    assert_eq!(rows(&bridge).await, 1);
}

async fn a_confirmation_works_once_and_for_exactly_this_call(setup: Setup) {
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    let token = alice.confirmation(TOOL, &note("this"));
    let with = |token: &str| json!({ "cyberos/confirmation_token": token });
    let invalid = ("authz_denied", "confirmation_invalid");
    alice.call_with(TOOL, note("that"), with(&token)).await.assert_error(invalid.0, invalid.1);
    let other_tool = alice.confirmation("cyberos.memory.read_audit", &note("this"));
    alice.call_with(TOOL, note("this"), with(&other_tool)).await.assert_error(invalid.0, invalid.1);
    // One token in four ends with the letter that would be put there.
    let other = if token.ends_with('A') { 'Q' } else { 'A' };
    let forged = format!("{}{other}", &token[..token.len() - 1]);
    alice.call_with(TOOL, note("this"), with(&forged)).await.assert_error(invalid.0, invalid.1);
    alice
        .call_with(TOOL, note("this"), json!({ "cyberos/confirmation_token": 7 }))
        .await
        .assert_error(invalid.0, invalid.1);
    // when the call is the one that was confirmed, whatever the order of its keys
    let reordered = json!({ "body": { "text": "this" }, "kind": "decision.recorded" });
    alice.call_with(TOOL, reordered, with(&token)).await.structured();
    // then it cannot be used again
    alice.call_with(TOOL, note("this"), with(&token)).await.assert_error(invalid.0, invalid.1);
    assert_eq!(rows(&bridge).await, 1);
}

async fn an_external_effect_needs_confirmation_like_a_destructive_one(setup: Setup) {
    let bridge = setup.misbehaving_guest().start().await;
    let alice = bridge.caller("alice");
    for tool in ["test.external_effect", "test.destructive"] {
        let target = json!({ "target": "the moon" });
        alice.call(tool, target.clone()).await.assert_error("authz_denied", "confirmation_required");
        assert_eq!(alice.call_confirmed(tool, target.clone()).await.structured(), &target);
    }
}

#[tokio::test]
async fn over_http_anothers_confirmation_is_worth_nothing() {
    let bridge = Bridge::http().start().await;
    let token = bridge.caller("alice").confirmation(TOOL, &note("x"));
    let meta = json!({ "cyberos/confirmation_token": token });
    for thief in [bridge.caller("mallory"), bridge.caller("alice").tenant(TENANT_B)] {
        let reply = thief.call_with(TOOL, note("x"), meta.clone()).await;
        reply.assert_error("authz_denied", "confirmation_invalid");
    }
    bridge.caller("alice").call_with(TOOL, note("x"), meta).await.structured();
}

#[tokio::test]
async fn the_hosts_word_counts_over_stdio_and_not_over_http() {
    let flag = json!({ "mcp/sampling/elicit_confirm": true });
    let bridge = Bridge::stdio().start().await;
    bridge.caller("alice").call_with(TOOL, note("x"), flag.clone()).await.structured();

    let bridge = Bridge::http().start().await;
    let reply = bridge.caller("alice").call_with(TOOL, note("x"), flag.clone()).await;
    reply.assert_error("authz_denied", "confirmation_required");

    // unless the operator says otherwise, either way
    let bridge = Bridge::http().flag("--host-confirmation=on").start().await;
    bridge.caller("alice").call_with(TOOL, note("x"), flag.clone()).await.structured();
    let bridge = Bridge::stdio().flag("--host-confirmation=off").start().await;
    let reply = bridge.caller("alice").call_with(TOOL, note("x"), flag).await;
    reply.assert_error("authz_denied", "confirmation_required");
}
