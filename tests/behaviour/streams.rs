//! Streams over HTTP: what a call says before its answer, what a client hears unasked, and reading on after a cut.

use bridge_tests::Bridge;
use serde_json::{Value, json};
use std::time::Duration;

fn steps(count: u32, ms: u64) -> Value {
    json!({ "name": "test.inline_steps", "arguments": { "steps": count, "ms": ms }, "_meta": { "progressToken": "p" } })
}

fn numbers(messages: &[Value]) -> Vec<i64> {
    messages.iter().filter_map(|m| m["params"]["progress"].as_f64()).map(|n| n as i64).collect()
}

#[tokio::test]
async fn a_call_that_reports_progress_streams_and_ends_with_its_answer() {
    // given
    let bridge = Bridge::http().misbehaving_guest().start().await;
    let alice = bridge.caller("alice");
    // when
    let call = alice.message("tools/call", steps(3, 150));
    let mut events = alice.open(&call).await;
    // then
    assert_eq!(events.status, 200);
    assert!(events.is_stream(), "{:?}", events.headers);
    let first = events.next().await.unwrap();
    assert!(first.id.is_some() && first.retry.is_some() && first.data.is_empty(), "{first:?}");
    let messages = events.rest().await;
    assert_eq!(numbers(&messages), [1, 2, 3], "{messages:#?}");
    let answer = messages.last().unwrap();
    assert_eq!((&answer["id"], &answer["result"]["structuredContent"]), (&call["id"], &json!({ "steps_executed": 3 })));
}

#[tokio::test]
async fn progress_arrives_while_the_call_runs() {
    let bridge = Bridge::http().misbehaving_guest().start().await;
    let alice = bridge.caller("alice");
    let mut events = alice.open(&alice.message("tools/call", steps(3, 400))).await;
    assert_eq!(events.message().await["params"]["progress"], 1.0);
    // The next step takes 400 ms: what was said is here and the rest is not.
    assert!(events.next_within(Duration::from_millis(150)).await.is_err());
}

#[tokio::test]
async fn a_call_that_says_nothing_or_a_client_that_reads_no_streams_gets_plain_json() {
    let bridge = Bridge::http().misbehaving_guest().start().await;
    let alice = bridge.caller("alice");
    let quiet = alice.open(&alice.message("tools/call", json!({ "name": "cyberos.cuo.list_personas" }))).await;
    assert_eq!(quiet.headers["content-type"], "application/json");
    let body = alice.message("tools/call", steps(2, 120)).to_string().into_bytes();
    let token = format!("Bearer {}", alice.mint());
    let plain = [("accept", "application/json"), ("authorization", &token)];
    let answer = bridge.ask("POST", "/mcp", &plain, body).await;
    assert_eq!(answer.headers["content-type"], "application/json");
    assert!(answer.text.contains("steps_executed"), "{answer:?}");
}

#[tokio::test]
async fn a_stream_that_was_cut_is_read_on_from_where_it_was() {
    // given
    let bridge = Bridge::http().misbehaving_guest().start().await;
    let alice = bridge.caller("alice").in_session(json!({})).await;
    let mut events = alice.open(&alice.message("tools/call", steps(4, 250))).await;
    assert_eq!(events.message().await["params"]["progress"], 1.0);
    let last = events.last_id.clone().unwrap();
    // when
    drop(events);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut rest = alice.listen(Some(&last)).await;
    // then
    let messages = rest.rest().await;
    assert_eq!(numbers(&messages), [2, 3, 4], "each once, none lost: {messages:#?}");
    assert_eq!(messages.last().unwrap()["result"]["structuredContent"]["steps_executed"], 4);
    // and after its end it can be read again, for a while
    let again = alice.listen(Some(&last)).await.rest().await;
    assert_eq!(again, messages);
}

#[tokio::test]
async fn a_stream_is_read_on_by_its_own_client_only() {
    let bridge = Bridge::http().misbehaving_guest().start().await;
    let alice = bridge.caller("alice").in_session(json!({})).await;
    let mut events = alice.open(&alice.message("tools/call", steps(2, 150))).await;
    events.message().await;
    let last = events.last_id.clone().unwrap();
    let others = [bridge.caller("bob").in_session(json!({})).await, bridge.caller("alice").in_session(json!({})).await];
    for other in others {
        let refused = other.listen(Some(&last)).await;
        assert_eq!(refused.status, 400);
        assert!(refused.text().await.contains("stream_not_found"));
    }
    for nonsense in ["", "x", "/", "0123456789ab-00/1", "../1", &format!("{last}0000000000000000000000")] {
        assert_eq!(alice.listen(Some(nonsense)).await.status, 400, "{nonsense:?}");
    }
    assert_eq!(numbers(&events.rest().await), [2]);
}

#[tokio::test]
async fn a_subject_that_is_spelled_like_anothers_session_is_somebody_else() {
    // given
    let bridge = Bridge::http().misbehaving_guest().start().await;
    let alice = bridge.caller("alice").in_session(json!({})).await;
    let id = alice.initialize().await.headers["mcp-session-id"].to_str().unwrap().to_owned();
    let alice = bridge.caller("alice").header("mcp-session-id", &id);
    let call = alice.message("tools/call", steps(3, 200));
    let mut events = alice.open(&call).await;
    events.message().await;
    let last = events.last_id.clone().unwrap();
    for subject in [format!("alice/{id}"), format!("{id}/alice")] {
        // when
        let mallory = bridge.caller(&subject);
        mallory.notify("notifications/cancelled", json!({ "requestId": call["id"] })).await;
        // then
        assert_eq!(mallory.listen(Some(&last)).await.status, 400, "{subject}");
    }
    assert_eq!(events.rest().await.last().unwrap()["result"]["structuredContent"]["steps_executed"], 3);
}

