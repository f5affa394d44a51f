//! What a plugin asks its caller's user and model, over the real transports: on the call's own stream, or in line.

use bridge_tests::asking::Said;
use bridge_tests::caller::Caller;
use bridge_tests::{Bridge, Setup, on_both_transports};
use serde_json::{Value, json};

pub const GRANTS: &str =
    "[plugins.guest-offers]\nany_tool_name = true\nelicit = true\nsample = true\nresource_updates = true\n";

on_both_transports! {
    a_user_fills_in_a_form
    declining_and_cancelling_are_answers_too
    an_answer_that_does_not_fit_the_form_never_reaches_the_plugin
    a_user_is_sent_to_a_url_where_the_client_can
    a_model_is_asked
    a_model_that_refuses_is_told_apart
    a_client_that_declared_nothing_is_asked_nothing
    a_form_that_asks_for_a_secret_never_leaves_the_bridge
    a_question_that_nobody_answers_is_withdrawn_in_time
    a_cancelled_call_withdraws_its_question
    a_client_hears_the_levels_that_it_asked_for
}

async fn asking(setup: Setup) -> Bridge {
    setup.guests(&["guest_offers"], GRANTS).start().await
}

fn everything() -> Value {
    json!({ "elicitation": { "form": {}, "url": {} }, "sampling": {} })
}

/// The call, the question that it asks, and the answer that it gives once the question is answered with `reply`.
async fn ask(alice: &Caller<'_>, tool: &str, arguments: Value, reply: Value) -> (Value, Value) {
    let call = alice.message("tools/call", json!({ "name": tool, "arguments": arguments }));
    let mut asking = alice.begin(call.clone()).await;
    let question = asking.question().await;
    alice.answer(&question, reply).await;
    let answer = asking.reply().await.body;
    assert_eq!(answer["id"], call["id"]);
    (question, answer["result"]["structuredContent"].clone())
}

async fn a_user_fills_in_a_form(setup: Setup) {
    // given
    let bridge = asking(setup).await;
    let alice = bridge.caller("alice").in_session(everything()).await;
    // when
    let content = json!({ "city": "Hà Nội", "express": true });
    let reply = json!({ "action": "accept", "content": content });
    let (question, came) = ask(&alice, "test.asks_form", json!({}), reply).await;
    // then
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(
        (&question["params"]["mode"], &question["params"]["message"]),
        (&json!("form"), &json!("Plugin guest-offers asks: Please fill this in."))
    );
    assert_eq!(question["params"]["requestedSchema"]["properties"]["city"]["type"], "string", "{question:#}");
    assert_eq!((&came["answer"], &came["can"]), (&json!("accept"), &json!(["form", "url"])));
    let says: Value = serde_json::from_str(came["says"].as_str().unwrap()).unwrap();
    assert_eq!((&says["city"], &says["express"]), (&json!("Hà Nội"), &json!(true)), "{came:#}");
}

async fn declining_and_cancelling_are_answers_too(setup: Setup) {
    let bridge = asking(setup).await;
    let alice = bridge.caller("alice").in_session(everything()).await;
    for action in ["decline", "cancel"] {
        let (_, came) = ask(&alice, "test.asks_form", json!({}), json!({ "action": action })).await;
        assert_eq!(came["answer"], action);
    }
}

async fn an_answer_that_does_not_fit_the_form_never_reaches_the_plugin(setup: Setup) {
    let bridge = asking(setup).await;
    let alice = bridge.caller("alice").in_session(everything()).await;
    for bad in [
        json!({ "action": "accept", "content": { "city": 7, "express": true } }),
        json!({ "action": "accept", "content": "x" }),
        json!({ "action": "accept" }),
        json!({ "action": "perhaps" }),
        json!({}),
        json!([1]),
    ] {
        let (_, came) = ask(&alice, "test.asks_form", json!({}), bad.clone()).await;
        assert_eq!(came["answer"], "unavailable", "{bad}: {came:#}");
    }
    let more = json!({ "action": "accept", "content": { "city": "x", "express": false, "admin": true } });
    let (_, came) = ask(&alice, "test.asks_form", json!({}), more).await;
    assert!(!came["says"].as_str().unwrap().contains("admin"), "{came:#}");
}

async fn a_user_is_sent_to_a_url_where_the_client_can(setup: Setup) {
    let bridge = asking(setup).await;
    let alice = bridge.caller("alice").in_session(everything()).await;
    let url = "https://login.example.com/start?state=7";
    let call = alice.message("tools/call", json!({ "name": "test.asks_url", "arguments": { "url": url } }));
    let mut asking = alice.begin(call.clone()).await;
    let question = asking.question().await;
    assert_eq!((&question["params"]["mode"], &question["params"]["url"]), (&json!("url"), &json!(url)), "{question:#}");
    alice.answer(&question, json!({ "action": "accept" })).await;
    let complete = asking.notification("notifications/elicitation/complete").await;
    assert_eq!(complete["params"]["elicitationId"], question["params"]["elicitationId"], "and no other, and once");
    let answer = asking.reply().await.body;
    assert_eq!(answer["result"]["structuredContent"]["answer"], "accept", "{answer:#}");
    // and where it cannot
    let forms = bridge.caller("alice").in_session(json!({ "elicitation": {} })).await;
    let reply = forms.call("test.asks_url", json!({ "url": url })).await;
    assert_eq!((&reply.structured()["answer"], &reply.structured()["can"]), (&json!("unsupported"), &json!(["form"])));
}

