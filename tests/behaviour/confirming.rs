//! A destructive call asks its user, where the client can: only a clear yes lets it run, and only once.

use bridge_tests::{Bridge, Caller, Setup, on_both_transports};
use serde_json::{Value, json};

const TOOL: &str = "cyberos.memory.append_audit";

on_both_transports! {
    a_user_who_agrees_lets_the_call_run_once
    a_user_who_does_not_agree_stops_the_call
    nobody_is_asked_about_a_call_that_cannot_run
    silence_confirms_nothing
    a_token_asks_nobody
    a_cancelled_call_withdraws_its_question_and_never_runs
}

fn note(text: &str) -> Value {
    json!({ "name": TOOL, "arguments": { "kind": "decision.recorded", "body": { "text": text } } })
}

fn asks_forms() -> Value {
    json!({ "elicitation": {} })
}

fn yes() -> Value {
    json!({ "action": "accept", "content": { "confirm": true } })
}

async fn rows(bridge: &Bridge, alice: &Caller<'_>) -> usize {
    bridge.audit(alice.identity().0).await.iter().filter(|row| row.kind == "decision.recorded").count()
}

async fn a_user_who_agrees_lets_the_call_run_once(setup: Setup) {
    // given
    let bridge = setup.start().await;
    let alice = bridge.caller("alice").in_session(asks_forms()).await;
    // when
    let (reply, asked) = alice.send_answering(alice.message("tools/call", note("we\nmove")), &yes()).await;
    // then: the question says what would happen
    assert_eq!(asked.len(), 1, "{asked:#?}");
    assert_eq!(asked[0]["method"], "elicitation/create");
    let form = &asked[0]["params"];
    let message = form["message"].as_str().unwrap();
    assert!(message.contains("Append to the audit log") && message.contains(TOOL), "{message}");
    assert!(message.contains("- kind: \"decision.recorded\"") && message.contains(r#""text":"we\nmove""#), "{message}");
    assert_eq!(form["requestedSchema"]["properties"]["confirm"]["type"], "boolean", "{form:#}");
    assert_eq!(form["requestedSchema"]["required"], json!(["confirm"]));
    assert!(form.get("_meta").is_none(), "it belongs to no task");
    // and it ran, once, and the log says how it was confirmed
    assert!(reply.structured()["seq"].is_i64());
    assert_eq!(rows(&bridge, &alice).await, 1);
    let log = bridge.audit(alice.identity().0).await;
    let confirmed: Vec<_> = log.iter().filter(|row| row.body["confirmation"] == "elicited").collect();
    assert_eq!(confirmed.len(), 2, "one row before it ran and one after: {log:#?}");
    assert_eq!(confirmed[1].body["outcome"], "success");
}

async fn a_user_who_does_not_agree_stops_the_call(setup: Setup) {
    let bridge = setup.start().await;
    let alice = bridge.caller("alice").in_session(asks_forms()).await;
    for (answer, reason) in [
        (json!({ "action": "decline" }), "user_declined"),
        (json!({ "action": "accept", "content": { "confirm": false } }), "user_declined"),
        (json!({ "action": "cancel" }), "confirmation_required"),
        (json!({ "action": "accept" }), "confirmation_required"),
        (json!({ "action": "accept", "content": { "confirm": "true" } }), "confirmation_required"),
        (json!({ "action": "accept", "content": [true] }), "confirmation_required"),
        (json!({ "action": "yes" }), "confirmation_required"),
        (json!({}), "confirmation_required"),
    ] {
        let (reply, asked) = alice.send_answering(alice.message("tools/call", note("x")), &answer).await;
        assert_eq!(asked.len(), 1, "{answer}");
        reply.assert_code(-32000).assert_error("authz_denied", reason);
    }
    let log = bridge.audit(alice.identity().0).await;
    assert!(log.iter().all(|row| row.kind == "mcp.tool_call_refused"), "nothing ran: {log:#?}");
    assert_eq!(log.len(), 8);
}

async fn nobody_is_asked_about_a_call_that_cannot_run(setup: Setup) {
    let bridge = setup.start().await;
    let alice = bridge.caller("alice").in_session(asks_forms()).await;
    for bad in [
        json!({ "name": TOOL, "arguments": { "kind": "no such kind!", "body": {} } }),
        json!({ "name": TOOL, "arguments": { "kind": "a.b", "body": {} }, "task": {} }),
        json!({ "name": "cyberos.memory.append", "arguments": {} }),
    ] {
        let (reply, asked) = alice.send_answering(alice.message("tools/call", bad), &yes()).await;
        reply.error();
        assert!(asked.is_empty(), "{asked:#?}");
    }
}

async fn silence_confirms_nothing(setup: Setup) {
    let bridge = setup.flag("--ask-timeout-seconds=1").start().await;
    let alice = bridge.caller("alice").in_session(asks_forms()).await;
    let mut call = alice.begin(alice.message("tools/call", note("x"))).await;
    let question = call.question().await;
    let withdrawn = call.notification("notifications/cancelled").await;
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    let data = call.reply().await.assert_error("authz_denied", "confirmation_required").clone();
    assert!(data["hint"].as_str().unwrap().contains("Nothing was done"), "{data:?}");
    // A yes that comes too late is nobody's.
    alice.answer(&question, yes()).await;
    alice.list().await.result();
    assert_eq!(rows(&bridge, &alice).await, 0);
}

async fn a_token_asks_nobody(setup: Setup) {
    let bridge = setup.start().await;
    let alice = bridge.caller("alice").in_session(asks_forms()).await;
    let mut params = note("x");
    let token = alice.confirmation(TOOL, &params["arguments"]);
    params["_meta"] = json!({ "cyberos/confirmation_token": token });
    let (reply, asked) = alice.send_answering(alice.message("tools/call", params.clone()), &yes()).await;
    reply.structured();
    // A spent token is no reason to ask, either: whoever sends one says that a person agreed elsewhere.
    let (reply, asked_again) = alice.send_answering(alice.message("tools/call", params), &yes()).await;
    reply.assert_error("authz_denied", "confirmation_invalid");
    assert!(asked.is_empty() && asked_again.is_empty());
}

async fn a_cancelled_call_withdraws_its_question_and_never_runs(setup: Setup) {
    let bridge = setup.start().await;
    let alice = bridge.caller("alice").in_session(asks_forms()).await;
    let message = alice.message("tools/call", note("x"));
    let mut call = alice.begin(message.clone()).await;
    let question = call.question().await;
    // when
    alice.notify("notifications/cancelled", json!({ "requestId": message["id"] })).await;
    // then
    let withdrawn = call.notification("notifications/cancelled").await;
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    alice.answer(&question, yes()).await;
    alice.list().await.result();
    assert_eq!(rows(&bridge, &alice).await, 0);
}

#[tokio::test]
async fn a_host_that_gives_its_word_has_asked_already() {
    let bridge = Bridge::stdio().start().await;
    let alice = bridge.caller("alice").in_session(asks_forms()).await;
    let mut params = note("x");
    params["_meta"] = json!({ "mcp/sampling/elicit_confirm": true });
    let (reply, asked) = alice.send_answering(alice.message("tools/call", params.clone()), &yes()).await;
    reply.structured();
    assert!(asked.is_empty(), "{asked:#?}");
    // Where its word does not count, the user is asked all the same.
    let bridge = Bridge::stdio().flag("--host-confirmation=off").start().await;
    let alice = bridge.caller("alice").in_session(asks_forms()).await;
    let (reply, asked) = alice.send_answering(alice.message("tools/call", params), &yes()).await;
    reply.structured();
    assert_eq!(asked.len(), 1);
}

#[tokio::test]
async fn over_http_only_who_was_asked_confirms() {
    let bridge = Bridge::http().start().await;
    let alice = bridge.caller("alice").in_session(asks_forms()).await;
    let mut call = alice.begin(alice.message("tools/call", note("x"))).await;
    let question = call.question().await;
    let others =
        [bridge.caller("bob").in_session(asks_forms()).await, bridge.caller("alice").in_session(asks_forms()).await];
    for other in &others {
        other.answer(&question, yes()).await;
    }
    assert!(call.next_within(std::time::Duration::from_millis(300)).await.is_none());
    alice.answer(&question, json!({ "action": "decline" })).await;
    call.reply().await.assert_error("authz_denied", "user_declined");
}

#[tokio::test]
async fn a_client_that_shows_only_urls_or_reads_no_streams_is_not_asked() {
    let bridge = Bridge::http().start().await;
    let urls = bridge.caller("alice").in_session(json!({ "elicitation": { "url": {} } })).await;
    let (reply, asked) = urls.send_answering(urls.message("tools/call", note("x")), &yes()).await;
    reply.assert_error("authz_denied", "confirmation_required");
    assert!(asked.is_empty());
    let alice = bridge.caller("alice").in_session(asks_forms()).await;
    let token = format!("Bearer {}", alice.mint());
    let plain = [("accept", "application/json"), ("authorization", token.as_str())];
    let answer =
        bridge.ask("POST", "/mcp", &plain, alice.message("tools/call", note("x")).to_string().into_bytes()).await;
    assert!(answer.text.contains("confirmation_required"), "{answer:?}");
}