#[tokio::test]
async fn a_session_that_is_opened_in_a_batch_is_told_though_the_answers_stream() {
    let bridge = Bridge::http().misbehaving_guest().start().await;
    let alice = bridge.caller("alice");
    let client = json!({ "name": "batches", "version": "1" });
    let opening = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    let batch = json!([alice.message("tools/call", steps(2, 150)), alice.message("initialize", opening)]);
    let mut events = alice.open(&batch).await;
    assert!(events.is_stream() && events.headers.contains_key("mcp-session-id"), "{:?}", events.headers);
    let answers = events.rest().await.iter().filter(|message| message.get("result").is_some()).count();
    assert_eq!(answers, 2);
}

#[tokio::test]
async fn a_batch_whose_requests_were_all_cancelled_has_no_answer() {
    let bridge = Bridge::http().misbehaving_guest().start().await;
    let alice = bridge.caller("alice");
    let call = alice.message("tools/call", json!({ "name": "test.sleeps", "arguments": { "ms": 2_000 } }));
    let params = json!({ "requestId": call["id"] });
    let cancelling = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
    let answer = alice.post(json!([call, cancelling]).to_string().into_bytes()).await;
    assert_eq!((answer.status, answer.text.as_str()), (202, ""));
}

#[tokio::test]
async fn streams_of_one_client_do_not_mix() {
    let bridge = Bridge::http().misbehaving_guest().start().await;
    let alice = bridge.caller("alice").in_session(json!({})).await;
    let calls = (1..=5).map(|n| {
        let mut params = steps(n, 120);
        params["_meta"]["progressToken"] = json!(n);
        let alice = &alice;
        async move {
            let call = alice.message("tools/call", params);
            let messages = alice.open(&call).await.rest().await;
            let (answer, notes) = messages.split_last().unwrap();
            assert_eq!(answer["id"], call["id"]);
            assert!(notes.iter().all(|note| note["params"]["progressToken"] == n), "{n}: {notes:#?}");
            assert_eq!(answer["result"]["structuredContent"]["steps_executed"], n);
        }
    });
    futures::future::join_all(calls).await;
}

#[tokio::test]
async fn the_operator_can_bound_a_connection_and_nothing_is_lost() {
    let bridge = Bridge::http().misbehaving_guest().flag("--stream-hold-ms=200").start().await;
    let alice = bridge.caller("alice").in_session(json!({})).await;
    let mut events = alice.open(&alice.message("tools/call", steps(5, 150))).await;
    let mut heard = vec![];
    let mut connections = 1;
    loop {
        heard.extend(events.rest().await);
        if heard.last().is_some_and(|message| message.get("result").is_some()) {
            break;
        }
        connections += 1;
        let last = events.last_id.clone().unwrap();
        events = alice.listen(Some(&last)).await;
    }
    assert!(connections > 2, "{connections}");
    assert_eq!(numbers(&heard), [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn a_client_that_disconnects_has_not_cancelled() {
    let bridge = Bridge::http().misbehaving_guest().start().await;
    let alice = bridge.caller("alice").in_session(json!({})).await;
    let mut events = alice.open(&alice.message("tools/call", steps(3, 200))).await;
    events.message().await;
    let last = events.last_id.clone().unwrap();
    drop(events);
    tokio::time::sleep(Duration::from_millis(800)).await;
    let messages = alice.listen(Some(&last)).await.rest().await;
    assert_eq!(messages.last().unwrap()["result"]["structuredContent"]["steps_executed"], 3);
}

#[tokio::test]
async fn a_cancelled_call_ends_its_stream_without_an_answer() {
    let bridge = Bridge::http().misbehaving_guest().start().await;
    let alice = bridge.caller("alice").in_session(json!({})).await;
    let call = alice.message("tools/call", steps(100, 120));
    let mut events = alice.open(&call).await;
    events.message().await;
    alice.notify("notifications/cancelled", json!({ "requestId": call["id"] })).await;
    let messages = events.rest().await;
    assert!(messages.iter().all(|message| message["method"] == "notifications/progress"), "{messages:#?}");
}

#[tokio::test]
async fn a_newer_listener_takes_the_place_of_the_older_one() {
    let bridge = Bridge::http().start().await;
    let alice = bridge.caller("alice").in_session(json!({})).await;
    let mut older = alice.listen(None).await;
    assert!(older.next().await.unwrap().id.is_some());
    let mut newer = alice.listen(None).await;
    newer.next().await.unwrap();
    assert_eq!(older.next().await, None, "each message goes to one stream");
    // and a session that is deleted is not listened to
    assert_eq!(alice.ask("DELETE", &[], vec![]).await.status, 204);
    assert_eq!(newer.next().await, None);
}

#[tokio::test]
async fn listeners_do_not_hold_up_an_orderly_end() {
    let bridge = Bridge::http().start().await;
    let alice = bridge.caller("alice").in_session(json!({})).await;
    let mut events = alice.listen(None).await;
    events.next().await.unwrap();
    bridge.signal(rustix::process::Signal::TERM);
    assert!(bridge.exit_within(Duration::from_secs(3)).await.success());
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_stream_ends_with_the_token_that_opened_it() {
    let bridge = Bridge::http().start().await;
    let alice = bridge.caller("alice").in_session(json!({})).await;
    let mut claims = alice.claims();
    // The bridge allows for 30 seconds of difference between clocks.
    claims["exp"] = json!(jiff::Timestamp::now().as_second() - 28);
    let short = alice.clone().token(bridge.setup.sign(&claims));
    let mut events = short.listen(None).await;
    assert_eq!(events.status, 200);
    events.next().await.unwrap();
    assert_eq!(events.next().await, None);
}