async fn a_model_is_asked(setup: Setup) {
    let bridge = asking(setup).await;
    let alice = bridge.caller("alice").in_session(everything()).await;
    let reply = json!({ "role": "assistant", "model": "m-1", "content": { "type": "text", "text": "Because." } });
    let (question, came) = ask(&alice, "test.asks_model", json!({ "question": "Why?" }), reply).await;
    assert_eq!(question["method"], "sampling/createMessage");
    assert_eq!(question["params"]["messages"][0]["content"]["text"], "Why?", "{question:#}");
    assert!(came["says"].as_str().unwrap().contains("Because."), "{came:#}");
}

async fn a_model_that_refuses_is_told_apart(setup: Setup) {
    let bridge = asking(setup).await;
    let alice = bridge.caller("alice").in_session(everything()).await;
    let call = alice.message("tools/call", json!({ "name": "test.asks_model", "arguments": {} }));
    let mut asking = alice.begin(call.clone()).await;
    let question = asking.question().await;
    let error = json!({ "code": -1, "message": "User rejected sampling request" });
    alice.say_nothing_back(&json!({ "jsonrpc": "2.0", "id": question["id"], "error": error })).await;
    let answer = asking.reply().await.body;
    assert_eq!(answer["result"]["structuredContent"]["answer"], "declined", "{answer:#}");
}

async fn a_client_that_declared_nothing_is_asked_nothing(setup: Setup) {
    let bridge = asking(setup).await;
    let alice = bridge.caller("alice").in_session(json!({})).await;
    for tool in ["test.asks_form", "test.asks_model"] {
        let reply = alice.call(tool, json!({})).await;
        assert_eq!((&reply.structured()["answer"], &reply.structured()["can"]), (&json!("unsupported"), &json!([])));
    }
}

async fn a_form_that_asks_for_a_secret_never_leaves_the_bridge(setup: Setup) {
    let bridge = asking(setup).await;
    let alice = bridge.caller("alice").in_session(everything()).await;
    for field in ["password", "api_key", "card number"] {
        let schema = json!({ "type": "object", "properties": { field: { "type": "string" } } }).to_string();
        let reply = alice.call("test.asks_form", json!({ "schema": schema })).await;
        assert_eq!(reply.structured()["answer"], "invalid", "{field}");
    }
}

async fn a_question_that_nobody_answers_is_withdrawn_in_time(setup: Setup) {
    let bridge = asking(setup.flag("--ask-timeout-seconds=1")).await;
    let alice = bridge.caller("alice").in_session(everything()).await;
    let call = alice.message("tools/call", json!({ "name": "test.asks_form", "arguments": {} }));
    let mut asking = alice.begin(call.clone()).await;
    let question = asking.question().await;
    let withdrawn = asking.notification("notifications/cancelled").await;
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    let answer = asking.reply().await.body;
    assert_eq!(answer["result"]["structuredContent"]["answer"], "timed-out", "{answer:#}");
    // An answer that comes too late does no harm.
    alice.answer(&question, json!({ "action": "cancel" })).await;
    alice.request("ping", json!({})).await.result();
}

async fn a_cancelled_call_withdraws_its_question(setup: Setup) {
    let bridge = asking(setup).await;
    let alice = bridge.caller("alice").in_session(everything()).await;
    let call = alice.message("tools/call", json!({ "name": "test.asks_form", "arguments": {} }));
    let mut asking = alice.begin(call.clone()).await;
    let question = asking.question().await;
    alice.notify("notifications/cancelled", json!({ "requestId": call["id"] })).await;
    let withdrawn = asking.notification("notifications/cancelled").await;
    assert_eq!(
        (&withdrawn["method"], &withdrawn["params"]["requestId"]),
        (&json!("notifications/cancelled"), &question["id"])
    );
}

async fn a_client_hears_the_levels_that_it_asked_for(setup: Setup) {
    let bridge = asking(setup).await;
    let alice = bridge.caller("alice").in_session(json!({})).await;
    let log = async |level: &str| {
        let arguments = json!({ "level": level, "data": "{\"n\":1}", "logger": "guest" });
        let call = alice.message("tools/call", json!({ "name": "test.logs", "arguments": arguments }));
        match alice.begin(call).await.next().await {
            Said::Message(message) => Some(message),
            Said::Answer(_) => None,
        }
    };
    // Until it says otherwise: information and above.
    assert_eq!(log("debug").await, None);
    let heard = log("info").await.expect("a message");
    let params = json!({ "level": "info", "logger": "guest-offers/guest", "data": { "n": 1 } });
    assert_eq!((&heard["method"], &heard["params"]), (&json!("notifications/message"), &params));
    alice.request("logging/setLevel", json!({ "level": "error" })).await.result();
    assert_eq!(log("warning").await, None);
    for level in ["error", "critical", "alert", "emergency"] {
        assert_eq!(log(level).await.expect(level)["params"]["level"], level);
    }
    alice.request("logging/setLevel", json!({ "level": "debug" })).await.result();
    assert!(log("debug").await.is_some());
}

#[tokio::test]
async fn an_answer_of_somebody_else_does_not_count() {
    // given
    let bridge = asking(Bridge::http()).await;
    let alice = bridge.caller("alice").in_session(everything()).await;
    let call = alice.message("tools/call", json!({ "name": "test.asks_form", "arguments": {} }));
    let mut asking = alice.begin(call.clone()).await;
    let question = asking.question().await;
    // when
    let forged = json!({ "action": "accept", "content": { "city": "forged", "express": true } });
    bridge.caller("mallory").answer(&question, forged.clone()).await;
    bridge.caller("mallory").in_session(everything()).await.answer(&question, forged).await;
    alice.answer(&question, json!({ "action": "accept", "content": { "city": "own", "express": true } })).await;
    // then
    let answer = asking.reply().await.body;
    assert!(answer["result"]["structuredContent"]["says"].as_str().unwrap().contains("own"), "{answer:#}");
}
